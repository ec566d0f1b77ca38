//! Power meters and what their figures mean: [`Meter`] reads one, [`PowerLog`] is what one recorded, and [`Energy`] has joules,
//! kilowatt-hours, cost and carbon dioxide.
//!
//! Every figure has a [`Scope`]: a meter at the outlet of a server says nothing about one of its drives.

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
