//! Renders a comparison as text, HTML, Markdown, CSV, and JSON.

use jetcell_input::number::signed;
use jetcell_input::{Unit, columns, printable};
use jetcell_workload::measurement::RepeatedFigure;
use maud::html as markup;
use serde_json::{Value as Json, json};

use super::{
    BetterDirection, ComparisonMetric, DifferenceFinding, DifferingSetting, RunComparison, SIGN_EXPLANATION,
    label,
};
use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportColumn, ReportTable, Tone};
use crate::tables::verdict_cell;
use crate::text_table::{table_text, wrap, wrap_styled};
use crate::{markdown as md, page};

/// Version of the JSON format, incremented whenever a field is removed or changes its meaning.
const SCHEMA: u32 = 1;
/// Maximum width of a line of text, in characters.
const MAX_LINE_WIDTH: usize = 100;
/// Maximum number of runs that fit in one table. With more runs, the text shows the differences in a second table.
const MAX_RUNS_IN_ONE_TABLE: usize = 4;
const TITLE: &str = "Jetcell comparison";

/// Renders a comparison of up to eight runs as text with at most `width` characters per line.
pub fn text(comparison: &RunComparison, width: usize) -> StyledText {
    let width = width.min(MAX_LINE_WIDTH);
    let mut out = StyledText::new();
    let add = |out: &mut StyledText, table: &ReportTable| {
        out.append(table_text(table, width));
        *out += "\n";
    };
    let mut runs = runs(comparison);
    for cell in runs.rows.iter_mut().filter_map(|row| row.get_mut(1)) {
        *cell = shorten_to_end(&cell.text(), width.saturating_sub(40)).into();
    }
    add(&mut out, &runs);
    for line in &comparison.warnings {
        let mark = StyledText::from("  ").with("!", Tone::Warning).with(" ", Tone::Neutral);
        out.append(wrap_styled(mark, &*printable(line), width));
    }
    for setting in comparison.load.iter().chain(&comparison.environment) {
        out.append(wrap("    ", &format!("{}: {}", setting.name, runs_by_value(setting)), width));
    }
    out += "\n";
    let in_one_table = comparison.columns.len() <= MAX_RUNS_IN_ONE_TABLE;
    add(&mut out, &figures(comparison, in_one_table));
    if !in_one_table {
        add(&mut out, &differences(comparison));
    }
    if let Some(table) = intervals(comparison) {
        add(&mut out, &table);
    }
    out.append(wrap("  ", &notes(comparison).join(" "), width));
    out
}

/// Renders a self-contained HTML page.
pub fn html(comparison: &RunComparison) -> String {
    page::page(
        TITLE,
        &markup! {
            h1 { (TITLE) }
            (page::table(&runs(comparison)))
            @if !comparison.warnings.is_empty() {
                h2 { "Limitations" }
                ul class="advice" { @for line in &comparison.warnings { li { (line) } } }
            }
            @for table in &tables(comparison) { (page::table(table)) }
            h2 { "Over time" }
            div class="charts" { @for chart in &comparison.charts { (chart.figure()) } }
        },
    )
}

/// Renders GitHub-flavored Markdown.
pub fn markdown(comparison: &RunComparison) -> String {
    let mut out = format!("# {TITLE}\n\n{}", md::table(&runs(comparison)));
    for warning in &comparison.warnings {
        out += &format!("- {}\n", md::escaped(warning));
    }
    out.push('\n');
    tables(comparison).iter().for_each(|table| out += &md::table(table));
    out
}

/// Renders CSV with one line per figure and run. Values have all their digits.
pub fn csv(comparison: &RunComparison) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and every record has nine fields.
    let _ = writer.write_record([
        "metric",
        "unit",
        "better",
        "run",
        "value",
        "interval_low",
        "interval_high",
        "difference_percent",
        "finding",
    ]);
    for metric in &comparison.metrics {
        for (run, column) in comparison.columns.iter().enumerate() {
            let Some(value) = metric.value(run) else { continue };
            let (low, high) =
                value.interval.map(interval_bounds).map_or((None, None), |(a, b)| (Some(a), Some(b)));
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let other = run != comparison.base;
            let delta = metric.delta(comparison.base, run).filter(|_| other);
            let finding = metric.finding(comparison.base, run).filter(|_| other);
            let better = match metric.better {
                BetterDirection::Higher => "higher",
                BetterDirection::Lower => "lower",
                BetterDirection::Neither => "neither",
            };
            let _ = writer.write_record([
                metric.name.as_str(),
                metric.unit.name(),
                better,
                column.name.as_str(),
                number(Some(value.figure)).as_str(),
                number(low).as_str(),
                number(high).as_str(),
                number(delta).as_str(),
                finding.map_or("", finding_word),
            ]);
        }
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Renders JSON for use by programs.
pub fn json(comparison: &RunComparison) -> serde_json::Result<String> {
    let base = comparison.base;
    let value = |metric: &ComparisonMetric, run: usize| -> Json {
        let Some(value) = metric.value(run) else { return Json::Null };
        json!({
            "value": value.figure,
            "interval": value.interval.map(interval_bounds).map(|(low, high)| json!({ "low": low, "high": high })),
            "difference_percent": metric.delta(base, run).filter(|_| run != base),
            "finding": metric.finding(base, run).filter(|_| run != base).map(finding_word),
        })
    };
    let metric = |metric: &ComparisonMetric| {
        json!({
            "name": metric.name,
            "unit": metric.unit.name(),
            "better": metric.better,
            "values": (0..comparison.columns.len()).map(|run| value(metric, run)).collect::<Vec<_>>(),
        })
    };
    let settings = |all: &[DifferingSetting]| -> Vec<Json> {
        all.iter().map(|setting| json!({ "name": setting.name, "values": setting.values })).collect()
    };
    let run = |column: &super::ComparedRun| {
        json!({
            "name": column.name,
            "verdict": column.verdict,
            "reason": column.reason,
            "doubts": column.doubts,
            "measured_seconds": column.measured_seconds,
            "repetitions": column.repetitions,
        })
    };
    let all = json!({
        "comparison_schema_version": SCHEMA,
        "sign_convention": SIGN_EXPLANATION,
        "base": base,
        "runs": comparison.columns.iter().map(run).collect::<Vec<_>>(),
        "metrics": comparison.metrics.iter().map(metric).collect::<Vec<_>>(),
        "differing_load": settings(&comparison.load),
        "differing_environment": settings(&comparison.environment),
        "warnings": comparison.warnings,
    });
    jetcell_input::json_pretty(&all)
}

fn tables(comparison: &RunComparison) -> Vec<ReportTable> {
    let mut figures = figures(comparison, true);
    figures.notes = notes(comparison);
    let settings = |title, all: &[DifferingSetting]| {
        let rows = all
            .iter()
            .fold(ReportTable::facts(title), |table, one| table.fact(&one.name, runs_by_value(one)));
        rows.or_note("Nothing.")
    };
    let mut all = vec![figures];
    all.extend(intervals(comparison));
    all.push(settings("Differences in the load", &comparison.load));
    all.push(settings("Differences in program, machine and storage", &comparison.environment));
    all
}

fn notes(comparison: &RunComparison) -> Vec<String> {
    let mut notes = vec![format!("The base is {}. {SIGN_EXPLANATION}", label(comparison.base))];
    if intervals(comparison).is_some() {
        notes.push(
            "Each interval contains the mean of the repetitions with 95 % confidence. A difference that noise \
             could explain (Welch's t test, 95 %) is in parentheses."
                .into(),
        );
    }
    notes
}

fn runs(comparison: &RunComparison) -> ReportTable {
    let row = |(number, column): (usize, &super::ComparedRun)| {
        let base = if number == comparison.base { "base" } else { "" };
        let verdict = verdict_cell(column.verdict, column.doubts.len());
        let measured = jetcell_input::time::duration_text(column.measured_seconds);
        vec![label(number).into(), column.name.as_str().into(), base.into(), verdict, measured.into()]
    };
    ReportTable::text_columns("Runs", &["Run", "Name", "", "Verdict", "Measured"])
        .rows(comparison.columns.iter().enumerate().map(row))
}

/// Returns a table with the figures, optionally with the difference next to each figure.
fn figures(comparison: &RunComparison, with_differences: bool) -> ReportTable {
    let base = comparison.base;
    let mut table = ReportTable::numbers("Figures", "Figure", []);
    for run in 0..comparison.columns.len() {
        table.columns.push(ReportColumn::numbers(label(run)));
        if with_differences && run != base {
            table.columns.push(ReportColumn::numbers("diff %"));
        }
    }
    table.rows(comparison.metrics.iter().map(|metric| {
        let mut row = vec![name(metric).into()];
        for run in 0..comparison.columns.len() {
            row.push(
                metric
                    .value(run)
                    .map_or_else(ReportCell::missing, |value| ReportCell::figure(metric.unit, value.figure)),
            );
            if with_differences && run != base {
                row.push(difference(metric, base, run));
            }
        }
        row
    }))
}

/// Returns a table with only the differences.
fn differences(comparison: &RunComparison) -> ReportTable {
    let others = || (0..comparison.columns.len()).filter(|run| *run != comparison.base);
    let mut table = ReportTable::numbers("Differences", "Difference in %", []);
    table.columns.extend(others().map(label).map(ReportColumn::numbers));
    table.rows(comparison.metrics.iter().map(|metric| {
        let cells = others().map(|run| difference(metric, comparison.base, run));
        std::iter::once(name(metric).into()).chain(cells).collect()
    }))
}

/// Returns a table that compares each run's interval with that of the base, or `None` if there are no intervals.
fn intervals(comparison: &RunComparison) -> Option<ReportTable> {
    let mut table = ReportTable::text_columns(
        "Confidence intervals of 95 %",
        &["Figure", "Run", "Its interval", "That of the base", "Finding"],
    );
    for metric in &comparison.metrics {
        for run in (0..comparison.columns.len()).filter(|run| *run != comparison.base) {
            let Some(finding) = metric.finding(comparison.base, run) else { continue };
            let interval = |run: usize| {
                let (low, high) = metric.value(run)?.interval.map(interval_bounds)?;
                Some(format!("{} … {}", metric.unit.format(low), metric.unit.format(high)))
            };
            let (own, base) = (interval(run), interval(comparison.base));
            let cells = [name(metric), label(run), own.unwrap_or_default(), base.unwrap_or_default()];
            let row = cells.into_iter().chain([finding_word(finding).to_string()]);
            table.rows.push(row.map(ReportCell::from).collect());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn name(metric: &ComparisonMetric) -> String {
    let arrow = match metric.better {
        BetterDirection::Higher => '↑',
        BetterDirection::Lower => '↓',
        BetterDirection::Neither => '·',
    };
    match metric.unit {
        Unit::Count | Unit::PerLog => format!("{} {arrow}", metric.name),
        unit if unit.name().is_empty() => format!("{} {arrow}", metric.name),
        unit => format!("{} ({}) {arrow}", metric.name, unit.name()),
    }
}

/// Formats a difference. It is coloured only if the repetitions show that there is one.
fn difference(metric: &ComparisonMetric, base: usize, run: usize) -> ReportCell {
    let Some(delta) = metric.delta(base, run) else { return ReportCell::missing() };
    let percent = signed(delta);
    match metric.finding(base, run) {
        Some(DifferenceFinding::NotShown) => format!("({percent})").into(),
        Some(DifferenceFinding::Different) if metric.better != BetterDirection::Neither => {
            ReportCell::with_judgement(percent, delta > 0.0)
        }
        _ => percent.into(),
    }
}

const fn finding_word(finding: DifferenceFinding) -> &'static str {
    match finding {
        DifferenceFinding::Different => "different",
        DifferenceFinding::NotShown => "no difference shown",
    }
}

const fn interval_bounds(found: RepeatedFigure) -> (f64, f64) {
    let interval = found.interval;
    (interval.mean - interval.half_width, interval.mean + interval.half_width)
}

/// Lists a setting's values with the runs that have them: `4 (run 1, run 3), 8 (run 2)`.
fn runs_by_value(setting: &DifferingSetting) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (run, value) in setting.values.iter().enumerate() {
        match groups.iter_mut().find(|(other, _)| other == value) {
            Some((_, runs)) => runs.push(label(run)),
            None => groups.push((value, vec![label(run)])),
        }
    }
    let value_with_runs = |(value, runs): &(&str, Vec<String>)| {
        let value = if value.is_empty() { "not set" } else { value };
        format!("{value} ({})", runs.join(", "))
    };
    groups.iter().map(value_with_runs).collect::<Vec<_>>().join("; ")
}

/// Shortens a name by removing its start, because paths usually differ at the end.
fn shorten_to_end(name: &str, width: usize) -> String {
    if columns(name) <= width {
        return name.into();
    }
    let mut ends = name.char_indices().filter_map(|(at, _)| name.get(at..));
    format!("…{}", ends.find(|end| columns(end) < width).unwrap_or_default())
}
