//! The maintenance scan of an open database: it reads the file from its first page to its end, pass after pass, in
//! batches past the cache, with a pause after each. It checks each page by checksum and page number, and overwrites
//! what deleted data leave behind, if it is asked to. ESE: online database scan, database maintenance.
//!
//! Invariants:
//! - One step is one read and the check of its pages. A step that only checks never evicts pages that sessions use.
//! - No false findings: a suspect page is read again while the cache blocks writes of it, and a page with a newer state
//!   in memory is not judged by its old state on disk.
//! - The scan repairs nothing. A page of zeros counts as never written; only its tree could show that a write was lost.
//! - Overwriting is a logged change ([`crate::pages::scrub`]), so redo and copies of the database get it. Data that a
//!   transaction can still see is never overwritten.
//! - A step that fails has counted nothing, and is repeated. A pass that was interrupted resumes behind the last batch
//!   whose progress is stored.
//! - What is logged for copies is the state of a page at the position of the record. It is logged only if a copy is registered.
//! - All reads of batches have the reason [`IoReason::Scan`](jetcell_vfs::IoReason), so that none counts as work of a
//!   session.
//!
//! Not implemented: which tree a page belongs to, the structure of pages.

mod batch_reader;
pub(crate) mod check_record;
mod database_scan;
mod options;
mod progress;
mod zero;

pub(crate) use self::database_scan::{DatabaseScan, ProgressKeeper};
pub use self::options::{EXTENT_BYTES, ScanOptions, ScanTurn};
pub use self::progress::{FINDINGS_KEPT, PageFlaw, ScanProgress};

#[cfg(test)]
mod tests;
