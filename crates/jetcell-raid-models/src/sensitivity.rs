//! How much each input affects the result, and whether scrubs or restores dominate it.

use serde::Serialize;

use crate::ReliabilityCase;
use crate::units::PerHour;
use crate::{Error, EventRates};

/// An input to a reliability case whose effect can be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SensitivityInput {
    /// The drives' failure rate.
    FailureRate,
    /// The rate of latent defects.
    LatentRate,
    /// Time to restore a failed drive.
    RestoreTime,
    /// Time to find a defect.
    ScrubInterval,
    /// Mission time.
    Mission,
}

impl SensitivityInput {
    /// All inputs.
    pub const ALL: [SensitivityInput; 5] = [
        SensitivityInput::FailureRate,
        SensitivityInput::LatentRate,
        SensitivityInput::RestoreTime,
        SensitivityInput::ScrubInterval,
        SensitivityInput::Mission,
    ];

    /// Returns the input's name for use in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            SensitivityInput::FailureRate => "failure rate",
            SensitivityInput::LatentRate => "latent-defect rate",
            SensitivityInput::RestoreTime => "restore time",
            SensitivityInput::ScrubInterval => "scrub interval",
            SensitivityInput::Mission => "mission time",
        }
    }

    /// Returns the rates and hours with this input multiplied by `factor`. Returns `None` if the case lacks the
    /// input, such as the scrub interval when there is no scrub.
    fn times(self, rates: &EventRates, hours: f64, factor: f64) -> Result<Option<(EventRates, f64)>, Error> {
        let rate = |rate: PerHour, factor: f64| PerHour::new(rate.get() * factor);
        let mut changed = *rates;
        let present = match self {
            SensitivityInput::FailureRate => {
                changed.failure = rate(rates.failure, factor)?;
                rates.failure.get() > 0.0
            }
            SensitivityInput::LatentRate => {
                changed.latent = rate(rates.latent, factor)?;
                rates.latent.get() > 0.0
            }
            SensitivityInput::RestoreTime => {
                changed.restore = rate(rates.restore, 1.0 / factor)?;
                true
            }
            SensitivityInput::ScrubInterval => {
                changed.scrub = rate(rates.scrub, 1.0 / factor)?;
                rates.scrub.get() > 0.0
            }
            SensitivityInput::Mission => return Ok(Some((changed, hours * factor))),
        };
        Ok(present.then_some((changed, hours)))
    }
}

/// How sensitive a set's probability of loss is to one input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InputSensitivity {
    /// Input whose effect is described.
    #[serde(rename = "lever")]
    pub input: SensitivityInput,
    /// Percentage change of the result per percent of change in the input: d ln F / d ln x.
    pub elasticity: f64,
    /// Result with this input halved, as a fraction of the unchanged result.
    pub halved: f64,
}

/// Which repair process dominates the probability of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DominantRepair {
    /// Scrub. Faster restores have little effect.
    Scrub,
    /// Restore. More frequent scrubs have little effect.
    Restore,
    /// Both scrub and restore.
    Both,
    /// Neither. Only the drives' failure and defect rates have an effect.
    Neither,
}

/// Returns the effects of all inputs, strongest first.
pub fn sensitivities(case: &ReliabilityCase) -> Result<Vec<InputSensitivity>, Error> {
    const STEP: f64 = 1.01;
    let loss = |lever: SensitivityInput, factor: f64| -> Result<Option<f64>, Error> {
        let Some((rates, hours)) = lever.times(&case.rates, case.hours(), factor)? else { return Ok(None) };
        Ok(Some(case.model.loss_probability(case.array.set(), &rates, hours)?.loss))
    };
    let now = case.model.loss_probability(case.array.set(), &case.rates, case.hours())?.loss;
    let mut effects = Vec::new();
    if now == 0.0 {
        return Ok(effects);
    }
    for lever in SensitivityInput::ALL {
        let three = (loss(lever, 1.0 / STEP)?, loss(lever, STEP)?, loss(lever, 0.5)?);
        if let (Some(down), Some(up), Some(half)) = three {
            let elasticity = (up / down).ln() / (2.0 * STEP.ln());
            effects.push(InputSensitivity { input: lever, elasticity, halved: half / now });
        }
    }
    effects.sort_by(|one, other| other.elasticity.total_cmp(&one.elasticity));
    Ok(effects)
}

/// Returns the dominant repair process. A process dominates if halving its time reduces the result by at least a
/// tenth.
pub fn dominant_repair(effects: &[InputSensitivity]) -> DominantRepair {
    let counts = |lever| effects.iter().any(|effect| effect.input == lever && effect.halved < 0.9);
    match (counts(SensitivityInput::ScrubInterval), counts(SensitivityInput::RestoreTime)) {
        (true, true) => DominantRepair::Both,
        (true, false) => DominantRepair::Scrub,
        (false, true) => DominantRepair::Restore,
        (false, false) => DominantRepair::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RaidType, ReliabilityInputs};

    fn sensitivities_for(raid: RaidType) -> Vec<InputSensitivity> {
        sensitivities(&ReliabilityInputs { raid: Some(raid), ..ReliabilityInputs::default() }.case().unwrap())
            .unwrap()
    }

    #[test]
    fn scrub_governs_single_parity_and_scrub_plus_restore_double_parity() {
        assert_eq!(dominant_repair(&sensitivities_for(RaidType::Raid5)), DominantRepair::Scrub);
        assert_eq!(dominant_repair(&sensitivities_for(RaidType::Raid10)), DominantRepair::Scrub);
        assert_eq!(dominant_repair(&sensitivities_for(RaidType::RaidDp)), DominantRepair::Both);
        let blind = ReliabilityInputs { latent_rate: Some(PerHour::NEVER), ..ReliabilityInputs::default() }
            .case()
            .unwrap();
        assert_eq!(dominant_repair(&sensitivities(&blind).unwrap()), DominantRepair::Restore);
    }

    #[test]
    fn double_parity_loss_is_nearly_proportional_to_restore_time() {
        let effects = sensitivities_for(RaidType::RaidDp);
        let restore = effects.iter().find(|effect| effect.input == SensitivityInput::RestoreTime).unwrap();
        assert!((0.95..1.1).contains(&restore.elasticity), "{restore:?}");
        assert_eq!(effects[0].input, SensitivityInput::FailureRate, "every loss includes two failures");
        assert!((1.95..2.05).contains(&effects[0].elasticity), "{:?}", effects[0]);
    }

    #[test]
    fn an_absent_input_has_no_effect() {
        let case =
            ReliabilityInputs { scrub: Some(crate::ScrubPolicy::Never), ..ReliabilityInputs::default() }
                .case()
                .unwrap();
        assert!(
            sensitivities(&case)
                .unwrap()
                .iter()
                .all(|effect| effect.input != SensitivityInput::ScrubInterval)
        );
    }
}
