//! Reasons for errors, grouped by the part of the engine that reports them.

use ese_format::log::header::LogHeaderError;
use std::io;

use ese_format::attachment::AttachmentError;
use ese_format::log::record::LogRecordError;
use ese_format::record::RecordError;
use ese_format::{LogPosition, PageNumber};

use super::corruption::LogDamage;
use crate::page_misfit::PageMisfit;

/// Kind of an internal error, which is always a bug in the engine.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum InternalError {
    #[error("catalog row: {0}")]
    CatalogRow(RecordError),
    #[error("the checkpoint failed to list the attached databases: {0}")]
    Checkpoint(#[from] AttachmentError),
    #[error("a transaction cannot be rolled back, because its database is no longer attached")]
    RollbackOfDetached,
    #[error("failed to freeze the files: {0}")]
    Freeze(io::ErrorKind),
    #[error("a read did not complete")]
    LostRead,
    #[error("the tail of the log is not pinned")]
    UnpinnedTail,
    #[error("a log record does not fit into an empty window")]
    ReplayWindow,
    #[error("an index entry is too long")]
    IndexEntry,
    #[error("the sort does not have a run file")]
    NoRunFile,
    #[error("a separator does not fit into an internal page")]
    Separator,
    #[error("page {0} is not being built")]
    NotBeingBuilt(PageNumber),
    #[error("a page cannot be split into itself")]
    SplitIntoItself,
    #[error("split of page {page}: {misfit}")]
    Split { page: PageNumber, misfit: PageMisfit },
    #[error("a space tree does not have the room or the pages that were reserved")]
    SpaceTree,
    #[error("the table does not have a long-value tree")]
    NoLongValueTree,
}

/// Reason why a log file cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// A segment or a record is damaged.
    #[error(transparent)]
    Damaged(#[from] LogDamage),
    /// The file belongs to another log stream: the signatures differ.
    #[error("belongs to another log stream")]
    OtherStream,
    /// The file does not continue the previous generation: the creation times differ.
    #[error("does not continue the previous generation (creation times differ)")]
    OtherHistory,
    /// The file does not continue the content of the previous generation: the accumulated checksums differ.
    #[error("does not continue the previous generation (its checksum differs)")]
    OtherContent,
    /// The header of the file cannot be read.
    #[error(transparent)]
    Header(#[from] LogHeaderError),
    /// The length of the file differs from the length in its header. Both are in bytes.
    #[error("the file is {found} bytes long, but its header specifies {specified}")]
    Length {
        /// Length of the file.
        found: u64,
        /// Length in the header.
        specified: u64,
    },
    /// The file contains a record that cannot be decoded.
    #[error(transparent)]
    UnknownRecord(#[from] LogRecordError),
    /// The file contains a record of this type, which only engines of earlier log formats write.
    #[error("the {0} record has a type that engines do not write in this log format")]
    ObsoleteRecord(&'static str),
    /// The file contains a record of this type, which recovery cannot redo for the given reason.
    #[error("the {0} record {1}")]
    RefusedRecord(&'static str, &'static str),
}

/// Reason why recovery cannot attach a database that the log attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum AttachmentErrorKind {
    #[error("recovery needs this database, but it does not exist")]
    NotFound,
    #[error("the log belongs to a different database")]
    OtherDatabase,
    #[error(
        "the database was shut down at log position {shut_down}, but the log attaches it in a different state at \
         {attached}: the file is an older copy, or was changed by another program"
    )]
    OtherShutdown { shut_down: LogPosition, attached: LogPosition },
    #[error("the database comes from a backup, and its pages were copied at different times")]
    NotRestored,
}
