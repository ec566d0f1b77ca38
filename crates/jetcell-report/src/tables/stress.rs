//! The tables of a stress test.

use jetcell_workload::measurement::Trend;
use jetcell_workload::result::{Part, RunResult};

use crate::number::{plain, span};
use crate::table::{Cell, Column, Table};

/// The tables of a stress test; none for other tests.
pub(super) fn all(result: &RunResult) -> Vec<Table> {
    match result.parts.is_empty() {
        true => Vec::new(),
        false => vec![parts(result), trends(result)],
    }
}

/// The parts between interruptions.
fn parts(result: &RunResult) -> Table {
    let row = |(number, part): (usize, &Part)| {
        vec![
            (number + 1).to_string().into(),
            part.started.as_str().into(),
            part.ended.as_str().into(),
            span(part.measured_seconds).into(),
        ]
    };
    let table = Table::words("Parts of the Stress Test", &["Part", "Started", "Ended", "Measured"])
        .rows(result.parts.iter().enumerate().map(row));
    match result.parts.len() {
        1 => table.note("The test was not interrupted."),
        count => table.note(format!(
            "The test was interrupted {} times and continued. Figures are of all parts together. After an interruption \
             the cache was warmed again, and at most the last ten seconds before it are missing.",
            count - 1
        )),
    }
}

fn trends(result: &RunResult) -> Table {
    let columns = ["Median", "Change per hour", "Lower end", "Upper end", "Change over the run (%)"];
    let mut table = Table::numbers("Trends over the Run", "Figure", columns);
    table.columns.push(Column { name: "Finding".into(), number: false });
    let row = |trend: &Trend| {
        let signed = |value: f64| -> Cell { format!("{value:+.4}").into() };
        vec![
            trend.figure.as_str().into(),
            plain(trend.median).into(),
            signed(trend.per_hour),
            signed(trend.low_per_hour),
            signed(trend.high_per_hour),
            format!("{:+.1}", trend.change * 100.0).into(),
            match trend.drifts {
                true => Cell::judged("drift", false),
                false => "no drift".into(),
            },
        ]
    };
    table
        .rows(result.trends.iter().map(row))
        .note(
            "Slopes by Theil and Sen over block means; the ends are those of the 95 % interval, with a correction for \
             autocorrelation. A drift is a change whose interval excludes zero, of 5 % or more over the run.",
        )
        .or_say("Too few samples for trends: 12 are needed.")
}
