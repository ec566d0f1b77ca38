//! Whether the machine ran at all: a virtual one can stand still, or nearly, while its host does something else, and
//! only some of that is told as stolen time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two beats.
const BEAT: Duration = Duration::from_millis(5);
/// A beat that comes later than this after its time was not only waiting for its turn on a busy processor.
const LATE: Duration = Duration::from_millis(20);

/// A thread that wakes in short intervals, and adds up how late it was.
pub struct Pulse {
    began: Instant,
    stop: Sender<()>,
    late: JoinHandle<Duration>,
}

impl Pulse {
    pub fn start() -> Pulse {
        let (stop, stopped) = channel();
        let late = std::thread::spawn(move || {
            let mut late = Duration::ZERO;
            let mut last = Instant::now();
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                late += lateness(now - last);
                last = now;
            }
            late
        });
        Pulse { began: Instant::now(), stop, late }
    }

    /// Share of the time since the start in which the machine stood still.
    pub fn stood_still(self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        drop(self.stop);
        self.late.join().map_or(1.0, |late| late.as_secs_f64() / seconds)
    }
}

/// What counts of the time between two beats.
fn lateness(between: Duration) -> Duration {
    let late = between.saturating_sub(BEAT);
    if late > LATE { late } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_busy_processor_explains_counts() {
        assert_eq!(lateness(BEAT + LATE), Duration::ZERO);
        assert_eq!(lateness(BEAT + 2 * LATE), 2 * LATE);
        let pulse = Pulse::start();
        std::thread::sleep(4 * BEAT);
        assert!((0.0..=1.0).contains(&pulse.stood_still()));
    }
}
