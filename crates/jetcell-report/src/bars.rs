//! Horizontal bars, each followed by its value.

use jetcell_input::number::significant;
use maud::{Markup, html};

use crate::chart::{AxisScale, colour};
use crate::standalone::standalone;

const WIDTH: f64 = 480.0;
const ROW: f64 = 38.0;
/// Left edge of the bars. Names are printed above the bars and may use the whole width.
const LEFT: f64 = 4.0;
/// Right limit for the bars, which leaves space for the values.
const ENDS: f64 = 374.0;
const BELOW: f64 = 22.0;

/// One bar in a bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct BarItem {
    /// Name of the bar, printed above it.
    pub name: String,
    /// Value that determines the bar's length.
    pub value: f64,
    /// Value with its unit, printed at the end of the bar.
    pub label: String,
    /// Series to which the bar belongs. Bars in the same series have the same colour.
    pub series: usize,
}

/// A bar chart that shows one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Caption: the quantity, and the most important observation.
    pub title: String,
    /// Unit of the axis.
    pub unit: String,
    /// Scale of the axis: linear from zero, or logarithmic over whole powers of ten.
    pub scale: AxisScale,
    /// Names of the series, if the names of the bars do not identify them.
    pub legend: Vec<(usize, String)>,
    /// The bars, from top to bottom.
    pub bars: Vec<BarItem>,
}

impl BarChart {
    /// Returns the bars as a figure with a caption.
    pub fn figure(&self) -> Markup {
        html! {
            figure {
                figcaption { strong { (self.title) } " " span class="note" { (self.unit) } }
                (self.svg())
                @if !self.legend.is_empty() {
                    ul class="legend" {
                        @for (series, name) in &self.legend {
                            li { span class="swatch" style=(format!("border-top:3px solid {}", colour(*series))) {} (name) }
                        }
                    }
                }
            }
        }
    }

    /// Returns the bars as a standalone SVG file.
    pub fn standalone(&self) -> String {
        let names: Vec<&str> = self.legend.iter().map(|(_, name)| name.as_str()).collect();
        let legend = if names.is_empty() {
            String::new()
        } else {
            format!("; in another colour: {}", names.join(", "))
        };
        standalone(&self.svg().into_string(), &self.title, &format!("{}{legend}", self.unit))
    }

    /// Returns the lowest and highest values on the axis, and the positions of its labels.
    fn axis(&self) -> (f64, f64, Vec<f64>) {
        let values = || self.bars.iter().map(|bar| bar.value).filter(|value| value.is_finite());
        let high = values().fold(0.0, f64::max);
        match self.scale {
            AxisScale::Linear => {
                let high = if high > 0.0 { high } else { 1.0 };
                (0.0, high, vec![0.0, high])
            }
            AxisScale::Logarithmic => {
                let low = values().filter(|value| *value > 0.0).fold(high, f64::min);
                // The axis starts below the lowest value, which keeps even the shortest bar visible.
                let decade = |value: f64| value.clamp(1e-30, 1e30).log10();
                let (low, high) = ((decade(low) - 0.2).floor(), decade(high).ceil());
                let high = high.max(low + 1.0);
                let step = ((high - low) / 4.0).ceil().max(1.0) as usize;
                let labels = (low as i32..=high as i32).step_by(step).map(|power| 10_f64.powi(power));
                (10_f64.powf(low), 10_f64.powf(high), labels.collect())
            }
        }
    }

    /// Returns the bars as SVG for embedding in a page. The page must include the reports' style sheet.
    pub fn svg(&self) -> Markup {
        let (low, high, labels) = self.axis();
        let share = |value: f64| match self.scale {
            _ if value.is_nan() => 0.0,
            AxisScale::Linear => (value - low) / (high - low),
            AxisScale::Logarithmic if value > 0.0 => (value / low).log10() / (high / low).log10(),
            AxisScale::Logarithmic => 0.0,
        };
        let x = |value: f64| LEFT + share(value).clamp(0.0, 1.0) * (ENDS - LEFT);
        let bottom = self.bars.len() as f64 * ROW;
        let place = |value: f64| format!("{value:.1}");
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {}", bottom + BELOW)) role="img" aria-label=(self.title) font-family="sans-serif" font-size="13"
                fill="currentColor" {
                @for label in &labels {
                    line x1=(place(x(*label))) x2=(place(x(*label))) y1="0" y2=(place(bottom)) style="stroke:var(--line)" {}
                    text x=(place(x(*label))) y=(place(bottom + 15.0)) text-anchor=[(x(*label) > 20.0).then_some("middle")] { (tick(*label)) }
                }
                @for (number, bar) in self.bars.iter().enumerate() {
                    @let top = number as f64 * ROW;
                    @let colour = format!("fill:{}", colour(bar.series));
                    text x=(place(LEFT)) y=(place(top + 14.0)) { (bar.name) }
                    rect x=(place(LEFT)) y=(place(top + 18.0)) width=(place(x(bar.value) - LEFT)) height="16" style=(colour) {}
                    text x=(place(x(bar.value) + 5.0)) y=(place(top + 31.0)) { (bar.label) }
                }
            }
        }
    }
}

/// Formats an axis label.
fn tick(value: f64) -> String {
    match value {
        value if value != 0.0 && value < 0.001 => format!("{value:.0e}"),
        value => significant(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(scale: AxisScale, values: &[f64]) -> BarChart {
        let bar = |value: &f64| BarItem {
            name: format!("n{value}"),
            value: *value,
            label: format!("{value} %"),
            series: usize::from(*value == 2.0),
        };
        let legend = if values.contains(&2.0) { vec![(1, "your choice".to_string())] } else { Vec::new() };
        let bars = values.iter().map(bar).collect();
        BarChart { title: "Loss".into(), unit: "percent".into(), scale, legend, bars }
    }

    fn widths(page: &str) -> Vec<f64> {
        let rects = page.split("<rect").skip(1);
        rects
            .map(|rect| rect.split_once("width=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap())
            .collect()
    }

    #[test]
    fn bar_lengths_are_proportional_with_values_at_the_ends() {
        let page = bars(AxisScale::Linear, &[1.0, 2.0, 4.0]).figure().into_string();
        let widths = widths(&page);
        assert!(
            (widths[1] / widths[0] - 2.0).abs() < 0.01 && (widths[2] / widths[0] - 4.0).abs() < 0.01,
            "{widths:?}"
        );
        assert!(page.contains(&format!("x=\"{:.1}\" y=\"31.0\">1 %", LEFT + widths[0] + 5.0)), "{page}");
        assert_eq!(page.matches("fill:var(--series-1)").count(), 1, "the reader's own");
        assert!(page.contains("your choice"));
    }

    #[test]
    fn decades_have_equal_lengths_and_unusual_values_are_drawable() {
        let page = bars(AxisScale::Logarithmic, &[1e-6, 1e-4, 1e-2]).figure().into_string();
        let widths = widths(&page);
        assert!(
            widths[0] > 0.0 && ((widths[1] - widths[0]) - (widths[2] - widths[1])).abs() < 0.2,
            "{widths:?}"
        );
        assert!(page.contains(">1e-7<") && !page.contains("your choice"), "{page}");
        for scale in [AxisScale::Linear, AxisScale::Logarithmic] {
            for values in
                [&[][..], &[0.0], &[f64::NAN, f64::INFINITY, -1.0, f64::MIN_POSITIVE, f64::MAX, 2.0]]
            {
                let page = bars(scale, values).svg().into_string();
                assert!(
                    page.ends_with("</svg>") && self::widths(&page).iter().all(|width| *width >= 0.0),
                    "{page}"
                );
            }
        }
    }

    #[test]
    fn a_standalone_file_has_colours_and_a_caption() {
        let file = bars(AxisScale::Linear, &[1.0, 2.0]).standalone();
        assert!(file.starts_with("<svg xmlns=") && file.trim_end().ends_with("</svg>"), "{file}");
        for part in [
            "--series-0: #014c92",
            "prefers-color-scheme: dark",
            ">Loss<",
            "percent; in another colour: your choice",
        ] {
            assert!(file.contains(part), "{part}: {file}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let mut bad = bars(AxisScale::Linear, &[1.0]);
        (bad.bars[0].name, bad.title) = ("<script>".into(), "\"><script>".into());
        assert!(!bad.figure().into_string().contains("<script"));
    }
}
