//! A drive's rates: failure, latent defects, restore, and scrub.

use super::{default, needs, only_one};
use crate::array::ArrayShape;
use crate::calculation_step::{CalculationStep, format_value};
use crate::inputs::{AfrInterpretation, ReliabilityInputs};
use crate::rebuild::{LoadedDrive, RebuildTimes};
use crate::scrub::ScrubPolicy;
use crate::spares::SpareDrives;
use crate::units::{AnnualFailure, BytesPerSecond, Hours, PerHour};
use crate::{Error, EventRates};

/// Default time until a used spare is replaced, in hours.
const DELIVERY_HOURS: f64 = 72.0;

impl ReliabilityInputs {
    pub(super) fn failure(
        &self,
        steps: &mut Vec<CalculationStep>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<PerHour, Error> {
        only_one(&[("--afr", self.afr.is_some()), ("--mtbf", self.mtbf.is_some())])?;
        if let Some(mtbf) = self.mtbf {
            needs(self.afr_reading.is_some(), "--afr-reading", false, "--afr")?;
            let rate = PerHour::once_per(mtbf)?;
            steps.push(CalculationStep::new(
                "lo",
                "failure rate",
                "1 / MTBF",
                format!("1 / {}", format_value(mtbf.get())),
                rate.get(),
                "/h",
            ));
            return Ok(rate);
        }
        let afr = match self.afr {
            Some(afr) => afr,
            None => AnnualFailure::new(default(defaults, "afr", EventRates::PUBLISHED_AFR))?,
        };
        let (formula, numbers, rate) = match self.afr_reading.unwrap_or_default() {
            AfrInterpretation::Rate => {
                ("AFR / 8760 h", format!("{} / 8760", format_value(afr.get())), afr.as_rate())
            }
            AfrInterpretation::Probability => (
                "-ln(1 - AFR) / 8760 h",
                format!("-ln(1 - {}) / 8760", format_value(afr.get())),
                afr.as_probability()?,
            ),
        };
        steps.push(CalculationStep::new("lo", "failure rate", formula, numbers, rate.get(), "/h"));
        Ok(rate)
    }

    pub(super) fn latent(
        &self,
        steps: &mut Vec<CalculationStep>,
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
                None => PerHour::new(default(defaults, "latent-rate", EventRates::PUBLISHED_LATENT))?,
            };
            steps.push(CalculationStep::new(
                "ll",
                "latent-defect rate",
                "as given",
                format_value(rate.get()),
                rate.get(),
                "/h",
            ));
            return Ok(rate);
        };
        let read = match (self.read_rate, self.bandwidth, self.load) {
            (Some(rate), _, _) => rate,
            (None, Some(bandwidth), Some(load)) => BytesPerSecond::new(bandwidth.get() * load.get())?,
            _ => return Err(Error::NoReadRate),
        };
        let rate = errors.defect_rate_at(read)?;
        steps.push(CalculationStep::new(
            "ll",
            "latent-defect rate",
            "errors per byte x bytes read per hour",
            format!("{} x {}", format_value(errors.get()), format_value(read.get() * 3600.0)),
            rate.get(),
            "/h",
        ));
        Ok(rate)
    }

    /// Returns the mean rebuild time, without the wait for a spare.
    pub(super) fn rebuild(
        &self,
        drive: Option<LoadedDrive>,
        times: Option<RebuildTimes>,
        steps: &mut Vec<CalculationStep>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<Hours, Error> {
        only_one(&[("--restore", self.restore.is_some()), ("--rebuild-rate", self.rebuild_rate.is_some())])?;
        if let Some(restore) = self.restore {
            return Ok(restore);
        }
        if let Some(rate) = self.rebuild_rate {
            let Some(capacity) = self.capacity else {
                return Err(Error::NoEffect("--rebuild-rate", "--capacity"));
            };
            if rate.get() == 0.0 || capacity.get() == 0.0 {
                return Err(Error::Zero("rebuild rate and capacity"));
            }
            let hours = Hours::new(capacity.get() / rate.get() / 3600.0)?;
            let numbers = format!("{} / {} / 3600", format_value(capacity.get()), format_value(rate.get()));
            steps.push(CalculationStep::new(
                "Tr",
                "rebuild time",
                "capacity / rebuild rate",
                numbers,
                hours.get(),
                "h",
            ));
            return Ok(hours);
        }
        let (Some(drive), Some(times)) = (drive, times) else {
            return Hours::new(default(defaults, "restore", EventRates::PUBLISHED_RESTORE_HOURS));
        };
        steps.push(CalculationStep::new(
            "Tr",
            "rebuild time",
            "capacity / min(write rate, read rate (1 - load), bus / drives)",
            format!(
                "{} / {} / 3600",
                format_value(drive.capacity.get()),
                format_value(times.rebuild_rate.get())
            ),
            times.rebuild.get(),
            "h",
        ));
        Ok(times.rebuild)
    }

    pub(super) fn spare_wait(
        &self,
        array: ArrayShape,
        failure: PerHour,
        steps: &mut Vec<CalculationStep>,
    ) -> Result<Option<Hours>, Error> {
        needs(self.spare_delivery.is_some(), "--spare-delivery", self.spares.is_some(), "--spares")?;
        let Some(count) = self.spares else { return Ok(None) };
        let delivery = self.spare_delivery.map_or_else(|| Hours::new(DELIVERY_HOURS), Ok)?;
        let rate = PerHour::new(failure.get() * array.drives() as f64)?;
        let wait = SpareDrives { count, delivery }.mean_wait(rate)?;
        steps.push(CalculationStep::new(
            "Tw",
            "mean wait for a spare",
            "sum over k > spares of (k - spares) Poisson(k; x) / (drives lo), x = drives lo delivery",
            format!(
                "x = {} x {} x {}, {count} spares",
                array.drives(),
                format_value(failure.get()),
                format_value(delivery.get())
            ),
            wait.get(),
            "h",
        ));
        Ok(Some(wait))
    }

    pub(super) fn scrub_rate(
        &self,
        drive: Option<LoadedDrive>,
        times: Option<RebuildTimes>,
        steps: &mut Vec<CalculationStep>,
        defaults: &mut Vec<&'static str>,
    ) -> Result<PerHour, Error> {
        only_one(&[("--scrub", self.scrub.is_some()), ("--scrub-pass", self.scrub_pass.is_some())])?;
        let half_pass = |pass: Hours, formula, numbers, steps: &mut Vec<CalculationStep>| {
            steps.push(CalculationStep::new("Tp", "scrub pass", formula, numbers, pass.get(), "h"));
            let rate = PerHour::once_per(Hours::new(pass.get() / 2.0)?)?;
            let why = "1 / half a pass: on average, the scrub reaches a defect after half a pass";
            steps.push(CalculationStep::new(
                "ms",
                "scrub rate",
                why,
                format!("2 / {}", format_value(pass.get())),
                rate.get(),
                "/h",
            ));
            Ok(rate)
        };
        match (self.scrub, self.scrub_pass, drive, times) {
            (Some(scrub), ..) => scrub_step(scrub, steps),
            (None, Some(pass), ..) => half_pass(pass, "as given", format_value(pass.get()), steps),
            (None, None, Some(drive), Some(times)) => half_pass(
                times.scrub_pass,
                "capacity / (bandwidth (1 - load) share)",
                format!(
                    "{} / ({} x {} x {}) / 3600",
                    format_value(drive.capacity.get()),
                    format_value(drive.bandwidth.get()),
                    format_value(1.0 - drive.load.get()),
                    format_value(drive.scrub_share.get())
                ),
                steps,
            ),
            _ => {
                let hours = default(defaults, "scrub", EventRates::PUBLISHED_SCRUB_HOURS);
                scrub_step(ScrubPolicy::Mean(Hours::new(hours)?), steps)
            }
        }
    }
}

fn scrub_step(scrub: ScrubPolicy, steps: &mut Vec<CalculationStep>) -> Result<PerHour, Error> {
    let rate = scrub.rate()?;
    let numbers = match scrub {
        ScrubPolicy::Never => "never".to_string(),
        ScrubPolicy::Mean(time) => format!("1 / {}", format_value(time.get())),
    };
    steps.push(CalculationStep::new(
        "ms",
        "scrub rate",
        "1 / mean time to discovery",
        numbers,
        rate.get(),
        "/h",
    ));
    Ok(rate)
}
