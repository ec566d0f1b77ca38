//! Recovers databases with their logs: chooses and verifies the logs, and replays them on the databases or on copies.

mod error;
mod replay_end;
mod report;
mod request;
mod run;
mod working_set;

pub use self::error::RecoveryError;
pub use self::replay_end::ReplayEnd;
pub use self::report::{
    IgnoredFile, IgnoredFileReason, LossReason, LostGenerations, RecoveredDatabase, RecoveryPhase,
    RecoveryReport, RecoveryState, ReplayedGenerations, ReplayedPages,
};
pub use self::request::{OpenEventsFn, RecoveryRequest, RecoveryTarget, check_not_in_use, log_directory};
