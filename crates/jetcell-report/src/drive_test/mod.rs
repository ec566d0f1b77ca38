//! Renders a drive test for a terminal and as Markdown.

mod page;

use jetcell_input::number::{human_bytes, significant};
use jetcell_input::time::duration_text;
use jetcell_input::{Align, Unit};
use jetcell_lab::drive::{
    DriveTest, StepMeasurement, StepResult, TargetKind, TargetStepResult, TestedTarget,
};
use jetcell_workload::measurement::Change;
use jetcell_workload::measurement::LatencySummary;

pub use page::drive_test_html;

use crate::markdown::tables_markdown;
use crate::number::latency_ms;
use crate::styled_text::StyledText;
use crate::table::{ReportCell, ReportColumn, ReportTable};
use crate::text_table::tables_text;

/// Explains the marks in the tables.
const MARK_EXPLANATION: &str = "Differences are in percent of the first target, with a 95 % confidence interval. Positive \
 is better: where lower is better, the sign is reversed. A target is marked as better only if its intervals against all other targets exclude \
 zero. Of twenty steps without a real difference, one may still be marked by chance.";

/// Renders a drive test's targets, figures, and remarks for a terminal, with at most `width` characters per line.
pub fn drive_test_text(test: &DriveTest, width: usize) -> StyledText {
    let tables = tables(test).into_iter().map(|table| ReportTable { notes: Vec::new(), ..table });
    tables_text(&tables.collect::<Vec<_>>(), &notes(test), width)
}

/// Renders GitHub-flavored Markdown.
pub fn drive_test_markdown(test: &DriveTest) -> String {
    tables_markdown("disk test", &tables(test), &notes(test))
}

fn tables(test: &DriveTest) -> Vec<ReportTable> {
    overview(test).into_iter().chain(details(test)).collect()
}

/// Returns tables with the targets and their costs.
pub(crate) fn overview(test: &DriveTest) -> Vec<ReportTable> {
    std::iter::once(targets(test)).chain(costs(test)).collect()
}

/// Returns tables with the measured figures.
pub(crate) fn details(test: &DriveTest) -> Vec<ReportTable> {
    let several = test.targets.len() > 1;
    std::iter::once(figures(test))
        .chain(several.then(|| differences(test)))
        .chain([latencies(test)])
        .collect()
}

pub(crate) fn notes(test: &DriveTest) -> Vec<String> {
    let machine = &test.evidence.machine;
    let mut lines = vec![format!(
        "{} × {}, Linux {}; {} of at most {} s per step, in {}{}; direct I/O with {}; the smallest transfer \
         is {}",
        machine.processors,
        machine.processor,
        machine.kernel,
        match test.options.repetitions {
            1 => "1 repetition".to_string(),
            count => format!("{count} repetitions"),
        },
        significant(test.options.seconds),
        duration_text(test.seconds),
        test.options
            .longest_seconds
            .map_or_else(String::new, |longest| format!(" of at most {}", duration_text(longest))),
        test.backend,
        human_bytes(test.smallest_transfer)
    )];
    if !test.left_out.is_empty() {
        lines
            .push(format!("The time limit expired before these steps started: {}", test.left_out.join("; ")));
    }
    if test.options.end_sync {
        lines.push("Write steps end with a sync, which is included in their time".into());
    }
    if let Some(scope) = test.options.costs.power_scope.filter(|scope| !scope.is_storage()) {
        lines.push(format!(
            "The given power was measured for {scope}; power and energy say nothing about a drive alone"
        ));
    }
    for target in &test.targets {
        if target.smallest_transfer > test.smallest_transfer {
            let smallest = human_bytes(target.smallest_transfer);
            lines.push(format!("{}: the smallest supported transfer is {smallest}", target.name));
        }
        lines.extend(target.notes.iter().map(|note| format!("{}: {note}", target.name)));
        if let Some(done) = &target.preconditioning {
            let state = if done.is_steady() { "steady" } else { "not steady" };
            lines.push(format!(
                "{}: {state} after {} rounds of random writes",
                target.name,
                done.rounds.len()
            ));
        }
    }
    for step in &test.steps {
        for (target, figure) in test.targets.iter().zip(&step.figures) {
            let wrong: u64 =
                figure.iter().flat_map(|figure| &figure.repetitions).map(|one| one.mismatches).sum();
            if wrong > 0 {
                lines.push(format!("{}: {wrong} reads did not return the data just written", target.name));
            }
        }
    }
    if test.targets.len() > 1 {
        lines.push(MARK_EXPLANATION.into());
    }
    lines
}

fn targets(test: &DriveTest) -> ReportTable {
    let row = |target: &TestedTarget| {
        let kind = match target.kind {
            TargetKind::Directory => "test file in a directory",
            TargetKind::File => "file, read-only access",
            TargetKind::OverwrittenFile => "file, overwritten",
            TargetKind::NewFile => "own file",
            TargetKind::Device => "device, read-only access",
            TargetKind::ErasedDevice => "device, overwritten",
        };
        let storage = test.evidence.machine.storage.iter().find(|storage| storage.directory == target.path);
        let mount = storage.and_then(|storage| storage.mount.as_ref());
        let mount = mount.filter(|_| !matches!(target.kind, TargetKind::Device | TargetKind::ErasedDevice));
        let mount = mount.map_or("", |mount| mount.file_system.as_str());
        let device = storage.and_then(|storage| storage.device.as_ref());
        let device = device.map_or("", |device| device.name.as_str());
        let size = human_bytes(target.bytes);
        let cells = [target.name.as_str(), kind, size.as_str(), mount, device];
        cells.into_iter().map(ReportCell::from).collect()
    };
    ReportTable::text_columns("Targets", &["Target", "Kind", "Size", "File system", "Device"])
        .rows(test.targets.iter().map(row))
}

/// Returns a table with the costs given by the user, if any.
fn costs(test: &DriveTest) -> Option<ReportTable> {
    let costs = &test.options.costs;
    let money = costs.currency.as_deref().unwrap_or("money");
    let columns = [
        format!("Price ({money})"),
        "Power (W)".into(),
        "Power of".into(),
        "Energy of a year (kWh)".into(),
        format!("Energy of a year ({money})"),
    ];
    let scope = costs.power_scope.map_or("not stated", |scope| scope.name());
    let row = |(at, target): (usize, &TestedTarget)| {
        let cell = ReportCell::figure_or_missing;
        vec![
            ReportCell::from(target.name.as_str()),
            cell(Unit::Money, costs.prices.get(at).copied()),
            cell(Unit::Watts, costs.watts.get(at).copied()),
            costs.watts.get(at).map_or_else(ReportCell::missing, |_| scope.into()),
            cell(Unit::KilowattHours, costs.energy(at).map(|energy| energy.kwh_per_year)),
            cell(Unit::Money, costs.energy(at).and_then(|energy| energy.cost_per_year)),
        ]
    };
    let table = ReportTable::numbers("Costs, as given", "Target", columns.iter().map(String::as_str))
        .rows(test.targets.iter().enumerate().map(row));
    (!costs.prices.is_empty() || !costs.watts.is_empty()).then_some(table)
}

/// Returns the difference of a target from the first target. It is positive if the target is better.
pub(crate) fn improvement(step: &StepResult, figure: Option<&TargetStepResult>) -> Option<Change> {
    Some(figure?.difference?.improvement(step.step.unit.better()))
}

/// Returns a difference from the first target with its interval.
pub(crate) fn difference(found: &Change) -> ReportCell {
    ReportCell::figure(Unit::Change, found.percent).within(found.half_width)
}

/// Formats a name with its difference from the first: `btrfs: -60.3 % ± 51.2`.
pub(crate) fn name_with_difference(name: String, difference: Option<&Change>, is_better: bool) -> String {
    let difference = difference.map(self::difference);
    let apart = difference.map(|cell| format!(": {} {}", cell.text(), cell.remark())).unwrap_or_default();
    format!("{name}{}{}", apart.trim_end(), if is_better { ", better" } else { "" })
}

fn with_unit(step: &StepResult) -> String {
    format!("{} ({})", step.step.title, step.step.unit.name())
}

fn figures(test: &DriveTest) -> ReportTable {
    let names = test.targets.iter().map(|target| target.name.as_str());
    let cell = |step: &StepResult, figure: &Option<TargetStepResult>| match figure {
        None => ReportCell::missing(),
        Some(figure) => {
            let half_width = figure.interval.map(|found| found.half_width);
            ReportCell::figure(step.step.unit.into(), figure.mean).within(half_width)
        }
    };
    let row = |step: &StepResult| {
        let figures = step.figures.iter().map(|figure| cell(step, figure));
        std::iter::once(ReportCell::from(with_unit(step))).chain(figures).collect()
    };
    ReportTable::numbers("Figures", "Step", names).rows(test.steps.iter().map(row))
}

fn differences(test: &DriveTest) -> ReportTable {
    let names = test.targets.iter().skip(1).map(|target| target.name.as_str());
    let mut table = ReportTable::numbers("Differences", "Step", names);
    table.columns.push(ReportColumn::text("Better"));
    for step in &test.steps {
        let cell = |figure: &Option<TargetStepResult>| match improvement(step, figure.as_ref()) {
            None => ReportCell::missing(),
            Some(found) => difference(&found),
        };
        let winner = step.winner.and_then(|at| test.targets.get(at));
        let winner = winner.map_or_else(ReportCell::missing, |target| target.name.as_str().into());
        let cells = step.figures.iter().skip(1).map(cell);
        let row: Vec<ReportCell> =
            std::iter::once(ReportCell::from(with_unit(step))).chain(cells).chain([winner]).collect();
        table = table.row(row);
    }
    table
}

/// Function that selects the latencies for one kind of operation.
type SummarySelector = fn(&StepMeasurement) -> &LatencySummary;

/// Returns a table with latencies. The distribution over all repetitions is not available here, so each row shows the
/// worst repetition.
fn latencies(test: &DriveTest) -> ReportTable {
    let mut table = ReportTable::numbers(
        "Latency in ms, worst repetition",
        "Step",
        ["Operation", "Median", "90 %", "99 %", "99.9 %", "Maximum"],
    );
    table = table.aligned(1..2, Align::Left);
    for step in &test.steps {
        for (target, figure) in test.targets.iter().zip(&step.figures) {
            let Some(figure) = figure else { continue };
            let kinds: [(&str, SummarySelector); 3] =
                [("read", |one| &one.reads), ("write", |one| &one.writes), ("sync", |one| &one.syncs)];
            for (kind, of) in kinds {
                let worst = |value: fn(&LatencySummary) -> u64| {
                    let values = figure.repetitions.iter().map(|one| value(of(one)));
                    latency_ms(values.max().unwrap_or(0) as f64)
                };
                if figure.repetitions.iter().all(|one| of(one).count == 0) {
                    continue;
                }
                let name = match test.targets.len() {
                    1 => step.step.title.clone(),
                    _ => format!("{}: {}", target.name, step.step.title),
                };
                let values = [
                    worst(|all| all.p50),
                    worst(|all| all.p90),
                    worst(|all| all.p99),
                    worst(|all| all.p99_9),
                    worst(|all| all.max),
                ];
                let row = [ReportCell::from(name), kind.into()].into_iter().chain(values);
                table = table.row(row.collect());
            }
        }
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use jetcell_host::Evidence;
    use jetcell_lab::drive::{
        AccessTimePoint, DriveTestOptions, SCHEMA, StepGroup, StepUnit, TargetCosts, TestStep, TransferZone,
    };
    use jetcell_workload::measurement::{ConfidenceInterval, LatencyHistogram};

    use super::*;

    pub(crate) fn example() -> DriveTest {
        let target = |name: &str| TestedTarget {
            name: name.into(),
            path: PathBuf::from(name),
            kind: TargetKind::Directory,
            bytes: 512 << 20,
            smallest_transfer: 4096,
            written: true,
            notes: vec!["a <note>".into()],
            preconditioning: None,
        };
        let step = |name: &str, title: &str, group, unit| TestStep {
            name: name.into(),
            title: title.into(),
            group,
            unit,
            size: 4096,
            depth: 1,
            reads_percent: 100,
        };
        let measured = |us: u64| {
            let mut latencies = LatencyHistogram::default();
            latencies.record_many(us, 100);
            StepMeasurement {
                seconds: 1.0,
                operations: 100,
                bytes: 100 << 20,
                reads: latencies.summary(),
                read_latencies: latencies,
                zones: (0..4)
                    .map(|at| TransferZone { offset: at * (128 << 20), bytes: 25 << 20, seconds: 0.25 })
                    .collect(),
                points: (0..9)
                    .map(|at| AccessTimePoint { offset: at << 25, ms: us as f64 / 1000.0 })
                    .collect(),
                ..StepMeasurement::default()
            }
        };
        let result = |step: TestStep, means: [f64; 2], percent: f64, significant: bool, winner| {
            let figure = |at: usize| TargetStepResult {
                mean: means[at],
                interval: Some(ConfidenceInterval { mean: means[at], half_width: means[at] / 50.0 }),
                difference: (at > 0).then_some(Change { percent, half_width: Some(3.0), significant }),
                repetitions: vec![measured(1000 * (at as u64 + 1))],
            };
            StepResult { step, figures: vec![Some(figure(0)), Some(figure(1))], winner }
        };
        DriveTest {
            schema: SCHEMA,
            evidence: Evidence { jetcell_version: "0.1.0".into(), ..Evidence::default() },
            began_unix_ms: 0,
            seconds: 75.0,
            backend: "io_uring".into(),
            smallest_transfer: 4096,
            options: DriveTestOptions {
                seconds: 3.0,
                repetitions: 4,
                zones: 4,
                precondition: false,
                end_sync: false,
                seed: 1,
                only: Vec::new(),
                longest_seconds: Some(300.0),
                costs: TargetCosts {
                    prices: vec![139.0, 249.0],
                    watts: vec![5.0],
                    power_scope: "server".parse().ok(),
                    price_per_kwh: Some(0.2),
                    currency: Some("EUR".into()),
                },
            },
            targets: vec![target("green"), target("black|\x1b")],
            steps: vec![
                result(
                    step("transfer_read", "Transfer, read", StepGroup::Transfer, StepUnit::MibPerSecond),
                    [100.0, 117.9],
                    17.9,
                    true,
                    Some(1),
                ),
                result(
                    step("access_time", "Access time, 4 KiB", StepGroup::AccessTime, StepUnit::Milliseconds),
                    [12.0, 12.1],
                    0.83,
                    false,
                    None,
                ),
            ],
            left_out: vec!["Sync of a 4 KiB write".into()],
        }
    }

    #[test]
    fn only_significant_winners_are_named_and_figures_have_intervals() {
        let text = drive_test_text(&example(), usize::MAX).to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let has_row = |words: &str| rows.contains(&words.split(' ').collect());
        assert!(has_row("Transfer, read (MiB/s) 100.0 ± 2.0 117.9 ± 2.4"), "{text}");
        assert!(has_row("Transfer, read (MiB/s) +17.9 % ± 3.0 black|\\u{1b}"), "{text}");
        assert!(has_row("Access time, 4 KiB (ms) -0.8 % ± 3.0 –"), "{text}");
        assert!(has_row("green: Transfer, read read 1.000 1.000 1.000 1.000 1.000"), "{text}");
        assert!(!text.contains('\x1b') && text.contains("green: a <note>"), "{text}");
        assert!(
            has_row("green 139.00 5.0 server 43.8 8.76") && has_row("black|\\u{1b} 249.00 – – – –"),
            "{text}"
        );
        assert!(
            text.contains("measured for the whole server; power and energy say nothing about a drive"),
            "{text}"
        );
        assert!(text.contains("expired before these steps started: Sync of a 4 KiB write"), "{text}");
        let mut old = example();
        old.options.costs.power_scope = None;
        assert!(drive_test_text(&old, usize::MAX).to_string().contains("not stated"));
    }

    #[test]
    fn markdown_has_every_table_and_escapes_text() {
        let text = drive_test_markdown(&example());
        for title in ["Targets", "Figures", "Differences", "Latency in ms, worst repetition"] {
            assert!(text.contains(&format!("## {title}\n")), "{title}");
        }
        assert!(text.contains("a \\<note>") && text.contains("black\\|"), "{text}");
    }

    #[test]
    fn a_single_target_has_no_comparison() {
        let mut alone = example();
        alone.targets.pop();
        alone.steps.iter_mut().for_each(|step| step.figures.truncate(1));
        alone.steps[0].winner = None;
        let text = drive_test_text(&alone, usize::MAX).to_string();
        assert!(!text.contains("Differences") && !text.contains("confidence"), "{text}");
    }
}
