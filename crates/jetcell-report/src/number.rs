//! Cells of reports with numbers.

use jetcell_input::number::{decimal, grouped, human_bytes, plain, plain_grouped, with_three_decimals};

use crate::table::ReportCell;

/// Formats a number with three decimals and thousands separators, for results documents. The value for programs has
/// no separators.
pub(crate) fn three_grouped(value: f64) -> ReportCell {
    ReportCell::number(decimal(value, 3), with_three_decimals(value))
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

/// Formats an exact number of bytes, with a rounded size as a remark.
pub(crate) fn bytes(bytes: u64) -> ReportCell {
    let remark = if bytes < 1024 { String::new() } else { human_bytes(bytes) };
    count(bytes).add_remark(remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_rounded_size_and_latencies_three_decimals() {
        assert_eq!(bytes(1 << 30).line(), "1,073,741,824 (1.00 GiB)");
        assert_eq!((bytes(1 << 30).machine_text(), bytes(7).line().as_str()), ("1073741824", "7"));
        assert_eq!(latency_ms(1_234.4).text, "1.234");
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
        assert_eq!(count(1_234_567_u64).text, "1,234,567");
    }
}
