//! Numbers as a report shows them.

use workload::units::human_bytes;

/// Three decimals, as Jetstress prints its tables.
pub(crate) fn three(value: f64) -> String {
    format!("{value:.3}")
}

/// As few decimals as the value needs, at most three.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Microseconds in the unit that reads best.
pub(crate) fn latency(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 1_000_000.0 => format!("{:.2} ms", us / 1_000.0),
        us => format!("{:.2} s", us / 1_000_000.0),
    }
}

/// Seconds as `1:02:03` or `12.3 s`.
pub(crate) fn span(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Bytes exactly and for reading.
pub(crate) fn bytes(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes}") } else { format!("{bytes} ({})", human_bytes(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            (three(1.0), plain(1.0), plain(20.0), plain(0.5)),
            ("1.000".into(), "1".into(), "20".into(), "0.5".into())
        );
        assert_eq!(
            (latency(950.4), latency(1_234.0), latency(2_500_000.0)),
            ("950 µs".into(), "1.23 ms".into(), "2.50 s".into())
        );
        assert_eq!((span(59.94), span(3_725.2)), ("59.9 s".into(), "1:02:05".into()));
        assert_eq!(bytes(1 << 30), "1073741824 (1.00 GiB)");
    }
}
