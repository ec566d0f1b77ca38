//! Renders a list of runs with one line per run.

use jetcell_input::number::{MIB, human_bytes, plain};
use jetcell_input::time::duration_text;
use jetcell_workload::TestKind;
use jetcell_workload::result::{ReplicationSideIo, RunResult};

use crate::number::figure_text;
use crate::table::{ReportCell, ReportColumn, ReportTable};
use crate::tables::verdict_with_doubts;
use crate::text_table::table_text;

/// Renders a table of named runs with at most `width` characters per line.
pub fn run_lines(runs: &[(String, RunResult)], width: usize) -> String {
    let column = |(name, number): (&str, bool)| ReportColumn { name: name.into(), number };
    let columns = [
        ("Run", false),
        ("Started", false),
        ("Test", false),
        ("Verdict", false),
        ("Result", true),
        ("Read ms", true),
        ("Log write ms", true),
        ("Measured", true),
        ("Databases", true),
        ("Description", false),
    ];
    let mut table = ReportTable { columns: columns.map(column).into(), ..ReportTable::default() };
    for (name, run) in runs {
        let worst = |value: fn(&jetcell_workload::result::InstanceRow) -> f64| {
            figure_text("(msec)", run.instances.iter().map(value).fold(0.0, f64::max))
        };
        table = table.row(vec![
            name.as_str().into(),
            run.started.get(..19).unwrap_or(&run.started).into(),
            run.test.name().into(),
            ReportCell::from(verdict_with_doubts(run.verdict, run.doubts.len())),
            headline(run).into(),
            worst(|row| row.database_reads_average_latency_ms).into(),
            worst(|row| row.log_writes_average_latency_ms).into(),
            duration_text(run.tested_seconds()).into(),
            human_bytes(run.final_database_bytes).into(),
            run.configuration.description.as_deref().unwrap_or_default().into(),
        ]);
    }
    table_text(&table, width)
}

/// Returns the most important figure for the run's test kind.
fn headline(run: &RunResult) -> String {
    match run.test {
        TestKind::Performance | TestKind::Stress => {
            format!("{} IOPS", figure_text("/sec", run.achieved_transactional_iops))
        }
        TestKind::Backup => match &run.backup {
            Some(backup) => format!("{:.1} MiB/s", backup.rate() / MIB),
            None => "–".into(),
        },
        TestKind::Recovery => match &run.recovery {
            Some(recovery) => format!("{} s/log", plain(recovery.seconds_per_log())),
            None => "–".into(),
        },
        TestKind::Replication => {
            let ratio = run.replication.as_ref().and_then(|replication| {
                let kept = replication.has_copies(true);
                replication.ratio(replication.steady.as_ref()?, kept, ReplicationSideIo::transfers)
            });
            ratio.map_or("–".into(), |ratio| {
                format!("{} passive/active", plain((ratio * 1000.0).round() / 1000.0))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;

    #[test]
    fn each_run_is_one_line_with_figures() {
        let mut second = result();
        second.configuration.description = Some("two\nlines".into());
        let text = run_lines(&[("a/one".into(), result()), ("b".into(), second)], usize::MAX);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].contains("Result") && lines[1].contains("a/one  2026-01-02T03:04:05  performance  FAIL"),
            "{text}"
        );
        let mut doubtful = result();
        doubtful.doubts = vec!["the measured time was 2 s".into()];
        doubtful.verdict = jetcell_workload::Verdict::Pass;
        let doubtful = run_lines(&[("c".into(), doubtful)], usize::MAX);
        assert!(doubtful.contains("  PASS, 1 doubt  "), "{doubtful}");
        assert!(lines[1].contains("286.0 IOPS") && lines[2].ends_with("two\\nlines"), "{text}");
    }
}
