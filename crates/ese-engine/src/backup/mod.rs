//! Backup of attached databases, by streaming or by snapshot, while sessions change them.
//!
//! ```text
//!  begin ──> pages of each database ──> close_logs ──> logs low..=high ──> finish
//!    │ the checkpoint's generation is `low`    │ the generation being written ends; it is `high`
//! ```
//!
//! The pages of a backup are read at different times. Redo of the log makes them consistent:
//!
//! - If a page lacks a change when it is read, the change had not been written by then. The page was dirty and
//!   therefore held the checkpoint back, so the change is in generation `low` or a later one.
//! - A page is written only after the log is durable up to the page's last change. Generation `high` ends after the
//!   last page was read. Therefore all changes in a page that was read are before the end of `high`.
//!
//! Therefore redo from the beginning of `low` to the end of `high` produces the state at the end of `high`. The
//! header of the copy names these generations as required, and forbids the use of the database before redo (ESE:
//! -544).
//!
//! A snapshot backup does not read pages. The instance is frozen ([`Freeze`]) while the snapshot is made, and `high`
//! ends at the freeze.
//!
//! Invariants:
//! - Pages are read from disk and bypass the cache. A page that is being written, or that seems damaged, is read
//!   again while its write claim is held.
//! - Logs `low..=high` are retained until the backup ends.
//! - A header names a backup only after all its data was read and the caller has made it durable.
//! - Logs are removed only if they are not needed by redo, headers, holds, or databases that this backup does not
//!   contain.

#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod backup;
mod backup_kind;
mod freeze;
mod page_reader;
mod page_source;
mod verified_logs;

pub use self::backup::{Backup, BackupSummary, mark_copy};
pub use self::backup_kind::BackupKind;
pub use self::freeze::Freeze;
pub use self::page_reader::{DatabasePageReader, PageExtent, PageReadCounters, PageReadOptions};
pub use self::verified_logs::{VerifiedLog, VerifiedLogReader};
