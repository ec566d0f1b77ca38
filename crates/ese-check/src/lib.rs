//! Offline verification of databases and logs. The implementation is independent of the engine and shares only the
//! byte formats with it.
//!
//! [`check_database`] verifies each page on its own (`pages`: checksum and page number) and the pages as a whole
//! (`structure`: trees, space, catalog, records, indexes, long values). [`check_logs`] verifies a log directory, and
//! [`check_files`] verifies files of all formats. Each problem is reported as a [`Finding`]. A check does not stop at
//! the first finding and never writes. No file contents can make it panic or run forever.
//!
//! A database that was not shut down cleanly is not necessarily damaged: recovery may repair what look like errors.
//! Structural findings in such a database are therefore warnings. The same applies to a database that was used
//! without a log, because its header does not show whether it was in use.
#![forbid(unsafe_code)]

mod database_check;
mod error;
mod files;
mod findings;
mod options;
mod pages;
mod structure;

pub use crate::pages::{database, reader};
pub use ese_format::recognise::{EseFileKind, START_LEN};
pub use jetcell_host::{Cancellation, Rate as CheckThrottle};

pub use crate::database_check::{CheckReport, check_database, max_check_memory};
pub use crate::error::CheckError;
pub use crate::files::logs::{LogReport, LogSummary, SegmentCounts, check_logs};
pub use crate::files::report::{CheckOutcome, FileReport, FileState, PageStateCounts, RequiredLogs};
pub use crate::files::{LogSet, check_files};
pub use crate::findings::finding::{Finding, FindingCounts, FindingFn, FindingKind, Severity};
pub use crate::options::{CheckOptions, CheckPhase, CheckProgress, CheckProgressFn};
pub use crate::pages::page_status::PageCounts;
pub use crate::structure::{StructureSummary, TableSummary};

/// Compiles the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
