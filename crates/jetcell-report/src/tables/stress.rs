//! Tables for a stress test.

use chrono::DateTime;
use jetcell_input::number::signed;
use jetcell_input::time::duration_text;
use jetcell_workload::measurement::Trend;
use jetcell_workload::result::{RunResult, TestPart};

use crate::table::{ReportCell, ReportColumn, ReportTable, Tone};

/// Returns the stress test tables, or none for other tests.
pub(super) fn all(result: &RunResult) -> Vec<ReportTable> {
    if result.parts.is_empty() { Vec::new() } else { vec![parts(result), trends(result)] }
}

/// Returns a table of the parts into which interruptions divided the run.
fn parts(result: &RunResult) -> ReportTable {
    let last = result.parts.len() - 1;
    let row = |(number, part): (usize, &TestPart)| {
        let next = result.parts.get(number + 1);
        let interruption = next.and_then(|next| seconds_between(&part.ended, &next.started));
        let of_interrupted = |seconds: Option<f64>| match seconds {
            Some(seconds) if number < last => duration_text(seconds).into(),
            _ => ReportCell::missing(),
        };
        vec![
            (number + 1).to_string().into(),
            part.started.as_str().into(),
            part.ended.as_str().into(),
            duration_text(part.measured_seconds).into(),
            of_interrupted(Some(part.missing_seconds)),
            of_interrupted(interruption),
        ]
    };
    let columns = ["Part", "Started", "Ended", "Measured", "Missing at most", "Interrupted for"];
    let table = ReportTable::text_columns("Parts of the Stress Test", &columns)
        .rows(result.parts.iter().enumerate().map(row));
    match interruptions(result) {
        None => table.note("The test was not interrupted."),
        Some(interruptions) => table.note(format!(
            "{interruptions}. Figures cover all parts together. After each interruption, the cache was \
             warmed again."
        )),
    }
}

/// Describes the number of interruptions and the time lost, in a sentence without a final period. `None` if there were
/// no interruptions.
pub(crate) fn interruptions(result: &RunResult) -> Option<String> {
    let (_, interrupted) = result.parts.split_last()?;
    let missing: f64 = interrupted.iter().map(|part| part.missing_seconds).sum();
    (!interrupted.is_empty()).then(|| {
        format!(
            "The test was interrupted {} and continued; at most about {} of its measured time is missing",
            times(interrupted.len()),
            duration_text(missing)
        )
    })
}

fn times(count: usize) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// Returns the number of seconds between two times in a result.
fn seconds_between(earlier: &str, later: &str) -> Option<f64> {
    let time = |text| DateTime::parse_from_rfc3339(text).ok();
    Some((time(later)? - time(earlier)?).as_seconds_f64().max(0.0))
}

fn trends(result: &RunResult) -> ReportTable {
    let columns = ["Median", "Change per hour", "Lower end", "Upper end", "Change over the run (%)"];
    let mut table = ReportTable::numbers("Trends over the Run", "Figure", columns);
    table.columns.push(ReportColumn::text("Finding"));
    let row = |trend: &Trend| {
        let slope = |value: f64| -> ReportCell { format!("{value:+.4}").into() };
        vec![
            trend.figure.as_str().into(),
            ReportCell::figure(trend.unit(), trend.median),
            slope(trend.per_hour),
            slope(trend.low_per_hour),
            slope(trend.high_per_hour),
            signed(trend.change * 100.0).into(),
            if trend.drifts { ReportCell::from("drift").with_tone(Tone::Warning) } else { "no drift".into() },
        ]
    };
    table
        .rows(result.trends.iter().map(row))
        .note(
            "Theil-Sen slopes over block means. The ends are those of the 95 % interval, corrected for \
             autocorrelation. A drift is a change of 5 % or more over the run whose interval excludes zero.",
        )
        .or_note("Too few samples for trends: at least 12 are required.")
}
