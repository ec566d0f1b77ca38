//! Formats numbers for reports.

use jetcell_workload::result::three_decimals;
use jetcell_workload::units::human_bytes;

use crate::table::ReportCell;

/// Formats a number with three decimals, as in Jetstress's tables.
pub(crate) fn with_three_decimals(value: f64) -> String {
    format!("{:.3}", three_decimals(value))
}

/// Formats a number with three decimals and thousands separators, for results documents. The value for programs has
/// no separators.
pub(crate) fn three_grouped(value: f64) -> ReportCell {
    ReportCell::number(decimal(three_decimals(value), 3), with_three_decimals(value))
}

/// Rounds to a number of decimals, with ties away from zero. A decimal tie without an exact binary representation
/// still counts as a tie.
pub(crate) fn rounded(value: f64, decimals: usize) -> f64 {
    let scale = 10_f64.powi(decimals.min(15) as i32);
    (value * scale * (1.0 + 1e-12)).round() / scale
}

/// Formats a value with as few decimals as needed, at most three.
pub(crate) fn plain(value: f64) -> String {
    let text = with_three_decimals(value);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Formats a value like [`plain`], with thousands separators.
pub(crate) fn plain_grouped(value: f64) -> String {
    let text = plain(value);
    decimal(value, text.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
}

/// Formats a value with three significant digits, or with all its integer digits and thousands separators: `0.123`,
/// `1.23`, `12.3`, `123`, `12,345`.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => return grouped(value),
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{:.decimals$}", rounded(value, decimals));
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Formats a value with four significant digits, for figures of any magnitude such as probabilities: `0.002071`,
/// `2.071e-6`, `461,100`, `2.95e9`.
pub fn four_digits(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = format!("{value:.3e}");
    let rounded: f64 = digits.parse().unwrap_or(value);
    if size >= 9_999.5 {
        return if rounded.abs() < 1e9 { grouped(rounded) } else { without_zeros(&digits) };
    }
    if size < 1e-3 {
        return without_zeros(&digits);
    }
    let decimals = (3 - rounded.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = decimal(rounded, decimals);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Removes trailing zeros: `2.950e7` becomes `2.95e7`.
fn without_zeros(digits: &str) -> String {
    match digits.split_once('e') {
        Some((digits, power)) => format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.')),
        None => digits.to_string(),
    }
}

/// Formats a figure with the precision used for its unit. All figures with the same unit, and their intervals, have
/// the same number of decimals.
pub(crate) fn format_for_unit(unit: &str, value: f64) -> String {
    let decimals = match unit {
        "B" | "bytes" | "count" => 0,
        "IOPS" | "1/s" | "/s" | "MiB/s" | "KiB" | "%" | "per log" => 1,
        _ => 3,
    };
    if value.is_finite() { decimal(value, decimals) } else { plain(value) }
}

/// Formats a whole number with thousands separators: `12,345`.
pub fn grouped(value: f64) -> String {
    decimal(value, 0)
}

/// Formats a number with the given number of decimals and with thousands separators: `12,345.6`.
pub fn decimal(value: f64, decimals: usize) -> String {
    let value = rounded(value, decimals);
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let first = whole.len() - whole.len().saturating_sub(1) / 3 * 3;
    let mut out = format!("{}{}", if value < 0.0 { "-" } else { "" }, whole.get(..first).unwrap_or_default());
    for at in (first..whole.len()).step_by(3) {
        out.push(',');
        out.push_str(whole.get(at..at + 3).unwrap_or_default());
    }
    out + rest
}

/// Formats a figure with the precision used for its unit, which is part of `name`. The value for programs has three
/// decimals.
pub(crate) fn figure(name: &str, value: f64) -> ReportCell {
    ReportCell::number(figure_text(name, value), with_three_decimals(value))
}

/// Formats a figure like [`figure`], but returns only the text for readers.
pub(crate) fn figure_text(name: &str, value: f64) -> String {
    let has_unit = |unit: &str| name.contains(unit);
    match () {
        () if !value.is_finite() => plain(value),
        () if has_unit("(msec)") => decimal(value, 3),
        () if has_unit("MBytes") || has_unit("MiB") => decimal(value, 1),
        () if has_unit("Bytes") || has_unit("bytes") => decimal(value, 0),
        () if has_unit("/sec")
            || has_unit("per second")
            || has_unit("per Second")
            || has_unit('%'.to_string().as_str()) =>
        {
            decimal(value, 1)
        }
        // A limit on a count may be fractional.
        () if value.abs() >= 100.0 => grouped(value),
        () => plain_grouped(value),
    }
}

/// Formats a count with thousands separators.
pub(crate) fn count(value: impl Into<u64>) -> ReportCell {
    let value = value.into();
    ReportCell::number(grouped(value as f64), value.to_string())
}

/// Formats microseconds as milliseconds.
pub(crate) fn latency_ms(us: f64) -> ReportCell {
    figure("(msec)", us / 1_000.0)
}

/// Formats seconds as `1:02:03` or `12.3 s`.
pub(crate) fn duration_text(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Formats an exact number of bytes, with a rounded size as a remark.
pub(crate) fn bytes(bytes: u64) -> ReportCell {
    let remark = if bytes < 1024 { String::new() } else { human_bytes(bytes) };
    count(bytes).add_remark(remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_by_kind() {
        let texts = [
            with_three_decimals(1.0),
            with_three_decimals(2.0755),
            plain(1.0),
            plain(20.0),
            plain(0.5),
            latency_ms(1_234.4).text,
        ];
        assert_eq!(texts, ["1.000", "2.076", "1", "20", "0.5", "1.234"]);
        assert_eq!([rounded(83.68125, 2), rounded(334.725, 2), rounded(2.9, 0)], [83.68, 334.73, 3.0]);
        assert_eq!((duration_text(59.94), duration_text(3_725.2)), ("59.9 s".into(), "1:02:05".into()));
        assert_eq!(bytes(1 << 30).line(), "1,073,741,824 (1.00 GiB)");
        assert_eq!((bytes(1 << 30).machine_text(), bytes(7).line().as_str()), ("1073741824", "7"));
        let values = [0.0, 0.012_34, 0.999_6, 1.234, 9.999, 12.34, 99.96, 999.5, 1_234.5, -1_234_567.0];
        let texts = ["0", "0.012", "1", "1.23", "10", "12.3", "100", "1,000", "1,235", "-1,234,567"];
        assert_eq!(values.map(significant), texts);
    }

    #[test]
    fn numbers_keep_four_digits_at_every_magnitude() {
        let values = [0.0, 2.071_276e-6, 0.002_071_276, 0.5, 12.0, 9_999.4, 461_052.6, 8_411_000.0, 2.95e9];
        let texts = ["0", "2.071e-6", "0.002071", "0.5", "12", "9,999", "461,100", "8,411,000", "2.95e9"];
        assert_eq!(values.map(four_digits), texts);
        assert_eq!([-0.25, 0.999_96, f64::INFINITY].map(four_digits), ["-0.25", "1", "inf"]);
    }

    #[test]
    fn figures_with_one_unit_have_the_same_decimals() {
        assert_eq!(
            [0.0, 12.25, 12_345.67].map(|value| format_for_unit("IOPS", value)),
            ["0.0", "12.3", "12,345.7"]
        );
        assert_eq!(
            [format_for_unit("ms", 1.0), format_for_unit("count", 1234.0), format_for_unit("", 0.5)],
            ["1.000", "1,234", "0.500"]
        );
        assert_eq!(figure_text("Operations not completed in time", 777.03), "777");
    }

    #[test]
    fn figures_use_unit_precision_and_machine_output_three_decimals() {
        let text = |name, value| figure(name, value).text;
        assert_eq!(text("I/O Database Reads Average Bytes", 262_144.0), "262,144");
        assert_eq!(text("I/O Database Reads/sec", 12_345.678), "12,345.7");
        assert_eq!(text("Achieved transactional I/O per second", 285.979), "286.0");
        assert_eq!(text("Average log write latency (msec)", 1_234.5), "1,234.500");
        assert_eq!(text("MBytes Transferred/sec", 1_234.56), "1,234.6");
        assert_eq!(text("% Processor Time", 33.333), "33.3");
        assert_eq!([text("I/O errors", 12_000.0), text("", 0.1), text("", -0.0)], ["12,000", "0.1", "0"]);
        assert_eq!(figure("/sec", 12_345.678_9).machine_text(), "12345.679");
        assert_eq!(
            [decimal(999.95, 1), decimal(-1_000.0, 2), decimal(0.0, 0)],
            ["1,000.0", "-1,000.00", "0"]
        );
        assert_eq!(count(1_234_567_u64).text, "1,234,567");
    }
}
