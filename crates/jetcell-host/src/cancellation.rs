//! Requests to end long work early.

use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_vfs::{Clock, RealClock};

/// Maximum sleep between two checks for cancellation.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// A request to end a long-running operation early. Clones share the request.
#[derive(Clone, Default, Debug)]
pub struct Cancellation(Arc<CancellationState>);

#[derive(Default, Debug)]
struct CancellationState {
    is_requested: AtomicBool,
    parent: Option<Cancellation>,
}

impl Cancellation {
    /// Returns a cancellation token for a part of the work. The part can be cancelled on its own, or together with the
    /// whole work.
    #[must_use]
    pub fn child(&self) -> Cancellation {
        let state = CancellationState { parent: Some(self.clone()), ..CancellationState::default() };
        Cancellation(Arc::new(state))
    }

    /// Requests cancellation.
    pub fn cancel(&self) {
        self.0.is_requested.store(true, Ordering::Relaxed);
    }

    /// Returns true if cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_requested.load(Ordering::Relaxed)
            || self.0.parent.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// Like [`Cancellation::wait`], in real time.
    pub fn sleep(&self, time: Duration) -> bool {
        self.wait(&RealClock::new(), time)
    }

    /// Waits for the given time. Returns false immediately if cancellation is requested.
    pub fn wait(&self, clock: &dyn Clock, time: Duration) -> bool {
        let end = clock.monotonic().saturating_add(time);
        while !self.is_cancelled() {
            match end.checked_sub(clock.monotonic()) {
                Some(left) if !left.is_zero() => clock.sleep(left.min(MAX_SLEEP)),
                _ => return true,
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "cancellation_tests.rs"]
mod tests;
