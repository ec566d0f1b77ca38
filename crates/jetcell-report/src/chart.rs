//! Line charts for the page: a caption, a legend as text that wraps, and a drawing that scales with the page.
//!
//! The colours of a drawing are custom properties of `report.css`, so that they follow the scheme of the page. A drawing
//! contains no text from outside. A value that is not a number leaves a gap, and so does zero on a logarithmic scale. Of a
//! long series, a drawing shows the lowest and the highest value of each interval, so that peaks stay visible.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;

/// Colours that `report.css` defines as `--series-0` and on; further series repeat them dashed.
const COLOURS: usize = 8;
/// Highest number of lines that can be distinguished.
const MOST_SERIES: usize = 3 * COLOURS;
/// Number of intervals that a long series is reduced to, about one per unit of width.
const INTERVALS: usize = 400;
/// Larger values are drawn at the edge, so that the arithmetic of the axes stays finite.
const LARGEST: f64 = 1e15;
/// Smaller spans of an axis are widened to 1.
const SMALLEST_SPAN: f64 = 1e-6;

/// Labels at the values.
const MOST_LABELS: usize = 6;

const SIZE: (u32, u32) = (480, 220);
const FONT: (&str, u32) = ("sans-serif", 15);

/// Placeholder colours, which are replaced by custom properties in the text of the drawing.
const INK: RGBColor = RGBColor(0xC1, 0x5E, 0xFE);
const GRID: RGBColor = RGBColor(0xC1, 0x5E, 0xFF);
const LIMIT: RGBColor = RGBColor(0xC1, 0x5E, 0xFD);

/// A limit that is further above the values is named and not drawn, because the values would be a flat line.
const LIMIT_IN_SIGHT: f64 = 5.0;

const fn placeholder(series: usize) -> RGBColor {
    RGBColor(0xC1, 0x5E, series as u8)
}

/// The quantity of the horizontal axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Along {
    /// Seconds, shown as seconds, minutes or hours.
    Time,
    /// Share of all transfers, as the number of nines: 1 is 90 %, 2 is 99 %, 3 is 99.9 %.
    Percentile,
    /// Another quantity, with its unit.
    Quantity(String),
}

/// A limit of the values: a horizontal line.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitLine {
    /// The limit.
    pub value: f64,
    /// What it limits, for the legend.
    pub name: String,
}

/// Scale of the vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Linear from zero.
    #[default]
    Linear,
    /// Logarithmic, for values of different magnitudes.
    Logarithmic,
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
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Caption.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// The quantity of the horizontal axis.
    pub along: Along,
    /// Scale of the vertical axis.
    pub scale: Scale,
    /// The lines.
    pub series: Vec<Series>,
    /// A marked value of the horizontal axis, with its name for the legend.
    pub mark: Option<(f64, String)>,
    /// Limits of the values.
    pub limits: Vec<LimitLine>,
}

impl Chart {
    /// A chart of values over time.
    pub fn over_time(title: impl Into<String>, unit: impl Into<String>, series: Vec<Series>) -> Chart {
        let (title, unit) = (title.into(), unit.into());
        Chart {
            title,
            unit,
            along: Along::Time,
            scale: Scale::Linear,
            series,
            mark: None,
            limits: Vec::new(),
        }
    }

    /// The chart with a limit.
    pub(crate) fn limited(mut self, value: f64, name: impl Into<String>) -> Chart {
        self.limits.push(LimitLine { value, name: name.into() });
        self
    }

    /// The limits that the drawing shows.
    fn limits_in_sight(&self) -> impl Iterator<Item = &LimitLine> {
        let values = self.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let shown = move |limit: &&LimitLine| limit.value > 0.0 && limit.value <= highest * LIMIT_IN_SIGHT;
        self.limits.iter().filter(shown)
    }

    /// The chart with caption and legend.
    pub fn figure(&self) -> Markup {
        let left_out = self.series.len().saturating_sub(MOST_SERIES);
        html! {
            figure {
                figcaption { strong { (self.title) } " " span class="note" { (self.unit) } }
                @if self.series.iter().all(|series| series.points.is_empty()) {
                    p class="note" { "Nothing was recorded." }
                } @else {
                    (PreEscaped(self.svg()))
                    ul class="legend" {
                        @for (number, series) in self.series.iter().take(MOST_SERIES).enumerate() {
                            li { span class="swatch" style=(swatch(number)) {} (series.name) }
                        }
                        @if let Some((_, name)) = &self.mark {
                            li { span class="swatch" style="border-top:1px solid currentColor" {} (name) }
                        }
                        @for limit in &self.limits {
                            li {
                                span class="swatch" style="border-top:2px dashed var(--bad)" {}
                                "limit of " (limit.name) ": " (crate::number::plain(limit.value))
                                @if !self.limits_in_sight().any(|shown| shown == limit) { " (outside the chart)" }
                            }
                        }
                        @if left_out > 0 { li { "and " (left_out) " more that are not drawn" } }
                    }
                }
            }
        }
    }

    /// The drawing.
    pub fn svg(&self) -> String {
        let line = |series: &Series| {
            let points = series.points.iter().map(|(x, y)| (*x, self.scale.height(*y)));
            thinned(&points.collect::<Vec<_>>())
        };
        let lines: Vec<Line> = self.series.iter().take(MOST_SERIES).map(line).collect();
        let mut svg = String::new();
        // Drawing to a string fails only if a caller's formatter does, and none can.
        let _ = self.draw(&lines, &mut svg);
        coloured(svg, &self.title)
    }

    fn draw(&self, lines: &[Line], svg: &mut String) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let finite = || lines.iter().flatten().flatten();
        let mark = self.mark.iter().map(|(at, _)| at.clamp(-LARGEST, LARGEST)).find(|at| at.is_finite());
        let across = span(finite().map(|point| point.0).chain(mark));
        // Time is shown from the start.
        let across = if self.along == Along::Time { across.start.min(0.0)..across.end } else { across };
        let across =
            if self.along == Along::Percentile { 0.0..across.end.clamp(1.0, 9.0).ceil() } else { across };
        let limits: Vec<f64> =
            self.limits_in_sight().map(|limit| self.scale.height(limit.value.min(LARGEST))).collect();
        let (up, labels) = self.scale.range(finite().map(|point| point.1).chain(limits.iter().copied()));
        let (divisor, label) = self.along.scale(&across);
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(4)
            // Half of a label at the end of an axis.
            .margin_top(9)
            .margin_right(24)
            .x_label_area_size(36)
            .y_label_area_size(46)
            .build_cartesian_2d(across.start / divisor..across.end / divisor, up.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(if self.along == Along::Percentile { across.end as usize + 1 } else { 8 })
            .y_labels(labels)
            .x_desc(label)
            .x_label_formatter(&|value| self.along.label(*value))
            .y_label_formatter(&|height| short(self.scale.value(*height)))
            .label_style(FONT.into_font().color(&INK))
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        if let Some(at) = mark.map(|at| at / divisor) {
            chart.draw_series(LineSeries::new([(at, up.start), (at, up.end)], INK.stroke_width(1)))?;
        }
        for height in limits {
            let ends = [across.start, across.end].map(|at| (at / divisor, height));
            chart.draw_series(LineSeries::new(ends, LIMIT.stroke_width(1)))?;
        }
        let mut add = |line: &[(f64, f64)], colour: RGBColor| {
            let points = || line.iter().map(|(x, y)| (x / divisor, *y));
            if line.len() > 1 {
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
            }
            // Values between measured quantities are unknown, so the points are shown.
            if line.len() == 1 || self.along != Along::Time {
                chart.draw_series(points().map(|point| Circle::new(point, 2, colour.filled())))?;
            }
            Ok(())
        };
        for (number, line) in lines.iter().enumerate() {
            for part in line {
                add(part, placeholder(number))?;
            }
        }
        area.present()
    }
}

impl Along {
    /// Divisor of the values, and the name of the resulting unit.
    fn scale(&self, range: &Range<f64>) -> (f64, String) {
        match self {
            Along::Time if range.end < 300.0 => (1.0, "seconds".into()),
            Along::Time if range.end < 4.0 * 3600.0 => (60.0, "minutes".into()),
            Along::Time => (3600.0, "hours".into()),
            Along::Percentile => (1.0, "percent of the transfers".into()),
            Along::Quantity(name) => (1.0, name.clone()),
        }
    }

    /// A label of the axis.
    fn label(&self, value: f64) -> String {
        match self {
            // Rounding, because the difference of 100 and 0.01 is not 99.99.
            Along::Percentile => ((1e9 * (1.0 - 10f64.powf(-value))).round() / 1e7).to_string(),
            Along::Time | Along::Quantity(_) => short(value),
        }
    }
}

impl Scale {
    /// Height of a value; NaN if the scale cannot show it.
    fn height(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic if value > 0.0 => value.clamp(LARGEST.recip(), LARGEST).log10(),
            Scale::Logarithmic => f64::NAN,
        }
    }

    /// The value at a height.
    fn value(self, height: f64) -> f64 {
        match self {
            Scale::Linear => height,
            Scale::Logarithmic => 10f64.powf(height),
        }
    }

    /// The range of heights, and the highest number of labels.
    fn range(self, heights: impl Iterator<Item = f64>) -> (Range<f64>, usize) {
        match self {
            Scale::Linear => {
                let all = span(heights.chain([0.0]));
                (all.start..all.end + (all.end - all.start) * 0.04, MOST_LABELS)
            }
            // Whole powers of ten.
            Scale::Logarithmic => {
                let all = span(heights);
                let (low, high) = (all.start.floor(), all.end.ceil());
                (low..high, MOST_LABELS.min((high - low) as usize + 1))
            }
        }
    }
}

/// Parts of a line between its gaps.
type Line = Vec<Vec<(f64, f64)>>;

/// Reduces a series to at most two points for each of [`INTERVALS`]; an interval without numbers is a gap.
fn thinned(points: &[(f64, f64)]) -> Line {
    let mut parts: Line = vec![Vec::new()];
    for stretch in points.chunks(points.len().div_ceil(INTERVALS).max(1)) {
        let numbers = || {
            let finite = stretch.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            finite.map(|(x, y)| (x.clamp(-LARGEST, LARGEST), y.clamp(-LARGEST, LARGEST))).enumerate()
        };
        let by_value = |a: &(usize, (f64, f64)), b: &(usize, (f64, f64))| a.1.1.total_cmp(&b.1.1);
        let (Some(lowest), Some(highest)) = (numbers().min_by(by_value), numbers().max_by(by_value)) else {
            parts.push(Vec::new());
            continue;
        };
        let mut kept = [lowest, highest];
        kept.sort_by_key(|(at, _)| *at);
        let last = parts.last_mut();
        last.into_iter().for_each(|part| {
            part.extend(kept.iter().map(|(_, point)| *point));
            part.dedup();
        });
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The range of the values, never empty.
fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    match high - low {
        _ if low > high => 0.0..1.0,
        width if width < SMALLEST_SPAN => low..low + 1.0,
        _ => low..high,
    }
}

/// A label of an axis: `1.5`, `20`, `12k`.
fn short(value: f64) -> String {
    let (divisor, suffix) = match value.abs() {
        size if size >= 1e12 => (1e12, "T"),
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    crate::number::plain(value / divisor) + suffix
}

fn property(series: usize) -> String {
    format!("var(--series-{})", series % COLOURS)
}

const fn dashes(series: usize) -> &'static str {
    match series / COLOURS {
        0 => "",
        1 => ";stroke-dasharray:6 3",
        _ => ";stroke-dasharray:2 3",
    }
}

fn swatch(series: usize) -> String {
    let kind = ["solid", "dashed", "dotted"][(series / COLOURS).min(2)];
    format!("border-top:3px {kind} {}", property(series))
}

/// Replaces the placeholder colours by custom properties, and makes the size follow the page.
fn coloured(svg: String, title: &str) -> String {
    let mut svg = svg;
    let mut replace = |RGBColor(r, g, b): RGBColor, property: &str, more: &str| {
        for attribute in ["fill", "stroke"] {
            let from = format!("{attribute}=\"#{r:02X}{g:02X}{b:02X}\"");
            if svg.contains(&from) {
                svg = svg.replace(&from, &format!("style=\"{attribute}:{property}{more}\""));
            }
        }
    };
    replace(INK, "currentColor", "");
    replace(GRID, "var(--line)", "");
    replace(LIMIT, "var(--bad)", ";stroke-dasharray:5 4");
    for series in 0..MOST_SERIES {
        replace(placeholder(series), &property(series), dashes(series));
    }
    let (width, height) = SIZE;
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let label = html! { (title) }.into_string();
    format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{body}")
}

#[cfg(test)]
mod tests;
