//! Simulates many lives on all CPUs and estimates a mean with its confidence interval.
//!
//! Life number i uses stream i of the seed, and blocks are summed in order. The result therefore depends only on the
//! seed, not on the number or speed of the threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;

use super::drive_set::{AfterLossAction, LossSimulation, SimulatedDriveSet};
use crate::Error;

/// Number of lives per block. Each block is simulated by a single thread.
const LIVES_PER_BLOCK: u64 = 512;

/// Number of blocks between two precision checks.
const BLOCKS_PER_ROUND: u64 = 32;

/// Maximum number of lives in an estimate.
pub const MAX_LIVES: u64 = 1_000_000_000;

/// Maximum expected number of events per simulated lifetime. A typical one has about a hundred.
const MAX_EVENTS: f64 = 1e6;

/// Quantile of the normal distribution for a 95 % interval.
const CONFIDENCE_QUANTILE: f64 = 1.96;

/// A simulation's random seed and stopping criteria.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimulationSettings {
    /// Random seed.
    pub seed: u64,
    /// Precision at which the estimate is good enough: the half width of the 95 % interval, as a fraction of the
    /// estimate.
    pub precision: f64,
    /// Maximum number of lives to simulate.
    pub lives: u64,
}

impl Default for SimulationSettings {
    fn default() -> SimulationSettings {
        SimulationSettings { seed: 1, precision: 0.02, lives: 20_000_000 }
    }
}

/// The mean loss over all simulated array lifetimes, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossEstimate {
    /// The mean: a probability of loss, or a number of losses per life if lives continue after a loss.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval. If no life contributed to the estimate, this is the 95 % bound 3 / lives.
    pub high: f64,
    /// Number of simulated lives.
    pub lives: u64,
    /// Number of equally weighted lives that would give the same precision.
    pub effective_lives: f64,
    /// Estimate of the same mean obtained by counting losses, for comparison.
    pub counted: f64,
}

impl LossEstimate {
    /// Returns the half width of the 95 % interval, as a fraction of the mean.
    pub fn relative_precision(&self) -> f64 {
        CONFIDENCE_QUANTILE * self.standard_error / self.mean
    }
}

#[derive(Clone, Copy, Default)]
struct EstimateSums {
    sum: f64,
    squares: f64,
    counted: f64,
}

impl LossSimulation {
    /// Simulates lives until the precision or the number of lives in `effort` is reached. Calls `progress` with each
    /// intermediate estimate.
    pub fn estimate(
        &self,
        effort: SimulationSettings,
        mut progress: impl FnMut(&LossEstimate),
    ) -> Result<LossEstimate, Error> {
        if effort.lives == 0 || effort.lives > MAX_LIVES {
            let count = effort.lives;
            return Err(Error::Count { what: "simulated lives", count, least: 1, most: MAX_LIVES });
        }
        if !(1e-5..=1.0).contains(&effort.precision) {
            return Err(Error::OutsideLimits("precision", effort.precision, "1e-5 and 1"));
        }
        let events = self.expected_events();
        if events > MAX_EVENTS {
            return Err(Error::TooManyEvents(events));
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let (mut total, mut done) = (EstimateSums::default(), 0);
        loop {
            let lives = (effort.lives - done).min(BLOCKS_PER_ROUND * LIVES_PER_BLOCK);
            for block in self.round(effort.seed, done, lives, threads) {
                total.sum += block.sum;
                total.squares += block.squares;
                total.counted += block.counted;
            }
            done += lives;
            let mut estimate = total.estimate(done);
            if self.after_loss == AfterLossAction::End {
                estimate.high = estimate.high.min(1.0);
            }
            progress(&estimate);
            // Drives that never fail do not lose data, so simulating more lifetimes would not change the result.
            let pointless = self.laws.failure.is_none();
            if done == effort.lives || pointless || estimate.relative_precision() <= effort.precision {
                return Ok(estimate);
            }
        }
    }

    /// Simulates `lives` lives, starting with number `first`, block by block.
    fn round(&self, seed: u64, first: u64, lives: u64, threads: usize) -> Vec<EstimateSums> {
        let blocks = lives.div_ceil(LIVES_PER_BLOCK);
        let next = AtomicU64::new(0);
        let work = || {
            let mut life = SimulatedDriveSet::new(self);
            let mut done = Vec::new();
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return done;
                }
                let mut sums = EstimateSums::default();
                for number in block * LIVES_PER_BLOCK..lives.min((block + 1) * LIVES_PER_BLOCK) {
                    let mut random = ChaCha8Rng::seed_from_u64(seed);
                    random.set_stream(first + number);
                    let outcome = life.run(&mut random);
                    sums.sum += outcome.estimate;
                    sums.squares += outcome.estimate * outcome.estimate;
                    sums.counted += outcome.counted;
                }
                done.push((block, sums));
            }
        };
        let mut blocks: Vec<(u64, EstimateSums)> = thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for helper in helpers {
                match helper.join() {
                    Ok(blocks) => all.extend(blocks),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        blocks.sort_by_key(|(block, _)| *block);
        blocks.into_iter().map(|(_, sums)| sums).collect()
    }
}

impl EstimateSums {
    fn estimate(self, lives: u64) -> LossEstimate {
        let count = lives as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0) / (count - 1.0).max(1.0);
        let error = variance.sqrt();
        let high = if mean == 0.0 { (3.0 / count).min(1.0) } else { mean + CONFIDENCE_QUANTILE * error };
        LossEstimate {
            mean,
            standard_error: error,
            low: (mean - CONFIDENCE_QUANTILE * error).max(0.0),
            high,
            lives,
            effective_lives: if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 },
            counted: self.counted / count,
        }
    }
}
