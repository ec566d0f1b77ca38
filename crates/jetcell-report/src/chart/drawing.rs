//! Draws a chart as SVG.

use maud::html;
use plotters::prelude::*;

use super::axis::{MAX_VALUE, span};
use super::{AxisScale, Chart, ChartSeries, DotOverlay, HorizontalAxis};

/// Number of colours. `report.css` defines them as `--series-0` and so on. Further series reuse them with dashed
/// lines.
const COLOURS: usize = 8;
/// Maximum number of lines that readers can tell apart.
pub(super) const MAX_SERIES: usize = 3 * COLOURS;
/// Number of intervals to which a long series is reduced, about one per unit of width.
pub(super) const INTERVALS: usize = 400;

const SIZE: (u32, u32) = (480, 244);
const FONT: (&str, u32) = ("sans-serif", 15);
const MARGIN: u32 = 4;
const MARGIN_RIGHT: u32 = 24;
/// Space in pixels for the labels below the plot; [`LABELS_LEFT`] is the space to its left. Both are large enough for
/// the larger font on narrow screens.
const LABELS_BELOW: u32 = 48;
const LABELS_LEFT: u32 = 66;

/// Placeholder colours, which are replaced with custom properties in the drawing's text.
const INK: RGBColor = RGBColor(0xC1, 0x5E, 0xFE);
const GRID: RGBColor = RGBColor(0xC1, 0x5E, 0xFF);
const LIMIT: RGBColor = RGBColor(0xC1, 0x5E, 0xFD);

const fn placeholder(series: usize) -> RGBColor {
    RGBColor(0xC1, 0x5E, series as u8)
}

/// A line, split at gaps into segments.
pub(super) type LineSegments = Vec<Vec<(f64, f64)>>;

impl Chart {
    /// Returns the chart as SVG for embedding in a page. The page must include the reports' style sheet.
    pub fn svg(&self) -> String {
        let lines: Vec<LineSegments> =
            self.series.iter().take(MAX_SERIES).map(|series| self.line(series)).collect();
        let mut svg = String::new();
        // Drawing into a string fails only if a formatter supplied by the caller fails, and none is supplied.
        let _ = self.draw(&lines, &mut svg);
        coloured(svg, &self.title)
    }

    pub(super) fn line(&self, series: &ChartSeries) -> LineSegments {
        let heights = series.points.iter().map(|(x, y)| (*x, self.scale.height(*y)));
        let heights: Vec<(f64, f64)> = heights.collect();
        if self.dots {
            let shown = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
            return vec![heights.into_iter().filter(shown).collect()];
        }
        if !self.steps {
            return downsample(&heights);
        }
        // Each value extends to the next point. The last value is as wide as the previous one.
        let width = |pair: &[(f64, f64)]| if let [(a, _), (b, _)] = pair { b - a } else { 1.0 };
        let last = heights.len().checked_sub(2).and_then(|at| heights.get(at..)).map_or(0.1, width);
        let ends = heights.iter().skip(1).map(|(x, _)| *x).chain(heights.last().map(|(x, _)| x + last));
        vec![heights.iter().zip(ends).flat_map(|((x, y), end)| [(*x, *y), (end, *y)]).collect()]
    }

    /// Returns the left and right edges of the plot area, as fractions of the drawing's width.
    pub(super) fn plot(&self) -> (f64, f64) {
        let (margin, labels) = self.right();
        let share = |at: u32| f64::from(at) / f64::from(SIZE.0);
        (share(MARGIN + LABELS_LEFT), share(SIZE.0 - margin - labels))
    }

    /// Returns the right margin and the space for labels on the right.
    fn right(&self) -> (u32, u32) {
        if self.cloud.is_some() { (MARGIN, LABELS_LEFT) } else { (MARGIN_RIGHT, 0) }
    }

    /// Returns the positions at which dots are drawn, for each series with its colour number.
    fn overlay_dots(&self, cloud: &DotOverlay) -> Vec<(usize, Vec<(f64, f64)>)> {
        let heights = |series: &ChartSeries| {
            let heights = series.points.iter().map(|(x, y)| (*x, cloud.scale.height(*y)));
            let finite = heights.filter(|(x, y)| x.is_finite() && y.is_finite());
            finite.map(|(x, y)| (x.clamp(-MAX_VALUE, MAX_VALUE), y.min(MAX_VALUE))).collect()
        };
        self.drawn_dots(cloud).map(|(number, series)| (number, heights(series))).collect()
    }

    /// Returns the horizontal range to display.
    pub(super) fn horizontal_range<'p>(
        &self,
        points: impl Iterator<Item = &'p (f64, f64)>,
    ) -> std::ops::Range<f64> {
        self.horizontal_axis.range(span(points.map(|point| point.0).chain(self.mark_positions())))
    }

    fn mark_positions(&self) -> impl Iterator<Item = f64> {
        self.marks.iter().map(|(at, _)| at.clamp(-MAX_VALUE, MAX_VALUE)).filter(|at| at.is_finite())
    }

    fn draw(
        &self,
        lines: &[LineSegments],
        svg: &mut String,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let finite = || lines.iter().flatten().flatten();
        let dots = self.cloud.as_ref().map(|cloud| self.overlay_dots(cloud)).unwrap_or_default();
        let dotted = || dots.iter().flat_map(|(_, points)| points);
        let across = self.horizontal_range(finite().chain(dotted()));
        let right_scale = self.cloud.as_ref().map_or(AxisScale::Linear, |cloud| cloud.scale);
        let (right, right_labels) = right_scale.range(dotted().map(|point| point.1));
        let (margin_right, labels_right) = self.right();
        let limits: Vec<f64> =
            self.visible_limits().map(|limit| self.scale.height(limit.value.min(MAX_VALUE))).collect();
        let (up, labels) = self.scale.range(finite().map(|point| point.1).chain(limits.iter().copied()));
        let (divisor, label) = self.horizontal_axis.scale(&across);
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(MARGIN)
            // Leave space for half of the label at the end of an axis.
            .margin_top(13)
            .margin_right(margin_right)
            .x_label_area_size(LABELS_BELOW)
            .y_label_area_size(LABELS_LEFT)
            .right_y_label_area_size(labels_right)
            .build_cartesian_2d(across.start / divisor..across.end / divisor, up.clone())?
            .set_secondary_coord(across.start / divisor..across.end / divisor, right.clone());
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(self.horizontal_axis.labels(&across))
            .y_labels(labels)
            .x_desc(label)
            .y_desc(self.unit.split(',').next().unwrap_or_default())
            .x_label_formatter(&|value| self.horizontal_axis.label(*value))
            .y_label_formatter(&|height| self.scale.label(*height, up.end))
            .label_style(FONT.into_font().color(&INK))
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        if let Some(cloud) = &self.cloud {
            chart
                .configure_secondary_axes()
                .y_labels(right_labels)
                .y_desc(cloud.unit.split(',').next().unwrap_or_default())
                .y_label_formatter(&|height| cloud.scale.label(*height, right.end))
                .label_style(FONT.into_font().color(&INK))
                .axis_style(INK)
                .draw()?;
        }
        // Dots are drawn first, so the lines are on top of them.
        for (number, points) in &dots {
            let dot = |(x, y): &(f64, f64)| Circle::new((x / divisor, *y), 1, placeholder(*number).filled());
            chart.draw_secondary_series(points.iter().map(dot))?;
        }
        for at in self.mark_positions().map(|at| at / divisor) {
            chart.draw_series(LineSeries::new([(at, up.start), (at, up.end)], INK.stroke_width(1)))?;
        }
        for height in limits {
            let ends = [across.start, across.end].map(|at| (at / divisor, height));
            chart.draw_series(LineSeries::new(ends, LIMIT.stroke_width(1)))?;
        }
        let mut add = |line: &[(f64, f64)], colour: RGBColor| {
            let points = || line.iter().map(|(x, y)| (x / divisor, *y));
            if line.len() > 1 && !self.dots {
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
            }
            // Nothing is known about values between measured points, so the points themselves are drawn.
            if line.len() == 1
                || self.dots
                || matches!(self.horizontal_axis, HorizontalAxis::Percentile | HorizontalAxis::Quantity(_))
            {
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

/// Reduces a series to [`INTERVALS`] intervals with at most two points each. An interval without numbers becomes a
/// gap.
pub(super) fn downsample(points: &[(f64, f64)]) -> LineSegments {
    let mut parts: LineSegments = vec![Vec::new()];
    for stretch in points.chunks(points.len().div_ceil(INTERVALS).max(1)) {
        let numbers = || {
            let finite = stretch.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            finite.map(|(x, y)| (x.clamp(-MAX_VALUE, MAX_VALUE), y.clamp(-MAX_VALUE, MAX_VALUE))).enumerate()
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

/// Returns a series colour, as a custom property from the style sheet.
pub(crate) fn colour(series: usize) -> String {
    format!("var(--series-{})", series % COLOURS)
}

const fn dashes(series: usize) -> &'static str {
    match series / COLOURS {
        0 => "",
        1 => ";stroke-dasharray:6 3",
        _ => ";stroke-dasharray:2 3",
    }
}

/// Returns the style that shows a series in the legend.
pub(super) fn swatch(series: usize) -> String {
    let kind = ["solid", "dashed", "dotted"][(series / COLOURS).min(2)];
    format!("border-top:3px {kind} {}", colour(series))
}

/// Replaces the placeholder colours with custom properties and makes the drawing scale with the page.
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
    for series in 0..MAX_SERIES {
        replace(placeholder(series), &colour(series), dashes(series));
    }
    let (width, height) = SIZE;
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let label = html! { (title) }.into_string();
    format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{body}")
}
