//! The four laws of a drive slot: as published, or the constant rates of the Markov models.

use serde::Serialize;

use super::law::Weibull;
use crate::Case;
use crate::units::{Hours, PerHour};
use crate::{Error, Rates};

/// Scale of the published failure law in hours.
const FAILURE_SCALE: f64 = 461_386.0;
/// Shape of the published failure law: slow wear-out.
const FAILURE_SHAPE: f64 = 1.12;
/// Minimum time of the published restores and scrubs in hours.
const LEAST: f64 = 6.0;
/// Shape of the published restore law.
const RESTORE_SHAPE: f64 = 2.0;
/// Shape of the published scrub law.
const SCRUB_SHAPE: f64 = 3.0;

/// The laws of the events of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Laws {
    /// From a drive's first hour to its failure. `None` if drives never fail.
    pub failure: Option<Weibull>,
    /// From a clean drive to a latent defect.
    pub latent: Option<Weibull>,
    /// From a failure to the end of the restore.
    pub restore: Weibull,
    /// From a defect to its repair.
    pub scrub: Option<Weibull>,
}

/// Which laws to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shapes {
    /// The published shapes, with the times of the case as scales.
    #[default]
    Published,
    /// Constant rates, for comparison with the Markov models.
    Exponential,
}

impl Laws {
    /// Laws of a case.
    pub fn new(shapes: Shapes, case: &Case) -> Result<Laws, Error> {
        match shapes {
            Shapes::Exponential => Laws::exponential(&case.rates),
            Shapes::Published => Laws::published(&case.rates, case.defaults.contains(&"afr")),
        }
    }

    /// Constant rates.
    pub fn exponential(rates: &Rates) -> Result<Laws, Error> {
        let law = |rate: PerHour| rate.mean().map(Weibull::exponential).transpose();
        Ok(Laws {
            failure: law(rates.failure)?,
            latent: law(rates.latent)?,
            restore: law(rates.restore)?.ok_or(Error::Zero("the restore rate"))?,
            scrub: law(rates.scrub)?,
        })
    }

    /// Elerath and Pecht: failures Weibull(0, 461386, 1.12), restores Weibull(6, 12, 2), defects exponential, scrubs
    /// Weibull(6, 168, 3). Times of the case take the place of the scales; the least time of 6 h is halved with a
    /// scale below 12 h. The published failure scale stands for the published failure rate.
    fn published(rates: &Rates, failure_is_published: bool) -> Result<Laws, Error> {
        let delayed =
            |mean: Hours, shape| Weibull::new(Hours::new(LEAST.min(mean.get() / 2.0))?, mean, shape);
        let failure =
            if failure_is_published { Some(Hours::new(FAILURE_SCALE)?) } else { rates.failure.mean() };
        let restore = rates.restore.mean().ok_or(Error::Zero("the restore rate"))?;
        Ok(Laws {
            failure: failure.map(|scale| Weibull::new(Hours::new(0.0)?, scale, FAILURE_SHAPE)).transpose()?,
            latent: rates.latent.mean().map(Weibull::exponential).transpose()?,
            restore: delayed(restore, RESTORE_SHAPE)?,
            scrub: rates.scrub.mean().map(|mean| delayed(mean, SCRUB_SHAPE)).transpose()?,
        })
    }
}
