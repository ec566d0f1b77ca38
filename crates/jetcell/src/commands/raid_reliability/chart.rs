//! Charts in an SVG file or on a page: a comparison is drawn as bars, a curve as a line. Probabilities are drawn on a
//! logarithmic scale.

use std::path::Path;

use jetcell_raid_models::comparison::Row;
use jetcell_raid_models::curve::{Axis, Point};
use jetcell_report::chart::{Along, Chart, Scale, Series};
use jetcell_report::{Bar, Bars, Page, Table, four_digits, significant};

use super::answer::Answer;
use super::output;
use crate::outcome::Failure;
use crate::whole_file;

/// Writes the answer's comparison or curve atomically to an SVG file.
pub fn write(answer: &Answer, file: &Path) -> Result<(), Failure> {
    let svg = match (&answer.comparison, &answer.curve) {
        (Some(rows), _) => bars(answer, rows).standalone(),
        (None, Some((axis, points))) => curve(answer, *axis, points).standalone(),
        (None, None) => String::new(),
    };
    put(file, &svg)
}

/// Writes the answer atomically to an HTML page.
pub fn write_page(answer: &Answer, file: &Path) -> Result<(), Failure> {
    let case = &answer.case;
    let mut facts = Table::facts("Result");
    for (name, value) in output::results(case, &answer.assessment) {
        facts = facts.fact(name, value);
    }
    let mut page = Page::new(format!("Reliability of {}", output::subject(case)))
        .table(&output::rates(case))
        .table(&facts);
    if let Some(rows) = &answer.comparison {
        page = page.heading("All types with the same usable capacity").bars(&[bars(answer, rows)]);
        page = page.table(&output::comparison(rows));
    }
    if let Some((axis, points)) = &answer.curve {
        page = page.heading("Effect of an input").charts(&[curve(answer, *axis, points)]);
        page = page.table(&output::points(*axis, points));
    }
    put(file, &page.finish())
}

fn put(file: &Path, text: &str) -> Result<(), Failure> {
    whole_file::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}

fn percent(value: f64) -> String {
    format!("{} %", four_digits(value * 100.0))
}

fn bars(answer: &Answer, rows: &[Row]) -> Bars {
    let case = &answer.case;
    let is_own = |row: &Row| row.array.raid() == case.array.raid();
    let bar = |row: &Row| Bar {
        name: format!("{} {}, {} drives", row.array.raid(), row.array.group_text(), row.drives),
        value: row.probability_of_loss * 100.0,
        label: percent(row.probability_of_loss),
        series: usize::from(is_own(row)),
    };
    let order = |a: &&Row, b: &&Row| a.probability_of_loss.total_cmp(&b.probability_of_loss);
    let seen = match (rows.iter().min_by(order), rows.iter().max_by(order)) {
        (Some(safest), Some(riskiest)) => format!(
            ": {} loses data with {}, {} with {}",
            safest.array.raid(),
            percent(safest.probability_of_loss),
            riskiest.array.raid(),
            percent(riskiest.probability_of_loss)
        ),
        _ => String::new(),
    };
    Bars {
        title: format!("Data loss in {} years{seen}", case.years),
        unit: "percent, probability of loss of the array, same usable capacity".into(),
        scale: Scale::Logarithmic,
        legend: if rows.iter().any(is_own) { vec![(1, "your choice".into())] } else { Vec::new() },
        bars: rows.iter().map(bar).collect(),
    }
}

fn curve(answer: &Answer, axis: Axis, points: &[Point]) -> Chart {
    let case = &answer.case;
    let linear = axis == Axis::GroupSize;
    let place = |at: f64| if linear { at } else { at.max(f64::MIN_POSITIVE).log10() };
    let along = match linear {
        true => Along::Quantity(axis.title().into()),
        false => Along::Logarithm(axis.title().into()),
    };
    let values = points.iter().map(|point| (place(point.at), point.probability_of_loss * 100.0));
    let line = Series::new(case.array.raid().to_string(), values);
    let unit = format!("percent, probability of loss of the array in {} years", case.years);
    let title = format!("{}, data loss", case.array.raid());
    let mut chart = Chart::new(title, unit, along, vec![line]).logarithmic();
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let (from, to) = (percent(first.probability_of_loss), percent(last.probability_of_loss));
        chart = chart.showing(format!(
            "{from} at {}, {to} at {} ({})",
            significant(first.at),
            significant(last.at),
            axis.title()
        ));
    }
    if let Some(own) = answer.own {
        let loss = percent(answer.assessment.array.loss);
        chart.marks.push((place(own), format!("this array, {} with {loss}", significant(own))));
    }
    chart
}
