//! Renders a run's summary for a terminal.

use jetcell_input::number::{MIB, plain};
use jetcell_input::time::duration_text;
use jetcell_input::{Unit, printable};
use jetcell_workload::Verdict;
use jetcell_workload::measurement::Sample;
use jetcell_workload::result::{ReplicationSideIo, RunResult};

use crate::advice::advice;
use crate::styled_text::StyledText;
use crate::table::Tone;
use crate::tables;
use crate::text_table::{table_text, wrap, wrap_styled};

/// Renders verdict, rules, advice, throughput, and latencies on one screen, with at most `width` characters per line.
pub fn text(result: &RunResult, samples: &[Sample], width: usize) -> StyledText {
    let mut out = verdict_line(result.verdict, &result.reason, width);
    for line in advice(result, samples) {
        let arrow = StyledText::from("  ").with("→", Tone::Warning).with(" ", Tone::Neutral);
        out.append(wrap_styled(arrow, &*printable(&line), width));
    }
    out += "\n";
    let mut rules = tables::rules(result);
    // There is no room for remarks.
    rules.columns.truncate(4);
    rules.rows.iter_mut().for_each(|row| row.truncate(4));
    out.append(table_text(&rules, width));
    if result.analysis.saturation.is_some() {
        let curve = tables::curve(result);
        out += "\n";
        curve.notes.iter().for_each(|note| out.append(wrap("  ", note, width)));
        out.append(table_text(&curve, width));
    }
    for line in result_lines(result) {
        out += "\n";
        out.append(wrap("  ", &line, width));
    }
    if result.measured_seconds == 0.0 {
        return out;
    }
    let (mut of_iops, mut of_operations) = (String::new(), String::new());
    if let Some(repetitions) = &result.analysis.repetitions {
        of_iops = format!(" {}", Unit::PerSecond.half_width(repetitions.transactional_iops.half_width));
        of_operations =
            format!(" {}", Unit::PerSecond.half_width(repetitions.operations_per_second.half_width));
    }
    let rates = format!(
        "{}{of_iops} transactional I/O per second, {}{of_operations} operations per second, measured for {}",
        Unit::PerSecond.format(result.achieved_transactional_iops),
        Unit::PerSecond.format(result.operations.per_second),
        duration_text(result.measured_seconds)
    );
    out += "\n";
    out.append(wrap("  ", &rates, width));
    if let Some(all) = &result.configuration.mailboxes {
        let carried = all.supported_by(result.achieved_transactional_iops);
        let line = format!(
            "Carries {carried} mailboxes of {} with {} I/O per second each; {} were requested",
            all.quota,
            plain(all.iops_each),
            all.count
        );
        out.append(wrap("  ", &line, width));
    }
    if let Some(limit) = &result.analysis.limit {
        out.append(wrap("  ", &format!("Limited by {}: {}", limit.limiter.title(), limit.reason), width));
    }
    out += "\n";
    out.append(table_text(&tables::io_latency(result), width));
    out
}

/// Renders the verdict on a run and the reason for it.
pub fn verdict_line(verdict: Verdict, reason: &str, width: usize) -> StyledText {
    outcome_line(tables::verdict_word(verdict), tables::verdict_tone(verdict), reason, width)
}

/// Renders a word for an outcome, and the reason for it.
pub fn outcome_line(word: &str, tone: Tone, reason: &str, width: usize) -> StyledText {
    let text = StyledText::new().with(word, tone).with(&printable(&format!(": {reason}")), Tone::Neutral);
    wrap_styled("", text, width)
}

fn databases(count: usize) -> String {
    if count == 1 { "1 database".into() } else { format!("{count} databases") }
}

/// Describes the results of a test that are not results of its load.
fn result_lines(result: &RunResult) -> Vec<String> {
    let recovery = result.recovery.as_ref().map(|recovery| {
        format!(
            "{} s per log and database, {:.0} log records per second: {} recovered in {}",
            plain(recovery.seconds_per_log()),
            recovery.records_per_second(),
            databases(recovery.databases.len()),
            duration_text(recovery.seconds)
        )
    });
    let backup = result.backup.as_ref().map(|backup| {
        format!(
            "{:.1} MiB/s per database, {:.1} MiB/s for {} together: {} bad pages",
            backup.rate_per_database() / MIB,
            backup.rate() / MIB,
            databases(backup.databases.len()),
            backup.bad()
        )
    });
    let replication = result.replication.as_ref().map(|replication| {
        let ratio = |kept: bool| {
            let steady = replication.steady.as_ref()?;
            let kind = if kept { "instance kept" } else { "instance discarded" };
            let ratio = replication.ratio(steady, kept, ReplicationSideIo::transfers)?;
            Some(format!("{} ({kind})", plain((ratio * 1000.0).round() / 1000.0)))
        };
        let ratios: Vec<String> = [true, false].into_iter().filter_map(ratio).collect();
        format!("Database I/O of a copy relative to its active side: {}", ratios.join(", "))
    });
    let continued = tables::interruptions(result);
    let drifts = result
        .trends
        .iter()
        .filter(|trend| trend.drifts)
        .map(|trend| format!("Drift: {} {:+.0} % over the run", trend.figure, trend.change * 100.0));
    recovery.into_iter().chain(replication).chain(backup).chain(continued).chain(drifts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};
    use jetcell_workload::{RuleKind, VerdictRule};

    #[test]
    fn the_summary_has_verdict_rules_and_figures() {
        let text = text(&result(), &samples(3), usize::MAX).to_string();
        assert!(text.starts_with("FAIL: Average database read latency: 25 where"), "{text}");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let has_line = |words: &str| lines.contains(&words.split(' ').collect());
        assert!(has_line("Average database read latency 25.000 ≤ 20.000 BROKEN"), "{text}");
        assert!(has_line("Achieved transactional I/O per second 286.0 ≥ 256.5 held"), "{text}");
        assert!(text.contains("286.0 transactional I/O per second, 12.5 operations per second"), "{text}");
        assert!(
            has_line("database read 1,000 5.001 4.000 9.000 10.000 20.000 30.000 40.000 50.000"),
            "{text}"
        );
    }

    #[test]
    fn stored_text_cannot_control_the_terminal() {
        let mut hostile = result();
        hostile.reason = "\x1b[2J\nPASS".into();
        hostile.rules[0].name = "rule \x1b]0;title\x07".into();
        hostile.rules[0].note = "\u{9b}31m".into();
        let text = text(&hostile, &samples(3), usize::MAX).to_string();
        assert!(text.starts_with("FAIL: \\u{1b}[2J\\nPASS\n"), "{text}");
        assert!(text.contains("rule \\u{1b}]0;title\\u{7}"), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }

    #[test]
    fn doubts_and_intervals_are_shown() {
        use jetcell_workload::measurement::{ConfidenceInterval, Repetitions};
        let mut run = result();
        run.doubts = vec!["the measured time was 2 s".into()];
        run.rules[1].judged = false;
        let interval = |half_width| ConfidenceInterval { mean: 285.0, half_width };
        let (transactional_iops, database_read_ms) = (interval(4.5), interval(0.25));
        run.analysis.repetitions =
            Some(Repetitions { transactional_iops, database_read_ms, ..Repetitions::default() });
        let text = text(&run, &samples(3), usize::MAX).to_string();
        assert!(text.contains("→ Measured enough: the measured time was 2 s."), "{text}");
        assert!(text.contains("25.000 ± 0.250") && text.contains("286.0 ± 4.5 transactional I/O"), "{text}");
        assert!(text.contains("not judged"), "{text}");
    }

    #[test]
    fn percentiles_and_the_achieved_rate_have_intervals() {
        let mut run = result();
        run.analysis.repetitions = Some(crate::example::repetitions());
        run.rules[0] = VerdictRule::at_most(RuleKind::DatabaseReadP95, 20.0, 25.0, String::new());
        run.rules[1] = VerdictRule::at_least(RuleKind::LogWriteP99, 256.5, 285.979, String::new());
        let text = text(&run, &samples(3), usize::MAX).to_string();
        assert!(text.contains("25.000 ± 0.095") && text.contains("285.979 ± 0.199"), "{text}");
        assert!(text.contains("4.000 ± 0.050") && text.contains("20.000 ± 0.099"), "{text}");
        let tables = tables::all(&run, &samples(3));
        let cell = |title: &str, row: &str| {
            let table = tables.iter().find(|table| table.title == title).unwrap();
            table.rows.iter().find(|cells| cells[0].text() == row).unwrap()[1].line()
        };
        let achieved = cell("Database Sizing and Throughput", "Achieved Transactional I/O per Second");
        assert_eq!(achieved, "286.0 (± 4.5)");
        assert_eq!(cell("Operations", "operations per second"), "12.5 (± 0.5)");
    }

    #[test]
    fn a_mailbox_profile_reports_mailboxes() {
        let mut run = result();
        let quota = jetcell_workload::units::ByteSize::mib(1000);
        let mailboxes = jetcell_workload::profile::MailboxRequirement { count: 2250, iops_each: 0.12, quota };
        run.configuration.mailboxes = Some(mailboxes);
        let text = text(&run, &samples(3), usize::MAX).to_string();
        let line = "Carries 2383 mailboxes of 1000MiB with 0.12 I/O per second each; 2250 were requested";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn every_line_fits_the_width() {
        let mut run = result();
        run.reason = "a reason of many words ".repeat(10);
        run.rules[0].name =
            "Operations that were due in the measured time and were not completed before its end".into();
        run.analysis.saturation = Some(crate::example::saturation());
        for width in [60, 80, 120] {
            let text = text(&run, &samples(3), width).to_string();
            let longest = text.lines().map(jetcell_input::columns).max();
            assert!(longest <= Some(width), "{width}: {text}");
            for figure in ["30.000", "40.000", "50.000", "256.5", "BROKEN", "before its end"] {
                assert!(text.contains(figure), "{figure} at {width}: {text}");
            }
        }
    }

    #[test]
    fn a_run_without_figures_prints_a_message() {
        let mut empty = result();
        (empty.measured_seconds, empty.rules) = (0.0, Vec::new());
        assert!(text(&empty, &[], usize::MAX).to_string().contains("not judged"));
    }
}
