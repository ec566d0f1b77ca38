//! The comparison as bars, a curve as a line, in SVG; probabilities on a logarithmic scale.

use std::error::Error;
use std::path::Path;

use jetcell_raid_models::comparison::Row;
use jetcell_raid_models::curve::{Axis, Point};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::answer::Answer;
use super::output::rough;
use crate::outcome::Failure;
use crate::whole_file;

const SIZE: (u32, u32) = (900, 480);
const FONT: &str = "sans-serif";
const COLOR: RGBColor = RGBColor(31, 95, 153);

type Drawn = Result<(), Box<dyn Error>>;

/// Draws the comparison or the curve of the answer, and writes the file atomically.
pub fn write(answer: &Answer, file: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        match (&answer.comparison, &answer.curve) {
            (Some(rows), _) => bars(&area, rows, answer.case.years),
            (None, Some((axis, points))) => line(&area, *axis, points, answer),
            (None, None) => Ok(()),
        }
    };
    drawn.map_err(|error| format!("cannot draw the chart: {error}"))?;
    whole_file::write(file, &svg).map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}

/// Powers of ten around all values. A probability of zero cannot be shown on this scale.
fn decades(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let positive = values.filter(|&value| value > 0.0);
    let least = positive.clone().fold(1.0, f64::min);
    let most = positive.fold(least, f64::max);
    10f64.powf(least.log10().floor() - 0.2)..10f64.powf((most.log10() + 0.2).ceil()).min(2.0)
}

fn percent(value: &f64) -> String {
    format!("{} %", rough(value * 100.0))
}

fn bars(area: &DrawingArea<SVGBackend<'_>, Shift>, rows: &[Row], years: f64) -> Drawn {
    area.fill(&WHITE)?;
    let range = decades(rows.iter().map(|row| row.probability_of_loss));
    let (floor, count) = (range.start, rows.len() as f64);
    let title = format!("Probability of data loss in {years} years, same usable capacity");
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(190)
        .build_cartesian_2d(range.log_scale(), 0.0..count)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_label_formatter(&percent)
        .x_desc("probability of loss of the array")
        .label_style((FONT, 13))
        .draw()?;
    for (index, row) in rows.iter().enumerate() {
        let bottom = count - 1.0 - index as f64;
        let end = row.probability_of_loss.max(floor);
        chart.draw_series([Rectangle::new([(floor, bottom + 0.2), (end, bottom + 0.8)], COLOR.filled())])?;
        let (_, y) = chart.backend_coord(&(floor, bottom + 0.5));
        let label = format!("{} {}, {} drives", row.array.raid(), row.array.group_text(), row.drives);
        area.draw(&Text::new(label, (12, y - 7), (FONT, 14)))?;
        let loss = percent(&row.probability_of_loss);
        let (x, _) = chart.backend_coord(&(end, bottom));
        // Inside the bar if there is no space behind it.
        let (x, color) = if x > SIZE.0 as i32 - 110 { (x - 90, WHITE) } else { (x + 6, BLACK) };
        area.draw(&Text::new(loss, (x, y - 7), (FONT, 13).into_font().color(&color)))?;
    }
    area.present()?;
    Ok(())
}

fn line(area: &DrawingArea<SVGBackend<'_>, Shift>, axis: Axis, points: &[Point], answer: &Answer) -> Drawn {
    area.fill(&WHITE)?;
    let range = decades(points.iter().map(|point| point.probability_of_loss));
    let least = points.iter().map(|point| point.at).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.at).fold(least, f64::max);
    let array = answer.case.array;
    let title = format!("{}: probability of data loss in {} years", array.raid(), answer.case.years);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(90)
        .build_cartesian_2d((least * 0.9..most * 1.1).log_scale(), range.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axis.title())
        .y_desc("probability of loss of the array")
        .x_label_formatter(&|value| format!("{value}"))
        .y_label_formatter(&percent)
        .label_style((FONT, 13))
        .draw()?;
    let drawn = || {
        points.iter().filter(|point| point.probability_of_loss > 0.0).map(|p| (p.at, p.probability_of_loss))
    };
    chart.draw_series(LineSeries::new(drawn(), COLOR.stroke_width(2)))?;
    chart.draw_series(drawn().map(|point| Circle::new(point, 4, COLOR.filled())))?;
    area.present()?;
    Ok(())
}
