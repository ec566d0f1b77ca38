//! Tables about maintenance that runs concurrently with the load.

use jetcell_input::Unit;
use jetcell_input::number::{decimal, signed};
use jetcell_workload::measurement::{ConfidenceInterval, DefragSummary, TaskImpact};
use jetcell_workload::result::RunResult;

use crate::number::bytes;
use crate::table::{ReportCell, ReportTable};

pub(super) fn scan(result: &RunResult) -> ReportTable {
    let columns = [
        "Complete passes",
        "Pages",
        "Bytes",
        "Empty",
        "Read again",
        "Zeroed",
        "Pages Zeroed/sec",
        "Corrected bits",
        "Bad",
    ];
    let rows = result.scan.iter().map(|scan| {
        vec![
            scan.database.display().to_string().into(),
            ReportCell::count(scan.passes),
            ReportCell::count(scan.pages),
            bytes(scan.bytes),
            ReportCell::count(scan.uninitialized),
            ReportCell::count(scan.examined_again),
            ReportCell::count(scan.zeroed),
            ReportCell::figure(Unit::PerSecond, scan.zeroed_per_second()),
            ReportCell::count(scan.corrected).bad_if(scan.corrected > 0),
            ReportCell::count(scan.bad).bad_if(scan.bad > 0),
        ]
    });
    let mut table = ReportTable::numbers("Background Checksum Scan", "Database", columns).rows(rows);
    for finding in result.scan.iter().flat_map(|scan| &scan.findings) {
        table = table.note(finding.as_str());
    }
    table.or_note(if result.configuration.scan {
        "The run did not complete."
    } else {
        "Not run: the checksum scan was off."
    })
}

/// Returns the defragmentation table, for runs with defragmentation. Jetstress runs have none.
pub(super) fn defragmentation(result: &RunResult) -> Option<ReportTable> {
    let columns =
        ["Pages Read/sec", "Pages Freed/sec", "Pages read", "Pages freed", "Complete passes", "Skipped"];
    let compactions = || result.defragmentation.iter().filter(|summary| !summary.sequential_layout);
    let rows = compactions().map(|defragmentation| {
        vec![
            defragmentation.database.display().to_string().into(),
            ReportCell::figure(Unit::PerSecond, defragmentation.read_per_second()),
            ReportCell::figure(Unit::PerSecond, defragmentation.freed_per_second()),
            ReportCell::count(defragmentation.pages_read),
            ReportCell::count(defragmentation.pages_freed),
            ReportCell::count(defragmentation.passes),
            ReportCell::count(defragmentation.skipped),
        ]
    });
    let mut table = ReportTable::numbers("Online Defragmentation", "Database", columns).rows(rows);
    for summary in compactions().filter(|summary| summary.pages_read > 0) {
        table = table.note(format!("{}: {}.", summary.database.display(), summary.advice()));
    }
    result.configuration.defrag.then(|| table.or_note("The run did not complete."))
}

/// Returns the layout table, for runs with a sequential layout.
pub(super) fn layout(result: &RunResult) -> Option<ReportTable> {
    let columns =
        ["Pages Moved/sec", "Pages read", "Pages moved", "Pages freed", "Complete passes", "Skipped"];
    let row = |layout: &DefragSummary| {
        vec![
            layout.database.display().to_string().into(),
            ReportCell::figure(Unit::PerSecond, layout.moved_per_second()),
            ReportCell::count(layout.pages_read),
            ReportCell::count(layout.pages_moved),
            ReportCell::count(layout.pages_freed),
            ReportCell::count(layout.passes),
            ReportCell::count(layout.skipped),
        ]
    };
    let layouts = result.defragmentation.iter().filter(|summary| summary.sequential_layout);
    let table = ReportTable::numbers("Sequential Layout", "Database", columns).rows(layouts.map(row));
    result.configuration.layout.then(|| table.or_note("The run did not complete."))
}

/// Returns the cost table, for runs that measure what each maintenance task costs.
pub(super) fn impact(result: &RunResult) -> Option<ReportTable> {
    let columns = [
        "Turns",
        "Transactional I/O per second",
        "I/O difference (%)",
        "Database read, average (msec)",
        "Read difference (%)",
        "Log write, average (msec)",
        "Log write difference (%)",
    ];
    let row = |task: &TaskImpact| {
        let name = if task.tasks.is_none() { "load alone".to_string() } else { task.tasks.to_string() };
        let mut row: Vec<ReportCell> = vec![name.into(), ReportCell::count(task.turns as u64)];
        for (unit, mean, percent) in [
            (Unit::PerSecond, task.transactional_iops, task.iops_percent),
            (Unit::Milliseconds, task.database_read_ms, task.read_percent),
            (Unit::Milliseconds, task.log_write_ms, task.log_write_percent),
        ] {
            row.push(ReportCell::figure(unit, mean.mean).within(Some(mean.half_width)));
            row.push(if task.tasks.is_none() { ReportCell::default() } else { difference(&percent) });
        }
        row
    };
    let table = ReportTable::numbers("Maintenance Impact", "Maintenance", columns)
        .rows(result.analysis.maintenance_impact.iter().map(row))
        .note(
            "Each turn is compared with the load-only turn of the same round. Intervals use Student's t \
             over the rounds. A difference whose interval contains 0 is not significant.",
        );
    result
        .configuration
        .maintenance_impact
        .then(|| table.or_note("Fewer than two rounds of turns were measured."))
}

fn difference(percent: &ConfidenceInterval) -> ReportCell {
    let text = format!("{} ± {}", signed(percent.mean), decimal(percent.half_width, 1));
    ReportCell::from(if percent.excludes_zero() { text } else { format!("{text}, not significant") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;

    #[test]
    fn significant_differences_are_marked() {
        let mut result = result();
        assert!(impact(&result).is_none() && layout(&result).is_none());
        result.configuration.maintenance_impact = true;
        let tasks = "scan,zero".parse().unwrap();
        let interval = |mean, half_width| ConfidenceInterval { mean, half_width };
        result.analysis.maintenance_impact = vec![
            TaskImpact { turns: 3, transactional_iops: interval(1000.0, 20.0), ..TaskImpact::default() },
            TaskImpact {
                tasks,
                turns: 3,
                iops_percent: interval(-9.84, 2.0),
                read_percent: interval(3.0, 5.5),
                ..TaskImpact::default()
            },
        ];
        let table = impact(&result).unwrap();
        let cells: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(ReportCell::line).collect()).collect();
        assert_eq!((cells[0][0].as_str(), cells[0][3].as_str()), ("load alone", ""));
        assert!(cells[0][2].contains("± 20"), "{cells:?}");
        assert_eq!(cells[1][0], "scan,zero");
        assert_eq!(
            (cells[1][3].as_str(), cells[1][5].as_str()),
            ("-9.8 ± 2.0", "+3.0 ± 5.5, not significant")
        );
    }
}
