//! Passive copies of databases, kept current with logs from the active instance.
//!
//! ```text
//!  active side                       copy
//!  E0000000012.log ──> LogSource ──> incoming/ ──> inspected ──> replayed ──> databases, dirty
//!  E00-1f3a77c2.copy <─ what the copy still needs
//!  pages, both ways   <─> repairs
//! ```
//!
//! [`seed_stopped`] and [`seed_running`] create a copy, and [`Replicator`] keeps it current in bounded steps.
//! [`LogSource`] is the interface for transports. The file `copy.json` stores the copy's state ([`CopyState`]).
//! [`activate`] makes a copy the active side. [`LogHistory`] finds the point at which two sides diverge, and
//! [`Reseed`] brings one side back to the other side's history.
#![forbid(unsafe_code)]

mod activation;
mod activation_candidates;
mod compared_page_runs;
mod continuous_scan;
mod copy_events;
mod copy_scan;
mod copy_state;
mod directory_source;
mod error;
mod file_names;
mod handover;
mod incoming;
mod log_end;
mod log_fetcher;
mod log_history;
mod log_replayer;
mod log_source;
mod page_checks;
mod page_repair;
mod registered_copy;
mod replay_pause;
mod replication_mode;
mod replicator;
mod reseed;
mod reseed_files;
mod reseed_record;
mod seed;
mod status;
mod stream_directory;
mod streamed_log;
mod unfinished_states;
mod unfit_reason;

pub use crate::activation::{ActivationResult, LossLimit, LossPolicy, activate, activate_as};
pub use crate::activation_candidates::{ActivatedCopy, ActivationCandidates, ActivationRequest};
pub use crate::compared_page_runs::ComparedPageRuns;
pub use crate::continuous_scan::{ContinuousScan, ContinuousScanOptions};
pub use crate::copy_scan::{CopyScanOptions, CopyScanProgress, ScannedDatabase, scan_copy};
pub use crate::copy_state::database_pages;
pub use crate::copy_state::{ActiveSideStatus, COPY_FILE, CopiedDatabase, CopyPhase, CopyState, LostHistory};
pub use crate::directory_source::DirectorySource;
pub use crate::error::{ContactError, CopyError, FullReseedReason, Refusal, Result};
pub use crate::handover::Handover;
pub use crate::log_end::ClosedLogId;
pub use crate::log_history::{HistoryRelation, LogHistory};
pub use crate::log_replayer::ReplayOptions;
pub use crate::log_source::{AvailableLogs, LogSource};
pub use crate::page_checks::{CHECKS_FILE, DatabasePageChecks, Divergence, ListedDifference, PageChecks};
pub use crate::registered_copy::RegisteredCopy;
pub use crate::replay_pause::{ReplayPause, pause_replay};
pub use crate::replicator::{FollowEvent, ReplicationStepReport, Replicator};
pub use crate::reseed::{Reseed, ReseedPlan};
pub use crate::seed::{
    SeedOptions, SeedResult, seed_from_files, seed_running, seed_stopped, seed_with_retries,
};
pub use crate::status::{CopyLag, CopyStatus};
pub use crate::stream_directory::StreamDirectory;
pub use crate::streamed_log::streamed_progress;
pub use crate::unfit_reason::UnfitReason;
