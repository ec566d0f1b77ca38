//! Backup of attached databases, while sessions change them: streaming, or by a snapshot.
//!
//! ```text
//!  begin ──> pages of each database ──> close_logs ──> logs low..=high ──> finish
//!    │ the checkpoint's generation is `low`    │ the generation being written ends; it is `high`
//! ```
//!
//! The pages of a backup are of different moments. The log makes them one state again:
//!
//! - A change that a page lacks when it is read was not written by then. So its page was dirty, and held the checkpoint:
//!   the change is in generation `low` or behind it.
//! - A page is written only when the log is durable up to its last change. So all changes that a page has when it is read
//!   are in front of the end of generation `high`, which ends after the last page was read.
//!
//! So redo from the beginning of `low` to the end of `high` gives the state at that end, and the header of the copy names
//! these generations as required. Until then, the database must not be used; its header says so (ESE: -544).
//!
//! A backup by a snapshot reads no pages: the instance is frozen ([`Freeze`]) while the snapshot is made, and `high` ends
//! with the freeze.
//!
//! Invariants:
//! - Pages are read from disk past the cache. A page that is being written, or looks wrong, is read again while its write
//!   claim is held.
//! - Logs of the range are kept until the backup ends.
//! - A header names a backup only after all of it was read, and the caller has made it durable.
//! - Logs are removed only if redo, headers, holds, and databases that this backup does not contain can spare them.

#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod backup;
mod backup_kind;
mod freeze;
mod log_copies;
mod page_reader;
mod page_source;

pub use self::backup::{Backup, BackupSummary, mark_copy};
pub use self::backup_kind::BackupKind;
pub use self::freeze::Freeze;
pub use self::log_copies::{LogCopies, LogCopy};
pub use self::page_reader::{PageExtent, PageReader, PageReads, ReadOptions};
