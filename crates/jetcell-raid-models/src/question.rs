//! What a user knows, and what the models need.
//!
//! Every field of a [`Question`] may be left away; [`Question::case`] fills in the published parameters, derives rates
//! from what was given, and says in [`Case::steps`] how. Two answers to one question are refused.

use serde::Serialize;

use crate::array::{Array, RaidType};
use crate::rebuild::{Drive, Times};
use crate::scrub::Scrub;
use crate::spares::Spares;
use crate::step::{Step, show};
use crate::units::{
    AnnualFailure, Bytes, BytesPerSecond, ErrorsPerByte, Fraction, HOURS_PER_YEAR, Hours, PerHour,
};
use crate::{Error, Model, Rates};

/// Longest mission in years.
pub const MOST_YEARS: f64 = 1000.0;

/// Share of the free bandwidth that a scrub gets when nothing else is said.
const SCRUB_SHARE: f64 = 0.1;

/// Time in which a spare is replaced when nothing else is said, in hours.
const DELIVERY_HOURS: f64 = 72.0;

/// How "1.9 % a year" is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfrReading {
    /// Failures per year of work.
    #[default]
    Rate,
    /// Probability that a drive fails within a year.
    Probability,
}

/// Everything that can be said about a case; see the command's options of the same names.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Question {
    pub raid: Option<RaidType>,
    pub data_disks: Option<u32>,
    pub groups: Option<u32>,
    pub drives: Option<u32>,
    pub years: Option<f64>,
    pub model: Option<Model>,
    pub afr: Option<AnnualFailure>,
    pub afr_reading: Option<AfrReading>,
    pub mtbf: Option<Hours>,
    pub latent_rate: Option<PerHour>,
    pub error_rate: Option<ErrorsPerByte>,
    pub read_rate: Option<BytesPerSecond>,
    pub restore: Option<Hours>,
    pub rebuild_rate: Option<BytesPerSecond>,
    pub scrub: Option<Scrub>,
    pub scrub_pass: Option<Hours>,
    pub capacity: Option<Bytes>,
    pub bandwidth: Option<BytesPerSecond>,
    pub load: Option<Fraction>,
    pub scrub_share: Option<Fraction>,
    pub bus: Option<BytesPerSecond>,
    pub spares: Option<u32>,
    pub spare_delivery: Option<Hours>,
}

/// A question with all its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What is bought.
    pub array: Array,
    /// Mission in years.
    pub years: f64,
    /// The diagram.
    pub model: Model,
    /// Rates of a drive.
    pub rates: Rates,
    /// Times that were derived from bandwidth and load.
    pub times: Option<Times>,
    /// Mean wait for a spare, within the restore time.
    pub spare_wait: Option<Hours>,
    /// Inputs that were left away and are the published ones.
    pub defaults: Vec<&'static str>,
    /// How the numbers came about.
    pub steps: Vec<Step>,
}

impl Case {
    /// Mission in hours.
    pub fn hours(&self) -> f64 {
        self.years * HOURS_PER_YEAR
    }
}

/// Refuses two answers to one question.
fn only_one(answers: &[(&str, bool)]) -> Result<(), Error> {
    let given: Vec<&str> = answers.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if given.len() < 2 {
        return Ok(());
    }
    Err(Error::Combination(format!("{} answer the same question; give one of them", given.join(" and "))))
}

fn needs(given: bool, option: &str, partner: bool, partners: &str) -> Result<(), Error> {
    if given && !partner {
        return Err(Error::Combination(format!("{option} says nothing without {partners}")));
    }
    Ok(())
}

impl Question {
    /// All numbers, or what is wrong with them.
    pub fn case(&self) -> Result<Case, Error> {
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
        if years > MOST_YEARS {
            return Err(Error::Combination(format!(
                "{years} years is more than the {MOST_YEARS} that are modelled"
            )));
        }
        let model = self.model.unwrap_or_else(|| Model::default_for(array.raid())).check(array.raid())?;
        let drive = self.drive()?;
        let times = drive.map(|drive| drive.times(array.set().drives())).transpose()?;
        let failure = self.failure(&mut steps, &mut defaults)?;
        let latent = self.latent(&mut steps, &mut defaults)?;
        let rebuild = self.rebuild(drive, times, &mut steps, &mut defaults)?;
        let spare_wait = self.spare_wait(array, failure, &mut steps)?;
        let restore = Hours::new(rebuild.get() + spare_wait.map_or(0.0, Hours::get))?;
        let restore = PerHour::once_per(restore)?;
        steps.push(Step::new(
            "mo",
            "restore rate",
            "1 / mean time to restore",
            format!("1 / {}", show(1.0 / restore.get())),
            restore.get(),
            "/h",
        ));
        let scrub = self.scrub_rate(drive, times, &mut steps, &mut defaults)?;
        let rates = Rates { failure, latent, restore, scrub }.check()?;
        Ok(Case { array, years, model, rates, times, spare_wait, defaults, steps })
    }

    fn array(&self, defaults: &mut Vec<&'static str>) -> Result<Array, Error> {
        only_one(&[("--groups", self.groups.is_some()), ("--drives", self.drives.is_some())])?;
        let raid = self.raid.unwrap_or_else(|| default(defaults, "type", RaidType::RaidDp));
        let data = if raid.is_mirror() { 1 } else { 7 };
        let data_disks = self.data_disks.unwrap_or_else(|| default(defaults, "data-disks", data));
        let Some(drives) = self.drives else {
            let groups = self.groups.unwrap_or_else(|| default(defaults, "groups", 1));
            return Array::new(raid, data_disks, groups);
        };
        let group = Array::new(raid, data_disks, 1)?.group_drives();
        let group = u32::try_from(group).unwrap_or(u32::MAX);
        if group > drives {
            return Err(Error::GroupLargerThanArray { group, array: drives });
        }
        if !drives.is_multiple_of(group) {
            return Err(Error::Combination(format!(
                "{drives} drives are no whole number of groups of {group}: {} are left over",
                drives % group
            )));
        }
        Array::new(raid, data_disks, drives / group)
    }

    /// The drive, when enough is said about it.
    fn drive(&self) -> Result<Option<Drive>, Error> {
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
        Ok(Some(Drive { capacity, bandwidth, load, scrub_share, bus: self.bus }))
    }

    fn failure(&self, steps: &mut Vec<Step>, defaults: &mut Vec<&'static str>) -> Result<PerHour, Error> {
        only_one(&[("--afr", self.afr.is_some()), ("--mtbf", self.mtbf.is_some())])?;
        if let Some(mtbf) = self.mtbf {
            needs(self.afr_reading.is_some(), "--afr-reading", false, "--afr")?;
            let rate = PerHour::once_per(mtbf)?;
            steps.push(Step::new(
                "lo",
                "failure rate",
                "1 / MTBF",
                format!("1 / {}", show(mtbf.get())),
                rate.get(),
                "/h",
            ));
            return Ok(rate);
        }
        let afr = match self.afr {
            Some(afr) => afr,
            None => AnnualFailure::new(default(defaults, "afr", Rates::PUBLISHED_AFR))?,
        };
        let (formula, numbers, rate) = match self.afr_reading.unwrap_or_default() {
            AfrReading::Rate => ("AFR / 8760 h", format!("{} / 8760", show(afr.get())), afr.as_rate()),
            AfrReading::Probability => (
                "-ln(1 - AFR) / 8760 h",
                format!("-ln(1 - {}) / 8760", show(afr.get())),
                afr.as_probability()?,
            ),
        };
        steps.push(Step::new("lo", "failure rate", formula, numbers, rate.get(), "/h"));
        Ok(rate)
    }

    fn latent(&self, steps: &mut Vec<Step>, defaults: &mut Vec<&'static str>) -> Result<PerHour, Error> {
        only_one(&[
            ("--latent-rate", self.latent_rate.is_some()),
            ("--error-rate", self.error_rate.is_some()),
        ])?;
        let Some(errors) = self.error_rate else {
            needs(self.read_rate.is_some(), "--read-rate", false, "--error-rate")?;
            let rate = match self.latent_rate {
                Some(rate) => rate,
                None => PerHour::new(default(defaults, "latent-rate", Rates::PUBLISHED_LATENT))?,
            };
            steps.push(Step::new("ll", "latent-defect rate", "as given", show(rate.get()), rate.get(), "/h"));
            return Ok(rate);
        };
        let read = match (self.read_rate, self.bandwidth, self.load) {
            (Some(rate), _, _) => rate,
            (None, Some(bandwidth), Some(load)) => BytesPerSecond::new(bandwidth.get() * load.get())?,
            _ => {
                return Err(Error::Combination(
                    "--error-rate needs the bytes that a drive reads: give --read-rate (the published one is 1.35GB/h), \
                     or --bandwidth and --load"
                        .into(),
                ));
            }
        };
        let rate = errors.at(read)?;
        steps.push(Step::new(
            "ll",
            "latent-defect rate",
            "errors per byte x bytes read per hour",
            format!("{} x {}", show(errors.get()), show(read.get() * 3600.0)),
            rate.get(),
            "/h",
        ));
        Ok(rate)
    }

    /// Mean time of a rebuild, without the wait for a spare.
    fn rebuild(
        &self,
        drive: Option<Drive>,
        times: Option<Times>,
        steps: &mut Vec<Step>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<Hours, Error> {
        only_one(&[("--restore", self.restore.is_some()), ("--rebuild-rate", self.rebuild_rate.is_some())])?;
        if let Some(restore) = self.restore {
            return Ok(restore);
        }
        if let Some(rate) = self.rebuild_rate {
            let Some(capacity) = self.capacity else {
                return Err(Error::Combination("--rebuild-rate says nothing without --capacity".into()));
            };
            if rate.get() == 0.0 || capacity.get() == 0.0 {
                return Err(Error::Zero("rebuild rate and capacity"));
            }
            let hours = Hours::new(capacity.get() / rate.get() / 3600.0)?;
            let numbers = format!("{} / {} / 3600", show(capacity.get()), show(rate.get()));
            steps.push(Step::new("Tr", "rebuild time", "capacity / rebuild rate", numbers, hours.get(), "h"));
            return Ok(hours);
        }
        let (Some(drive), Some(times)) = (drive, times) else {
            return Hours::new(default(defaults, "restore", Rates::PUBLISHED_RESTORE_HOURS));
        };
        steps.push(Step::new(
            "Tr",
            "rebuild time",
            "capacity / min(write rate, read rate (1 - load), bus / drives)",
            format!("{} / {} / 3600", show(drive.capacity.get()), show(times.rebuild_rate.get())),
            times.rebuild.get(),
            "h",
        ));
        Ok(times.rebuild)
    }

    fn spare_wait(
        &self,
        array: Array,
        failure: PerHour,
        steps: &mut Vec<Step>,
    ) -> Result<Option<Hours>, Error> {
        needs(self.spare_delivery.is_some(), "--spare-delivery", self.spares.is_some(), "--spares")?;
        let Some(count) = self.spares else { return Ok(None) };
        let delivery = self.spare_delivery.map_or_else(|| Hours::new(DELIVERY_HOURS), Ok)?;
        let rate = PerHour::new(failure.get() * array.drives() as f64)?;
        let wait = Spares { count, delivery }.mean_wait(rate)?;
        steps.push(Step::new(
            "Tw",
            "mean wait for a spare",
            "sum over k > spares of (k - spares) Poisson(k; x) / (drives lo), x = drives lo delivery",
            format!(
                "x = {} x {} x {}, {count} spares",
                array.drives(),
                show(failure.get()),
                show(delivery.get())
            ),
            wait.get(),
            "h",
        ));
        Ok(Some(wait))
    }

    fn scrub_rate(
        &self,
        drive: Option<Drive>,
        times: Option<Times>,
        steps: &mut Vec<Step>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<PerHour, Error> {
        only_one(&[("--scrub", self.scrub.is_some()), ("--scrub-pass", self.scrub_pass.is_some())])?;
        let half_pass = |pass: Hours, formula, numbers, steps: &mut Vec<Step>| {
            steps.push(Step::new("Tp", "scrub pass", formula, numbers, pass.get(), "h"));
            let rate = PerHour::once_per(Hours::new(pass.get() / 2.0)?)?;
            let why = "1 / half a pass: a defect lies half a pass ahead on average";
            steps.push(Step::new(
                "ms",
                "scrub rate",
                why,
                format!("2 / {}", show(pass.get())),
                rate.get(),
                "/h",
            ));
            Ok(rate)
        };
        match (self.scrub, self.scrub_pass, drive, times) {
            (Some(scrub), ..) => scrub_step(scrub, steps),
            (None, Some(pass), ..) => half_pass(pass, "as given", show(pass.get()), steps),
            (None, None, Some(drive), Some(times)) => half_pass(
                times.scrub_pass,
                "capacity / (bandwidth (1 - load) share)",
                format!(
                    "{} / ({} x {} x {}) / 3600",
                    show(drive.capacity.get()),
                    show(drive.bandwidth.get()),
                    show(1.0 - drive.load.get()),
                    show(drive.scrub_share.get())
                ),
                steps,
            ),
            _ => {
                let hours = default(defaults, "scrub", Rates::PUBLISHED_SCRUB_HOURS);
                scrub_step(Scrub::Mean(Hours::new(hours)?), steps)
            }
        }
    }
}

fn scrub_step(scrub: Scrub, steps: &mut Vec<Step>) -> Result<PerHour, Error> {
    let rate = scrub.rate()?;
    let numbers = match scrub {
        Scrub::Never => "never".to_string(),
        Scrub::Mean(time) => format!("1 / {}", show(time.get())),
    };
    steps.push(Step::new("ms", "scrub rate", "1 / mean time to discovery", numbers, rate.get(), "/h"));
    Ok(rate)
}

fn default<T>(defaults: &mut Vec<&'static str>, name: &'static str, value: T) -> T {
    defaults.push(name);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_the_published_case() {
        let case = Question::default().case().unwrap();
        assert_eq!(case.rates, Rates::published());
        assert_eq!((case.array.group_drives(), case.model, case.hours()), (9, Model::B1, 43_800.0));
        assert_eq!(
            case.defaults,
            ["type", "data-disks", "groups", "years", "afr", "latent-rate", "restore", "scrub"]
        );
    }

    #[test]
    fn every_way_to_say_the_published_rates_gives_them() {
        let question = Question {
            mtbf: Some("461052.63157894736h".parse().unwrap()),
            error_rate: Some("1e-14/bit".parse().unwrap()),
            read_rate: Some("1.35GB/h".parse().unwrap()),
            capacity: Some("432GB".parse().unwrap()),
            rebuild_rate: Some("10MB/s".parse().unwrap()),
            scrub_pass: Some("14d".parse().unwrap()),
            ..Question::default()
        };
        let (rates, published) = (question.case().unwrap().rates, Rates::published());
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
    fn the_two_readings_of_a_percentage() {
        let question = Question { afr_reading: Some(AfrReading::Probability), ..Question::default() };
        let rate = question.case().unwrap().rates.failure.get();
        assert!((rate + (1.0f64 - 0.019).ln() / 8760.0).abs() < 1e-20);
    }

    #[test]
    fn nonsense_is_one_clear_line() {
        let refused = |question: Question| question.case().unwrap_err().to_string();
        let base = Question::default;
        for (question, part) in [
            (Question { data_disks: Some(0), ..base() }, "data disks"),
            (Question { groups: Some(0), ..base() }, "groups"),
            (Question { drives: Some(8), ..base() }, "larger than the array"),
            (Question { drives: Some(20), ..base() }, "left over"),
            (Question { years: Some(0.0), ..base() }, "years"),
            (Question { years: Some(-1.0), ..base() }, "negative"),
            (Question { years: Some(f64::NAN), ..base() }, "negative"),
            (Question { years: Some(1e9), ..base() }, "modelled"),
            (Question { restore: Hours::new(0.0).ok(), ..base() }, "above zero"),
            (Question { scrub: Some(Scrub::Mean(Hours::new(0.0).unwrap())), ..base() }, "above zero"),
            (Question { mtbf: Hours::new(0.0).ok(), ..base() }, "above zero"),
            (
                Question { mtbf: Hours::new(1e6).ok(), afr: AnnualFailure::new(0.01).ok(), ..base() },
                "same question",
            ),
            (Question { error_rate: ErrorsPerByte::new(1e-14).ok(), ..base() }, "--read-rate"),
            (Question { load: Fraction::new(0.5).ok(), ..base() }, "--bandwidth"),
            (Question { capacity: Bytes::new(1e12).ok(), ..base() }, "--rebuild-rate"),
            (Question { bandwidth: BytesPerSecond::new(1e8).ok(), ..base() }, "--capacity"),
            (Question { spare_delivery: Hours::new(1.0).ok(), ..base() }, "--spares"),
            (Question { raid: Some(RaidType::Raid5), model: Some(Model::B1), ..base() }, "survives 1"),
        ] {
            let text = refused(question);
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }
}
