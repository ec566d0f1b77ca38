//! Line charts. A chart has a caption with the most important observation, a drawing that scales with the page, and a
//! legend. Values appear when the reader points at the drawing or uses the arrow keys.
//!
//! A drawing's colours are custom properties from `report.css`, so they follow the page's colour scheme. A drawing
//! contains no text from outside this program. A value that is not a number leaves a gap, as does zero on a
//! logarithmic scale. For a long series, the drawing shows the lowest and highest value in each interval, which keeps
//! peaks visible.

mod axis;
mod drawing;
mod limits;
mod readout;

use jetcell_input::number::significant;
use jetcell_workload::RuleBound;
use maud::{Markup, PreEscaped, html};

pub use self::axis::{AxisScale, HorizontalAxis};
pub(crate) use self::drawing::colour;
use self::drawing::{MAX_SERIES, swatch};
pub use self::limits::LimitLine;
use crate::standalone::standalone;

/// One line in a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartSeries {
    /// Name in the legend.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

impl ChartSeries {
    /// Creates a series from `points`.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> ChartSeries {
        ChartSeries { name: name.into(), points: points.into_iter().collect() }
    }

    /// Returns the values that are finite.
    fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|(_, value)| *value).filter(|value| value.is_finite())
    }
}

/// Dots for a second quantity, drawn over a chart's lines against their own axis on the right.
#[derive(Clone, Debug, PartialEq)]
pub struct DotOverlay {
    /// Unit of the values: its name, with details after a comma.
    pub unit: String,
    /// Scale of the right axis.
    pub scale: AxisScale,
    /// The dots, as series with names for the legend.
    pub series: Vec<ChartSeries>,
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Name of the charted quantity.
    pub title: String,
    /// Most important observation, for the caption. The default describes the first series: its range, and how often it
    /// exceeds its limit.
    pub finding: Option<String>,
    /// Unit of the values: its name, with details after a comma.
    pub unit: String,
    /// Quantity on the horizontal axis.
    pub horizontal_axis: HorizontalAxis,
    /// Scale of the vertical axis.
    pub scale: AxisScale,
    /// True if each value applies until the next point, as in a histogram. The lines are then drawn as steps.
    pub steps: bool,
    /// True if the values are drawn as dots without connecting lines.
    pub dots: bool,
    /// The lines.
    pub series: Vec<ChartSeries>,
    /// Dots drawn over the lines.
    pub cloud: Option<DotOverlay>,
    /// Positions marked on the horizontal axis, each with a name for the legend.
    pub marks: Vec<(f64, String)>,
    /// Limits on the values.
    pub limits: Vec<LimitLine>,
}

impl Chart {
    /// Creates a chart that shows values along a quantity.
    pub fn new(
        title: impl Into<String>,
        unit: impl Into<String>,
        along: HorizontalAxis,
        series: Vec<ChartSeries>,
    ) -> Chart {
        let (title, unit) = (title.into(), unit.into());
        Chart {
            title,
            finding: None,
            unit,
            horizontal_axis: along,
            scale: AxisScale::Linear,
            steps: false,
            dots: false,
            series,
            cloud: None,
            marks: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// Creates a chart that shows values over time.
    pub fn over_time(title: impl Into<String>, unit: impl Into<String>, series: Vec<ChartSeries>) -> Chart {
        Chart::new(title, unit, HorizontalAxis::Time, series)
    }

    /// Returns the chart with a logarithmic scale for the values.
    #[must_use]
    pub fn logarithmic(self) -> Chart {
        Chart { scale: AxisScale::Logarithmic, ..self }
    }

    /// Returns the chart with this observation in its caption.
    #[must_use]
    pub fn with_finding(self, finding: impl Into<String>) -> Chart {
        Chart { finding: Some(finding.into()), ..self }
    }

    /// Returns the observation for the caption, such as `reads 12 to 20, never above 20`.
    fn default_finding(&self) -> Option<String> {
        if self.finding.is_some() {
            return self.finding.clone();
        }
        let first = self.series.first()?;
        let low = first.values().reduce(f64::min)?;
        let high = first.values().reduce(f64::max)?;
        let (low, high) = (significant(low), significant(high));
        let range = if low == high {
            format!("{} {low}", first.name)
        } else {
            format!("{} {low} to {high}", first.name)
        };
        let Some(limit) = self.limits.iter().find(|limit| limit.series == 0) else { return Some(range) };
        let beyond = |value: &f64| match limit.bound {
            RuleBound::AtMost => *value > limit.value,
            RuleBound::AtLeast => *value < limit.value,
        };
        let (count, all) = (first.values().filter(beyond).count(), first.values().count());
        let side = if limit.bound == RuleBound::AtMost { "above" } else { "below" };
        let value = significant(limit.value);
        Some(match count {
            0 => format!("{range}, never {side} {value}"),
            count => format!("{range}, {side} {value} in {count} of {all} intervals"),
        })
    }

    /// Returns the chart with caption and legend.
    pub fn figure(&self) -> Markup {
        let drawn = self.series.iter().any(|series| !series.points.is_empty());
        html! {
            figure {
                figcaption {
                    strong { (self.title) @if let Some(seen) = self.default_finding() { ": " (seen) } }
                    " " span class="note" {
                        (self.unit)
                        @if let Some(cloud) = &self.cloud { "; dots: " (cloud.unit) }
                    }
                }
                @if drawn {
                    div class="plot" tabindex="0" role="group" aria-label={ (self.title) ", values with the arrow keys" }
                        data-values=(self.readout()) {
                        (PreEscaped(self.svg()))
                        output class="readout" {}
                    }
                    (self.legend())
                } @else {
                    p class="note" { "Nothing was recorded." }
                }
            }
        }
    }

    /// Returns the chart as a standalone SVG file. The names of lines and marks are listed in its note.
    pub fn standalone(&self) -> String {
        let caption =
            self.default_finding().map_or(self.title.clone(), |seen| format!("{}: {seen}", self.title));
        let marks = self.marks.iter().map(|(_, name)| format!("; vertical line: {name}"));
        standalone(&self.svg(), &caption, &format!("{}{}", self.unit, marks.collect::<String>()))
    }

    /// Returns the dot series to draw, each with its colour number.
    fn drawn_dots<'c>(&self, cloud: &'c DotOverlay) -> impl Iterator<Item = (usize, &'c ChartSeries)> {
        (self.series.len().min(MAX_SERIES)..MAX_SERIES).zip(&cloud.series)
    }

    fn legend(&self) -> Markup {
        let left_out = self.series.len().saturating_sub(MAX_SERIES);
        html! {
            ul class="legend" {
                @for (number, series) in self.series.iter().take(MAX_SERIES).enumerate() {
                    li { span class="swatch" style=(swatch(number)) {} (series.name) }
                }
                @if let Some(cloud) = &self.cloud {
                    @for (number, series) in self.drawn_dots(cloud) {
                        li { span class="swatch" style=(swatch(number)) {} (series.name) " (right axis)" }
                    }
                }
                @for (_, name) in &self.marks {
                    li { span class="swatch" style="border-top:1px solid currentColor" {} (name) }
                }
                @for limit in &self.limits {
                    li {
                        span class="swatch" style="border-top:2px dashed var(--bad)" {}
                        "limit of " (limit.name) ": " (significant(limit.value))
                        @if !self.visible_limits().any(|shown| shown == limit) { " (outside the chart)" }
                    }
                }
                @if left_out > 0 { li { "and " (left_out) " more that are not drawn" } }
            }
        }
    }
}

#[cfg(test)]
mod tests;
