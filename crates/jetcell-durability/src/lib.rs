//! Tests whether storage retains the data that it acknowledged. A writer works until the power is cut, a witness on
//! another machine records what the storage promised, and a verifier compares the promises with what the storage
//! contains.
//!
//! Only operations covered by a completed sync must be present. Later writes may be present, missing, or incomplete.

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod cut_tests;
mod damage;
mod file_comparison;
mod journal;
#[cfg(test)]
mod known_bug_tests;
mod latency;
mod listener;
mod model;
mod operation;
mod script;
mod sector;
mod sequence;
#[cfg(test)]
mod stalled_device_tests;
mod transactions;
mod verdict;
mod witness;
mod writer;

pub use damage::OperationDamage;
pub use journal::{DurabilityJournalHeader, FailureLevel, Journal, JournalError, JournalLine};
pub use latency::SuspiciousSyncReason;
pub use listener::WitnessListener;
pub use operation::{OperationNumber, StorageOperationKind};
pub use verdict::{BrokenPromise, DurabilityVerification, OperationKindCounts, verify};
pub use witness::{FileWitness, MemoryWitness, TcpWitness, Witness, WitnessLocation};
pub use writer::{OperationError, TestedStorage, WriteError, WriterOutcome, write};
