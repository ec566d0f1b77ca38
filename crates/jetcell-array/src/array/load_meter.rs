//! Measures the latency of a workload's operations, including the time spent waiting for access to the array.

use std::collections::BTreeMap;
use std::time::Duration;

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Clock;

/// Measures the latency of a workload's reads and flushes, for throttling concurrent maintenance. Clones share the
/// measurement.
#[derive(Clone)]
pub struct LoadMeter(Arc<SharedLoadMeter>);

struct SharedLoadMeter {
    clock: Arc<dyn Clock>,
    /// Locked only while the numbers are updated, never during an operation. No other lock is acquired while it is
    /// held.
    state: Mutex<LatencyState>,
}

#[derive(Default)]
struct LatencyState {
    /// Moving average of the latency of recent operations. Reset by [`LoadMeter::take_mean_latency`].
    mean: Option<Duration>,
    /// Start times of the operations in progress, by number.
    in_progress: BTreeMap<u64, Duration>,
    /// Number of operations that have begun.
    begun_count: u64,
}

impl LoadMeter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> LoadMeter {
        LoadMeter(Arc::new(SharedLoadMeter { clock, state: Mutex::default() }))
    }

    /// Runs an operation of the workload and records its latency, including the wait for access to the array.
    pub fn measure_latency<T>(&self, operation: impl FnOnce() -> T) -> T {
        self.measure(operation, |state, time| {
            state.mean = Some(state.mean.map_or(time, |mean| (mean * 7 + time) / 8));
        })
    }

    /// Runs an operation of the workload that takes no time except for the wait for access to the array. Its latency is
    /// not included in the mean.
    pub fn count_in_progress<T>(&self, operation: impl FnOnce() -> T) -> T {
        self.measure(operation, |_, _| {})
    }

    fn measure<T>(
        &self,
        operation: impl FnOnce() -> T,
        ended: impl FnOnce(&mut LatencyState, Duration),
    ) -> T {
        let start = self.now();
        let number = {
            let mut state = self.0.state.lock();
            state.begun_count += 1;
            let number = state.begun_count;
            state.in_progress.insert(number, start);
            number
        };
        let result = operation();
        let time = self.now().saturating_sub(start);
        let mut state = self.0.state.lock();
        // The operation is removed in the same critical section in which the mean is updated. Otherwise, the load would
        // look idle between the two steps.
        state.in_progress.remove(&number);
        ended(&mut state, time);
        result
    }

    /// Returns the mean latency of the operations that completed since the last call, or the age of the oldest
    /// operation in progress, whichever is longer. Returns `None` if there were no operations. An operation that is
    /// still waiting for a slow maintenance step therefore also counts as load.
    pub fn take_mean_latency(&self) -> Option<Duration> {
        let now = self.now();
        let mut state = self.0.state.lock();
        let oldest = state.in_progress.values().next().map(|start| now.saturating_sub(*start));
        state.mean.take().max(oldest)
    }

    /// Returns the time since an arbitrary starting point, according to the meter's clock.
    pub fn now(&self) -> Duration {
        self.0.clock.monotonic()
    }

    /// Returns the number of operations in progress.
    pub fn operations_in_progress(&self) -> usize {
        self.0.state.lock().in_progress.len()
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{SimVfs, Vfs};

    use super::*;

    #[test]
    fn pending_operations_are_measured_with_the_current_age() {
        let clock = SimVfs::new().clock();
        let meter = LoadMeter::new(clock.clone());
        let ms = Duration::from_millis;
        assert_eq!(meter.take_mean_latency(), None);
        meter.measure_latency(|| {
            clock.sleep(ms(30));
            meter.count_in_progress(|| {
                clock.sleep(ms(5));
                assert_eq!((meter.take_mean_latency(), meter.operations_in_progress()), (Some(ms(35)), 2));
            });
            assert_eq!((meter.take_mean_latency(), meter.operations_in_progress()), (Some(ms(35)), 1));
        });
        assert_eq!((meter.take_mean_latency(), meter.operations_in_progress()), (Some(ms(35)), 0));
        assert_eq!(meter.take_mean_latency(), None);
    }
}
