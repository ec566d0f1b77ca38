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
mod fleet_directory;
mod fleet_rank;
pub mod host;
mod host_error;
mod host_limits;
mod join;
pub mod message;
pub mod nats_server;
pub mod result;
mod result_transfer;
mod test_run;

pub use config::FleetConfig;
pub use coordinate::{CoordinatorBackend, coordinate};
pub use coordinator::{
    Coordinator, CoordinatorAction, CoordinatorState, FleetEvent, FleetMember, FleetRefusal, HostActivity,
    LostHost, MessageCounts, ResumeError, SavedMember, StopReason, StorageOutcome, StoreResultError,
};
pub use directory_mark::{DirectoryMark, DirectoryMarks};
pub use fleet_directory::{FleetDirectory, FleetStateError};
pub use fleet_rank::{FleetRank, RankError};
pub use host::{HostIdentity, HostProgress, HostSession, SessionEnd};
pub use host_error::{HostRefusal, HostTestError};
pub use host_limits::HostLimits;
pub use join::{JoinOutcome, join};
pub use result_transfer::{HostResult, ResultReceiver, ResultTransfer};
pub use test_run::{HostTask, StorageTestTask};

/// Program version. Hosts and coordinator must have the same version.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a random identifier that distinguishes processes and runs. It is not a secret.
pub fn random_token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
