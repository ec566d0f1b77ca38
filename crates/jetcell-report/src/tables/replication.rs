//! Tables for a replication test.

use jetcell_input::Unit;
use jetcell_input::number::{human_bytes, plain};
use jetcell_workload::result::{
    MissingLogAmount, ReplicationPart, ReplicationSideIo, ReplicationTestResult, RunResult, SideFigure,
};

use crate::table::{ReportCell, ReportTable};

/// Published ratios of a passive copy's I/O to the active side's for Exchange 2007. With a persistent instance, they
/// apply since SP1, and otherwise to versions before SP1.
const PUBLISHED_RATIOS: [(bool, &str); 2] = [(true, "0.5 to 1"), (false, "2 to 3")];

/// Figures available for both sides.
const FIGURES: [(&str, SideFigure); 6] = [
    ("Database reads and writes", ReplicationSideIo::transfers),
    ("Database reads", |io| io.database_reads),
    ("Database writes", |io| io.database_writes),
    ("Database bytes", |io| io.database_bytes),
    ("Log reads", |io| io.log_reads),
    ("Log writes", |io| io.log_writes),
];

/// Returns the copies' tables, or none for other tests.
pub(super) fn all(result: &RunResult) -> Vec<ReportTable> {
    let Some(replication) = &result.replication else { return Vec::new() };
    let part =
        |title: &str, part: &Option<ReplicationPart>| part.as_ref().map(|part| io(title, replication, part));
    let steady = part("Passive I/O in Steady State", &replication.steady);
    let behind = part("Passive I/O during Catch-up", &replication.catch_up);
    let ends = [missing_log(replication), copies(replication)];
    [ratios(replication)].into_iter().chain(steady).chain(behind).chain(ends).collect()
}

fn kind(keep_instance: bool) -> &'static str {
    if keep_instance { "Instance kept (SP1)" } else { "Instance discarded (RTM)" }
}

/// Returns the test's most important figure next to the published value.
fn ratios(replication: &ReplicationTestResult) -> ReportTable {
    let ratio = |part: &Option<ReplicationPart>, kept| {
        let ratio =
            part.as_ref().and_then(|part| replication.ratio(part, kept, ReplicationSideIo::transfers));
        ReportCell::figure_or_missing(Unit::Ratio, ratio)
    };
    let row = |(kept, published): (bool, &str)| {
        vec![
            ReportCell::from(kind(kept)),
            ratio(&replication.steady, kept),
            ratio(&replication.catch_up, kept),
            published.into(),
        ]
    };
    let kinds = PUBLISHED_RATIOS.into_iter().filter(|(kept, _)| replication.has_copies(*kept));
    ReportTable::numbers("Passive I/O over Active I/O", "Copies", ["Steady state", "Catch-up", "Published"])
        .rows(kinds.map(row))
        .note(format!(
            "Database reads and writes of one copy, divided by those of its active side over the same time. \
             Each copy had {} of cache, the same as its database, and a checkpoint depth of {}.",
            human_bytes(replication.cache_bytes),
            human_bytes(replication.checkpoint_depth)
        ))
}

/// Returns a table of I/O per second on both sides in one part of the test.
fn io(title: &str, replication: &ReplicationTestResult, part: &ReplicationPart) -> ReportTable {
    let rate = |count: f64| count / part.seconds.max(0.001);
    let of_kind = |kept: bool, figure: SideFigure| {
        let one = replication.per_copy(part, kept, figure).map(rate);
        [(Unit::PerSecond, one), (Unit::Ratio, replication.ratio(part, kept, figure))]
            .map(|(unit, value)| ReportCell::figure_or_missing(unit, value))
    };
    let row = |(name, figure): (&str, SideFigure)| {
        let [kept, kept_ratio] = of_kind(true, figure);
        let [thrown, thrown_ratio] = of_kind(false, figure);
        let active = ReportCell::figure(Unit::PerSecond, rate(figure(&part.active) as f64));
        vec![ReportCell::from(name), active, kept, kept_ratio, thrown, thrown_ratio]
    };
    let columns = ["Active side", "Kept", "Kept / active", "Discarded", "Discarded / active"];
    ReportTable::numbers(title, "Per second", columns).rows(FIGURES.into_iter().map(row)).note(format!(
        "{} generations were closed in {} s.",
        part.generations,
        plain((part.seconds * 10.0).round() / 10.0)
    ))
}

/// Returns a table that shows how much log data a failover would have lost.
fn missing_log(replication: &ReplicationTestResult) -> ReportTable {
    let missing = |part: &Option<ReplicationPart>, kept: bool, figure: fn(&MissingLogAmount) -> u64| {
        let missing = part.as_ref().and_then(|part| replication.missing_log(part, kept));
        let kib = missing.map(|missing| figure(&missing) as f64 / 1024.0);
        ReportCell::figure_or_missing(Unit::Kibibytes, kib)
    };
    let row = |(kept, _): (bool, &str)| {
        let streamed = replication.steady.as_ref().and_then(|part| replication.streamed_share(part, kept));
        vec![
            ReportCell::from(kind(kept)),
            missing(&replication.steady, kept, |missing| missing.mean_bytes),
            missing(&replication.steady, kept, |missing| missing.most_bytes),
            missing(&replication.catch_up, kept, |missing| missing.mean_bytes),
            missing(&replication.catch_up, kept, |missing| missing.most_bytes),
            ReportCell::figure_or_missing(Unit::Percent, streamed.map(|share| share * 100.0)),
        ]
    };
    let columns = [
        "Steady, mean (KiB)",
        "Steady, most (KiB)",
        "Catch-up, mean (KiB)",
        "Catch-up, most (KiB)",
        "Arrived as it was written (%)",
    ];
    let mode = if replication.is_in_block_mode() {
        "In block mode, the current log is sent ten times a second"
    } else {
        "In file mode, a log is sent when it is closed"
    };
    let kinds = PUBLISHED_RATIOS.into_iter().filter(|(kept, _)| replication.has_copies(*kept));
    ReportTable::numbers("Log Missing on the Copies", "Copies", columns).rows(kinds.map(row)).note(format!(
        "Log that was durable on the active side but not on the copy, sampled ten times a second. A \
         failover would have lost it. {mode}."
    ))
}

fn copies(replication: &ReplicationTestResult) -> ReportTable {
    let columns = [
        "Copy of",
        "Mode",
        "Instance",
        "Logs replayed",
        "Most generations behind",
        "Longest lag in seconds",
        "State",
    ];
    let row = |copy: &jetcell_workload::result::ReplicatedCopy| {
        vec![
            ReportCell::from(copy.directory.display().to_string().as_str()),
            copy.instance.as_str().into(),
            if copy.stream_log { "block" } else { "file" }.into(),
            if copy.keep_instance { "kept" } else { "discarded" }.into(),
            ReportCell::count(copy.logs),
            ReportCell::count(copy.most_behind),
            ReportCell::count(copy.longest_lag_seconds),
            copy.failure.as_deref().unwrap_or("followed").into(),
        ]
    };
    ReportTable::numbers("Copies", "Directory", columns)
        .rows(replication.copies.iter().map(row))
        .note("Queues and lag while the copies were not suspended. The copies were removed at the end.")
}
