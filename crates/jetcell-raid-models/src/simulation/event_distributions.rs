//! The four distributions for a drive slot, either as published or with the Markov models' constant rates.

use serde::Serialize;

use super::weibull::Weibull;
use crate::ReliabilityCase;
use crate::units::{Hours, PerHour};
use crate::{Error, EventRates};

/// Scale of the published failure distribution, in hours.
const FAILURE_SCALE: f64 = 461_386.0;
/// Shape of the published failure distribution: slow wear-out.
const FAILURE_SHAPE: f64 = 1.12;
/// Minimum time for restores and scrubs in the published distributions, in hours.
const MIN_HOURS: f64 = 6.0;
/// Shape of the published restore distribution.
const RESTORE_SHAPE: f64 = 2.0;
/// Shape of the published scrub distribution.
const SCRUB_SHAPE: f64 = 3.0;

/// Distributions of the times between events in a drive's life.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventDistributions {
    /// Time from a drive's first hour until it fails. `None` if drives never fail.
    pub failure: Option<Weibull>,
    /// Time until a drive without a defect develops a latent defect.
    pub latent: Option<Weibull>,
    /// Time from a failure until the restore ends.
    pub restore: Weibull,
    /// Time from a defect until it is repaired.
    pub scrub: Option<Weibull>,
}

/// Which distributions to use in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DistributionShapes {
    /// The published shapes, scaled to the case's times.
    #[default]
    Published,
    /// Constant rates, for comparison with the Markov models.
    Exponential,
}

impl EventDistributions {
    /// Creates the distributions for a case.
    pub fn new(shapes: DistributionShapes, case: &ReliabilityCase) -> Result<EventDistributions, Error> {
        match shapes {
            DistributionShapes::Exponential => EventDistributions::exponential(&case.rates),
            DistributionShapes::Published => {
                EventDistributions::published(&case.rates, case.defaults.contains(&"afr"))
            }
        }
    }

    /// Creates distributions with constant rates.
    pub fn exponential(rates: &EventRates) -> Result<EventDistributions, Error> {
        let law = |rate: PerHour| rate.mean().map(Weibull::exponential).transpose();
        Ok(EventDistributions {
            failure: law(rates.failure)?,
            latent: law(rates.latent)?,
            restore: law(rates.restore)?.ok_or(Error::Zero("the restore rate"))?,
            scrub: law(rates.scrub)?,
        })
    }

    /// Creates the distributions published by Elerath and Pecht: failures Weibull(0, 461386, 1.12), restores
    /// Weibull(6, 12, 2), defects exponential, scrubs Weibull(6, 168, 3). The scales are replaced by the case's
    /// times. If such a scale is below 12 h, the minimum time is half the scale instead of 6 h. The published failure
    /// scale is kept if the case has the published failure rate.
    fn published(rates: &EventRates, failure_is_published: bool) -> Result<EventDistributions, Error> {
        let delayed =
            |mean: Hours, shape| Weibull::new(Hours::new(MIN_HOURS.min(mean.get() / 2.0))?, mean, shape);
        let failure =
            if failure_is_published { Some(Hours::new(FAILURE_SCALE)?) } else { rates.failure.mean() };
        let restore = rates.restore.mean().ok_or(Error::Zero("the restore rate"))?;
        Ok(EventDistributions {
            failure: failure.map(|scale| Weibull::new(Hours::new(0.0)?, scale, FAILURE_SHAPE)).transpose()?,
            latent: rates.latent.mean().map(Weibull::exponential).transpose()?,
            restore: delayed(restore, RESTORE_SHAPE)?,
            scrub: rates.scrub.mean().map(|mean| delayed(mean, SCRUB_SHAPE)).transpose()?,
        })
    }
}
