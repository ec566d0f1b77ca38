//! All tables in a report, in order.

mod backup;
mod energy;
mod fragmentation;
mod headline;
mod jetstress;
mod machine;
mod maintenance;
mod measured;
mod recovery;
mod replication;
mod saturation;
mod stress;

use jetcell_input::Align;
use jetcell_workload::measurement::{ConfidenceInterval, LatencyIntervals, Repetitions, Sample};
use jetcell_workload::result::RunResult;
use jetcell_workload::{RuleKind, RuleState, Verdict, VerdictRule};

use crate::table::{CellValue, ReportCell, ReportTable, Tone};

#[cfg(test)]
pub(crate) use energy::tests::measured as energy_of;
pub(crate) use headline::{headline, test_description};
pub(crate) use jetstress::{INSTANCES, jetstress_verdict_cell};
pub(crate) use measured::io_latency;
pub(crate) use saturation::curve;
pub(crate) use stress::interruptions;

/// A function that selects one confidence interval from the latency intervals for an I/O kind.
pub(crate) type IntervalSelector = fn(&LatencyIntervals) -> ConfidenceInterval;

/// Returns the word for a verdict.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Incomplete => "INCOMPLETE",
    }
}

/// Returns the tone of a verdict.
pub fn verdict_tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Pass => Tone::Good,
        Verdict::Fail => Tone::Bad,
        Verdict::Incomplete => Tone::Warning,
    }
}

/// Returns a cell with a verdict and the number of doubts about it.
pub(crate) fn verdict_cell(verdict: Verdict, doubts: usize) -> ReportCell {
    let doubts = match doubts {
        0 => String::new(),
        1 => ", 1 doubt".into(),
        count => format!(", {count} doubts"),
    };
    ReportCell::verdict(verdict_word(verdict), verdict_tone(verdict), doubts)
}

/// Returns a cell with the state of a rule.
pub fn rule_state_cell(state: RuleState) -> ReportCell {
    match state {
        RuleState::Held => ReportCell::with_judgement("held", true),
        RuleState::Broken => ReportCell::with_judgement("broken", false),
        RuleState::NotJudged => "not judged".into(),
    }
}

/// Returns the table with the verdict's rules.
pub(crate) fn rules(result: &RunResult) -> ReportTable {
    let columns = ["Measured", "Limit", "Outcome", "Remark"];
    let table = ReportTable::numbers("Rules", "Rule", columns).aligned(3.., Align::Left);
    let row = |rule: &VerdictRule| {
        vec![
            rule.name.as_str().into(),
            measured(rule, result),
            ReportCell::new(CellValue::Limit(rule.bound, rule.limit, rule.kind().unit())),
            rule_state_cell(rule.state()),
            rule.note.as_str().into(),
        ]
    };
    let table = table.rows(result.rules.iter().map(row));
    let table = match result.measured_seconds {
        _ if result.backup.is_some() => table,
        0.0 => table.note("Nothing was measured, so no performance rules apply."),
        _ => table,
    };
    table.or_note("The run was not judged: it is not complete, or was killed.")
}

/// Formats a rule's measured value, with its confidence interval if the run has repetitions.
fn measured(rule: &VerdictRule, result: &RunResult) -> ReportCell {
    if !rule.judged {
        return ReportCell::missing();
    }
    let interval = |of: fn(&Repetitions) -> ConfidenceInterval| {
        let repetitions = result.analysis.repetitions.as_ref();
        repetitions.map(|all| of(all).half_width)
    };
    let half_width = match rule.kind() {
        RuleKind::AverageDatabaseRead => interval(|all| all.database_read_ms),
        RuleKind::AverageLogWrite => interval(|all| all.log_write_ms),
        RuleKind::TransactionalIo => interval(|all| all.transactional_iops),
        RuleKind::DatabaseReadP95 => half_width_ms(result, "database_read", |latencies| latencies.p95),
        RuleKind::DatabaseReadP99 => half_width_ms(result, "database_read", |latencies| latencies.p99),
        RuleKind::LogWriteP95 => half_width_ms(result, "log_write", |latencies| latencies.p95),
        RuleKind::LogWriteP99 => half_width_ms(result, "log_write", |latencies| latencies.p99),
        _ => None,
    };
    ReportCell::figure(rule.kind().unit(), rule.measured).within(half_width)
}

/// Returns the half width of an interval for an I/O kind, in milliseconds, or `None` without repetitions.
pub(crate) fn half_width_ms(result: &RunResult, kind: &str, interval: IntervalSelector) -> Option<f64> {
    let latencies = result.analysis.repetitions.as_ref()?.latencies(kind)?;
    Some(interval(&latencies).half_width / 1_000.0)
}

/// Returns all tables after the rules: first the Jetstress report's tables under their original names, then the
/// others.
pub(crate) fn all(result: &RunResult, samples: &[Sample]) -> Vec<ReportTable> {
    let has_load = result.backup.as_ref().is_none_or(|backup| backup.cost.is_some());
    let mut tables = Vec::new();
    tables.extend(result.analysis.saturation.is_some().then(|| curve(result)));
    tables.push(jetstress::summary(result));
    // The tables of the test follow the summary, as in a Jetstress report.
    tables.extend(backup::all(result));
    tables.extend(recovery::all(result));
    tables.extend(replication::all(result));
    tables.extend(stress::all(result));
    if has_load {
        tables.push(jetstress::sizing(result));
    }
    tables.extend([jetstress::parameters(result), jetstress::databases(result)]);
    if has_load {
        tables.extend(load(result, samples));
    }
    tables.extend([energy::energy(result), fragmentation::fragmentation(result)].into_iter().flatten());
    if has_load {
        tables.push(maintenance::scan(result));
    }
    let tasks = [maintenance::defragmentation, maintenance::layout, maintenance::impact];
    tables.extend(tasks.iter().filter_map(|table| table(result)));
    if has_load {
        tables.push(measured::verification(result));
    }
    tables.extend([machine::machine(result), machine::storage(result), jetstress::log(result)]);
    tables
}

/// Returns the tables with the figures of the load and of the machine under load.
fn load(result: &RunResult, samples: &[Sample]) -> [ReportTable; 13] {
    [
        jetstress::transactional(result),
        jetstress::maintenance(result),
        jetstress::log_replication(result),
        jetstress::total(result),
        jetstress::host(result, samples),
        measured::io_latency(result),
        measured::operation_latency(result),
        measured::operations(result),
        measured::limit(result),
        measured::steady_state(result),
        measured::repetitions(result),
        measured::open_loop(result),
        measured::disks(result),
    ]
}
