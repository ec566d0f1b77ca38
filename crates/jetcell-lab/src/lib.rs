//! Examines and tests storage. [`drive`] measures drives and file systems. [`drives`] summarizes a comparison of drives
//! for a buyer. [`filesystems`] makes file systems and compares them under the mail load. [`fragmentation`] determines
//! where a file's fragments are located on the device.
//!
//! This crate only measures and computes; it does not render results.

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod disks;
pub mod drive;
pub mod drives;
mod erasable;
pub mod filesystems;
pub mod fragmentation;
mod raw_content;
mod system;

pub use disks::shared_disk;
pub use erasable::{ErasableDevice, EraseError};
pub use system::{LocalSystem, System, SystemError, SystemFailure};
