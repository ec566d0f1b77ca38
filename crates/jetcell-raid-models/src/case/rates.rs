//! A drive's rates: failure, latent defects, restore, and scrub.

use super::{default, needs, only_one};
use crate::array::Array;
use crate::question::{AfrReading, Question};
use crate::rebuild::{Drive, Times};
use crate::scrub::Scrub;
use crate::spares::Spares;
use crate::step::{Step, show};
use crate::units::{AnnualFailure, BytesPerSecond, Hours, PerHour};
use crate::{Error, Rates};

/// Default time until a used spare is replaced, in hours.
const DELIVERY_HOURS: f64 = 72.0;

impl Question {
    pub(super) fn failure(
        &self,
        steps: &mut Vec<Step>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<PerHour, Error> {
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

    pub(super) fn latent(
        &self,
        steps: &mut Vec<Step>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<PerHour, Error> {
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
                    "--error-rate requires a read rate; give --read-rate (the published value is 1.35GB/h), \
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

    /// Returns the mean rebuild time, without the wait for a spare.
    pub(super) fn rebuild(
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
                return Err(Error::Combination("--rebuild-rate has no effect without --capacity".into()));
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

    pub(super) fn spare_wait(
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

    pub(super) fn scrub_rate(
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
            let why = "1 / half a pass: on average, the scrub reaches a defect after half a pass";
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
