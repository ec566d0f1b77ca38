//! A continuous-time Markov chain with one absorbing state, solved without subtraction.
//!
//! Every mission starts in state 0. Loss is the absorbing state and has no number. The chain has three results:
//!
//! * [`MarkovChain::probabilities_after`]: the probability of loss within a time. exp(Qt) is computed by scaling and
//!   squaring of the non-negative matrix U = I + Q/L, with L twice the largest exit rate: exp(Qh) = e^(-Lh) sum
//!   (Lh)^k U^k / k! for a step h with Lh <= 1/2. The result is squared until t is reached. Each row is divided by
//!   its sum, which prevents accumulation of rounding errors. Every operation adds, multiplies or divides
//!   non-negative numbers, so each entry keeps its *relative* precision, however small it is: 1e-15 and 1e-30 have as
//!   many correct digits as 0.1. The probability of loss is read from its own column; 1 - survival would keep only
//!   one digit of 1e-15.
//! * [`MarkovChain::mean_times`]: the mean time in each state within a time, S(t) = integral of exp(Qs) from 0 to t,
//!   by a series in U and S(2h) = S(h) + exp(Qh) S(h). Its product with a rate is the mean number of such
//!   transitions.
//! * [`MarkovChain::mean_time_to_loss`]: states are eliminated one after the other, after Grassmann, Taksar and
//!   Heyman (1985). Each diagonal element is computed as the sum of the rates that leave the state, not as a
//!   difference.
//!
//! Not supported: several absorbing states, and rates that depend on time (see `simulation` for those).

use crate::Error;

/// Number of terms in the series for one step. With Lh <= 1/2, the first omitted term is less than 1e-25 of the sum.
const SERIES_TERMS: u32 = 18;

/// Maximum number of squarings. No realistic case needs 2^64 steps.
const MAX_SQUARINGS: u32 = 64;

/// Maximum number of states in a chain. A matrix of this size takes a few megabytes.
pub const MAX_STATES: usize = 600;

/// A Markov chain of numbered states, with transitions between states and to data loss. Rates are per hour.
#[derive(Clone, Debug)]
pub struct MarkovChain {
    /// Transitions from each state to other states, as target and rate.
    transitions: Vec<Vec<(usize, f64)>>,
    /// Rate of loss from each state.
    loss: Vec<f64>,
}

/// The probabilities of loss and survival at the end of a mission. Both are stored because each is precise when the
/// other is close to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossProbability {
    /// Probability of loss.
    pub loss: f64,
    /// Probability of no loss.
    pub survival: f64,
}

impl LossProbability {
    /// Returns the probabilities that all of `count` independent sets survive, and that at least one of them loses
    /// data.
    ///
    /// 1 - (1 - F)^count is computed as -expm1(count ln(1 - F)). The logarithm is taken from the smaller of F and R.
    #[must_use]
    pub fn for_independent_sets(self, count: f64) -> LossProbability {
        let log = if self.loss < 0.5 { (-self.loss).ln_1p() } else { self.survival.ln() };
        LossProbability { loss: -(count * log).exp_m1(), survival: (count * log).exp() }
    }
}

impl MarkovChain {
    /// Creates a chain of `states` states without transitions.
    pub fn new(states: usize) -> Result<MarkovChain, Error> {
        if states == 0 || states > MAX_STATES {
            let count = states as u64;
            return Err(Error::Count {
                what: "states of the model",
                count,
                least: 1,
                most: MAX_STATES as u64,
            });
        }
        Ok(MarkovChain { transitions: vec![Vec::new(); states], loss: vec![0.0; states] })
    }

    /// Adds a transition between two states.
    pub fn add_transition(&mut self, from: usize, to: usize, rate: f64) {
        debug_assert!(from != to && rate >= 0.0 && to < self.transitions.len());
        if rate > 0.0 {
            self.transitions[from].push((to, rate));
        }
    }

    /// Adds a transition to loss.
    pub fn add_loss(&mut self, from: usize, rate: f64) {
        self.loss[from] += rate;
    }

    fn exit_rate(&self, state: usize) -> f64 {
        self.transitions[state].iter().map(|&(_, rate)| rate).sum::<f64>() + self.loss[state]
    }

    /// Returns the rate L, the product of L and the first step, and how many times the step is doubled. Returns
    /// `None` if nothing happens within `hours`.
    fn doubling(&self, hours: f64) -> Result<Option<(f64, f64, u32)>, Error> {
        let states = self.transitions.len();
        let fastest = (0..states).map(|state| self.exit_rate(state)).fold(0.0, f64::max);
        let rate = 2.0 * fastest;
        if rate * hours == 0.0 {
            return Ok(None);
        }
        let squarings = (rate * hours * 2.0).log2().ceil().max(0.0);
        if squarings > f64::from(MAX_SQUARINGS) {
            return Err(Error::NotFinite(format!("{fastest:e} events per hour for {hours} h")));
        }
        Ok(Some((rate, rate * hours / squarings.exp2(), squarings as u32)))
    }

    /// Returns the probabilities after `hours`.
    pub fn probabilities_after(&self, hours: f64) -> Result<LossProbability, Error> {
        let states = self.transitions.len();
        let Some((rate, step, squarings)) = self.doubling(hours)? else {
            return Ok(LossProbability { loss: 0.0, survival: 1.0 });
        };
        let mut power = self.step(rate, step);
        for _ in 0..squarings {
            power = power.squared();
        }
        let width = states + 1;
        let start = &power.cells[..width];
        Ok(LossProbability { loss: start[states], survival: start[..states].iter().sum() })
    }

    /// Returns the mean number of hours spent in each state until `hours` have passed or data is lost.
    pub fn mean_times(&self, hours: f64) -> Result<Vec<f64>, Error> {
        let states = self.transitions.len();
        let Some((rate, step, doublings)) = self.doubling(hours)? else {
            return Ok((0..states).map(|state| if state == 0 { hours } else { 0.0 }).collect());
        };
        let mut power = self.step(rate, step);
        let mut times = self.times_of_step(rate, step);
        for _ in 0..doublings {
            let later = power.times(&times);
            times.cells.iter_mut().zip(&later.cells).for_each(|(cell, more)| *cell += more);
            power = power.squared();
        }
        Ok(times.cells[..states].to_vec())
    }

    /// Returns the integral of exp(Qs) over a short step: sum P(more than k events of a Poisson distribution with
    /// mean `step`) U^k / L.
    fn times_of_step(&self, rate: f64, step: f64) -> TransitionMatrix {
        let mut probability = (-step).exp();
        let probabilities: Vec<f64> = (1..=SERIES_TERMS)
            .map(|events| {
                probability *= step / f64::from(events);
                probability
            })
            .collect();
        let mut sum = TransitionMatrix::identity(self.transitions.len() + 1);
        sum.cells.fill(0.0);
        let mut more = 0.0;
        for probability in probabilities.iter().rev() {
            more += probability;
            sum = self.times_u(rate, 1.0, &sum, more / rate);
        }
        sum
    }

    /// Returns exp(Qh) for a short step, rate * h = `step`, by Horner's rule on the series in U.
    fn step(&self, rate: f64, step: f64) -> TransitionMatrix {
        let mut sum = TransitionMatrix::identity(self.transitions.len() + 1);
        for term in (1..=SERIES_TERMS).rev() {
            sum = self.times_u(rate, step / f64::from(term), &sum, 1.0);
        }
        // Normalizing makes each row sum to one, which replaces the factor e^(-step).
        sum.normalize();
        sum
    }

    /// Returns `diagonal * I + factor * U * sum`.
    fn times_u(&self, rate: f64, factor: f64, sum: &TransitionMatrix, diagonal: f64) -> TransitionMatrix {
        let states = self.transitions.len();
        let width = states + 1;
        let mut next = TransitionMatrix::identity(width);
        next.cells.iter_mut().for_each(|cell| *cell *= diagonal);
        for state in 0..width {
            let row = &mut next.cells[state * width..][..width];
            let mut take = |from: usize, share: f64| {
                let source = &sum.cells[from * width..][..width];
                for (cell, value) in row.iter_mut().zip(source) {
                    *cell += factor * share * value;
                }
            };
            if state == states {
                take(states, 1.0);
                continue;
            }
            // The choice of the rate makes the result at least 1/2, so the subtraction does not cancel digits.
            take(state, 1.0 - self.exit_rate(state) / rate);
            for &(to, speed) in &self.transitions[state] {
                take(to, speed / rate);
            }
            take(states, self.loss[state] / rate);
        }
        next
    }

    /// Returns the mean time from state 0 to loss, in hours. Returns `None` if loss is not certain to be reached
    /// eventually.
    pub fn mean_time_to_loss(&self) -> Option<f64> {
        let states = self.transitions.len();
        let mut rates = vec![0.0; states * states];
        for (from, moves) in self.transitions.iter().enumerate() {
            for &(to, rate) in moves {
                rates[from * states + to] += rate;
            }
        }
        let (mut loss, mut time) = (self.loss.clone(), vec![1.0; states]);
        // A visit to `last` takes time/exit on average and then continues to a remaining state or to loss.
        for last in (1..states).rev() {
            let exit = rates[last * states..][..last].iter().sum::<f64>() + loss[last];
            for from in 0..last {
                let into = rates[from * states + last];
                if into == 0.0 {
                    continue;
                }
                if exit == 0.0 {
                    return None;
                }
                let visits = into / exit;
                for to in (0..last).filter(|&to| to != from) {
                    rates[from * states + to] += visits * rates[last * states + to];
                }
                loss[from] += visits * loss[last];
                time[from] += visits * time[last];
            }
        }
        (loss[0] > 0.0).then(|| time[0] / loss[0])
    }
}

/// A square matrix of non-negative numbers, in row-major order.
struct TransitionMatrix {
    width: usize,
    cells: Vec<f64>,
}

impl TransitionMatrix {
    fn identity(width: usize) -> TransitionMatrix {
        let mut cells = vec![0.0; width * width];
        cells.iter_mut().step_by(width + 1).for_each(|cell| *cell = 1.0);
        TransitionMatrix { width, cells }
    }

    fn squared(&self) -> TransitionMatrix {
        let mut product = self.times(self);
        product.normalize();
        product
    }

    fn times(&self, other: &TransitionMatrix) -> TransitionMatrix {
        let width = self.width;
        let mut product = TransitionMatrix { width, cells: vec![0.0; width * width] };
        for (row, target) in self.cells.chunks_exact(width).zip(product.cells.chunks_exact_mut(width)) {
            for (&share, source) in row.iter().zip(other.cells.chunks_exact(width)) {
                if share == 0.0 {
                    continue;
                }
                for (cell, value) in target.iter_mut().zip(source) {
                    *cell += share * value;
                }
            }
        }
        product
    }

    fn normalize(&mut self) {
        for row in self.cells.chunks_exact_mut(self.width) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|cell| *cell /= sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value / expected - 1.0).abs() < tolerance, "{value:e} is not {expected:e}");
    }

    #[test]
    fn one_step_follows_the_exponential_law() {
        for (rate, hours) in [(1e-3, 1000.0), (1e-12, 1e-3), (2.0, 1e-9), (1e-18, 1.0)] {
            let mut chain = MarkovChain::new(1).unwrap();
            chain.add_loss(0, rate);
            let fate = chain.probabilities_after(hours).unwrap();
            close(fate.loss, -(-rate * hours).exp_m1(), 1e-14);
            close(fate.survival, (-rate * hours).exp(), 1e-14);
            close(chain.mean_time_to_loss().unwrap(), 1.0 / rate, 1e-15);
        }
    }

    #[test]
    fn equal_steps_follow_the_erlang_law_to_1e_minus_30() {
        // Four transitions of rate r: F = sum over k >= 4 of e^-x x^k / k!, with all terms positive.
        for x in [1e-7, 1e-4, 0.3, 5.0] {
            let mut chain = MarkovChain::new(4).unwrap();
            (0..3).for_each(|state| chain.add_transition(state, state + 1, x / 10.0));
            chain.add_loss(3, x / 10.0);
            let mut term: f64 = x * x * x * x / 24.0;
            let mut sum = 0.0;
            for k in 5..200 {
                sum += term;
                term *= x / f64::from(k);
            }
            close(chain.probabilities_after(10.0).unwrap().loss, sum * (-x).exp(), 1e-13);
            close(chain.mean_time_to_loss().unwrap(), 4.0 / (x / 10.0), 1e-14);
        }
    }

    #[test]
    fn mean_times_follow_the_exponential_law_and_explain_every_loss() {
        for (rate, hours) in [(1e-3, 1000.0), (1e-12, 1e-3), (2.0, 1e-9), (3.0, 40.0)] {
            let mut chain = MarkovChain::new(1).unwrap();
            chain.add_loss(0, rate);
            close(chain.mean_times(hours).unwrap()[0], -(-rate * hours).exp_m1() / rate, 1e-13);
        }
        let mut chain = MarkovChain::new(3).unwrap();
        for (from, to, rate) in [(0, 1, 2e-3), (1, 0, 0.1), (1, 2, 3e-3), (2, 1, 0.05)] {
            chain.add_transition(from, to, rate);
        }
        chain.add_loss(2, 7e-3);
        for hours in [0.5, 100.0, 1e5] {
            let times = chain.mean_times(hours).unwrap();
            close(times[2] * 7e-3, chain.probabilities_after(hours).unwrap().loss, 1e-12);
            assert!(
                chain.probabilities_after(hours).unwrap().survival * hours
                    <= times.iter().sum::<f64>() * (1.0 + 1e-12)
            );
        }
        let whole: f64 = chain.mean_times(1e9).unwrap().iter().sum();
        close(whole, chain.mean_time_to_loss().unwrap(), 1e-9);
        assert_eq!(MarkovChain::new(2).unwrap().mean_times(5.0).unwrap(), [5.0, 0.0]);
    }

    #[test]
    fn stiff_chains_keep_full_precision() {
        // Failures and repairs are fast, and losses are rare: 2e12 transitions in a mission.
        let mut chain = MarkovChain::new(2).unwrap();
        chain.add_transition(0, 1, 1e6);
        chain.add_transition(1, 0, 1e6);
        chain.add_loss(1, 2e-12);
        close(chain.probabilities_after(1e6).unwrap().loss, 1e-6, 1e-6);
        close(chain.mean_time_to_loss().unwrap(), 1e12, 1e-6);
    }

    #[test]
    fn a_chain_without_loss_has_probability_zero() {
        let mut chain = MarkovChain::new(3).unwrap();
        chain.add_transition(0, 1, 1.0);
        assert_eq!(chain.probabilities_after(10.0).unwrap().loss, 0.0);
        assert_eq!(chain.mean_time_to_loss(), None);
    }

    #[test]
    fn aggregates_keep_full_precision() {
        let fate = LossProbability { loss: 1e-18, survival: 1.0 };
        close(fate.for_independent_sets(1000.0).loss, 1e-15, 1e-12);
        let fate = LossProbability { loss: 1.0, survival: 1e-18 };
        close(fate.for_independent_sets(2.0).survival, 1e-36, 1e-12);
    }
}
