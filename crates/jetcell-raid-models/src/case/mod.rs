//! The numbers that a model needs, derived from a [`ReliabilityInputs`].
//!
//! [`ReliabilityInputs::case`] derives the rates from the inputs and uses the published parameters for missing
//! ones. [`ReliabilityCase::steps`] lists the calculations. It is an error if two inputs determine the same number.

mod rates;

use crate::array::{ArrayShape, RaidType};
use crate::calculation_step::{CalculationStep, format_value};
use crate::inputs::ReliabilityInputs;
use crate::rebuild::{LoadedDrive, RebuildTimes};
use crate::units::{Fraction, HOURS_PER_YEAR, Hours, PerHour};
use crate::{Error, EventRates, MarkovModel};

/// Maximum mission time in years.
pub const MAX_YEARS: f64 = 1000.0;

/// Default fraction of the free bandwidth used by a scrub.
const SCRUB_SHARE: f64 = 0.1;

/// A reliability case, with all numbers needed to calculate its results.
#[derive(Clone, Debug, PartialEq)]
pub struct ReliabilityCase {
    /// The array.
    pub array: ArrayShape,
    /// Mission time in years.
    pub years: f64,
    /// Model, which determines the state diagram.
    pub model: MarkovModel,
    /// Rates for one drive.
    pub rates: EventRates,
    /// Times derived from bandwidth and load, if any.
    pub times: Option<RebuildTimes>,
    /// Mean wait for a spare, included in the restore time.
    pub spare_wait: Option<Hours>,
    /// Inputs that are not set and are replaced by published values.
    pub defaults: Vec<&'static str>,
    /// Calculations by which the numbers were derived.
    pub steps: Vec<CalculationStep>,
}

impl ReliabilityCase {
    /// Returns the mission time in hours.
    pub fn hours(&self) -> f64 {
        self.years * HOURS_PER_YEAR
    }
}

/// Returns an error if more than one input determines the same number.
fn only_one(answers: &[(&'static str, bool)]) -> Result<(), Error> {
    let given: Vec<_> = answers.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if given.len() < 2 { Ok(()) } else { Err(Error::Exclusive(given)) }
}

fn needs(given: bool, option: &'static str, partner: bool, partners: &'static str) -> Result<(), Error> {
    if given && !partner { Err(Error::NoEffect(option, partners)) } else { Ok(()) }
}

impl ReliabilityInputs {
    /// Derives all numbers for the case. An error names the invalid input.
    pub fn case(&self) -> Result<ReliabilityCase, Error> {
        let mut steps = Vec::new();
        let mut defaults = Vec::new();
        let array = self.array(&mut defaults)?;
        let years = self.years.unwrap_or_else(|| default(&mut defaults, "years", 5.0));
        if !years.is_finite() || years < 0.0 {
            return Err(Error::Negative(format!("{years} years")));
        }
        if years == 0.0 {
            return Err(Error::Zero("the number of years"));
        }
        if years > MAX_YEARS {
            return Err(Error::TooManyYears(years, MAX_YEARS));
        }
        let model =
            self.model.unwrap_or_else(|| MarkovModel::default_for(array.raid())).check(array.raid())?;
        let drive = self.drive()?;
        let times = drive.map(|drive| drive.rebuild_times(array.set().drives())).transpose()?;
        let failure = self.failure(&mut steps, &mut defaults)?;
        let latent = self.latent(&mut steps, &mut defaults)?;
        let rebuild = self.rebuild(drive, times, &mut steps, &mut defaults)?;
        let spare_wait = self.spare_wait(array, failure, &mut steps)?;
        let restore = Hours::new(rebuild.get() + spare_wait.map_or(0.0, Hours::get))?;
        let restore = PerHour::once_per(restore)?;
        steps.push(CalculationStep::new(
            "mo",
            "restore rate",
            "1 / mean time to restore",
            format!("1 / {}", format_value(1.0 / restore.get())),
            restore.get(),
            "/h",
        ));
        let scrub = self.scrub_rate(drive, times, &mut steps, &mut defaults)?;
        let rates = EventRates { failure, latent, restore, scrub }.check()?;
        Ok(ReliabilityCase { array, years, model, rates, times, spare_wait, defaults, steps })
    }

    fn array(&self, defaults: &mut Vec<&'static str>) -> Result<ArrayShape, Error> {
        only_one(&[("--groups", self.groups.is_some()), ("--drives", self.drives.is_some())])?;
        let raid = self.raid.unwrap_or_else(|| default(defaults, "type", RaidType::RaidDp));
        let data = if raid.is_mirror() { 1 } else { 7 };
        let data_disks = self.data_disks.unwrap_or_else(|| default(defaults, "data-disks", data));
        let Some(drives) = self.drives else {
            let groups = self.groups.unwrap_or_else(|| default(defaults, "groups", 1));
            return ArrayShape::new(raid, data_disks, groups);
        };
        let group = ArrayShape::new(raid, data_disks, 1)?.group_drives();
        let group = u32::try_from(group).unwrap_or(u32::MAX);
        if group > drives {
            return Err(Error::GroupLargerThanArray { group, array: drives });
        }
        if !drives.is_multiple_of(group) {
            return Err(Error::PartOfGroup { drives, group });
        }
        ArrayShape::new(raid, data_disks, drives / group)
    }

    /// Returns the drive, if the inputs contain enough of its properties.
    fn drive(&self) -> Result<Option<LoadedDrive>, Error> {
        let Some(bandwidth) = self.bandwidth else {
            needs(self.load.is_some(), "--load", false, "--bandwidth")?;
            needs(self.scrub_share.is_some(), "--scrub-share", false, "--bandwidth")?;
            needs(self.bus.is_some(), "--bus", false, "--bandwidth")?;
            let used = self.rebuild_rate.is_some();
            needs(self.capacity.is_some(), "--capacity", used, "--bandwidth or --rebuild-rate")?;
            return Ok(None);
        };
        let Some(capacity) = self.capacity else {
            needs(true, "--bandwidth", false, "--capacity")?;
            return Ok(None);
        };
        let load = self.load.map_or_else(|| Fraction::new(0.0), Ok)?;
        let scrub_share = self.scrub_share.map_or_else(|| Fraction::new(SCRUB_SHARE), Ok)?;
        Ok(Some(LoadedDrive { capacity, bandwidth, load, scrub_share, bus: self.bus }))
    }
}

fn default<T>(defaults: &mut Vec<&'static str>, name: &'static str, value: T) -> T {
    defaults.push(name);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::AfrInterpretation;
    use crate::scrub::ScrubPolicy;
    use crate::units::{AnnualFailure, Bytes, BytesPerSecond, ErrorsPerByte};

    #[test]
    fn an_empty_case_equals_the_published_case() {
        let case = ReliabilityInputs::default().case().unwrap();
        assert_eq!(case.rates, EventRates::published());
        assert_eq!((case.array.group_drives(), case.model, case.hours()), (9, MarkovModel::B1, 43_800.0));
        assert_eq!(
            case.defaults,
            ["type", "data-disks", "groups", "years", "afr", "latent-rate", "restore", "scrub"]
        );
    }

    #[test]
    fn every_input_form_gives_the_published_rates() {
        let question = ReliabilityInputs {
            mtbf: Some("461052.63157894736h".parse().unwrap()),
            error_rate: Some("1e-14/bit".parse().unwrap()),
            read_rate: Some("1.35GB/h".parse().unwrap()),
            capacity: Some("432GB".parse().unwrap()),
            rebuild_rate: Some("10MB/s".parse().unwrap()),
            scrub_pass: Some("14d".parse().unwrap()),
            ..ReliabilityInputs::default()
        };
        let (rates, published) = (question.case().unwrap().rates, EventRates::published());
        for (said, meant) in [
            (rates.failure, published.failure),
            (rates.latent, published.latent),
            (rates.restore, published.restore),
            (rates.scrub, published.scrub),
        ] {
            assert!((said.get() / meant.get() - 1.0).abs() < 1e-12, "{said} {meant}");
        }
    }

    #[test]
    fn an_annual_failure_rate_is_a_rate_or_a_probability() {
        let question = ReliabilityInputs {
            afr_reading: Some(AfrInterpretation::Probability),
            ..ReliabilityInputs::default()
        };
        let rate = question.case().unwrap().rates.failure.get();
        assert!((rate + (1.0f64 - 0.019).ln() / 8760.0).abs() < 1e-20);
    }

    #[test]
    fn invalid_inputs_give_a_clear_one_line_error() {
        let refused = |question: ReliabilityInputs| {
            let error = question.case().unwrap_err();
            format!("{error}; {}", error.advice().unwrap_or_default())
        };
        let base = ReliabilityInputs::default;
        for (question, part) in [
            (ReliabilityInputs { data_disks: Some(0), ..base() }, "data disks"),
            (ReliabilityInputs { groups: Some(0), ..base() }, "groups"),
            (ReliabilityInputs { drives: Some(8), ..base() }, "larger than the array"),
            (ReliabilityInputs { drives: Some(20), ..base() }, "left over"),
            (ReliabilityInputs { years: Some(0.0), ..base() }, "years"),
            (ReliabilityInputs { years: Some(-1.0), ..base() }, "negative"),
            (ReliabilityInputs { years: Some(f64::NAN), ..base() }, "negative"),
            (ReliabilityInputs { years: Some(1e9), ..base() }, "exceeds the maximum"),
            (ReliabilityInputs { restore: Hours::new(0.0).ok(), ..base() }, "above zero"),
            (
                ReliabilityInputs { scrub: Some(ScrubPolicy::Mean(Hours::new(0.0).unwrap())), ..base() },
                "above zero",
            ),
            (ReliabilityInputs { mtbf: Hours::new(0.0).ok(), ..base() }, "above zero"),
            (
                ReliabilityInputs {
                    mtbf: Hours::new(1e6).ok(),
                    afr: AnnualFailure::new(0.01).ok(),
                    ..base()
                },
                "mutually exclusive",
            ),
            (ReliabilityInputs { error_rate: ErrorsPerByte::new(1e-14).ok(), ..base() }, "--read-rate"),
            (ReliabilityInputs { load: Fraction::new(0.5).ok(), ..base() }, "--bandwidth"),
            (ReliabilityInputs { capacity: Bytes::new(1e12).ok(), ..base() }, "--rebuild-rate"),
            (ReliabilityInputs { bandwidth: BytesPerSecond::new(1e8).ok(), ..base() }, "--capacity"),
            (ReliabilityInputs { spare_delivery: Hours::new(1.0).ok(), ..base() }, "--spares"),
            (
                ReliabilityInputs { raid: Some(RaidType::Raid5), model: Some(MarkovModel::B1), ..base() },
                "survives 1",
            ),
        ] {
            let text = refused(question);
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }
}
