//! One storage test on many hosts: barriers between its phases, a common begin of the measured time, and one merged result.
//!
//! Hosts find each other by a message broker, core NATS, behind the narrow trait [`bus::Bus`]. [`Coordinator`] and [`HostSession`] decide
//! and do no I/O: messages and times come in, effects go out. [`coordinate`] and [`join`] connect them with a broker, with the disk, and
//! with the test of a host. A message may be lost at any time: both sides repeat their whole state, and act on the newest that they have.

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

/// Version of the program. Hosts and coordinator must have the same.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A random number as text, which tells processes and runs apart. It is no secret.
pub fn random_token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
