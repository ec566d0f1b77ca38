//! Durations in the ISO 8601 form used by Jetstress.

use std::time::Duration;

/// Parses a duration such as `P0Y0M0DT2H0M0S`. Parts may be omitted. Years and months have no fixed length, so they
/// must be zero.
pub(super) fn iso_duration(text: &str) -> Option<Duration> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) => (days, time),
        None => (text.strip_prefix('P')?, ""),
    };
    let mut seconds = 0.0;
    for (part, units) in [
        (days, [('Y', f64::NAN), ('M', f64::NAN), ('D', 86_400.0)]),
        (time, [('H', 3600.0), ('M', 60.0), ('S', 1.0)]),
    ] {
        let mut rest = part;
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let value: f64 = rest[..end].parse().ok()?;
            let unit = rest[end..].chars().next()?;
            let factor = units.iter().find(|(name, _)| *name == unit)?.1;
            if value != 0.0 {
                seconds += value * factor;
            }
            rest = &rest[end + 1..];
        }
    }
    (text.len() > 2 && seconds.is_finite() && (0.0..1e9).contains(&seconds))
        .then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_iso_8601() {
        let seconds = |text: &str| iso_duration(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("P0Y0M0DT2H0M0S"), Some(7200));
        assert_eq!(seconds("P0Y0M1DT0H0M0S"), Some(86400));
        assert_eq!(seconds("PT90S"), Some(90));
        assert_eq!(seconds("P2D"), Some(172_800));
        for text in [
            "", "P", "PT", "2H", "P1Y", "P1M", "PTH", "PT1.2.3S", "PT-1S", "PT1e300H", "PTinfS", "PT1X",
            "PT1", "P1Dé",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
