//! Renders measurements as Markdown.

use std::fmt::Write;

use super::measurements::{
    FigureFn, Measurements, NOT_ASKED_FOR, cpu_seconds, durable_p99, number_at_path, operation_rate,
    write_amplification,
};
use super::rows::{RatioGoal, TableLine, lines};
use super::steps::{MIX4, MIX8};
use crate::control_group::MemoryLimitSource;
use crate::engines::ALL;

/// The page of results: an introduction and the table.
pub fn page(measurements: &Measurements) -> String {
    format!(
        "# Performance: results\n\n\
         `bench/run.sh --output docs/performance/results.md` writes this file. The [method](method.md) describes the rows,\n\
         and the [limits](limits.md) explain them.\n\n{}",
        table(measurements)
    )
}

/// The table, all engines side by side, and what is missing.
pub fn table(measurements: &Measurements) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let memory = match memory_limit(measurements) {
        Some(MemoryLimitSource::ControlGroup(bytes)) => format!("memory limit {} MiB", bytes >> 20),
        Some(MemoryLimitSource::None(why)) => format!("memory not limited: {why}"),
        None => "no store used".to_string(),
    };
    let (machine, size, rounds) = (&measurements.machine, measurements.size_mib, measurements.rounds());
    let _ = writeln!(text, "{machine}; {size} MiB of records, {memory}; medians of {rounds} rounds\n");
    let versions = measurements.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let _ = writeln!(text, "Versions: {}\n", versions.collect::<Vec<_>>().join("; "));
    text.push_str(
        "| # | what | ours | against | theirs | ratio | goal | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for line in measurements.rows.iter().flat_map(|row| lines(measurements, *row)) {
        push_line(&mut text, &line);
    }
    side_by_side(measurements, &mut text);
    scaling(measurements, &mut text);
    let checkpointed = |engine: &str| {
        measurements.figure(&format!("redo/{engine}"), |value| number_at_path(value, "/checkpointed_seconds"))
    };
    if let Some(ours) = checkpointed("jetcell") {
        let theirs = checkpointed("wiredtiger").map(|theirs| format!(" (WiredTiger: {theirs:.2} s)"));
        let theirs = theirs.unwrap_or_default();
        let _ =
            writeln!(text, "\nIn row 11, every change is in the file and durable after {ours:.2} s{theirs}.");
    }
    for (engine, why) in measurements.missing.iter().filter(|(_, why)| *why != NOT_ASKED_FOR) {
        let _ = writeln!(text, "\nMissing: {engine}: {why}");
    }
    for (step, how) in &measurements.failures {
        let _ = writeln!(text, "\nFailed: {step}: {how}");
    }
    text
}

fn push_line(text: &mut String, line: &TableLine) {
    let number =
        |value: Option<f64>, digits| value.map_or("–".to_string(), |value| format!("{value:.digits$}"));
    let goal = match line.goal {
        RatioGoal::AtLeast(goal) => format!("≥ {goal}"),
        RatioGoal::AtMost(goal) => format!("≤ {goal}"),
        RatioGoal::Absent => "–".to_string(),
    };
    let verdict = match line.ratio.map(|ratio| line.goal.is_met(ratio)) {
        None => "not measured",
        Some(Some(true)) => "met",
        Some(Some(false)) => "missed",
        Some(None) => "",
    };
    let disturbed = !line.quiet && line.ratio.is_some();
    let verdict = [verdict, if disturbed { "not quiet" } else { "" }];
    let verdict = verdict.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let against = if line.peer_name.is_empty() { "–" } else { &line.peer_name };
    let ratio = if line.peer_name.is_empty() { None } else { line.ratio };
    let (ours, theirs, ratio) =
        (number(line.ours, line.digits), number(line.peer, line.digits), number(ratio, 2));
    let (row, what) = (&line.row, &line.what);
    let _ =
        writeln!(text, "| {row} | {what} | {ours} | {against} | {theirs} | {ratio} | {goal} | {verdict} |");
}

/// The memory limit of the processes; not limited, if one of them was not.
fn memory_limit(measurements: &Measurements) -> Option<MemoryLimitSource> {
    let all = measurements.samples.values().flatten();
    let limits = all.filter_map(|sample| serde_json::from_value(sample.value["limit"].clone()).ok());
    limits.max_by_key(|limit| matches!(limit, MemoryLimitSource::None(_)))
}

/// One line for each engine and mix.
fn side_by_side(measurements: &Measurements, text: &mut String) {
    let mut body = String::new();
    for (mix, label) in [(MIX8, "8 × 1"), (MIX4, "4 × 16")] {
        for engine in ALL {
            let step = format!("{mix}/{engine}");
            let Some(rate) = measurements.figure(&step, operation_rate) else { continue };
            let value = |figure: FigureFn| measurements.figure(&step, figure).unwrap_or(0.0);
            let _ = writeln!(
                body,
                "| {engine} | {label} | {rate:.0} | {:.2} | {:.1} | {:.0} / {:.0} | {:.0} / {:.0} | {:.0} / {:.0} | {:.0} | {} |",
                value(cpu_seconds),
                value(write_amplification),
                value(|value| number_at_path(value, "/lazy_us/p50")),
                value(|value| number_at_path(value, "/lazy_us/p99")),
                value(|value| number_at_path(value, "/durable_us/p50")),
                value(durable_p99),
                value(|value| number_at_path(value, "/read_us/p50")),
                value(|value| number_at_path(value, "/read_us/p99")),
                value(|value| Some(number_at_path(value, "/peak_memory")? / 1048576.0)),
                if measurements.is_quiet(&[&step]) { "yes" } else { "no" },
            );
        }
    }
    if !body.is_empty() {
        text.push_str("\n| engine | threads × updates | operations/s | CPU s/10k | written/logical | lazy p50 / p99 µs ");
        text.push_str("| durable p50 / p99 µs | read p50 / p99 µs | peak MiB | quiet |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
        text.push_str(&body);
    }
}

/// Writes the gain from additional processors.
fn scaling(measurements: &Measurements, text: &mut String) {
    for (name, what) in [
        ("", "8 threads, 1 update: the device is the limit"),
        ("-hot", "8 threads, lazy replaces of cached records: the processors are the limit"),
    ] {
        let steps = ["all-cores", "one-core"].map(|step| format!("{step}{name}/jetcell"));
        if let Some(ratio) = measurements.ratio((&steps[0], operation_rate), (&steps[1], operation_rate)) {
            let quiet = if measurements.is_quiet(&[&steps[0], &steps[1]]) { "" } else { ", not quiet" };
            let _ = writeln!(
                text,
                "\nWith all processors, the engine executes {ratio:.2} times the operations/s of one processor ({what}){quiet}."
            );
        }
    }
}
