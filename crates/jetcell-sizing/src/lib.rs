//! Sizes mailbox servers: IOPS, capacity, memory, network, backup, arrays and cost. The crate performs no I/O.
//!
//! [`Config`] describes mailboxes, servers and disks. [`size`] performs the calculation. The result,
//! [`SizingResult`], contains plain values and the [`CalculationSheet`], which shows every formula with its numbers.
//! The coefficients for platforms and disks are stored in files ([`platform::PLATFORMS`],
//! [`catalogue::DEFAULT_DISKS`]) together with their evidence. A configuration can override each of them.
//!
//! The crate does not size processors, or anything else that only a measurement can determine.

#![forbid(unsafe_code)]

#[macro_use]
pub mod sheet;

pub mod catalogue;
pub mod config;
pub mod demand;
pub mod disk_count;
pub mod economy;
mod error;
pub mod mailbox;
pub mod platform;
pub mod raid;
mod sizing;
pub mod states;
mod test_config;
pub mod units;

pub use catalogue::DiskCatalogue;
pub use config::{Config, EXAMPLE};
pub use error::SizingError;
pub use sheet::CalculationSheet;
pub use sizing::{SizingResult, StorageDesign, size};

/// Compiles the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
