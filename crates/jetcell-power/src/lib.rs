//! Power meters and their readings. [`PowerMeter`] reads a meter, [`PowerLog`] contains recorded readings, and
//! [`EnergyEstimate`] provides joules, kilowatt-hours, cost and carbon dioxide.
//!
//! Every figure has a [`MeterScope`]. A meter at a server's outlet cannot measure one of its drives separately.

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod energy;
mod error;
mod hwmon;
mod ipmi;
mod meter;
#[cfg(feature = "plugs")]
mod plug;
mod plug_kind;
mod power_log;
mod rapl;
mod scope;

pub use energy::{EnergyEstimate, EnergyTariff, EnergyUse};
pub use error::{MeterError, PowerError, PowerLogError, PowerRowError};
pub use meter::{MeterKind, MeterKindError, MeterReading, PowerMeter, detect_meters};
pub use power_log::{PowerLog, PowerRecorder};
pub use scope::{MeterScope, UnknownScope};
