//! Estimates when a search for the maximum rate will end, based on the probes completed so far.

use std::time::{Duration, Instant};

use crate::drive::search::{ProbeRequest, expected_probes};
use crate::measurement::SaturationStep;

/// Estimates when the search phase will end. Every probe result updates the estimate.
pub(super) struct SearchForecast {
    settle: Duration,
    /// Duration of one probe, including the settling time.
    probe: Duration,
    /// Expected length of the whole phase.
    total: Duration,
    end: Instant,
}

impl SearchForecast {
    /// Creates the forecast for a search that starts now. The search begins by running the load without a rate limit.
    pub(super) fn new(settle: Duration, measured: Duration) -> SearchForecast {
        let probe = settle + measured;
        // This phase also includes the settling time of the confirmation.
        let total = settle + probe * expected_probes(None, None) + settle;
        SearchForecast { settle, probe, total, end: Instant::now() + total }
    }

    /// Restarts the forecast after a failed confirmation. From then on, the search runs only confirmations.
    pub(super) fn resume(&mut self) {
        self.total = self.settle;
        self.end = Instant::now() + self.settle;
    }

    /// Updates the forecast before the search runs the probe `ask`. `steps` are the completed probes.
    pub(super) fn update(&mut self, ask: ProbeRequest, steps: &[SaturationStep]) {
        let rates = |broken: bool| {
            steps.iter().filter(move |step| step.broken.is_some() == broken).map(|step| step.rate)
        };
        let (held, broke) = (rates(false).reduce(f64::max), rates(true).reduce(f64::min));
        let probes = if ask.confirm { 0 } else { expected_probes(held, broke).max(1) };
        self.end = Instant::now() + self.probe * probes + self.settle;
    }

    /// Returns the expected duration of the phase in milliseconds.
    pub(super) fn total(&self) -> u64 {
        self.total.as_millis() as u64
    }

    /// Returns the time that the phase has already taken, in milliseconds. The value decreases if a probe result
    /// makes the search longer.
    pub(super) fn done(&self) -> u64 {
        let left = self.end.saturating_duration_since(Instant::now());
        self.total.saturating_sub(left).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{RuleKind, VerdictRule};

    fn step(rate: f64, held: bool) -> SaturationStep {
        let rule = || VerdictRule::at_most(RuleKind::OperationP99, 1.0, 2.0, String::new());
        SaturationStep { rate, broken: (!held).then(rule), ..SaturationStep::default() }
    }

    #[test]
    fn each_probe_result_reduces_the_remaining_time() {
        let second = Duration::from_secs(1000);
        let mut forecast = SearchForecast::new(second, 3 * second);
        // Initial settling, two probes to bracket the rate, five bisection steps, and settling for the confirmation.
        assert_eq!(forecast.total(), 30_000_000);
        let mut left = |ask: ProbeRequest, steps: &[SaturationStep]| {
            forecast.update(ask, steps);
            (forecast.total() - forecast.done()).div_ceil(1_000_000)
        };
        let ask = ProbeRequest { rate: 200.0, confirm: false };
        assert_eq!(left(ask, &[]), 29);
        assert_eq!(left(ask, &[step(100.0, true)]), 25);
        assert_eq!(left(ask, &[step(100.0, true), step(200.0, false)]), 21);
        assert_eq!(left(ask, &[step(100.0, true), step(200.0, false), step(150.0, false)]), 17);
        assert_eq!(left(ProbeRequest { confirm: true, ..ask }, &[step(100.0, true), step(104.0, false)]), 1);
        forecast.resume();
        assert_eq!((forecast.total(), forecast.done()), (1_000_000, 0));
    }
}
