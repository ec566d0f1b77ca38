//! Mean time that a failed drive waits for a spare.

use crate::Error;
use crate::units::{Hours, PerHour};

/// Maximum number of spares.
pub const MAX_SPARES: u32 = 1000;

/// Number of spare drives, and the delivery time for a replacement. A replacement is ordered for each spare that is
/// used.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct SpareDrives {
    /// Number of spares available when no drive has failed.
    pub count: u32,
    /// Time until an ordered drive is delivered.
    pub delivery: Hours,
}

impl SpareDrives {
    /// Returns the mean time that a failed drive waits for a spare. `rate` is the total failure rate of all drives in
    /// the array.
    ///
    /// With one order per failure, the number of drives on order is Poisson with mean x = rate * delivery (Palm).
    /// Each order in excess of the number of spares corresponds to a failed drive that waits: E = sum over k > s of
    /// (k - s) P(k). By Little's law, each of them waits E / rate. Without spares, this is the delivery time.
    pub fn mean_wait(self, rate: PerHour) -> Result<Hours, Error> {
        if self.count > MAX_SPARES {
            return Err(Error::Count {
                what: "spares",
                count: self.count.into(),
                least: 0,
                most: MAX_SPARES.into(),
            });
        }
        let ordered = rate.get() * self.delivery.get();
        if ordered == 0.0 {
            return Hours::new(if self.count == 0 { self.delivery.get() } else { 0.0 });
        }
        if ordered > 1e5 {
            return Err(Error::TooManyOrders(ordered));
        }
        // The probabilities increase up to k = x, so the sum must not stop at a negligible term before that point.
        let spares = f64::from(self.count);
        let mut log = -ordered;
        let mut waiting = 0.0;
        for k in 1..200_000u32 {
            log += (ordered / f64::from(k)).ln();
            let above = f64::from(k) - spares;
            let term = above.max(0.0) * log.exp();
            waiting += term;
            if f64::from(k) > ordered && above > 0.0 && term <= waiting * 1e-17 {
                break;
            }
        }
        Hours::new(waiting / rate.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(count: u32, rate: f64) -> f64 {
        let spares = SpareDrives { count, delivery: "72h".parse().unwrap() };
        spares.mean_wait(PerHour::new(rate).unwrap()).unwrap().get()
    }

    #[test]
    fn without_spares_the_wait_is_the_delivery_time() {
        assert!((wait(0, 1e-4) / 72.0 - 1.0).abs() < 1e-12);
        assert!((wait(0, 10.0) / 72.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn with_one_spare_only_failures_during_a_delivery_wait() {
        // With x = 0.072, E = x - 1 + e^-x = 0.00253, and the wait is E / rate.
        let x: f64 = 0.072;
        assert!((wait(1, 1e-3) / ((x - 1.0 + (-x).exp()) / 1e-3) - 1.0).abs() < 1e-10);
    }

    #[test]
    fn more_spares_never_lengthen_the_wait() {
        for rate in [1e-6, 1e-3, 0.05, 1.0] {
            let waits: Vec<f64> = (0..20).map(|count| wait(count, rate)).collect();
            assert!(waits.windows(2).all(|pair| pair[1] <= pair[0]), "{waits:?}");
        }
    }
}
