//! How long operations of the load take, as the load feels it: with the wait for its turn.

use std::time::Duration;

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Clock;

/// Measures reads and flushes of a load, so that work beside it can give way. Clones share the measurement.
#[derive(Clone)]
pub struct LoadMeter(Arc<Meter>);

struct Meter {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Mean time of the operations lately.
    mean: Option<Duration>,
    under_way: usize,
}

impl LoadMeter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> LoadMeter {
        LoadMeter(Arc::new(Meter { clock, state: Mutex::default() }))
    }

    /// Runs an operation of the load, from before it waits for its turn, and notes its time.
    pub fn timed<T>(&self, operation: impl FnOnce() -> T) -> T {
        let Meter { clock, state } = &*self.0;
        let start = clock.monotonic();
        state.lock().under_way += 1;
        let result = operation();
        let time = clock.monotonic().saturating_sub(start);
        let mut state = state.lock();
        state.under_way -= 1;
        state.mean = Some(state.mean.map_or(time, |mean| (mean * 7 + time) / 8));
        result
    }

    /// Mean time of the operations that ended since the last call. `None` if there were none.
    pub fn take(&self) -> Option<Duration> {
        self.0.state.lock().mean.take()
    }

    /// Time since an arbitrary start, by the clock that the meter uses.
    pub fn now(&self) -> Duration {
        self.0.clock.monotonic()
    }

    /// Operations that have begun and not ended.
    pub fn under_way(&self) -> usize {
        self.0.state.lock().under_way
    }
}
