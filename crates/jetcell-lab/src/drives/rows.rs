//! Summary rows: the quantities measured on each drive.

use jetcell_workload::RunResult;
use jetcell_workload::measurement::{
    BetterDirection, Change, ConfidenceInterval, RepeatedFigure, Repetitions,
};
use jetcell_workload::result::InstanceRow;
use serde::Serialize;

use crate::drive::{DriveTest, StepGroup, StepResult};

/// A row in the summary of a drive comparison: one figure per drive, or the mean advantage over similar
/// steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveRow {
    /// Name of the measured quantity.
    pub title: String,
    /// Unit of the figures. Empty if the row has only percentages.
    pub unit: String,
    /// Whether higher or lower figures are better.
    pub better: BetterDirection,
    /// Figure for each drive. `None` if it was not measured or the row combines several steps.
    pub figures: Vec<Option<f64>>,
    /// Advantage of each drive over the first in percent. Positive values are better. `None` for the first drive.
    pub advantages: Vec<Option<f64>>,
    /// Number of steps that the row combines.
    pub steps: usize,
    /// Number of undecided steps, summed over the drives. A step is undecided if the difference is not significant or
    /// it ran only once, so noise could explain the difference.
    pub undecided_steps: usize,
    /// True if the row is included in the mean advantage.
    pub in_mean: bool,
}

impl DriveRow {
    /// Creates a row from one figure per drive, each with a confidence interval if it was measured more than once.
    /// `alternated` returns the change from the first drive to another if their repetitions alternated.
    pub(super) fn from_figures(
        title: &str,
        unit: &str,
        better: BetterDirection,
        values: &[Option<(f64, Option<RepeatedFigure>)>],
        alternated: &dyn Fn(usize) -> Option<Change>,
        in_mean: bool,
    ) -> Option<DriveRow> {
        let base = values.first().copied().flatten()?;
        let mut undecided_steps = 0;
        let advantage = |(at, value): (usize, &Option<(f64, Option<RepeatedFigure>)>)| {
            let (figure, interval) = value.filter(|_| at > 0)?;
            let percent = better.percent(base.0, figure)?;
            let independent = || Change::independent(base.1?, interval?);
            let change = alternated(at).or_else(independent);
            undecided_steps += usize::from(!change.is_some_and(|change| change.significant));
            Some(percent)
        };
        let advantages: Vec<Option<f64>> = values.iter().enumerate().map(advantage).collect();
        advantages.iter().any(Option::is_some).then(|| DriveRow {
            title: title.into(),
            unit: unit.into(),
            better,
            figures: values.iter().map(|value| value.map(|(figure, _)| figure)).collect(),
            advantages,
            steps: 1,
            undecided_steps,
            in_mean,
        })
    }

    /// Combines several rows into a row with their mean advantage.
    fn mean(title: String, rows: &[DriveRow]) -> Option<DriveRow> {
        let drives = rows.first()?.advantages.len();
        let advantage = |at: usize| {
            let all: Option<Vec<f64>> = rows.iter().map(|row| row.advantages[at]).collect();
            all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        Some(DriveRow {
            title,
            unit: String::new(),
            better: BetterDirection::Higher,
            figures: vec![None; drives],
            advantages: (0..drives).map(advantage).collect(),
            steps: rows.len(),
            undecided_steps: rows.iter().map(|row| row.undecided_steps).sum(),
            in_mean: true,
        })
    }
}

/// Figures from a performance test, with confidence intervals where known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunFigures {
    /// Database reads and writes per second.
    pub transactional_iops: (f64, Option<RepeatedFigure>),
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: Option<(f64, Option<RepeatedFigure>)>,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: Option<(f64, Option<RepeatedFigure>)>,
}

impl RunFigures {
    /// Returns the figures of a run. The latencies are those of the slowest instance.
    pub fn from_run(run: &RunResult) -> RunFigures {
        let repetitions = run.analysis.repetitions.as_ref();
        let slowest = |value: fn(&InstanceRow) -> f64| run.instances.iter().map(value).fold(0.0, f64::max);
        let repeated = |interval: fn(&Repetitions) -> ConfidenceInterval| {
            repetitions.map(|all| RepeatedFigure { interval: interval(all), repetitions: all.each.len() })
        };
        RunFigures {
            transactional_iops: (run.achieved_transactional_iops, repeated(|all| all.transactional_iops)),
            database_read_ms: Some((
                slowest(|row| row.database_reads_average_latency_ms),
                repeated(|all| all.database_read_ms),
            )),
            log_write_ms: Some((
                slowest(|row| row.log_writes_average_latency_ms),
                repeated(|all| all.log_write_ms),
            )),
        }
    }
}

/// Function that selects one figure from a run's figures.
type RunFigureSelector = fn(&RunFigures) -> Option<(f64, Option<RepeatedFigure>)>;

/// Returns the rows for the drives' performance tests. Latencies are not included in the mean, because with a fixed
/// number of threads they follow from the rate.
pub fn run_rows(runs: &[Option<RunFigures>]) -> Vec<DriveRow> {
    let figures: [(&str, &str, BetterDirection, RunFigureSelector, bool); 3] = [
        (
            "Mail load, transactional I/O",
            "1/s",
            BetterDirection::Higher,
            |run| Some(run.transactional_iops),
            true,
        ),
        ("Mail load, database read", "ms", BetterDirection::Lower, |run| run.database_read_ms, false),
        ("Mail load, log write", "ms", BetterDirection::Lower, |run| run.log_write_ms, false),
    ];
    let row =
        |(title, unit, better, value, in_mean): (&str, &str, BetterDirection, RunFigureSelector, bool)| {
            let values: Vec<_> = runs.iter().map(|run| run.as_ref().and_then(value)).collect();
            DriveRow::from_figures(title, unit, better, &values, &|_| None, in_mean)
        };
    figures.into_iter().filter_map(row).collect()
}

/// Returns the rows for the drives' tests. Each entry consists of a test and the index of the drive's target in it.
/// Similar steps are combined into one row; otherwise, groups with many steps would outweigh the others.
pub fn test_rows(tests: &[Option<(&DriveTest, usize)>]) -> Vec<DriveRow> {
    let Some(steps) = tests.iter().flatten().map(|(test, _)| &test.steps).max_by_key(|steps| steps.len())
    else {
        return Vec::new();
    };
    // Targets of one test were measured in interleaved turns.
    let first = tests.first().copied().flatten().map(|(test, _)| test);
    let same_test: Vec<bool> =
        tests.iter().map(|test| first.is_some() && test.map(|(test, _)| test) == first).collect();
    let mut groups: Vec<(String, Vec<DriveRow>)> = Vec::new();
    for step in steps {
        let result = |at: usize| {
            let (test, target) = tests.get(at).copied().flatten()?;
            Some((test.steps.iter().find(|other| other.step.name == step.step.name)?, target))
        };
        let values: Vec<_> = (0..tests.len())
            .map(|at| result(at).and_then(|(result, target)| result.figure(target)))
            .collect();
        let alternated = |at: usize| {
            let ((base, from), (_, to)) = (result(0)?, result(at)?);
            same_test.get(at)?.then(|| base.change(from, to)).flatten()
        };
        let unit = step.step.unit;
        let row =
            DriveRow::from_figures(&step.step.title, unit.name(), unit.better(), &values, &alternated, true);
        let Some(row) = row else {
            continue;
        };
        let title = group(step);
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((title, vec![row])),
        }
    }
    let row = |(title, mut rows): (String, Vec<DriveRow>)| match rows.len() {
        1 => rows.pop(),
        _ => DriveRow::mean(title, &rows),
    };
    groups.into_iter().filter_map(row).collect()
}

/// Returns the title of the row in which a step is combined with similar steps.
fn group(step: &StepResult) -> String {
    let kind = if step.step.reads_percent == 0 { "writes" } else { "reads" };
    match step.step.group {
        StepGroup::BySize => format!("Random {kind}, all sizes"),
        StepGroup::QueueDepth => format!("4 KiB {kind}, all depths"),
        StepGroup::Mixed => "Mixed loads".into(),
        _ => step.step.title.clone(),
    }
}

#[cfg(test)]
mod tests {
    use jetcell_host::Evidence;
    use jetcell_workload::measurement::ConfidenceInterval;

    use super::*;
    use crate::drive::{DriveTestOptions, StepMeasurement, StepUnit, TargetCosts, TestStep};

    fn around(mean: f64, half_width: f64) -> Option<(f64, Option<RepeatedFigure>)> {
        let interval = ConfidenceInterval { mean, half_width };
        Some((mean, Some(RepeatedFigure { interval, repetitions: 5 })))
    }

    #[test]
    fn the_sign_of_an_advantage_shows_the_better_drive() {
        let row =
            |better, values: &[_]| DriveRow::from_figures("t", "u", better, values, &|_| None, true).unwrap();
        let rate = row(BetterDirection::Higher, &[around(100.0, 1.0), around(117.9, 1.0), None]);
        assert_eq!(rate.advantages[0], None);
        assert!((rate.advantages[1].unwrap() - 17.9).abs() < 1e-9 && rate.advantages[2].is_none());
        assert_eq!((rate.undecided_steps, rate.figures[2]), (0, None));
        let latency = row(BetterDirection::Lower, &[around(17.6, 7.0), around(12.0, 7.0)]);
        assert!((latency.advantages[1].unwrap() - 31.818).abs() < 1e-3);
        assert_eq!(latency.undecided_steps, 1, "the difference is not significant");
        let none = |values: &[_]| {
            DriveRow::from_figures("t", "u", BetterDirection::Lower, values, &|_| None, true).is_none()
        };
        assert!(none(&[None, around(1.0, 0.0)]) && none(&[around(0.0, 0.0), around(1.0, 0.0)]));
        let partly =
            row(BetterDirection::Lower, &[around(1.0, 0.0), around(2.0, 0.0), around(f64::NAN, 9.0)]);
        assert_eq!((partly.advantages[2], partly.undecided_steps), (None, 0), "no percentage, no doubt");
    }

    #[test]
    fn alternating_targets_of_one_test_are_compared_turn_by_turn() {
        // The machine slows down by half, but the second target is 5 % faster in every turn.
        let step = TestStep {
            name: "random_read_4k".into(),
            title: "Random, read".into(),
            group: StepGroup::FourKib,
            unit: StepUnit::Iops,
            size: 4096,
            depth: 1,
            reads_percent: 100,
        };
        let turn =
            |operations: u64| StepMeasurement { seconds: 1.0, operations, ..StepMeasurement::default() };
        let turns = |factor: u64| [100, 80, 60, 50].map(|operations| turn(operations * factor)).to_vec();
        let steps = vec![StepResult::from_repetitions(step, vec![turns(20), turns(21)])];
        let costs = TargetCosts::default();
        let test = DriveTest {
            schema: crate::drive::SCHEMA,
            evidence: Evidence::default(),
            began_unix_ms: 0,
            seconds: 1.0,
            backend: "simulated".into(),
            smallest_transfer: 4096,
            options: DriveTestOptions {
                seconds: 1.0,
                repetitions: 4,
                zones: 1,
                precondition: false,
                end_sync: false,
                seed: 1,
                only: Vec::new(),
                longest_seconds: None,
                costs,
            },
            targets: Vec::new(),
            steps,
            left_out: Vec::new(),
        };
        let undecided = |other: &DriveTest| {
            let rows = test_rows(&[Some((&test, 0)), Some((other, 1))]);
            assert!((rows[0].advantages[1].unwrap() - 5.0).abs() < 1e-9);
            rows[0].undecided_steps
        };
        assert_eq!(undecided(&test.clone()), 0);
        let other_test = DriveTest { began_unix_ms: 1, ..test.clone() };
        assert_eq!(undecided(&other_test), 1, "targets of different tests did not alternate");
    }

    #[test]
    fn similar_steps_share_one_row() {
        let rows = [(100.0, 110.0), (10.0, 13.0)].map(|(one, other)| {
            DriveRow::from_figures(
                "t",
                "u",
                BetterDirection::Higher,
                &[around(one, 20.0), around(other, 0.1)],
                &|_| None,
                true,
            )
            .unwrap()
        });
        let mean = DriveRow::mean("both".into(), &rows).unwrap();
        assert!((mean.advantages[1].unwrap() - 20.0).abs() < 1e-9);
        assert_eq!((mean.steps, mean.undecided_steps, mean.advantages[0]), (2, 2, None));
    }
}
