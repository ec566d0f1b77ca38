//! Sizes mailbox servers: IOPS, capacity, memory, network, backup, arrays and cost. The crate performs no I/O.
//!
//! [`Config`] describes mailboxes, servers and disks. [`size`] performs the calculation. The result, [`Sizing`],
//! contains plain values and the [`Sheet`], which shows every formula with its numbers. The coefficients for
//! platforms and disks are stored in files ([`platform::PLATFORMS`], [`catalogue::DEFAULT_DISKS`]) together with
//! their evidence. A configuration can override each of them.
//!
//! The crate does not size processors, or anything else that only a measurement can determine.

#![forbid(unsafe_code)]

#[macro_use]
pub mod sheet;

pub mod array;
pub mod catalogue;
pub mod config;
pub mod demand;
pub mod economy;
pub mod mailbox;
mod mistake;
pub mod platform;
pub mod raid;
mod sizing;
pub mod states;
mod test_config;
pub mod units;

pub use catalogue::Catalogue;
pub use config::{Config, EXAMPLE};
pub use mistake::Mistake;
pub use sheet::Sheet;
pub use sizing::{Design, Sizing, size};

/// Compiles the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
