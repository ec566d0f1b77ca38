//! Arrays of simulated disks under a load, in simulated time.
//!
//! The crate only calculates: it reads no file and no clock. From the bottom up; each part uses only those above it in this table:
//!
//! | part | content |
//! | --- | --- |
//! | [`drive`] | parameters of drives, and the time that an access takes |
//! | [`demerit`](demerit()) | how well modelled times agree with measured ones |
//! | [`config`] | an experiment: drive, load, layouts |
//! | `cache` | a drive's own memory |
//! | [`disk`] | a drive with its queue and its memory |
//! | [`drive_figures`] | drives beside what is published of them |
//! | `in_place` | RAID 10, 5, 6 and RAID-DP that overwrite blocks where they are |
//! | [`write_anywhere`] | a volume that writes whole stripes where there is room |
//! | `logs` | drives for logs |
//! | `engine` | events in simulated time |
//! | [`timeline`] | the loss and the rebuild of a drive, second by second |
//! | [`experiment`] | runs of all layouts and states |
//! | [`published`] | the figures of the paper |
//!
//! A run is a function of its configuration and seed.

#![forbid(unsafe_code)]

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod cache;
pub mod config;
mod demerit;
pub mod disk;
pub mod drive;
pub mod drive_figures;
mod engine;
pub mod experiment;
mod in_place;
mod logs;
pub mod published;
pub mod timeline;
pub mod write_anywhere;

pub use cache::CacheParameters;
pub use config::{Config, Invalid, Layout, Level};
pub use demerit::demerit;
pub use experiment::{Experiment, run};
