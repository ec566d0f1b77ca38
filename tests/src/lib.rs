//! What the tests of several crates share: the crash simulation, killed processes, independent readers, fuzz functions.

#![forbid(unsafe_code)]

pub mod fuzz;
pub mod killed;
pub mod logged;
pub mod readers;
pub mod simulation;
