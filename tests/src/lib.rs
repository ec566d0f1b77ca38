//! Code that the system tests share: the crash simulation, killed processes, lying disks, independent readers, fuzz
//! targets, and a table for tests of failing storage.

#![forbid(unsafe_code)]

pub mod copies;
pub mod durable_promises;
pub mod fuzz;
pub mod killed;
pub mod lying_disk;
pub mod merge_counts;
pub mod mounted;
pub mod predictable_table;
pub mod readers;
pub mod simulation;
pub mod soak;
pub mod tls_files;
pub mod tls_proxy;
