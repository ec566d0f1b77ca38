//! How long maintenance pauses, so that the load stays within its latency target.

use std::time::Duration;

/// Pauses between steps of maintenance. Each step after which the load was slower than the target doubles the pause, each other
/// step shortens it by a quarter. A rate in megabytes would be too much for one machine and too little for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    target: Duration,
    longest: Duration,
    pause: Duration,
}

/// The first pause, and that below which there is none.
const SHORTEST: Duration = Duration::from_micros(500);

impl Throttle {
    /// For a load whose operations should take `target`. Even if they take longer, no pause is longer than `longest`, so that
    /// maintenance comes to an end.
    pub fn new(target: Duration, longest: Duration) -> Throttle {
        Throttle { target, longest, pause: Duration::ZERO }
    }

    /// The pause after a step during which an operation of the load took `latency` on average, or there was no load.
    pub fn pause(&mut self, latency: Option<Duration>) -> Duration {
        self.pause = match latency {
            None => Duration::ZERO,
            Some(latency) if latency > self.target => (self.pause * 2).clamp(SHORTEST, self.longest),
            Some(_) => self.pause * 3 / 4,
        };
        if self.pause < SHORTEST {
            self.pause = Duration::ZERO;
        }
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_operations_lengthen_the_pause_up_to_its_bound_and_fast_ones_shorten_it_to_nothing() {
        let ms = Duration::from_millis;
        let mut throttle = Throttle::new(ms(20), ms(100));
        assert_eq!(throttle.pause(Some(ms(10))), Duration::ZERO);
        let pauses: Vec<Duration> = (0..12).map(|_| throttle.pause(Some(ms(30)))).collect();
        assert!(pauses.is_sorted() && pauses[0] == SHORTEST && pauses[11] == ms(100));
        assert_eq!(throttle.pause(Some(ms(20))), ms(75));
        assert!((0..40).any(|_| throttle.pause(Some(ms(5))) == Duration::ZERO));
        throttle.pause(Some(ms(30)));
        assert_eq!(throttle.pause(None), Duration::ZERO);
    }
}
