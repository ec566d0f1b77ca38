//! Preconditioning for flash, following SNIA's performance test specification: the whole target is written twice,
//! then random blocks are written until the write rate is steady.

use std::io;
use std::time::Duration;

use jetcell_workload::measurement::{InstanceSample, IoRates, Sample, SteadyState};
use serde::{Deserialize, Serialize};

use super::load::{self, AccessPattern, DriveLoad};
use super::measurement::StepContext;

/// Number of times the target is completely written before the first round.
pub(super) const WRITE_PASSES: usize = 2;
/// Maximum number of rounds with random writes.
pub(super) const MAX_ROUNDS: usize = 25;
const DEPTH: usize = 32;
/// Number of most recent rounds whose rates must be steady.
const WINDOWS: usize = 5;

/// Result of preconditioning a drive before testing it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preconditioning {
    /// Random 4 KiB writes per second in each round.
    pub rounds: Vec<f64>,
    /// Steady state over the last five rounds: spread at most 20 %, slope at most 10 %. `None` if there were fewer
    /// than five rounds.
    pub steady_state: Option<SteadyState>,
}

impl Preconditioning {
    /// Returns true if the last five rounds were steady.
    pub fn is_steady(&self) -> bool {
        self.steady_state.as_ref().is_some_and(|state| state.steady)
    }

    /// Writes random blocks in rounds until five rounds are steady or 25 rounds have run. The whole target must have
    /// been written before. `round_time` receives the number of completed rounds and returns the duration of the next
    /// round, or `None` to stop.
    ///
    /// # Errors
    /// Returns the error of the first write that fails.
    pub(super) fn run(
        bench: &StepContext<'_>,
        mut round_time: impl FnMut(usize) -> Option<Duration>,
    ) -> io::Result<Preconditioning> {
        let mut done = Preconditioning::default();
        while done.rounds.len() < MAX_ROUNDS && !done.is_steady() && !bench.cancel.is_cancelled() {
            let Some(time) = round_time(done.rounds.len()) else { break };
            let load = DriveLoad {
                region: 0..bench.bytes,
                access: AccessPattern::Random,
                size: 4096,
                depth: DEPTH,
                reads_percent: 0,
                time,
                seed: bench.seed.wrapping_add(done.rounds.len() as u64),
                moved: bench.moved.clone(),
            };
            let round = load::run(bench.file, bench.clock, &load, bench.cancel)?;
            done.rounds.push(round.operations as f64 / round.elapsed.as_secs_f64().max(1e-9));
            done.steady_state = steady_state(&done.rounds);
        }
        Ok(done)
    }
}

/// Computes the steady state from the last five rounds, each of which is treated as one window.
fn steady_state(rounds: &[f64]) -> Option<SteadyState> {
    let sample = |per_second: &f64| {
        let database_write = IoRates { per_second: *per_second, ..IoRates::default() };
        let instances = vec![InstanceSample { database_write, ..InstanceSample::default() }];
        Sample { seconds: 1.0, instances, ..Sample::default() }
    };
    let last = rounds.get(rounds.len().checked_sub(WINDOWS)?..)?;
    SteadyState::from_samples(&last.iter().map(sample).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {

    use jetcell_host::Cancellation;

    use super::*;
    use crate::drive::progress::TransferredBytes;
    use crate::drive::simulated_drive::FakeDrive;

    #[test]
    fn the_last_five_rounds_decide_steady_state() {
        let steady = |rounds: &[f64]| steady_state(rounds).is_some_and(|state| state.steady);
        assert!(steady(&[900.0, 95.0, 105.0, 100.0, 105.0, 95.0]));
        assert!(!steady(&[100.0; 4]), "too few");
        // Spread and slope are both 20 %.
        assert!(!steady(&[110.0, 105.0, 100.0, 95.0, 90.0]));
        // The spread is 80 %, without a slope.
        assert!(!steady(&[100.0, 60.0, 140.0, 60.0, 100.0]));
    }

    #[test]
    fn a_steady_drive_needs_five_rounds() {
        let size = 16 << 20;
        let drive = FakeDrive::new(size, Duration::from_micros(100), 4);
        let ((file, clock), cancel) = (drive.start(), Cancellation::default());
        let time = Duration::from_millis(100);
        let moved = &TransferredBytes::default();
        let bench = StepContext {
            file: &file,
            clock: &clock,
            bytes: size,
            cancel: &cancel,
            moved,
            zones: 1,
            time,
            end_sync: false,
            seed: 1,
        };
        let mut told = Vec::new();
        let done = Preconditioning::run(&bench, |number| {
            told.push(number);
            Some(time)
        })
        .unwrap();
        assert!(done.is_steady() && done.rounds.len() == 5, "{done:?}");
        assert!(done.rounds.iter().all(|iops| (iops / 40_000.0 - 1.0).abs() < 0.02), "{done:?}");
        assert_eq!(told, (0..5).collect::<Vec<_>>());
        let early = Preconditioning::run(&bench, |number| (number < 2).then_some(time)).unwrap();
        assert!(early.rounds.len() == 2 && !early.is_steady(), "{early:?}");
    }
}
