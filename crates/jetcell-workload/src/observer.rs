//! Between a run and whoever watches it: progress goes out, a request to stop comes in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::measurement::{Measurement, Snapshot};

/// The steps of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Every page of existing databases is read, before anything is changed.
    Examine,
    /// Databases are filled.
    Create,
    /// Databases are opened.
    Attach,
    /// The load runs until the cache is warm.
    Warm,
    /// The load runs at one rate after the other, to find the highest one that holds.
    Search,
    /// The load runs and counts.
    Measure,
    /// Databases are closed.
    Shutdown,
    /// Every page and log is read again.
    Verify,
}

impl Phase {
    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Phase::Examine => "Examining databases",
            Phase::Create => "Creating databases",
            Phase::Attach => "Attaching databases",
            Phase::Warm => "Warming the cache",
            Phase::Search => "Searching",
            Phase::Measure => "Measuring",
            Phase::Shutdown => "Shutting down",
            Phase::Verify => "Verifying pages and logs",
        }
    }

    /// What the amounts of [`Observer::advance`] count.
    pub const fn unit(self) -> Unit {
        match self {
            Phase::Measure => Unit::Milliseconds,
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
}

/// Sees a run go by; called from one thread.
pub trait Observer {
    /// A phase begins; it is done at `total` units.
    fn begin(&mut self, phase: Phase, total: u64);
    /// Progress of the phase, with a few words about the present.
    fn advance(&mut self, done: u64, note: &str);
    /// A line of the test log.
    fn log(&mut self, line: &str);
    /// Everything that counts, about once per second while databases are open. Counters begin at zero whenever
    /// databases are opened.
    fn counters(&mut self, _now: &Snapshot) {}
    /// Whether the measurement so far is wanted now; asked after each sample.
    fn wants_measured(&self) -> bool {
        false
    }
    /// The measurement so far.
    fn measured(&mut self, _so_far: Measurement) {}
}

/// Time between two calls of [`Observer::counters`].
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Says when the counters are to be shown again: collecting them costs something.
#[derive(Debug)]
pub struct Heartbeat(Instant);

impl Heartbeat {
    /// The first beat is due at once.
    pub fn new() -> Heartbeat {
        Heartbeat(Instant::now())
    }

    /// Shows the counters if it is time.
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

/// Asks a run to stop cleanly; clones share the request.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Asks for it.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
