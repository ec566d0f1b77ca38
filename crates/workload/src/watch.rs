//! Between a run and whoever watches it: progress goes out, a request to stop comes in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

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
