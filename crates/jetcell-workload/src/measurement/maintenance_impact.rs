//! How much each maintenance task costs the load.
//!
//! Turns with and without each task alternate. Each turn is compared with the maintenance-free turn of the same
//! round, which was measured at about the same time. Unlike [`Change::paired`](crate::measurement::Change::paired),
//! each difference is relative to that turn, not to the mean over the rounds, so a change of the machine's speed
//! between rounds does not widen the intervals.

use serde::{Deserialize, Serialize};

use crate::measurement::repetition::{ConfidenceInterval, Repetition};
use crate::profile::Maintenance;

/// Impact of one maintenance task on the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskImpact {
    /// The maintenance task. Empty for turns without maintenance.
    pub tasks: Maintenance,
    /// Number of turns that were compared.
    pub turns: usize,
    /// The load's database reads and writes per second.
    pub transactional_iops: ConfidenceInterval,
    /// Average latency of the load's database reads.
    pub database_read_ms: ConfidenceInterval,
    /// Average latency of log writes.
    pub log_write_ms: ConfidenceInterval,
    /// Difference in I/O per second relative to the load alone, in percent.
    pub iops_percent: ConfidenceInterval,
    /// Difference in the average database read latency relative to the load alone, in percent.
    pub read_percent: ConfidenceInterval,
    /// Difference in the average log write latency relative to the load alone, in percent.
    pub log_write_percent: ConfidenceInterval,
}

impl TaskImpact {
    /// Computes the cost of each task. The load without maintenance comes first. The result is empty if there are
    /// fewer than two rounds, or if all turns had the same maintenance.
    pub fn all(turns: &[Repetition]) -> Vec<TaskImpact> {
        let mut tasks: Vec<Maintenance> = Vec::new();
        for turn in turns {
            if !tasks.contains(&turn.maintenance) {
                tasks.push(turn.maintenance);
            }
        }
        if tasks.len() < 2 {
            return Vec::new();
        }
        let rounds: Vec<&[Repetition]> = turns.chunks_exact(tasks.len()).collect();
        let task_impact = |tasks: &Maintenance| {
            let turn = |round: &&[Repetition], tasks: Maintenance| {
                round.iter().find(|turn| turn.maintenance == tasks).copied()
            };
            let pairs: Vec<(Repetition, Repetition)> = rounds
                .iter()
                .filter_map(|round| turn(round, Maintenance::default()).zip(turn(round, *tasks)))
                .collect();
            type RepetitionFigure = fn(&Repetition) -> f64;
            let mean = |figure: RepetitionFigure| {
                ConfidenceInterval::from_values(
                    &pairs.iter().map(|(_, turn)| figure(turn)).collect::<Vec<_>>(),
                )
            };
            let percent = |figure: RepetitionFigure| {
                let difference = |(alone, turn): &(Repetition, Repetition)| {
                    let base = figure(alone);
                    (base > 0.0).then(|| (figure(turn) / base - 1.0) * 100.0)
                };
                ConfidenceInterval::from_values(&pairs.iter().filter_map(difference).collect::<Vec<_>>())
                    .unwrap_or_default()
            };
            let (iops, read, log): (RepetitionFigure, RepetitionFigure, RepetitionFigure) =
                (|one| one.transactional_iops, |one| one.database_read_ms, |one| one.log_write_ms);
            Some(TaskImpact {
                tasks: *tasks,
                turns: pairs.len(),
                transactional_iops: mean(iops)?,
                database_read_ms: mean(read)?,
                log_write_ms: mean(log)?,
                iops_percent: percent(iops),
                read_percent: percent(read),
                log_write_percent: percent(log),
            })
        };
        tasks.iter().filter_map(task_impact).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(tasks: &str, iops: f64, read: f64) -> Repetition {
        Repetition {
            maintenance: tasks.parse().unwrap(),
            transactional_iops: iops,
            database_read_ms: read,
            log_write_ms: 1.0,
            ..Repetition::default()
        }
    }

    #[test]
    fn a_task_is_compared_with_the_same_rounds_baseline() {
        // Storage speed halves between the rounds. The scan always costs 10 % of the rate and adds 20 % to the
        // latency.
        let turns = [
            turn("none", 1000.0, 5.0),
            turn("scan", 900.0, 6.0),
            turn("scan", 450.0, 12.0),
            turn("none", 500.0, 10.0),
        ];
        let all = TaskImpact::all(&turns);
        let [alone, scan] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((alone.turns, alone.iops_percent), (2, ConfidenceInterval::default()));
        assert_eq!((scan.turns, scan.tasks.to_string()), (2, "scan".to_string()));
        assert!(
            (scan.iops_percent.mean + 10.0).abs() < 1e-9 && scan.iops_percent.half_width < 1e-9,
            "{scan:?}"
        );
        assert!(
            (scan.read_percent.mean - 20.0).abs() < 1e-9 && scan.read_percent.half_width < 1e-9,
            "{scan:?}"
        );
        assert_eq!(scan.transactional_iops.mean, 675.0);
        // A single round has no confidence interval, and an incomplete round is ignored.
        assert_eq!(TaskImpact::all(&turns[..3]), []);
        assert_eq!(TaskImpact::all(&[turns[0], turns[3]]), []);
    }
}
