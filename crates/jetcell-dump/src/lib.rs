//! Dumps of ESE databases, transaction logs, checkpoints, and flush maps in human-readable and machine-readable form.
//!
//! Each kind of dump is a function that reads a [`DumpSource`] and writes items to a [`DumpOutput`], as text or as
//! one JSON object per line. An item is written as soon as it is known. Damage is reported as a problem in the
//! output, and the dump continues.
//!
//! ```
//! use std::path::Path;
//!
//! use ese_format::LogPosition;
//! use ese_format::checkpoint::Checkpoint;
//! use jetcell_dump::{DumpOutput, DumpSource, dump_checkpoint};
//! use jetcell_vfs::SimVfs;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A file in memory. `RealVfs` opens files of the operating system.
//!     let vfs = SimVfs::new();
//!     let path = Path::new("/E00.chk");
//!     vfs.put(path, &Checkpoint::new(LogPosition::new(5, 3, 0x1d5), Default::default()).encode().repeat(2));
//!
//!     let mut text = Vec::new();
//!     let mut output = DumpOutput::text(&mut text);
//!     dump_checkpoint(&DumpSource::open(&vfs, path)?, &mut output)?;
//!     assert_eq!(output.problems(), 0);
//!     assert!(String::from_utf8(text)?.contains("redo begins at 00000005,0003,01D5"));
//!     Ok(())
//! }
//! ```
//!
//! | function | file | shows |
//! | --- | --- | --- |
//! | [`dump_header`] | any | the fields of the header |
//! | [`dump_pages`] | database | pages with their nodes |
//! | [`dump_tree`] | database | the pages of a tree by level |
//! | [`dump_schema`] | database | tables, columns, indexes |
//! | [`dump_space`] | database | owned, available and leaked pages |
//! | [`dump_log`] | log | records, with filters |
//! | [`dump_checkpoint`] | checkpoint | the fields |
//! | [`dump_flush_map`] | flush map | the flush type of every page |
//!
//! Invariants: files are never written. Memory use does not depend on the size of a file, except for one bit per page
//! and one entry per tree in the catalog. No sequence of bytes causes a panic or an endless dump. The crate does not
//! check whether a database is consistent; `ese-check` does.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod catalog;
mod checkpoint;
mod database;
mod dump_source;
mod flush_map;
mod format;
mod header;
mod log;
mod output;
mod page;
mod pages;
mod schema;
mod space;
mod tree;
mod values;
mod walk;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

pub use crate::checkpoint::dump_checkpoint;
pub use crate::dump_source::DumpSource;
pub use crate::flush_map::dump_flush_map;
pub use crate::header::dump_header;
pub use crate::log::{LogDumpOptions, LogFilter, dump_log};
pub use crate::output::DumpOutput;
pub use crate::pages::dump_pages;
pub use crate::schema::{SchemaOptions, dump_schema};
pub use crate::space::{SpaceOptions, dump_space};
pub use crate::tree::{TreeSelector, dump_tree};
pub use crate::values::{DumpedValue, NamedValues};
pub use ese_format::foreign::FileContent;
pub use ese_format::recognise::EseFileKind;

/// Reason why a dump failed.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file cannot be opened or read.
    #[error("{path}: {error}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
    /// The file's format is not the one that this kind of dump requires.
    #[error("{path}: the file is {found}, not {wanted}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: FileContent,
        /// Format that the dump needs.
        wanted: EseFileKind,
    },
    /// The file cannot be dumped for another reason.
    #[error("{path}: {reason}")]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Reason for the failure.
        reason: UnusableReason,
    },
    /// The output cannot be written.
    #[error("failed to write the dump: {0}")]
    Output(#[from] io::Error),
}

/// Reason why a file or a part of it cannot be dumped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum UnusableReason {
    #[error("log format {0} is not supported (only 8.4000 is supported), so its records cannot be read")]
    LogFormat(String),
    #[error("the header is damaged and the page size is unknown")]
    DamagedHeader,
    #[error(
        "the file is not an ESE database, log, checkpoint or flush map{}", .0.correction(EseFileKind::Unknown)
    )]
    UnknownFormat(FileContent),
    #[error("the file is truncated inside the header: only {0} bytes remain")]
    Truncated(u64),
    #[error("table `{0}` does not exist")]
    NoTable(String),
    #[error("table `{table}` does not have an index `{index}`")]
    NoIndex { table: String, index: String },
    #[error("table `{0}` does not have long values of its own")]
    NoLongValues(String),
}

impl DumpError {
    /// Returns what the user can do about the error, for example `use dump header or log`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            DumpError::Io { .. } | DumpError::Output(_) => return None,
            DumpError::Format { found, .. } => match found {
                FileContent::Ese(EseFileKind::Database) => "use dump header, pages, tree, schema or space",
                FileContent::Ese(EseFileKind::Log) => "use dump header or log",
                FileContent::Ese(EseFileKind::Checkpoint) => "use dump header or checkpoint",
                FileContent::Ese(EseFileKind::FlushMap) => "use dump header or flushmap",
                FileContent::Ese(EseFileKind::Unknown) | FileContent::Foreign(_) => {
                    "no dump command supports this format"
                }
            },
            DumpError::Unusable { reason, .. } => match reason {
                UnusableReason::LogFormat(_) => "to show its header, use dump header",
                UnusableReason::DamagedHeader => "restore the file from a backup",
                UnusableReason::UnknownFormat(_) => "specify a different file",
                UnusableReason::Truncated(_) => return None,
                UnusableReason::NoTable(_)
                | UnusableReason::NoIndex { .. }
                | UnusableReason::NoLongValues(_) => {
                    "to list all tables and indexes, use `jetcell dump schema`"
                }
            },
        }))
    }
}

/// Result type used by dump functions.
pub type Result<T> = std::result::Result<T, DumpError>;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
