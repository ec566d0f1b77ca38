//! Power meters and their readings. [`Meter`] reads a meter, [`PowerLog`] contains recorded readings, and [`Energy`]
//! provides joules, kilowatt-hours, cost and carbon dioxide.
//!
//! Every figure has a [`Scope`]. A meter at a server's outlet cannot measure one of its drives separately.

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

pub use energy::{Energy, Tariff};
pub use error::PowerError;
pub use meter::{Meter, MeterKind, Reading, found_meters};
pub use power_log::{PowerLog, Recorder, Used};
pub use scope::Scope;
