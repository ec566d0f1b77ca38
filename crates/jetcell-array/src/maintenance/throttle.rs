//! Controls how much maintenance does at a time, and how long it pauses, to keep the latency of the load within its
//! target.

use std::time::Duration;

use crate::array::LoadMeter;

/// A throttle that sets the size of array maintenance steps and the pauses between them.
///
/// If the load was slower than the target during a step, the pause is doubled. Otherwise it is shortened by a
/// quarter, even if the load had no operations, because a single step without operations does not mean that the array
/// is idle. A step processes as many rows as it can in a quarter of the target latency, because an operation of the
/// load may have to wait for the entire step. Without a load, it processes as many rows as it can within the whole
/// target latency. A fixed rate in megabytes per second would be too high for some machines and too low for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayMaintenanceThrottle {
    target: Duration,
    max_pause: Duration,
    pause: Duration,
    rows: u64,
}

/// Duration of the first pause, and the minimum duration. Shorter pauses are omitted.
const MIN_PAUSE: Duration = Duration::from_micros(500);
/// Initial, minimum and maximum number of rows in a step.
const FIRST_ROWS: u64 = 16;
const MIN_ROWS: u64 = 4;
const MAX_ROWS: u64 = 1024;
/// Maximum duration of a pause, as a multiple of the previous step's duration. This gives maintenance at least a
/// sixteenth of the time, even if the load is slow for other reasons.
const MAX_STEPS: u32 = 15;

impl ArrayMaintenanceThrottle {
    /// Creates a throttle for a load whose operations should take at most `target`. Pauses never exceed `max_pause`,
    /// even if operations take longer than the target, so maintenance eventually completes.
    pub fn new(target: Duration, longest: Duration) -> ArrayMaintenanceThrottle {
        ArrayMaintenanceThrottle { target, max_pause: longest, pause: Duration::ZERO, rows: FIRST_ROWS }
    }

    /// Runs a step while the caller has exclusive access to the array. `step` receives the number of rows to process.
    /// Returns the result of `step`, and how long the caller should leave the array to the load.
    pub fn step<T>(&mut self, meter: &LoadMeter, step: impl FnOnce(u64) -> T) -> (T, Duration) {
        let start = meter.now();
        let result = step(self.rows);
        let time = meter.now().saturating_sub(start);
        (result, self.pause(time, meter.take_mean_latency()))
    }

    /// Returns the pause after a step that took `time`. `latency` is the mean latency of the load during the step, or
    /// `None` if there was no load.
    fn pause(&mut self, time: Duration, latency: Option<Duration>) -> Duration {
        let most = if latency.is_some() { self.target / 4 } else { self.target };
        if time > most {
            self.rows = (self.rows / 2).max(MIN_ROWS);
        } else if time < most / 2 {
            self.rows = (self.rows * 2).min(MAX_ROWS);
        }
        self.pause = match latency {
            Some(latency) if latency > self.target => (self.pause * 2).clamp(MIN_PAUSE, self.max_pause),
            _ => self.pause * 3 / 4,
        };
        if self.pause < MIN_PAUSE {
            self.pause = Duration::ZERO;
        }
        self.pause.min((time * MAX_STEPS).max(MIN_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn slow_operations_lengthen_the_pause_and_fast_operations_shorten_pauses() {
        let mut throttle = ArrayMaintenanceThrottle::new(ms(20), ms(100));
        assert_eq!(throttle.pause(ms(10), Some(ms(10))), NONE);
        let pauses: Vec<Duration> = (0..12).map(|_| throttle.pause(ms(10), Some(ms(30)))).collect();
        assert!(pauses.is_sorted() && pauses[0] == MIN_PAUSE && pauses[11] == ms(100));
        assert_eq!(throttle.pause(ms(10), Some(ms(20))), ms(75));
        assert!((0..40).any(|_| throttle.pause(ms(10), Some(ms(5))) == NONE));
    }

    #[test]
    fn the_pause_ends_only_after_many_steps_without_operations() {
        let mut throttle = ArrayMaintenanceThrottle::new(ms(20), ms(100));
        (0..12).for_each(|_| _ = throttle.pause(ms(10), Some(ms(30))));
        assert_eq!(throttle.pause(ms(10), None), ms(75));
        let rest: Vec<Duration> = (0..20).map(|_| throttle.pause(ms(10), None)).collect();
        assert!(rest[19] == NONE && rest.iter().sum::<Duration>() < ms(300), "{rest:?}");
    }

    #[test]
    fn a_constantly_slow_load_leaves_maintenance_a_sixteenth_of_time() {
        let mut throttle = ArrayMaintenanceThrottle::new(ms(20), ms(100));
        let pauses: Vec<Duration> = (0..12).map(|_| throttle.pause(ms(2), Some(ms(500)))).collect();
        assert_eq!(pauses[11], ms(30));
        assert_eq!(throttle.pause(ms(50), Some(ms(500))), ms(100));
    }

    #[test]
    fn step_size_fits_the_allowed_load_latency() {
        let mut throttle = ArrayMaintenanceThrottle::new(ms(20), ms(100));
        // A row takes a tenth of a millisecond, multiplied by `slowness`.
        let mut rows_of = |latency, slowness: u32| -> u64 {
            for _ in 0..12 {
                let time = Duration::from_micros(throttle.rows * 100) * slowness;
                throttle.pause(time, latency);
            }
            throttle.rows
        };
        assert_eq!(rows_of(None, 10), 16);
        assert_eq!(rows_of(Some(ms(1)), 10), 4);
        assert_eq!(rows_of(Some(ms(1)), 1), 32);
        assert_eq!(rows_of(None, 1), 128);
        assert_eq!(rows_of(Some(ms(1)), 1000), MIN_ROWS);
        assert_eq!(rows_of(Some(ms(1)), 0), MAX_ROWS);
    }
}
