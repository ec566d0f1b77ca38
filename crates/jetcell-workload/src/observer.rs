//! The interface between a run and its caller: phases, progress and counters go out, stop requests come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::measurement::{Measurement, Sample, Snapshot};

/// The steps of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Every page of existing databases is verified before the first change.
    Examine,
    /// Databases are filled.
    Create,
    /// Databases are opened.
    Attach,
    /// The load runs and is measured while the hosts of its fleet rest.
    Alone,
    /// The load runs until the cache is warm.
    Warm,
    /// The load runs at several rates, to find the highest sustained one.
    Search,
    /// The load runs and is measured.
    Measure,
    /// Databases are put back to the state that was kept.
    PutBack,
    /// The state of the databases is kept, for the replay or for later runs.
    Keep,
    /// The load runs until enough logs are generated.
    Generate,
    /// Databases are closed.
    Shutdown,
    /// Passive copies are seeded.
    Seed,
    /// Passive copies that were held catch up, while the load goes on.
    CatchUp,
    /// Passive copies replay the rest, without load.
    Drain,
    /// The logs are replayed.
    Replay,
    /// All pages are read and verified.
    Backup,
    /// Every page and log is verified.
    Verify,
}

impl Phase {
    /// The phase in words.
    pub const fn title(self) -> &'static str {
        match self {
            Phase::Examine => "Examining databases",
            Phase::Create => "Creating databases",
            Phase::Attach => "Attaching databases",
            Phase::Alone => "Measuring alone",
            Phase::Warm => "Warming the cache",
            Phase::Search => "Searching",
            Phase::Measure => "Measuring",
            Phase::PutBack => "Putting databases back",
            Phase::Keep => "Keeping the state before the load",
            Phase::Generate => "Generating log files",
            Phase::Seed => "Seeding copies",
            Phase::CatchUp => "Catching up",
            Phase::Drain => "Replaying the rest",
            Phase::Replay => "Recovering databases",
            Phase::Backup => "Backing up databases",
            Phase::Shutdown => "Shutting down",
            Phase::Verify => "Verifying pages and logs",
        }
    }

    /// The unit of [`Observer::advance`].
    pub const fn unit(self) -> Unit {
        match self {
            Phase::Alone | Phase::Search | Phase::Measure | Phase::CatchUp => Unit::Milliseconds,
            Phase::Generate | Phase::Replay => Unit::Logs,
            _ => Unit::Bytes,
        }
    }
}

/// Unit of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Log files of all databases.
    Logs,
}

/// Receives the events of a run, from one thread.
pub trait Observer {
    /// A phase is about to begin. The run waits for the return of this function; a load that runs goes on meanwhile. An observer that
    /// waits must return when the run is asked to stop.
    fn before(&mut self, _phase: Phase) {}
    /// Whether the load has to go on although its measured time is over, because others still measure. The run asks several times per
    /// second.
    fn holds_load(&mut self) -> bool {
        false
    }
    /// How long the load is measured alone, before it runs beside the load of other hosts; `None` if it is not. The phase
    /// [`Phase::Alone`] begins when no other host has a load.
    fn alone_first(&mut self) -> Option<Duration> {
        None
    }
    /// A phase begins; it ends at `total` units.
    fn begin(&mut self, phase: Phase, total: u64);
    /// Progress of the phase, with a few words about the current step.
    fn advance(&mut self, done: u64, note: &str);
    /// A line of the test log.
    fn log(&mut self, line: &str);
    /// All counters, about once per second while databases are open. Counters start at zero whenever databases are
    /// opened.
    fn counters(&mut self, _now: &Snapshot) {}
    /// A sample of the measured time.
    fn sampled(&mut self, _sample: &Sample) {}
    /// Whether the observer wants the measurement so far. The run asks after each sample.
    fn wants_measured(&self) -> bool {
        false
    }
    /// The measurement so far.
    fn measured(&mut self, _so_far: Measurement) {}
    /// Whether the observer wants the totals so far. The run asks several times per second.
    fn wants_totals(&self) -> bool {
        false
    }
    /// The measurement so far, without samples and repetitions.
    fn totals(&mut self, _so_far: Measurement) {}
}

/// Time between two calls of [`Observer::counters`].
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Limits the rate of [`Observer::counters`], because collecting the counters has a cost.
#[derive(Debug)]
pub struct Heartbeat(Instant);

impl Heartbeat {
    /// A heartbeat whose first beat is due at once.
    pub fn new() -> Heartbeat {
        Heartbeat(Instant::now())
    }

    /// Passes the counters to the observer if a beat is due.
    pub fn beat(&mut self, observer: &mut dyn Observer, snapshot: impl FnOnce() -> Snapshot) {
        let now = Instant::now();
        if now >= self.0 {
            self.0 = now + HEARTBEAT;
            observer.counters(&snapshot());
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Heartbeat {
        Heartbeat::new()
    }
}

/// A request to end a run cleanly; clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Requests the end of the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the end was requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
