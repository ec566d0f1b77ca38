//! Files whose accesses take as long as those of simulated drives, in real or simulated time.
//!
//! | part | content |
//! | --- | --- |
//! | `drives` | the drives, their accesses in progress, and the completion times |
//! | `machine` | all drives with their clock, and the thread that completes accesses |
//! | `file` | a file with the access times of a drive |
//! | `vfs` | the layer over a file system |
//!
//! The drive model, including its queue and cache, comes from `jetcell-disk-simulation`. Content is stored in the
//! underlying files, and this layer only adds time.

#![forbid(unsafe_code)]

/// Compiles and runs the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod drives;
mod file;
mod scheduler;
mod vfs;

pub use vfs::SimulatedDriveVfs;

#[cfg(test)]
mod tests;
