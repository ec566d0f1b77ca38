//! Files that take the time of simulated drives, in real or in simulated time.
//!
//! | part | content |
//! | --- | --- |
//! | `drives` | the drives, what they are doing, and when it ends |
//! | `machine` | all drives with their time, and the thread that ends accesses |
//! | `file` | a file whose accesses are those of a drive |
//! | `vfs` | the layer over a file system |
//!
//! The model of a drive, with its queue and its cache, is that of `jetcell-disk-simulation`. The content is in the file below: the layer
//! adds time, and nothing else.

#![forbid(unsafe_code)]

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod drives;
mod file;
mod machine;
mod vfs;

pub use vfs::SimulatedDrives;

#[cfg(test)]
mod tests;
