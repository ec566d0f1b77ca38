//! Value of `--until`: the point at which replay ends.

use ese_format::{LogPosition, LogTime};
use jetcell_backup::ReplayEnd;
use jetcell_input::{OptionValueError, shortened_name};

/// Parses a generation (`5C`), a log position (`5C:9:268` or `0000005C,0009,0268`), or a time
/// (`2022-07-03T02:22:47Z`).
pub fn until(text: &str) -> Result<ReplayEnd, OptionValueError> {
    if text.contains('T') {
        let time = chrono::DateTime::parse_from_rfc3339(text).map_err(|error| {
            let problem = format_args!("could not parse '{}' as a time: {error}", shortened_name(text));
            OptionValueError::new(problem, "use a time such as 2026-11-23T08:00:00Z")
        })?;
        return Ok(ReplayEnd::Time(LogTime::from_unix_ms(time.timestamp_millis())));
    }
    let numbers: Option<Vec<u32>> = text
        .split([':', ','])
        .map(|part| u32::from_str_radix(part.trim_start_matches("0x"), 16).ok())
        .collect();
    match numbers.as_deref() {
        Some(&[generation]) if generation > 0 => Ok(ReplayEnd::Generation(generation)),
        Some(&[generation, segment, offset])
            if generation > 0 && segment <= u32::from(u16::MAX) && offset <= 4096 =>
        {
            Ok(ReplayEnd::Position(LogPosition::new(generation, segment as u16, offset as u16)))
        }
        _ => Err(OptionValueError::unparsable(
            text,
            "the end of a replay",
            "use a generation (5C) or a log position (5C:9:268), both hexadecimal, or a time \
             (2026-11-23T08:00:00Z)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_stops_at_a_generation_a_position_or_a_time() {
        assert_eq!(until("5c"), Ok(ReplayEnd::Generation(0x5C)));
        assert_eq!(until("0x10"), Ok(ReplayEnd::Generation(16)));
        let position = Ok(ReplayEnd::Position(LogPosition::new(2, 1, 0x606)));
        assert_eq!((until("2:1:606"), until("00000002,0001,0606")), (position.clone(), position));
        let time = LogTime::from_unix_ms(1_697_597_309_500);
        assert_eq!(until("2023-10-18T02:48:29.500Z"), Ok(ReplayEnd::Time(time)));
        assert_eq!(until("2023-10-18T04:48:29.500+02:00"), Ok(ReplayEnd::Time(time)));
        for bad in ["", "0", "xyz", "1:2", "1:10000:0", "1:1:1001", "2023-10-18T"] {
            assert!(until(bad).is_err(), "{bad}");
        }
    }
}
