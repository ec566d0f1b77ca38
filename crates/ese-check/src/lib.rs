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

mod catalog;
mod checkpoint;
pub mod database;
mod database_check;
mod error;
mod files;
mod finding;
mod finding_kind;
mod findings;
mod flush_map;
mod flush_types;
mod hash;
mod index;
mod key_filter;
mod keys;
mod leaf;
mod leaf_workers;
mod locate;
mod logs;
mod long_values;
mod options;
mod page_map;
mod page_set;
mod page_status;
mod pages;
mod read_ahead;
pub mod reader;
mod recognized_file;
mod records;
mod report;
mod space;
mod spare_buffers;
mod structure;
mod task_reads;
mod tree;
mod tree_label;
mod tree_shape;
mod verified_pages;

pub use ese_format::recognise::{EseFileKind, START_LEN};
pub use jetcell_host::{Cancellation, Rate as CheckThrottle};

pub use crate::database_check::{CheckReport, check_database, max_check_memory};
pub use crate::error::CheckError;
pub use crate::files::{LogSet, check_files};
pub use crate::finding::{Finding, FindingCounts, FindingFn, FindingKind, Severity};
pub use crate::logs::{LogReport, LogSummary, SegmentCounts, check_logs};
pub use crate::options::{CheckOptions, CheckPhase, CheckProgress, CheckProgressFn};
pub use crate::page_status::PageCounts;
pub use crate::report::{CheckOutcome, FileReport, PageStateCounts, RequiredLogs};
pub use crate::structure::{StructureSummary, TableSummary};

/// Compiles the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
