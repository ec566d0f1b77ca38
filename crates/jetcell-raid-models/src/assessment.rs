//! The result for one case.

use serde::Serialize;

use crate::ReliabilityCase;
use crate::approximation::{classical_loss, classical_mean_time_to_loss, closed_form_loss};
use crate::array::MAX_GROUP_DRIVES;
use crate::calculation_step::{CalculationStep, format_value};
use crate::diagram::{RateSymbol, StateDiagram};
use crate::{Error, LossProbability, MarkovModel};

/// Reliability results for one case, as probabilities and times. They are exact solutions of the case's model.
#[derive(Clone, Debug, PartialEq)]
pub struct ReliabilityAssessment {
    /// Probabilities for one set: a parity group or a mirror set.
    pub set: LossProbability,
    /// Probabilities for one group.
    pub group: LossProbability,
    /// Probabilities for the array.
    pub array: LossProbability,
    /// Mean time until a set loses data, in hours. `None` if it cannot lose data.
    pub set_mean_time_to_loss: Option<f64>,
    /// Probability that a group loses data, from the general chain.
    pub general_group_loss: f64,
    /// Results of the classical formula, which show how wrong it is.
    pub classical: ClassicalResult,
    /// Probability that a group loses data, from the closed form.
    pub closed_form_group_loss: Option<f64>,
}

/// Results from the classical formula, which ignores latent defects.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassicalResult {
    /// Mean time until a set loses data, in hours.
    pub set_mean_time_to_loss_hours: Option<f64>,
    /// Probability that a group loses data.
    pub group_probability_of_loss: f64,
}

impl ReliabilityAssessment {
    /// Solves a case.
    pub fn new(case: &ReliabilityCase) -> Result<ReliabilityAssessment, Error> {
        let (set, hours) = (case.array.set(), case.hours());
        debug_assert!(set.drives() <= MAX_GROUP_DRIVES);
        let chain = StateDiagram::new(case.model, set).chain(&case.rates)?;
        let fate = chain.probabilities_after(hours)?;
        let sets = f64::from(case.array.sets_per_group());
        let group = fate.for_independent_sets(sets);
        let of_group =
            |loss: f64| LossProbability { loss, survival: 1.0 - loss }.for_independent_sets(sets).loss;
        let general = match case.model {
            MarkovModel::General(_) => group.loss,
            _ => {
                MarkovModel::general()
                    .loss_probability(set, &case.rates, hours)?
                    .for_independent_sets(sets)
                    .loss
            }
        };
        Ok(ReliabilityAssessment {
            set: fate,
            group,
            array: fate.for_independent_sets(sets * f64::from(case.array.groups())),
            set_mean_time_to_loss: chain.mean_time_to_loss(),
            general_group_loss: general,
            classical: ClassicalResult {
                set_mean_time_to_loss_hours: classical_mean_time_to_loss(set, &case.rates),
                group_probability_of_loss: of_group(classical_loss(set, &case.rates, hours)),
            },
            closed_form_group_loss: closed_form_loss(set, &case.rates, hours).map(of_group),
        })
    }

    /// Returns the mean time until the array first loses data, in hours. Sets are independent. A set's time to loss
    /// is nearly exponential, because repairs are much faster than losses.
    pub fn array_mean_time_to_loss(&self, case: &ReliabilityCase) -> Option<f64> {
        let sets = f64::from(case.array.sets_per_group()) * f64::from(case.array.groups());
        self.set_mean_time_to_loss.map(|time| time / sets)
    }

    /// Returns how many of 1,000 groups lose data within the mission time.
    pub fn lossy_groups_per_1000(&self) -> f64 {
        1000.0 * self.group.loss
    }

    /// Returns the steps of the calculation.
    pub fn steps(&self, case: &ReliabilityCase) -> Vec<CalculationStep> {
        let mut steps = case.steps.clone();
        let (set, array) = (case.array.set(), case.array);
        let diagram = StateDiagram::new(case.model, set);
        for arrow in &diagram.transitions {
            let Some(from) = diagram.states.get(arrow.from) else { continue };
            let value = arrow.times * arrow.symbol.rate_per_hour(&case.rates);
            let what = match arrow.symbol {
                RateSymbol::Lo => "a drive fails",
                RateSymbol::Ll => "a defect arises",
                RateSymbol::Mo => "a drive is restored",
                RateSymbol::Ms => "a defect is scrubbed",
            };
            steps.push(CalculationStep::new(
                format!("{from} > {}", diagram.target(arrow)),
                what,
                format!("{} {}", arrow.times, arrow.symbol.name()),
                format!("{} x {}", arrow.times, format_value(arrow.symbol.rate_per_hour(&case.rates))),
                value,
                "/h",
            ));
        }
        let mut add = |symbol: &str, what: &str, formula: &str, numbers: String, value: f64, unit| {
            steps.push(CalculationStep::new(symbol, what, formula, numbers, value, unit));
        };
        let (hours, sets, groups) = (case.hours(), array.sets_per_group(), array.groups());
        add("T", "mission", "years x 8760 h", format!("{} x 8760", format_value(case.years)), hours, "h");
        add(
            "Fs",
            &format!("loss of a set {}+{}", set.data, set.parities),
            "entry (first state, LOSS) of exp(Q T)",
            format!("model {}, T = {}", case.model, format_value(hours)),
            self.set.loss,
            "",
        );
        if sets > 1 {
            let numbers = format!("-expm1({sets} x log1p(-{}))", format_value(self.set.loss));
            add("Fg", "loss of a group", "1 - (1 - Fs)^sets", numbers, self.group.loss, "");
        }
        let numbers = format!("-expm1({groups} x log1p(-{}))", format_value(self.group.loss));
        add("F", "loss of the array", "1 - (1 - Fg)^groups", numbers, self.array.loss, "");
        if let Some(closed) = self.closed_form_group_loss {
            let formula = if set.parities == 1 {
                "1 - exp(-T n lo (a+b)/(1+a+b)), a = (n+1) ll/ms, b = (n+1) lo/mo"
            } else {
                "1 - exp(-T n lo (p4+p5)), p1 = 1/(1+a+b), p4 = (n+1)(lo a + ll b) p1/mo, p5 = (n+1) lo b p1/mo, a = (n+2) ll/ms, b = (n+2) lo/mo"
            };
            let (lo, ll) = (case.rates.failure.get(), case.rates.latent.get());
            let drives = f64::from(set.drives());
            let a = if ll == 0.0 { 0.0 } else { drives * ll / case.rates.scrub.get() };
            let numbers = format!(
                "n = {}, a = {}, b = {}",
                set.data,
                format_value(a),
                format_value(drives * lo / case.rates.restore.get())
            );
            add("Fc", "loss of a group, pocket calculator", formula, numbers, closed, "");
        }
        if let Some(time) = self.classical.set_mean_time_to_loss_hours {
            let product: Vec<String> =
                (0..=set.parities).map(|lost| (set.drives() - lost).to_string()).collect();
            let numbers = format!(
                "{}^{} / ({}^{} x {})",
                format_value(case.rates.restore.get()),
                set.parities,
                format_value(case.rates.failure.get()),
                set.parities + 1,
                product.join(" x ")
            );
            add(
                "MTTDL",
                "classical formula, without defects",
                "mo^m / (lo^(m+1) N (N-1) ... (N-m))",
                numbers,
                time,
                "h",
            );
        }
        steps
    }
}
