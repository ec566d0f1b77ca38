//! Summary rows: the quantities measured on each drive.

use jetcell_workload::RunResult;
use jetcell_workload::measurement::{BetterDirection, ConfidenceInterval};
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
    /// Number of undecided steps, summed over the drives. A step is undecided if the 95 % confidence intervals
    /// overlap or it ran only once, so noise could explain the difference.
    pub undecided_steps: usize,
    /// True if the row is included in the mean advantage.
    pub in_mean: bool,
}

impl DriveRow {
    /// Creates a row from one figure per drive, each with a confidence interval if it was measured more than once.
    pub(super) fn from_figures(
        title: &str,
        unit: &str,
        better: BetterDirection,
        values: &[Option<(f64, Option<ConfidenceInterval>)>],
        in_mean: bool,
    ) -> Option<DriveRow> {
        let base = values.first().copied().flatten()?;
        let mut undecided_steps = 0;
        let advantage = |(at, value): (usize, &Option<(f64, Option<ConfidenceInterval>)>)| {
            let (figure, interval) = value.filter(|_| at > 0)?;
            let apart = |one: ConfidenceInterval, other: ConfidenceInterval| {
                (one.mean - other.mean).abs() > one.half_width + other.half_width
            };
            undecided_steps +=
                usize::from(!base.1.zip(interval).is_some_and(|(one, other)| apart(one, other)));
            better.percent(base.0, figure)
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
    pub transactional_iops: (f64, Option<ConfidenceInterval>),
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: Option<(f64, Option<ConfidenceInterval>)>,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: Option<(f64, Option<ConfidenceInterval>)>,
}

impl RunFigures {
    /// Returns the figures of a run. The latencies are those of the slowest instance.
    pub fn from_run(run: &RunResult) -> RunFigures {
        let repetitions = run.analysis.repetitions.as_ref();
        let slowest = |value: fn(&InstanceRow) -> f64| run.instances.iter().map(value).fold(0.0, f64::max);
        RunFigures {
            transactional_iops: (
                run.achieved_transactional_iops,
                repetitions.map(|all| all.transactional_iops),
            ),
            database_read_ms: Some((
                slowest(|row| row.database_reads_average_latency_ms),
                repetitions.map(|all| all.database_read_ms),
            )),
            log_write_ms: Some((
                slowest(|row| row.log_writes_average_latency_ms),
                repetitions.map(|all| all.log_write_ms),
            )),
        }
    }
}

/// Function that selects one figure from a run's figures.
type RunFigureSelector = fn(&RunFigures) -> Option<(f64, Option<ConfidenceInterval>)>;

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
            DriveRow::from_figures(title, unit, better, &values, in_mean)
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
    let mut groups: Vec<(String, Vec<DriveRow>)> = Vec::new();
    for step in steps {
        let value = |one: &Option<(&DriveTest, usize)>| {
            let (test, target) = (*one)?;
            let found = test.steps.iter().find(|other| other.step.name == step.step.name)?;
            let figure = found.figures.get(target)?.as_ref()?;
            Some((figure.mean, figure.interval))
        };
        let values: Vec<_> = tests.iter().map(value).collect();
        let better =
            if step.step.unit.lower_is_better() { BetterDirection::Lower } else { BetterDirection::Higher };
        let Some(row) =
            DriveRow::from_figures(&step.step.title, step.step.unit.name(), better, &values, true)
        else {
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
    use super::*;

    fn around(mean: f64, half_width: f64) -> Option<(f64, Option<ConfidenceInterval>)> {
        Some((mean, Some(ConfidenceInterval { mean, half_width })))
    }

    #[test]
    fn the_sign_of_an_advantage_shows_the_better_drive() {
        let row = |better, values: &[_]| DriveRow::from_figures("t", "u", better, values, true).unwrap();
        let rate = row(BetterDirection::Higher, &[around(100.0, 1.0), around(117.9, 1.0), None]);
        assert_eq!(rate.advantages[0], None);
        assert!((rate.advantages[1].unwrap() - 17.9).abs() < 1e-9 && rate.advantages[2].is_none());
        assert_eq!((rate.undecided_steps, rate.figures[2]), (0, None));
        let latency = row(BetterDirection::Lower, &[around(17.6, 3.0), around(12.0, 3.0)]);
        assert!((latency.advantages[1].unwrap() - 31.818).abs() < 1e-3);
        assert_eq!(latency.undecided_steps, 1, "the intervals overlap");
        assert_eq!(
            DriveRow::from_figures("t", "u", BetterDirection::Lower, &[None, around(1.0, 0.0)], true),
            None
        );
        assert_eq!(
            DriveRow::from_figures(
                "t",
                "u",
                BetterDirection::Lower,
                &[around(0.0, 0.0), around(1.0, 0.0)],
                true
            ),
            None
        );
    }

    #[test]
    fn similar_steps_share_one_row() {
        let rows = [(100.0, 110.0), (10.0, 13.0)].map(|(one, other)| {
            DriveRow::from_figures(
                "t",
                "u",
                BetterDirection::Higher,
                &[around(one, 20.0), around(other, 0.1)],
                true,
            )
            .unwrap()
        });
        let mean = DriveRow::mean("both".into(), &rows).unwrap();
        assert!((mean.advantages[1].unwrap() - 20.0).abs() < 1e-9);
        assert_eq!((mean.steps, mean.undecided_steps, mean.advantages[0]), (2, 2, None));
    }
}
