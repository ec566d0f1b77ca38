//! Interface between a run and its caller. The run reports phases, progress and counters. The caller can request a
//! stop.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::measurement::{CounterSnapshot, Measurement, Sample};

/// A phase of a run. The variants are in the order in which the phases occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Verifies every page of existing databases before anything is changed.
    Examine,
    /// Fills the databases.
    Create,
    /// Opens the databases.
    Attach,
    /// Runs and measures the load while the other hosts of the fleet are idle.
    Alone,
    /// Runs the load until the cache is warm.
    Warm,
    /// Runs the load at several rates to find the highest sustained rate.
    Search,
    /// Runs and measures the load.
    Measure,
    /// Restores the databases to their preserved state.
    PutBack,
    /// Preserves the state of the databases, either for the replay or for later runs.
    Keep,
    /// Runs the load until enough logs are generated.
    Generate,
    /// Closes the databases.
    Shutdown,
    /// Seeds the passive copies.
    Seed,
    /// Lets suspended passive copies catch up while the load continues.
    CatchUp,
    /// Lets the passive copies replay the remaining logs without load.
    Drain,
    /// Replays the logs.
    Replay,
    /// Reads and verifies all pages.
    Backup,
    /// Verifies every page and log.
    Verify,
}

impl RunPhase {
    /// Returns the description of the phase.
    pub const fn title(self) -> &'static str {
        match self {
            RunPhase::Examine => "Examining databases",
            RunPhase::Create => "Creating databases",
            RunPhase::Attach => "Attaching databases",
            RunPhase::Alone => "Measuring alone",
            RunPhase::Warm => "Warming the cache",
            RunPhase::Search => "Searching",
            RunPhase::Measure => "Measuring",
            RunPhase::PutBack => "Restoring databases",
            RunPhase::Keep => "Preserving the databases",
            RunPhase::Generate => "Generating log files",
            RunPhase::Seed => "Seeding copies",
            RunPhase::CatchUp => "Catching up",
            RunPhase::Drain => "Replaying the rest",
            RunPhase::Replay => "Recovering databases",
            RunPhase::Backup => "Backing up databases",
            RunPhase::Shutdown => "Shutting down",
            RunPhase::Verify => "Verifying pages and logs",
        }
    }

    /// Returns the unit that [`Observer::advance`] uses in this phase.
    pub const fn unit(self) -> ProgressUnit {
        match self {
            RunPhase::Alone | RunPhase::Search | RunPhase::Measure | RunPhase::CatchUp => {
                ProgressUnit::Milliseconds
            }
            RunPhase::Generate | RunPhase::Replay => ProgressUnit::Logs,
            _ => ProgressUnit::Bytes,
        }
    }
}

/// The unit in which a phase's progress is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Log files of all databases.
    Logs,
}

/// Interface for receiving a run's events. All calls come from one thread.
pub trait Observer {
    /// Called before a phase begins. The run waits until this function returns, but a load that is already running
    /// continues. An observer that blocks must return when the run is requested to stop.
    fn before_phase(&mut self, _phase: RunPhase) {}
    /// Returns true if the load must continue after its measurement because other hosts are still measuring. The run
    /// calls this function several times per second.
    fn must_hold_load(&mut self) -> bool {
        false
    }
    /// Returns how long to measure the load alone before it runs concurrently with the loads of other hosts. Returns
    /// `None` to skip this measurement. [`RunPhase::Alone`] begins when no other host is running a load.
    fn alone_duration(&mut self) -> Option<Duration> {
        None
    }
    /// Called at the start of a phase. The phase is complete when its progress reaches `total` units.
    fn begin_phase(&mut self, phase: RunPhase, total: u64);
    /// Reports the progress of the phase, with a short note about the current step.
    fn advance(&mut self, done: u64, note: &str);
    /// Reports a line of the test log.
    fn log(&mut self, line: &str);
    /// Reports all counters, about once per second while databases are open. Counters restart at zero whenever
    /// databases are opened.
    fn report_counters(&mut self, _now: &CounterSnapshot) {}
    /// Reports a sample of the measurement.
    fn report_sample(&mut self, _sample: &Sample) {}
    /// Returns true if the observer needs the results so far. The run calls this function after each sample.
    fn wants_measured(&self) -> bool {
        false
    }
    /// Reports the results so far.
    fn report_measurement(&mut self, _so_far: Measurement) {}
    /// Returns true if the observer needs the totals so far. The run calls this function several times per second.
    fn wants_totals(&self) -> bool {
        false
    }
    /// Reports the results so far, without samples or repetitions.
    fn report_totals(&mut self, _so_far: Measurement) {}
}

/// Interval between two calls of [`Observer::report_counters`].
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Limits how often [`Observer::report_counters`] is called, because collecting the counters has a cost.
#[derive(Debug)]
pub struct CounterHeartbeat(Instant);

impl CounterHeartbeat {
    /// Creates a heartbeat. The first beat is due immediately.
    pub fn new() -> CounterHeartbeat {
        CounterHeartbeat(Instant::now())
    }

    /// Passes the counters to the observer if a beat is due.
    pub fn beat(&mut self, observer: &mut dyn Observer, snapshot: impl FnOnce() -> CounterSnapshot) {
        let now = Instant::now();
        if now >= self.0 {
            self.0 = now + HEARTBEAT_INTERVAL;
            observer.report_counters(&snapshot());
        }
    }
}

impl Default for CounterHeartbeat {
    fn default() -> CounterHeartbeat {
        CounterHeartbeat::new()
    }
}
