//! Line charts: a caption that says what there is to see, a drawing that scales with the page, a legend, and the values for a
//! reader who points at the drawing or uses the arrow keys.
//!
//! The colours of a drawing are custom properties of `report.css`, so that they follow the scheme of the page. A drawing
//! contains no text from outside. A value that is not a number leaves a gap, and so does zero on a logarithmic scale. Of a
//! long series, a drawing shows the lowest and the highest value of each interval, so that peaks stay visible.

mod axis;
mod drawing;
mod readout;

use jetcell_workload::Bound;
use maud::{Markup, PreEscaped, html};

pub use self::axis::{Along, Scale};
pub(crate) use self::drawing::colour;
use self::drawing::{MOST_SERIES, swatch};
use crate::number::significant;
use crate::standalone::standalone;

/// A limit that is further above the values is named and not drawn, because the values would be a flat line.
const LIMIT_IN_SIGHT: f64 = 5.0;

/// A limit of the values: a horizontal line.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitLine {
    /// The limit.
    pub value: f64,
    /// On which side of it the values should be.
    pub bound: Bound,
    /// What it limits, for the legend.
    pub name: String,
    /// The number of the line that it limits.
    pub series: usize,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A line through `points`.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.into(), points: points.into_iter().collect() }
    }

    /// The values that are numbers.
    fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|(_, value)| *value).filter(|value| value.is_finite())
    }
}

/// Dots over the lines of a chart, of another quantity with an axis of its own at the right.
#[derive(Clone, Debug, PartialEq)]
pub struct Cloud {
    /// Unit of the values: its name, and behind a comma what else is to be known about them.
    pub unit: String,
    /// Scale of the axis at the right.
    pub scale: Scale,
    /// The dots, with names for the legend.
    pub series: Vec<Series>,
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What is drawn.
    pub title: String,
    /// What there is to see, for the caption; by default the range of the first line beside its limit.
    pub finding: Option<String>,
    /// Unit of the values: its name, and behind a comma what else is to be known about them.
    pub unit: String,
    /// The quantity of the horizontal axis.
    pub along: Along,
    /// Scale of the vertical axis.
    pub scale: Scale,
    /// Whether a value holds from its point to the next one, as in a histogram, so that the lines are steps.
    pub steps: bool,
    /// Whether the values are dots without lines between them.
    pub dots: bool,
    /// The lines.
    pub series: Vec<Series>,
    /// Dots over them.
    pub cloud: Option<Cloud>,
    /// Marked values of the horizontal axis, each with its name for the legend.
    pub marks: Vec<(f64, String)>,
    /// Limits of the values.
    pub limits: Vec<LimitLine>,
}

impl Chart {
    /// A chart of values along a quantity.
    pub fn new(
        title: impl Into<String>,
        unit: impl Into<String>,
        along: Along,
        series: Vec<Series>,
    ) -> Chart {
        let (title, unit) = (title.into(), unit.into());
        Chart {
            title,
            finding: None,
            unit,
            along,
            scale: Scale::Linear,
            steps: false,
            dots: false,
            series,
            cloud: None,
            marks: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// A chart of values over time.
    pub fn over_time(title: impl Into<String>, unit: impl Into<String>, series: Vec<Series>) -> Chart {
        Chart::new(title, unit, Along::Time, series)
    }

    /// The chart with a logarithmic scale of the values.
    #[must_use]
    pub fn logarithmic(self) -> Chart {
        Chart { scale: Scale::Logarithmic, ..self }
    }

    /// The chart with a caption that says what there is to see.
    #[must_use]
    pub fn showing(self, finding: impl Into<String>) -> Chart {
        Chart { finding: Some(finding.into()), ..self }
    }

    /// The chart with a limit of the line with this number.
    pub(crate) fn limited(
        mut self,
        bound: Bound,
        value: f64,
        name: impl Into<String>,
        series: usize,
    ) -> Chart {
        self.limits.push(LimitLine { value, bound, name: name.into(), series });
        self
    }

    /// The limits that the drawing shows.
    fn limits_in_sight(&self) -> impl Iterator<Item = &LimitLine> {
        let highest = self.series.iter().flat_map(Series::values).fold(0.0, f64::max);
        let shown = move |limit: &&LimitLine| limit.value > 0.0 && limit.value <= highest * LIMIT_IN_SIGHT;
        self.limits.iter().filter(shown)
    }

    /// What there is to see: `reads 12 to 20, never above 20`.
    fn seen(&self) -> Option<String> {
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
            Bound::AtMost => *value > limit.value,
            Bound::AtLeast => *value < limit.value,
        };
        let (count, all) = (first.values().filter(beyond).count(), first.values().count());
        let side = if limit.bound == Bound::AtMost { "above" } else { "below" };
        let value = significant(limit.value);
        Some(match count {
            0 => format!("{range}, never {side} {value}"),
            count => format!("{range}, {side} {value} in {count} of {all} intervals"),
        })
    }

    /// The chart with caption and legend.
    pub fn figure(&self) -> Markup {
        let drawn = self.series.iter().any(|series| !series.points.is_empty());
        html! {
            figure {
                figcaption {
                    strong { (self.title) @if let Some(seen) = self.seen() { ": " (seen) } }
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

    /// The chart as an SVG file of its own. Its note has the names of the lines and marks.
    pub fn standalone(&self) -> String {
        let caption = self.seen().map_or(self.title.clone(), |seen| format!("{}: {seen}", self.title));
        let marks = self.marks.iter().map(|(_, name)| format!("; vertical line: {name}"));
        standalone(&self.svg(), &caption, &format!("{}{}", self.unit, marks.collect::<String>()))
    }

    /// The dots that are drawn, each with the number of its colour.
    fn dotted<'c>(&self, cloud: &'c Cloud) -> impl Iterator<Item = (usize, &'c Series)> {
        (self.series.len().min(MOST_SERIES)..MOST_SERIES).zip(&cloud.series)
    }

    fn legend(&self) -> Markup {
        let left_out = self.series.len().saturating_sub(MOST_SERIES);
        html! {
            ul class="legend" {
                @for (number, series) in self.series.iter().take(MOST_SERIES).enumerate() {
                    li { span class="swatch" style=(swatch(number)) {} (series.name) }
                }
                @if let Some(cloud) = &self.cloud {
                    @for (number, series) in self.dotted(cloud) {
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
                        @if !self.limits_in_sight().any(|shown| shown == limit) { " (outside the chart)" }
                    }
                }
                @if left_out > 0 { li { "and " (left_out) " more that are not drawn" } }
            }
        }
    }
}

#[cfg(test)]
mod tests;
