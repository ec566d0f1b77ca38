//! Examines and tests storage: [`drive`] measures drives and file systems, [`durability`] finds out whether they keep what they
//! acknowledged, [`drives`] sums up what a buyer of drives wants to know, [`filesystems`] makes file systems and compares them under the mail load, and [`fragmentation`] says where the parts of a file are on the device.
//!
//! This crate measures and counts. It renders nothing.

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod difference;
mod disks;
pub mod drive;
pub mod drives;
pub mod durability;
mod erasable;
pub mod filesystems;
pub mod fragmentation;
mod system;

pub use difference::Difference;
pub use disks::disk_of_both;
pub use erasable::{ErasableDevice, EraseRefusal};
pub use system::{LocalSystem, System, SystemError};
