//! Simulates disk arrays under load, in simulated time.
//!
//! The crate only computes: it reads no files and no clock. The modules, from the lowest layer to the highest; each
//! module uses only those above it in the table:
//!
//! | part | content |
//! | --- | --- |
//! | [`drive`] | drive parameters, and access durations |
//! | [`demerit`](demerit()) | agreement between modelled and measured times |
//! | [`config`] | an experiment: drive, load, layouts |
//! | `cache` | a drive's cache |
//! | [`disk`] | a drive with its queue and cache |
//! | [`drive_figures`] | comparison of drives with published figures |
//! | `in_place` | RAID 10, 5, 6 and RAID-DP that overwrite blocks in place |
//! | [`write_anywhere`] | a volume that writes whole stripes where there is room |
//! | `simulated_logs` | drives for logs |
//! | `engine` | events in simulated time |
//! | [`timeline`] | the loss and rebuild of a drive, second by second |
//! | [`experiment`] | runs of all layouts and states |
//!
//! The result of a run depends only on its configuration and seed.

#![forbid(unsafe_code)]

/// Compiles and runs the example in the README as a test.
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
mod simulated_logs;
pub mod timeline;
pub mod write_anywhere;

pub use cache::CacheParameters;
pub use config::{Config, InvalidConfig, SimulatedLayout, SimulatedLevel};
pub use demerit::demerit;
pub use experiment::{ExperimentResults, run};
