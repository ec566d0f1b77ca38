//! Backups in directories. A backup consists of copies of the files, and a manifest that lists the files and their
//! checksums.
//!
//! ```text
//!  back_up (running instance) ──┐                      ┌──> verify: compares the bytes with the checksums
//!  back_up_stopped (directory) ─┼─> backup directory ──┴──> restore: places files, replays logs, rolls back
//!  snapshot, snapshot_stopped ──┘
//! ```
//!
//! Invariants:
//! - The manifest is written last. A directory without a manifest is not a backup. The directory of an interrupted
//!   backup contains the file `manifest.partial.json` instead, and its database headers are zero.
//! - Every file is durable before the manifest names it, and the manifest is durable before the source is changed.
//! - No part of a backup is used before its checksum has been verified.
#![forbid(unsafe_code)]

mod backup_directory;
mod backup_fault;
mod backup_list;
mod backup_type;
mod bad_page;
mod chain;
mod copying;
mod created_files;
mod damaged_log;
mod database_copy;
mod error;
mod file_damage;
mod file_names;
mod live;
mod manifest;
mod options;
mod planned_log;
mod proof;
mod proof_record;
mod ranges;
mod recovery;
mod refusal;
mod restore;
mod restore_directory;
mod restore_options;
mod restore_plan;
mod restore_record;
mod restore_window;
mod retained_ranges;
mod set_error;
mod snapshot;
mod snapshot_method;
mod snapshot_seal;
mod stopped;
mod stream_sets;
mod surviving_logs;
pub mod text_file;
mod transfer_control;
mod verification_times;
mod verify;

pub use jetcell_host::Cancellation;

pub use crate::backup_fault::BackupFault;
pub use crate::backup_list::{BackupList, CompleteBackup};
pub use crate::backup_type::BackupType;
pub use crate::bad_page::StoredBadPage;
pub use crate::chain::BackupChain;
pub use crate::damaged_log::DamagedLog;
pub use crate::error::{BackupError, Result};
pub use crate::file_damage::FileDamage;
pub use crate::file_names::RESTORE_MARKER;
pub use crate::live::back_up;
pub use crate::manifest::{BackupManifest, BackupState, GenerationRange, StoredDatabase, StoredLog};
pub use crate::options::{BackupOptions, BackupResult, PageReadsFn};
pub use crate::proof::prove;
pub use crate::proof_record::BackupProof;
pub use crate::recovery::{
    IgnoredFile, IgnoredFileReason, LossReason, LostGenerations, OpenEventsFn, RecoveredDatabase,
    RecoveryError, RecoveryPhase, RecoveryReport, RecoveryRequest, RecoveryState, RecoveryTarget, ReplayEnd,
    ReplayedGenerations, ReplayedPages, check_not_in_use, log_directory,
};
pub use crate::refusal::{BackupRefusal, ProgramFailure};
pub use crate::restore::{RestoreResult, restore};
pub use crate::restore_options::RestoreOptions;
pub use crate::restore_plan::restore_window;
pub use crate::restore_window::{RestoreReach, RestoreWindow};
pub use crate::set_error::{BackupSetError, BadDatabase, DirectoryContent, RestoreDifference};
pub use crate::snapshot::{SnapshotOptions, snapshot, snapshot_stopped};
pub use crate::snapshot_method::SnapshotMethod;
pub use crate::stopped::back_up_stopped;
pub use crate::stream_sets::{StreamBackup, discard_empty_set, find_stream_backup, plan_stream_backups};
pub use crate::transfer_control::{BackupProgress, TransferControl};
pub use crate::verify::{BackupVerification, VerificationSubset, VerifyOptions, verify};
