//! Charts in an SVG file or on a page: a comparison is drawn as bars, a curve as a line. Probabilities are drawn on a
//! logarithmic scale.

use std::path::Path;

use jetcell_input::number::{percentage, significant};
use jetcell_raid_models::comparison::ComparedLayout;
use jetcell_raid_models::curve::{CurveAxis, CurvePoint};
use jetcell_report::chart::{AxisScale, Chart, ChartSeries, HorizontalAxis};
use jetcell_report::{BarChart, BarItem, ReportPage, ReportTable};
use jetcell_vfs::replace_output;

use super::output;
use super::result::ReliabilityResult;
use crate::outcome::{CommandContext, CommandResult};

/// Writes the result's comparison or curve atomically to an SVG file.
pub fn write(answer: &ReliabilityResult, file: &Path) -> CommandResult<()> {
    let svg = match (&answer.comparison, &answer.curve) {
        (Some(rows), _) => bars(answer, rows).standalone(),
        (None, Some((axis, points))) => curve(answer, *axis, points).standalone(),
        (None, None) => String::new(),
    };
    write_file(file, &svg)
}

/// Writes the result atomically to an HTML page.
pub fn write_page(answer: &ReliabilityResult, file: &Path) -> CommandResult<()> {
    let case = &answer.case;
    let mut facts = ReportTable::facts("Result");
    for (name, value) in output::results(case, &answer.assessment) {
        facts = facts.fact(name, value);
    }
    let mut page = ReportPage::new(format!("Reliability of {}", output::subject(case)))
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
    write_file(file, &page.finish())
}

fn write_file(file: &Path, text: &str) -> CommandResult<()> {
    replace_output(file, text).context(format_args!("cannot write {}", file.display()))
}

fn bars(answer: &ReliabilityResult, rows: &[ComparedLayout]) -> BarChart {
    let case = &answer.case;
    let is_own = |row: &ComparedLayout| row.array.raid() == case.array.raid();
    let bar = |row: &ComparedLayout| BarItem {
        name: format!("{} {}, {} drives", row.array.raid(), row.array.group_text(), row.drives),
        value: row.probability_of_loss * 100.0,
        label: percentage(row.probability_of_loss),
        series: usize::from(is_own(row)),
    };
    let order =
        |a: &&ComparedLayout, b: &&ComparedLayout| a.probability_of_loss.total_cmp(&b.probability_of_loss);
    let seen = match (rows.iter().min_by(order), rows.iter().max_by(order)) {
        (Some(safest), Some(riskiest)) => format!(
            ": {} loses data with {}, {} with {}",
            safest.array.raid(),
            percentage(safest.probability_of_loss),
            riskiest.array.raid(),
            percentage(riskiest.probability_of_loss)
        ),
        _ => String::new(),
    };
    BarChart {
        title: format!("Data loss in {} years{seen}", case.years),
        unit: "percent, probability of loss of the array, same usable capacity".into(),
        scale: AxisScale::Logarithmic,
        legend: if rows.iter().any(is_own) { vec![(1, "your choice".into())] } else { Vec::new() },
        bars: rows.iter().map(bar).collect(),
    }
}

fn curve(answer: &ReliabilityResult, axis: CurveAxis, points: &[CurvePoint]) -> Chart {
    let case = &answer.case;
    let linear = axis == CurveAxis::GroupSize;
    let place = |at: f64| if linear { at } else { at.max(f64::MIN_POSITIVE).log10() };
    let along = if linear {
        HorizontalAxis::Quantity(axis.title().into())
    } else {
        HorizontalAxis::Logarithm(axis.title().into())
    };
    let values = points.iter().map(|point| (place(point.at), point.probability_of_loss * 100.0));
    let line = ChartSeries::new(case.array.raid().to_string(), values);
    let unit = format!("percent, probability of loss of the array in {} years", case.years);
    let title = format!("{}, data loss", case.array.raid());
    let mut chart = Chart::new(title, unit, along, vec![line]).logarithmic();
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let (from, to) = (percentage(first.probability_of_loss), percentage(last.probability_of_loss));
        chart = chart.with_finding(format!(
            "{from} at {}, {to} at {} ({})",
            significant(first.at),
            significant(last.at),
            axis.title()
        ));
    }
    if let Some(own) = answer.own_array {
        let loss = percentage(answer.assessment.array.loss);
        chart.marks.push((place(own), format!("this array, {} with {loss}", significant(own))));
    }
    chart
}
