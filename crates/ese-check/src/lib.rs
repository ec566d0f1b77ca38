//! Offline verification of databases and logs: a second opinion that shares only the byte formats with the engine.
//!
//! [`check_database`] first looks at every page by itself ([`pages`]: checksum and page number), then at what the
//! pages mean together ([`structure`]: trees, space, catalog, records, indexes, long values). [`check_logs`] looks at
//! a log directory. Everything wrong becomes a [`Finding`]; a check never stops at the first, never writes, and
//! no content makes it panic or run for ever.
//!
//! A database that was not shut down cleanly is a state and not damage: its structure is judged leniently
//! (warnings), because recovery may be what puts it right. So is one that is used without a log, whose header never
//! tells.
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
mod judged;
mod key_filter;
mod keys;
mod leaf;
mod leaf_workers;
mod locate;
mod logs;
mod long_values;
mod options;
mod pace;
mod page_map;
mod page_set;
mod page_status;
mod pages;
pub mod reader;
mod records;
mod report;
mod source;
mod space;
mod structure;
mod tree;
mod tree_label;
mod tree_shape;

pub use ese_format::recognise::{Format, START_LEN};

pub use crate::database_check::{CheckReport, check_database};
pub use crate::error::CheckError;
pub use crate::files::{LogSet, check_files};
pub use crate::finding::{Finding, FindingCounts, FindingFn, FindingKind, Severity};
pub use crate::logs::{LogReport, LogSummary, SegmentCounts, check_logs};
pub use crate::options::{CheckOptions, Phase, Progress, ProgressFn};
pub use crate::pace::{Cancel, Throttle};
pub use crate::page_status::PageCounts;
pub use crate::report::{CheckOutcome, FileReport, NeedsLogs, PageSummary};
pub use crate::structure::{StructureSummary, TableSummary};
