//! State diagrams: the events that lead from an intact set of drives to data loss.
//!
//! All diagrams share one rule: a defect that *exists* when the last redundancy is lost is a loss. A defect that
//! arises afterwards is not a loss, except with [`GeneralModelRules::late_defects`]. The paper's diagrams (A, B) do
//! not count defective drives. The general diagram does: in state (f, k), f drives have failed and k other drives
//! have a defect.
//!
//! ```text
//! A (n+1)                               B1, B2 (n+2)
//! good -(n+1)ll-> defect -n lo-> LOSS   good -(n+2)ll-> defect -(n+1)lo-> defect+failed -n lo-> LOSS
//!      -(n+1)lo-> failed -n lo-> LOSS        -(n+2)lo-> failed -(n+1)ll-> defect+failed
//! defect -ms-> good                                     failed -(n+1)lo-> failed twice   -n lo-> LOSS
//! failed -mo-> good                     defect -ms-> good, failed -mo-> good, failed twice -mo-> failed
//!                                       defect+failed -mo-> good (B1) or defect (B2)
//! ```

use crate::array::DriveSet;
use crate::chain::{LossProbability, MarkovChain};
use crate::model::{GeneralModelRules, MarkovModel};
use crate::{Error, EventRates};

/// The symbol for one of the four event rates in the formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSymbol {
    /// Operational failure.
    Lo,
    /// Latent defect.
    Ll,
    /// Restore.
    Mo,
    /// Scrub.
    Ms,
}

impl RateSymbol {
    /// Returns the symbol as written in the formulas.
    pub fn name(self) -> &'static str {
        match self {
            RateSymbol::Lo => "lo",
            RateSymbol::Ll => "ll",
            RateSymbol::Mo => "mo",
            RateSymbol::Ms => "ms",
        }
    }

    /// Returns the symbol's value per hour.
    pub fn rate_per_hour(self, rates: &EventRates) -> f64 {
        match self {
            RateSymbol::Lo => rates.failure,
            RateSymbol::Ll => rates.latent,
            RateSymbol::Mo => rates.restore,
            RateSymbol::Ms => rates.scrub,
        }
        .get()
    }
}

/// A transition between two states, caused by any of `times` events that each occur at the rate `symbol`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateTransition {
    /// Number of the state before the transition.
    pub from: usize,
    /// Number of the state after the transition. `None` if data is lost.
    pub to: Option<usize>,
    /// Number of drives that the event can affect.
    pub times: f64,
    /// Rate of the event.
    pub symbol: RateSymbol,
}

/// A reliability model's states and transitions. The first state has no failures or defects.
#[derive(Clone, Debug)]
pub struct StateDiagram {
    /// Names of the states.
    pub states: Vec<String>,
    /// Transitions between the states.
    pub transitions: Vec<StateTransition>,
}

impl StateDiagram {
    /// Creates a model's diagram for a set of drives.
    pub fn new(model: MarkovModel, set: DriveSet) -> StateDiagram {
        match model {
            MarkovModel::A => StateDiagram::one_parity(set),
            MarkovModel::B1 | MarkovModel::B2 | MarkovModel::B3 | MarkovModel::BFit => {
                StateDiagram::two_parities(model, set)
            }
            MarkovModel::General(options) => StateDiagram::general(set, options),
        }
    }

    /// Returns the diagram's Markov chain with numeric rates.
    pub fn chain(&self, rates: &EventRates) -> Result<MarkovChain, Error> {
        let mut chain = MarkovChain::new(self.states.len())?;
        for arrow in &self.transitions {
            let rate = arrow.times * arrow.symbol.rate_per_hour(rates);
            match arrow.to {
                Some(to) => chain.add_transition(arrow.from, to, rate),
                None => chain.add_loss(arrow.from, rate),
            }
        }
        Ok(chain)
    }

    /// Returns the name of the state after a transition.
    pub fn target(&self, arrow: &StateTransition) -> &str {
        arrow.to.and_then(|to| self.states.get(to)).map_or("LOSS", String::as_str)
    }

    fn with_states(states: &[&str]) -> StateDiagram {
        StateDiagram {
            states: states.iter().map(|&name| name.to_string()).collect(),
            transitions: Vec::new(),
        }
    }

    fn add(&mut self, from: usize, to: Option<usize>, times: f64, symbol: RateSymbol) {
        if times > 0.0 {
            self.transitions.push(StateTransition { from, to, times, symbol });
        }
    }

    fn one_parity(set: DriveSet) -> StateDiagram {
        let [good, defect, failed] = [0, 1, 2];
        let n = f64::from(set.data);
        let mut diagram = StateDiagram::with_states(&["good", "defect", "failed"]);
        diagram.add(good, Some(defect), n + 1.0, RateSymbol::Ll);
        diagram.add(good, Some(failed), n + 1.0, RateSymbol::Lo);
        diagram.add(defect, Some(good), 1.0, RateSymbol::Ms);
        diagram.add(defect, None, n, RateSymbol::Lo);
        diagram.add(failed, Some(good), 1.0, RateSymbol::Mo);
        diagram.add(failed, None, n, RateSymbol::Lo);
        diagram
    }

    fn two_parities(model: MarkovModel, set: DriveSet) -> StateDiagram {
        let [good, defect, failed, both, twice] = [0, 1, 2, 3, 4];
        let n = f64::from(set.data);
        let mut diagram =
            StateDiagram::with_states(&["good", "defect", "failed", "defect+failed", "failed twice"]);
        diagram.add(good, Some(defect), n + 2.0, RateSymbol::Ll);
        diagram.add(good, Some(failed), n + 2.0, RateSymbol::Lo);
        diagram.add(defect, Some(good), 1.0, RateSymbol::Ms);
        diagram.add(defect, Some(both), n + 1.0, RateSymbol::Lo);
        diagram.add(failed, Some(good), 1.0, RateSymbol::Mo);
        diagram.add(
            failed,
            Some(both),
            if model == MarkovModel::BFit { n - 1.0 } else { n + 1.0 },
            RateSymbol::Ll,
        );
        diagram.add(failed, Some(twice), n + 1.0, RateSymbol::Lo);
        let rebuilt = if matches!(model, MarkovModel::B1 | MarkovModel::BFit) { good } else { defect };
        diagram.add(both, Some(rebuilt), 1.0, RateSymbol::Mo);
        if model == MarkovModel::B3 {
            diagram.add(both, Some(failed), 1.0, RateSymbol::Ms);
        }
        diagram.add(both, None, n, RateSymbol::Lo);
        diagram.add(twice, Some(failed), if model == MarkovModel::BFit { 2.0 } else { 1.0 }, RateSymbol::Mo);
        diagram.add(twice, None, n, RateSymbol::Lo);
        diagram
    }

    fn general(set: DriveSet, options: GeneralModelRules) -> StateDiagram {
        let (drives, parities) = (set.drives() as usize, set.parities as usize);
        let mut diagram = StateDiagram { states: Vec::new(), transitions: Vec::new() };
        // Row f has N - f + 1 states.
        let state = |failed: usize, defective: usize| failed * (2 * drives + 3 - failed) / 2 + defective;
        for failed in 0..=parities {
            for defective in 0..=drives - failed {
                diagram.states.push(format!("({failed},{defective})"));
                let here = state(failed, defective);
                let clean = drives - failed - defective;
                if clean > 0 {
                    let lost = options.late_defects && failed == parities;
                    diagram.add(
                        here,
                        (!lost).then(|| state(failed, defective + 1)),
                        clean as f64,
                        RateSymbol::Ll,
                    );
                }
                if defective > 0 && (failed == 0 || options.scrub_while_degraded) {
                    diagram.add(here, Some(state(failed, defective - 1)), defective as f64, RateSymbol::Ms);
                }
                if failed > 0 {
                    let left = if options.rebuild_cleans { 0 } else { defective };
                    diagram.add(here, Some(state(failed - 1, left)), failed as f64, RateSymbol::Mo);
                }
                // The next failure hits either a drive without a defect or a defective drive, whose defect is then no
                // longer counted.
                for (hit, left) in [(clean, defective), (defective, defective.saturating_sub(1))] {
                    let lost = failed + 1 + usize::from(left > 0) > parities;
                    let to = (hit > 0 && !lost).then(|| state(failed + 1, left));
                    diagram.add(here, to, hit as f64, RateSymbol::Lo);
                }
            }
        }
        diagram
    }
}

impl MarkovModel {
    /// Returns the probabilities for one set after `hours`.
    pub fn loss_probability(
        self,
        set: DriveSet,
        rates: &EventRates,
        hours: f64,
    ) -> Result<LossProbability, Error> {
        StateDiagram::new(self, set).chain(rates)?.probabilities_after(hours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_matches_the_reference_for_seven_data_disks() {
        let rates = EventRates::published();
        let diagram = StateDiagram::new(MarkovModel::B1, DriveSet { data: 7, parities: 2 });
        let rate = |from: &str, to: &str| -> f64 {
            let found = diagram
                .transitions
                .iter()
                .find(|a| diagram.states[a.from] == from && diagram.target(a) == to);
            found.map_or(0.0, |arrow| arrow.times * arrow.symbol.rate_per_hour(&rates))
        };
        for (from, to, expected) in [
            ("good", "defect", 9.72e-4),
            ("good", "failed", 1.952055e-5),
            ("failed", "failed twice", 1.735160e-5),
            ("failed", "defect+failed", 8.64e-4),
            ("failed twice", "LOSS", 1.518265e-5),
            ("defect+failed", "good", 8.333333e-2),
            ("defect", "good", 5.952381e-3),
        ] {
            assert!((rate(from, to) / expected - 1.0).abs() < 1e-6, "{from} > {to}");
        }
        assert_eq!(rate("defect+failed", "defect"), 0.0);
    }

    #[test]
    fn every_state_has_a_name_and_drive_counts_are_conserved() {
        for (data, parities) in [(1, 1), (7, 1), (1, 2), (7, 2), (5, 3)] {
            let set = DriveSet { data, parities };
            let diagram = StateDiagram::new(MarkovModel::general(), set);
            for (state, name) in diagram.states.iter().enumerate() {
                let out = |symbol| {
                    diagram
                        .transitions
                        .iter()
                        .filter(|a| a.from == state && a.symbol == symbol)
                        .map(|a| a.times)
                        .sum::<f64>()
                };
                let (failed, defective): (f64, f64) = {
                    let (f, k) = name.trim_matches(['(', ')']).split_once(',').unwrap();
                    (f.parse().unwrap(), k.parse().unwrap())
                };
                let drives = f64::from(set.drives());
                assert_eq!(out(RateSymbol::Lo), drives - failed, "{name}");
                assert_eq!(out(RateSymbol::Ll), drives - failed - defective, "{name}");
                assert_eq!(out(RateSymbol::Ms), defective, "{name}");
                assert_eq!(out(RateSymbol::Mo), failed, "{name}");
            }
        }
    }
}
