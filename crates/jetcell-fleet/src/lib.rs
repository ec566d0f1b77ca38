//! Runs a storage test across many hosts, with barriers between its phases, a common start of the measurement, and a
//! single merged result.
//!
//! The hosts and the coordinator communicate through a message broker, core NATS, which is accessed through the
//! narrow trait [`bus::Bus`]. [`Coordinator`] and [`HostSession`] perform no I/O: they receive messages and times,
//! and return effects. [`coordinate`] and [`join`] connect them to a broker, the disk and the host's test. Any
//! message may be lost. Both sides therefore repeat their complete state, and each acts on the newest state that it
//! has received.

#![forbid(unsafe_code)]

pub mod bus;
pub mod clock;
pub mod config;
mod coordinate;
mod coordinator;
mod directory_mark;
pub mod host;
mod join;
pub mod message;
pub mod nats_server;
mod parcel;
mod permit;
mod place;
pub mod result;
mod test_run;

pub use config::FleetConfig;
pub use coordinate::{Keeper, coordinate};
pub use coordinator::{Coordinator, Effect, Lost, Member, MessageCounts, News, Saved, SavedMember, Stop};
pub use directory_mark::{DirectoryMark, DirectoryMarks};
pub use host::{Departure, HostSession, Identity, Progress};
pub use join::{Leaving, join};
pub use parcel::{HostResult, Intake, Parcel};
pub use permit::Permit;
pub use place::{NoPlace, Place};
pub use test_run::{TestWork, Work};

/// Program version. Hosts and coordinator must have the same version.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Returns a random identifier that distinguishes processes and runs. It is not a secret.
pub fn random_token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
