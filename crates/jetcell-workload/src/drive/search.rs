//! Searches for the highest sustained rate. The search is a pure function of the probe results. It doubles or halves
//! the rate until one rate meets all limits and another rate violates a limit. It then bisects between these rates
//! and confirms the highest rate that met all limits.
//!
//! Near the limit, a probe may go either way, so a confirmation may fail. After a failed confirmation, the search no
//! longer relies on single probes. It runs only confirmations, at rates that are 5 % lower, then 10 %, 20 % and so
//! on. The first rate that is confirmed is the result. This rate may be lower than the true maximum, but it is
//! confirmed and is below every rate that violated a limit. The report shows both the confirmed rate and the lowest
//! rate that violated a limit.

use crate::measurement::MIN_RATE;

/// The search ends when the ratio of the lowest failed rate to the highest passed rate is at most this value.
pub(super) const TOLERANCE: f64 = 1.05;

/// Maximum number of probes, including confirmations.
pub(super) const MAX_PROBES: usize = 30;

/// Maximum rate of a search, in operations per second.
const MAX_RATE: f64 = 1e7;

/// Minimum rate as a fraction of the first rate. If even this rate violates a limit, the violation is not caused by
/// the rate.
const MIN_RATE_FRACTION: f64 = 1.0 / 256.0;

/// A request to probe one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProbeRequest {
    /// Rate in operations per second.
    pub rate: f64,
    /// Whether the probe is a confirmation. A confirmed rate must meet all limits several times in a row.
    pub confirm: bool,
}

/// Result of a search for the highest sustained rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RateSearchResult {
    /// Highest rate that was confirmed.
    pub sustained: Option<f64>,
    /// Lowest rate that violated a limit.
    pub first_failed: Option<f64>,
    /// Whether the search completed. False if `probe` ended it.
    pub ended: bool,
}

/// Searches for the highest sustained rate, starting at `start`. `probe` returns whether a rate meets all limits, or
/// `None` to end the search.
pub(super) fn find_max(start: f64, mut probe: impl FnMut(ProbeRequest) -> Option<bool>) -> RateSearchResult {
    let start = if start.is_nan() { MIN_RATE } else { start.clamp(MIN_RATE, MAX_RATE) };
    let lowest = (start * MIN_RATE_FRACTION).max(MIN_RATE);
    // `held` is the highest rate that met all limits. `broke` is the lowest rate above `held` that violated a limit.
    let (mut held, mut broke): (Option<f64>, Option<f64>) = (None, None);
    let (mut confirmed_lower, mut drop) = (None, 0.05);
    for _ in 0..MAX_PROBES {
        let ask =
            confirmed_lower.map(|rate| ProbeRequest { rate, confirm: true }).unwrap_or_else(|| {
                match (held, broke) {
                    (None, None) => ProbeRequest { rate: rounded(start), confirm: false },
                    (Some(low), None) if low * 2.0 > MAX_RATE => ProbeRequest { rate: low, confirm: true },
                    (Some(low), None) => ProbeRequest { rate: rounded(low * 2.0), confirm: false },
                    (None, Some(high)) => {
                        ProbeRequest { rate: rounded((high / 2.0).max(MIN_RATE)), confirm: false }
                    }
                    (Some(low), Some(high)) if high <= low * TOLERANCE => {
                        ProbeRequest { rate: low, confirm: true }
                    }
                    (Some(low), Some(high)) => {
                        ProbeRequest { rate: rounded(low.midpoint(high)), confirm: false }
                    }
                }
            });
        match probe(ask) {
            None => return RateSearchResult { sustained: None, first_failed: broke, ended: false },
            Some(true) if ask.confirm => {
                return RateSearchResult { sustained: Some(ask.rate), first_failed: broke, ended: true };
            }
            Some(true) => held = Some(ask.rate),
            Some(false) => {
                broke = Some(ask.rate);
                if ask.rate <= lowest {
                    break;
                }
                if ask.confirm {
                    confirmed_lower = Some(rounded((ask.rate * (1.0 - drop)).max(MIN_RATE)));
                    drop = (drop * 2.0).min(0.5);
                }
            }
        }
    }
    RateSearchResult { sustained: None, first_failed: broke, ended: true }
}

/// Returns the expected number of probes up to the confirmation. If a bound is still unknown, the next probe is
/// assumed to find it.
pub(super) fn expected_probes(held: Option<f64>, broke: Option<f64>) -> u32 {
    let bisections = |gap: f64| ((gap - 1.0) / (TOLERANCE - 1.0)).log2().ceil().max(0.0) as u32;
    match (held, broke) {
        (Some(low), Some(high)) => bisections(high / low),
        (Some(_), None) | (None, Some(_)) => 1 + bisections(2.0),
        (None, None) => 2 + bisections(2.0),
    }
}

/// Rounds to three significant digits, which is finer than the tolerance.
fn rounded(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.log10().floor() - 2.0);
    let steps = (rate / unit).round();
    // Dividing, rather than multiplying by a fraction, yields the floating-point number closest to the decimal value.
    if unit < 1.0 { steps / (1.0 / unit).round() } else { steps * unit.round() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    /// Runs a search on a model. Returns the probe requests with their results.
    fn search(
        start: f64,
        mut holds: impl FnMut(ProbeRequest) -> bool,
    ) -> (RateSearchResult, Vec<(ProbeRequest, bool)>) {
        let mut asked = Vec::new();
        let found = find_max(start, |ask| {
            let answer = holds(ask);
            asked.push((ask, answer));
            Some(answer)
        });
        assert!(asked.len() <= MAX_PROBES);
        assert!(asked.iter().all(|(ask, _)| (MIN_RATE..=MAX_RATE).contains(&ask.rate)));
        if let Some(sustained) = found.sustained {
            let last = asked.last().unwrap();
            assert_eq!(*last, (ProbeRequest { rate: sustained, confirm: true }, true));
            assert!(asked.iter().all(|(ask, held)| *held || ask.rate > sustained), "{asked:?}");
        }
        let lowest = asked.iter().filter(|(_, held)| !held).map(|(ask, _)| ask.rate).reduce(f64::min);
        assert_eq!(found.first_failed, lowest);
        (found, asked)
    }

    #[test]
    fn a_known_capacity_is_found_within_the_tolerance() {
        for capacity in [1.0, 1.4, 7.0, 99.5, 1234.0, 20_000.0, 3e6] {
            for start in [1.0, capacity / 60.0, capacity / 2.0, capacity, capacity * 3.0, capacity * 90.0] {
                let (found, asked) = search(start, |ask| ask.rate <= capacity);
                let sustained = found.sustained.unwrap();
                assert!(sustained <= capacity, "{start} {capacity}: {found:?}");
                assert!(
                    sustained * TOLERANCE >= found.first_failed.unwrap()
                        && found.first_failed.unwrap() > capacity
                );
                assert_eq!(asked.iter().filter(|(ask, _)| ask.confirm).count(), 1);
            }
            // A start near the capacity, which is the usual case in practice, needs few probes.
            assert!(search(capacity / 1.7, |ask| ask.rate <= capacity).1.len() <= 8);
        }
    }

    #[test]
    fn the_number_of_probes_is_predicted() {
        for capacity in [7.0, 99.5, 1234.0, 20_000.0, 3e6] {
            for start in [capacity / 1.9, capacity / 1.3, capacity * 1.5] {
                let (_, asked) = search(start, |ask| ask.rate <= capacity);
                let (mut held, mut broke) = (None, None);
                for (done, (ask, holds)) in asked.iter().enumerate() {
                    let (left, expected) = (asked.len() - 1 - done, expected_probes(held, broke) as usize);
                    assert!(
                        left.abs_diff(expected) <= 2,
                        "{capacity} {start}: {left} probes, not {expected}"
                    );
                    *if *holds { &mut held } else { &mut broke } = Some(ask.rate);
                }
            }
        }
    }

    #[test]
    fn a_noisy_capacity_is_not_overstated() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut worst: f64 = 1.0;
        for _ in 0..500 {
            // Each probe sees one random capacity between 900 and 1100. A confirmation sees three.
            let (found, _) = search(700.0, |ask| {
                let mut seen = || 900.0 + f64::from(random.next_u32()) / f64::from(u32::MAX) * 200.0;
                (0..if ask.confirm { 3 } else { 1 }).all(|_| ask.rate <= seen())
            });
            let sustained = found.sustained.unwrap();
            assert!(sustained <= 1100.0);
            worst = worst.min(sustained / 900.0);
        }
        assert!(worst > 0.75, "{worst}");
    }

    #[test]
    fn a_confirmation_that_breaks_lowers_the_result() {
        // Single probes pass at rates up to 1000, but several probes in a row pass only at rates up to 600.
        let (found, asked) = search(500.0, |ask| ask.rate <= if ask.confirm { 600.0 } else { 1000.0 });
        let sustained = found.sustained.unwrap();
        assert!(sustained <= 600.0 && sustained > 400.0, "{found:?} {asked:?}");
    }

    #[test]
    fn a_search_finds_the_step_in_a_staircase() {
        // Rates are served in steps of 250. All rates above 1500 fail.
        let (found, _) = search(300.0, |ask| (ask.rate / 250.0).ceil() <= 6.0);
        let sustained = found.sustained.unwrap();
        assert!(sustained <= 1500.0 && sustained * TOLERANCE > 1500.0, "{found:?}");
    }

    #[test]
    fn a_search_ends_if_all_rates_hold_or_none_does() {
        let (found, _) = search(100.0, |_| true);
        assert!(found.ended && found.first_failed.is_none() && found.sustained.unwrap() * 2.0 > MAX_RATE);
        let (found, _) = search(1e6, |_| false);
        let lowest = found.first_failed.unwrap();
        assert_eq!(found, RateSearchResult { sustained: None, first_failed: Some(lowest), ended: true });
        assert!((1e6 / 512.0..1e6 / 200.0).contains(&lowest), "{lowest}");
        // With random results, the search may not find a rate, but it must still end.
        let mut random = ChaCha8Rng::seed_from_u64(2);
        (0..200).for_each(|_| assert!(search(1000.0, |_| random.next_u32() % 2 == 0).0.ended));
    }

    #[test]
    fn extreme_starts_are_bounded_and_the_probe_can_end_a_search() {
        for start in [0.0, -5.0, f64::NAN, 1e300, f64::INFINITY] {
            assert!(search(start, |ask| ask.rate <= 1e5).0.ended, "{start}");
        }
        let mut left = 3;
        let found = find_max(100.0, |ask| {
            left -= 1;
            (left > 0).then_some(ask.rate < 150.0)
        });
        assert_eq!(found, RateSearchResult { sustained: None, first_failed: Some(200.0), ended: false });
    }

    #[test]
    fn rates_have_three_digits() {
        for (rate, text) in
            [(1234.5, "1230"), (0.12345, "0.123"), (99.96, "100"), (1.0, "1"), (98765.0, "98800")]
        {
            assert_eq!(rounded(rate).to_string(), text);
        }
    }
}
