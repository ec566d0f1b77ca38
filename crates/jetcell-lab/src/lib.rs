//! Examines and tests storage: [`fragmentation`] says where the parts of a file are on the device.
//!
//! This crate measures and counts. It renders nothing.

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod fragmentation;
