//! How long operations of the load take, as the load feels it: with the wait for its turn.

use std::collections::BTreeMap;
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
    /// Beginnings of the operations that have not ended, by number.
    under_way: BTreeMap<u64, Duration>,
    /// Operations that have begun.
    begun: u64,
}

impl LoadMeter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> LoadMeter {
        LoadMeter(Arc::new(Meter { clock, state: Mutex::default() }))
    }

    /// Runs an operation of the load, from before it waits for its turn, and notes its time.
    pub fn timed<T>(&self, operation: impl FnOnce() -> T) -> T {
        self.attended(operation, |state, time| {
            state.mean = Some(state.mean.map_or(time, |mean| (mean * 7 + time) / 8));
        })
    }

    /// Runs an operation of the load that takes no time but for its wait, which does not count in the mean.
    pub fn waiting<T>(&self, operation: impl FnOnce() -> T) -> T {
        self.attended(operation, |_, _| {})
    }

    fn attended<T>(&self, operation: impl FnOnce() -> T, ended: impl FnOnce(&mut State, Duration)) -> T {
        let start = self.now();
        let number = {
            let mut state = self.0.state.lock();
            state.begun += 1;
            let number = state.begun;
            state.under_way.insert(number, start);
            number
        };
        let result = operation();
        let time = self.now().saturating_sub(start);
        let mut state = self.0.state.lock();
        // At once with the mean: in between, the load would look idle.
        state.under_way.remove(&number);
        ended(&mut state, time);
        result
    }

    /// Mean time of the operations that ended since the last call, or the age of the oldest one that has not ended, whichever is longer.
    /// `None` if there were none: one that waits for a slow step must not look like none.
    pub fn take(&self) -> Option<Duration> {
        let now = self.now();
        let mut state = self.0.state.lock();
        let oldest = state.under_way.values().next().map(|start| now.saturating_sub(*start));
        state.mean.take().max(oldest)
    }

    /// Time since an arbitrary start, by the clock that the meter uses.
    pub fn now(&self) -> Duration {
        self.0.clock.monotonic()
    }

    /// Operations that have begun and not ended.
    pub fn under_way(&self) -> usize {
        self.0.state.lock().under_way.len()
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{SimVfs, Vfs};

    use super::*;

    #[test]
    fn an_operation_that_waits_is_as_slow_as_it_is_old() {
        let clock = SimVfs::new().clock();
        let meter = LoadMeter::new(clock.clone());
        let ms = Duration::from_millis;
        assert_eq!(meter.take(), None);
        meter.timed(|| {
            clock.sleep(ms(30));
            meter.waiting(|| {
                clock.sleep(ms(5));
                assert_eq!((meter.take(), meter.under_way()), (Some(ms(35)), 2));
            });
            assert_eq!((meter.take(), meter.under_way()), (Some(ms(35)), 1));
        });
        assert_eq!((meter.take(), meter.under_way()), (Some(ms(35)), 0));
        assert_eq!(meter.take(), None);
    }
}
