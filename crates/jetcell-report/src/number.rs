//! Numbers as a report shows them.

use jetcell_workload::result::three_decimals;
use jetcell_workload::units::human_bytes;

use crate::table::Cell;

/// Three decimals, as Jetstress prints its tables.
pub(crate) fn three(value: f64) -> String {
    format!("{:.3}", three_decimals(value))
}

/// Rounds to so many decimals and halves away from zero. A decimal half that binary cannot represent exactly counts as a half.
pub(crate) fn rounded(value: f64, decimals: usize) -> f64 {
    let scale = 10_f64.powi(decimals.min(15) as i32);
    (value * scale * (1.0 + 1e-12)).round() / scale
}

/// As few decimals as the value needs, at most three.
pub(crate) fn plain(value: f64) -> String {
    let text = three(value);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Three digits, or all of a larger number with thousands separated: `0.123`, `1.23`, `12.3`, `123`, `12,345`.
pub(crate) fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => return grouped(value),
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{:.decimals$}", rounded(value, decimals));
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A whole number with thousands separated: `12,345`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", rounded(value, 0).abs());
    let sign = if rounded(value, 0) < 0.0 { "-" } else { "" };
    let first = (digits.len() - 1) % 3 + 1;
    let mut text = format!("{sign}{}", digits.get(..first).unwrap_or_default());
    for at in (first..digits.len()).step_by(3) {
        text.push(',');
        text.push_str(digits.get(at..at + 3).unwrap_or_default());
    }
    text
}

/// Microseconds in milliseconds, with three decimals.
pub(crate) fn latency_ms(us: f64) -> String {
    three(us / 1_000.0)
}

/// Seconds as `1:02:03` or `12.3 s`.
pub(crate) fn span(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// An exact number of bytes, with a rounded one as remark.
pub(crate) fn bytes(bytes: u64) -> Cell {
    let remark = if bytes < 1024 { String::new() } else { human_bytes(bytes) };
    Cell::with_remark(bytes.to_string(), remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_forms() {
        let texts = [three(1.0), three(2.0755), plain(1.0), plain(20.0), plain(0.5), latency_ms(1_234.4)];
        assert_eq!(texts, ["1.000", "2.076", "1", "20", "0.5", "1.234"]);
        assert_eq!([rounded(83.68125, 2), rounded(334.725, 2), rounded(2.9, 0)], [83.68, 334.73, 3.0]);
        assert_eq!((span(59.94), span(3_725.2)), ("59.9 s".into(), "1:02:05".into()));
        assert_eq!(bytes(1 << 30).line(), "1073741824 (1.00 GiB)");
        assert_eq!(bytes(7).line(), "7");
        let values = [0.0, 0.012_34, 0.999_6, 1.234, 9.999, 12.34, 99.96, 999.5, 1_234.5, -1_234_567.0];
        let texts = ["0", "0.012", "1", "1.23", "10", "12.3", "100", "1,000", "1,235", "-1,234,567"];
        assert_eq!(values.map(significant), texts);
    }
}
