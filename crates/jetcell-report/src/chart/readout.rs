//! Chart values for `report.js`, which shows them at the mouse pointer or at the position selected with the arrow
//! keys.

use jetcell_input::number::{four_digits, significant};
use serde_json::{Value, json};

use super::drawing::MAX_SERIES;
use super::{Chart, ChartSeries, HorizontalAxis};

/// Maximum number of positions with values. In a longer series, each position shows a range.
const MAX_PLACES: usize = 200;

impl Chart {
    /// Returns JSON. Each position has its location as a fraction of the drawing's width, its name, and the value of
    /// each line.
    pub(super) fn readout(&self) -> String {
        let lines: Vec<&ChartSeries> = self.series.iter().take(MAX_SERIES).collect();
        let points = || lines.iter().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points().map(|(x, _)| *x).filter(|x| x.is_finite()).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let dots = self.cloud.iter().flat_map(|cloud| &cloud.series).flat_map(|series| &series.points);
        let range = self.horizontal_range(points().chain(dots).filter(|(x, _)| x.is_finite()));
        let plot = self.plot();
        let (divisor, unit) = self.horizontal_axis.scale(&range);
        let place = |stretch: &[f64]| -> Option<Value> {
            let (first, last) = (*stretch.first()?, *stretch.last()?);
            let share = ((first + last) / 2.0 - range.start) / (range.end - range.start);
            let at = plot.0 + share.clamp(0.0, 1.0) * (plot.1 - plot.0);
            let values: Vec<Value> = lines.iter().map(|series| value(series, first, last)).collect();
            let name = match &self.horizontal_axis {
                HorizontalAxis::Percentile => format!("{} %", self.horizontal_axis.label(first)),
                HorizontalAxis::Logarithm(unit) if self.steps => {
                    format!("from {} {unit}", self.horizontal_axis.label(first))
                }
                along => format!("{} {unit}", along.label((first + last) / 2.0 / divisor)),
            };
            Some(json!([(at * 1e4).round() / 1e4, name, values]))
        };
        let shown: Vec<Value> =
            places.chunks(places.len().div_ceil(MAX_PLACES).max(1)).filter_map(place).collect();
        let names: Vec<&str> = lines.iter().map(|series| series.name.as_str()).collect();
        let unit = self.unit.split(',').next().unwrap_or_default();
        json!({ "unit": unit, "names": names, "places": shown }).to_string()
    }
}

/// Returns the value between two positions: a range if there is more than one value, null if there is none.
fn value(series: &ChartSeries, first: f64, last: f64) -> Value {
    let from = series.points.partition_point(|(x, _)| *x < first);
    let inside = series.points.iter().skip(from).take_while(|(x, _)| *x <= last);
    let ends = inside.map(|(_, y)| *y).filter(|y| y.is_finite()).fold(None, |ends: Option<(f64, f64)>, y| {
        let (low, high) = ends.unwrap_or((y, y));
        Some((low.min(y), high.max(y)))
    });
    let Some((low, high)) = ends else { return Value::Null };
    match (digits(low), digits(high)) {
        (low, high) if low == high => low.into(),
        (low, high) => format!("{low} to {high}").into(),
    }
}

/// Formats a value with at least three significant digits, even a small probability.
fn digits(value: f64) -> String {
    if value.abs() < 0.1 { four_digits(value) } else { significant(value) }
}
