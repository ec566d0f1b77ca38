//! Does storage keep what it acknowledged? A writer works until the power is cut, a witness elsewhere knows what was promised, and
//! a verifier compares.
//!
//! Only what a completed sync covered must be there. What was written later may be there, or not, or in part.

mod comparison;
#[cfg(test)]
mod cut_tests;
mod damage;
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
mod verification;
mod witness;
mod writer;

pub use damage::Damage;
pub use journal::{Begin, Journal, JournalError, Level, Line};
pub use latency::SyncDoubt;
pub use listener::WitnessListener;
pub use operation::{OperationKind, OperationNumber};
pub use verification::{Finding, KindTally, Verification, verify};
pub use witness::{FileWitness, MemoryWitness, TcpWitness, Witness};
pub use writer::{TestedStorage, WriteError, Written, write};
