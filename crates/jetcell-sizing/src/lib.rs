//! From mailboxes to disks: IOPS, capacity, memory, network, backup, arrays, money. Arithmetic only, no I/O.
//!
//! [`Config`] says who uses what on which servers, [`size`] calculates, [`Sizing`] is the result: plain values, and
//! the [`Sheet`] with every formula and its numbers. Coefficients of platforms and disks are files
//! ([`platform::PLATFORMS`], [`catalogue::DEFAULT_DISKS`]), every one with its evidence, every one to be overruled.
//!
//! Left out: processors; anything that needs a measurement to be known.

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

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
