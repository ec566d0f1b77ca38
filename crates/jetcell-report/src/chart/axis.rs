//! The two axes of a chart.

use std::ops::Range;

use jetcell_input::number::{plain, significant};

/// Maximum value that can be drawn. Larger values are drawn at the edge, which keeps the axis arithmetic finite.
pub(super) const MAX_VALUE: f64 = 1e15;
/// Minimum span of an axis. A smaller span is widened to 1.
const MIN_SPAN: f64 = 1e-6;
/// Maximum number of labels on the vertical axis.
const MAX_LABELS: usize = 6;

/// The quantity on a chart's horizontal axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HorizontalAxis {
    /// Time in seconds, shown as seconds, minutes, or hours.
    Time,
    /// Fraction of all transfers, as a number of nines: 1 is 90 %, 2 is 99 %, 3 is 99.9 %.
    Percentile,
    /// Another quantity, with its unit.
    Quantity(String),
    /// A whole number of items with this name.
    Count(String),
    /// Another quantity, with its unit. Positions are exponents of ten: 3 means 1000.
    Logarithm(String),
}

/// Scale of a chart's vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AxisScale {
    /// Linear from zero.
    #[default]
    Linear,
    /// Logarithmic, for values that span several orders of magnitude.
    Logarithmic,
}

impl HorizontalAxis {
    /// Returns the divisor for the values and the name of the resulting unit.
    pub(super) fn scale(&self, range: &Range<f64>) -> (f64, String) {
        match self {
            HorizontalAxis::Time if range.end < 300.0 => (1.0, "seconds".into()),
            HorizontalAxis::Time if range.end < 4.0 * 3600.0 => (60.0, "minutes".into()),
            HorizontalAxis::Time => (3600.0, "hours".into()),
            HorizontalAxis::Percentile => (1.0, "percent of the transfers".into()),
            HorizontalAxis::Quantity(name)
            | HorizontalAxis::Count(name)
            | HorizontalAxis::Logarithm(name) => (1.0, name.clone()),
        }
    }

    /// Returns the range to display for a range of points.
    pub(super) fn range(&self, points: Range<f64>) -> Range<f64> {
        match self {
            HorizontalAxis::Percentile => 0.0..points.end.clamp(1.0, 9.0).ceil(),
            HorizontalAxis::Logarithm(_) => {
                points.start.floor()..points.end.ceil().max(points.start.floor() + 1.0)
            }
            HorizontalAxis::Time | HorizontalAxis::Quantity(_) | HorizontalAxis::Count(_) => points,
        }
    }

    /// Returns the maximum number of labels.
    pub(super) fn labels(&self, range: &Range<f64>) -> usize {
        match self {
            HorizontalAxis::Percentile => range.end as usize + 1,
            HorizontalAxis::Logarithm(_) => ((range.end - range.start) as usize + 1).min(8),
            HorizontalAxis::Count(_) => ((range.end - range.start) as usize + 1).min(7),
            HorizontalAxis::Time | HorizontalAxis::Quantity(_) => 7,
        }
    }

    /// Formats an axis label.
    pub(super) fn label(&self, value: f64) -> String {
        match self {
            // The value is rounded because 100 - 0.01 is not exactly 99.99.
            HorizontalAxis::Percentile => ((1e9 * (1.0 - 10f64.powf(-value))).round() / 1e7).to_string(),
            HorizontalAxis::Logarithm(_) => short_label(10f64.powf(value.clamp(-15.0, 15.0))),
            HorizontalAxis::Time | HorizontalAxis::Quantity(_) | HorizontalAxis::Count(_) => {
                short_label(value)
            }
        }
    }
}

impl AxisScale {
    /// Returns the height at which a value is drawn, or NaN if the scale cannot show it.
    pub(super) fn height(self, value: f64) -> f64 {
        match self {
            AxisScale::Linear => value,
            AxisScale::Logarithmic if value > 0.0 => value.clamp(MAX_VALUE.recip(), MAX_VALUE).log10(),
            AxisScale::Logarithmic => f64::NAN,
        }
    }

    /// Returns the value at a height.
    pub(super) fn value(self, height: f64) -> f64 {
        match self {
            AxisScale::Linear => height,
            AxisScale::Logarithmic => 10f64.powf(height),
        }
    }

    /// Formats the label at a height. `end` is the upper end of the axis.
    pub(super) fn label(self, height: f64, end: f64) -> String {
        match self {
            AxisScale::Linear => short_label_below(height, end),
            AxisScale::Logarithmic => short_label(self.value(height)),
        }
    }

    /// Returns the range of heights and the maximum number of labels.
    pub(super) fn range(self, heights: impl Iterator<Item = f64>) -> (Range<f64>, usize) {
        match self {
            AxisScale::Linear => {
                let all = span(heights.chain([0.0]));
                (all.start..all.end + (all.end - all.start) * 0.04, MAX_LABELS)
            }
            // Extend the range to whole powers of ten.
            AxisScale::Logarithmic => {
                let all = span(heights);
                let (low, high) = (all.start.floor(), all.end.ceil());
                (low..high, MAX_LABELS.min((high - low) as usize + 1))
            }
        }
    }
}

/// Returns the range of the values, widened if it would be empty.
pub(super) fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    match high - low {
        _ if low > high => 0.0..1.0,
        width if width < MIN_SPAN => low..low + 1.0,
        _ => low..high,
    }
}

/// Formats an axis label: `1.5`, `20`, `12k`.
pub(super) fn short_label(value: f64) -> String {
    short_label_below(value, value.abs())
}

/// Formats a label with the suffix that the highest label on the axis needs: `5k` below `10k`.
pub(super) fn short_label_below(value: f64, highest: f64) -> String {
    let (divisor, suffix) = match highest {
        _ if value == 0.0 => return "0".into(),
        size if size >= 1e12 => (1e12, "T"),
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        // Small values such as probabilities.
        _ if value.abs() < 5e-4 => return format!("{value:.0e}"),
        _ => return significant(value),
    };
    plain(value / divisor) + suffix
}
