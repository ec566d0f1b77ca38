//! Report cells that contain numbers.

use jetcell_input::Unit;

use crate::table::{CellValue, Digits, ReportCell};

/// Formats a number with three decimals and thousands separators, for results documents.
pub(crate) fn three_grouped(value: f64) -> ReportCell {
    ReportCell::number(value, Digits::Decimals(3))
}

/// Formats microseconds as milliseconds.
pub(crate) fn latency_ms(us: f64) -> ReportCell {
    ReportCell::figure(Unit::Milliseconds, us / 1_000.0)
}

/// Formats an exact number of bytes, with a rounded size as a remark.
pub(crate) fn bytes(bytes: u64) -> ReportCell {
    ReportCell::new(CellValue::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_rounded_size_and_latencies_three_decimals() {
        assert_eq!(bytes(1 << 30).line(), "1,073,741,824 (1.00 GiB)");
        assert_eq!((bytes(1 << 30).machine_text().as_str(), bytes(7).line().as_str()), ("1073741824", "7"));
        assert_eq!(latency_ms(1_234.4).text(), "1.234");
    }

    #[test]
    fn figures_use_unit_precision_and_machine_output_three_decimals() {
        let figure = ReportCell::figure(Unit::PerSecond, 12_345.678_9).within(Some(4.46));
        assert_eq!((figure.text().as_str(), figure.machine_text().as_str()), ("12,345.7", "12345.679"));
        assert_eq!(figure.with_remark("target 1").line(), "12,345.7 (± 4.5; target 1)");
        assert_eq!(ReportCell::count(1_234_567_u64).text(), "1,234,567");
    }
}
