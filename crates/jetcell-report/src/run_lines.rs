//! Renders a list of runs with one line per run.

use jetcell_input::number::{MIB, human_bytes, plain};
use jetcell_input::time::duration_text;
use jetcell_input::{Align, Unit};
use jetcell_workload::TestKind;
use jetcell_workload::result::{ReplicationSideIo, RunResult};

use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportTable};
use crate::tables::verdict_cell;
use crate::text_table::table_text;

/// Renders a table of named runs with at most `width` characters per line.
pub fn run_lines(runs: &[(String, RunResult)], width: usize) -> StyledText {
    let columns = [
        "Run",
        "Started",
        "Test",
        "Verdict",
        "Result",
        "Read ms",
        "Log write ms",
        "Measured",
        "Databases",
        "Description",
    ];
    let mut table = ReportTable::text_columns("", &columns).aligned(4..9, Align::Right);
    for (name, run) in runs {
        let worst = |value: fn(&jetcell_workload::result::InstanceRow) -> f64| {
            ReportCell::figure(Unit::Milliseconds, run.instances.iter().map(value).fold(0.0, f64::max))
        };
        table = table.row(vec![
            name.as_str().into(),
            run.started.get(..19).unwrap_or(&run.started).into(),
            run.test.name().into(),
            verdict_cell(run.verdict, run.doubts.len()),
            headline(run).map_or_else(ReportCell::missing, ReportCell::from),
            worst(|row| row.database_reads_average_latency_ms),
            worst(|row| row.log_writes_average_latency_ms),
            duration_text(run.tested_seconds()).into(),
            human_bytes(run.final_database_bytes).into(),
            run.configuration.description.as_deref().unwrap_or_default().into(),
        ]);
    }
    table_text(&table, width)
}

/// Returns the most important figure for the run's test kind, if it was measured.
fn headline(run: &RunResult) -> Option<String> {
    Some(match run.test {
        TestKind::Performance | TestKind::Stress => {
            let unit = Unit::Iops;
            format!("{} {}", unit.format(run.achieved_transactional_iops), unit.name())
        }
        TestKind::Backup => format!("{:.1} MiB/s", run.backup.as_ref()?.rate() / MIB),
        TestKind::Recovery => format!("{} s/log", plain(run.recovery.as_ref()?.seconds_per_log())),
        TestKind::Replication => {
            let replication = run.replication.as_ref()?;
            let kept = replication.has_copies(true);
            let ratio =
                replication.ratio(replication.steady.as_ref()?, kept, ReplicationSideIo::transfers)?;
            format!("{} passive/active", plain((ratio * 1000.0).round() / 1000.0))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::result;

    #[test]
    fn each_run_is_one_line_with_figures() {
        let mut second = result();
        second.configuration.description = Some("two\nlines".into());
        let text = run_lines(&[("a/one".into(), result()), ("b".into(), second)], usize::MAX).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].contains("Result") && lines[1].contains("a/one  2026-01-02T03:04:05  performance  FAIL"),
            "{text}"
        );
        let mut doubtful = result();
        doubtful.doubts = vec!["the measured time was 2 s".into()];
        doubtful.verdict = jetcell_workload::Verdict::Pass;
        let doubtful = run_lines(&[("c".into(), doubtful)], usize::MAX).to_string();
        assert!(doubtful.contains("  PASS, 1 doubt  "), "{doubtful}");
        assert!(lines[1].contains("286.0 IOPS") && lines[2].ends_with("two\\nlines"), "{text}");
    }
}
