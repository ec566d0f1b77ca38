//! The four rates used by every model, and their published values.

use serde::Serialize;

use crate::Error;
use crate::units::{AnnualFailure, Hours, PerHour};

/// Event rates per hour for one drive. All times are exponentially distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventRates {
    /// Operational failure: the whole drive is lost. Symbol lo.
    pub failure: PerHour,
    /// Latent defect: a sector has become unreadable, but this has not been detected yet. Symbol ll.
    pub latent: PerHour,
    /// Restore of a failed drive: 1 / mean time until the group is fully redundant again. Symbol mo.
    pub restore: PerHour,
    /// Discovery and repair of a latent defect: 1 / mean lifetime of a defect. Zero without scrub. Symbol ms.
    pub scrub: PerHour,
}

impl EventRates {
    /// Annual failure rate from the published parameters.
    pub const PUBLISHED_AFR: f64 = 0.019;
    /// Latent defects per hour from the published parameters: 8e-14 errors per byte x 1.35e9 bytes per hour.
    pub const PUBLISHED_LATENT: f64 = 1.08e-4;
    /// Mean restore time from the published parameters, in hours.
    pub const PUBLISHED_RESTORE_HOURS: f64 = 12.0;
    /// Mean time until a defect is discovered, in hours, from the published parameters.
    pub const PUBLISHED_SCRUB_HOURS: f64 = 168.0;

    /// Returns the published parameters (IBM NS3574, after Elerath and Pecht).
    pub fn published() -> EventRates {
        let rates = || -> Result<EventRates, Error> {
            Ok(EventRates {
                failure: AnnualFailure::new(EventRates::PUBLISHED_AFR)?.as_rate(),
                latent: PerHour::new(EventRates::PUBLISHED_LATENT)?,
                restore: PerHour::once_per(Hours::new(EventRates::PUBLISHED_RESTORE_HOURS)?)?,
                scrub: PerHour::once_per(Hours::new(EventRates::PUBLISHED_SCRUB_HOURS)?)?,
            })
        };
        rates().expect("the published parameters are in range")
    }

    /// Returns an error if drives are never restored, because every model would then predict certain loss.
    pub fn check(self) -> Result<EventRates, Error> {
        if self.restore.get() > 0.0 { Ok(self) } else { Err(Error::Zero("the restore rate")) }
    }
}
