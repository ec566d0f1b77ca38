//! The limits of a chart. Some are drawn as dashed lines, and others are only named in the legend.

use jetcell_workload::RuleBound;

use super::{Chart, ChartSeries};

/// A limit that exceeds the values by more than this factor is named but not drawn, because it would flatten the
/// values into a line.
const MAX_LIMIT_RATIO: f64 = 5.0;

/// A limit on a chart's values, drawn as a horizontal line.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitLine {
    /// Value of the limit.
    pub value: f64,
    /// Side of the limit on which the values should be.
    pub bound: RuleBound,
    /// Name of the limited quantity, for the legend.
    pub name: String,
    /// Index of the series to which the limit applies.
    pub series: usize,
}

impl Chart {
    /// Returns the chart with a limit on series number `series`.
    pub(crate) fn with_limit(
        mut self,
        bound: RuleBound,
        value: f64,
        name: impl Into<String>,
        series: usize,
    ) -> Chart {
        self.limits.push(LimitLine { value, bound, name: name.into(), series });
        self
    }

    /// Returns the limits that the drawing shows.
    pub(super) fn visible_limits(&self) -> impl Iterator<Item = &LimitLine> {
        let highest = self.series.iter().flat_map(ChartSeries::values).fold(0.0, f64::max);
        let shown = move |limit: &&LimitLine| limit.value > 0.0 && limit.value <= highest * MAX_LIMIT_RATIO;
        self.limits.iter().filter(shown)
    }
}
