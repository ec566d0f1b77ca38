//! Detects that the machine stood still. A virtual machine can stop, or nearly stop, while its host does something
//! else, and the kernel reports only part of that as stolen time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two wake-ups.
const INTERVAL: Duration = Duration::from_millis(5);
/// A wake-up that is later than this did not only wait for a busy processor.
const TOLERANCE: Duration = Duration::from_millis(20);

/// A thread that wakes at short intervals and adds up its delays.
pub struct StallMonitor {
    began: Instant,
    stop: Sender<()>,
    delay_thread: JoinHandle<Duration>,
}

impl StallMonitor {
    pub fn start() -> StallMonitor {
        let (stop, stopped) = channel();
        let late = std::thread::spawn(move || {
            let mut late = Duration::ZERO;
            let mut last = Instant::now();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                late += counted_delay(now - last);
                last = now;
            }
            late
        });
        StallMonitor { began: Instant::now(), stop, delay_thread: late }
    }

    /// Stops the thread. Returns the share of the time since the start in which the machine stood still.
    pub fn stalled_share(self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        drop(self.stop);
        self.delay_thread.join().map_or(1.0, |late| late.as_secs_f64() / seconds)
    }
}

/// The delay that counts in the time between two wake-ups.
fn counted_delay(between: Duration) -> Duration {
    let late = between.saturating_sub(INTERVAL);
    if late > TOLERANCE { late } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_within_the_tolerance_are_ignored() {
        assert_eq!(counted_delay(INTERVAL + TOLERANCE), Duration::ZERO);
        assert_eq!(counted_delay(INTERVAL + 2 * TOLERANCE), 2 * TOLERANCE);
        let pulse = StallMonitor::start();
        std::thread::sleep(4 * INTERVAL);
        assert!((0.0..=1.0).contains(&pulse.stalled_share()));
    }
}
