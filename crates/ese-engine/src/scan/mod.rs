//! The maintenance scan of an open database. It reads the file from the first page to the last, pass after pass, in
//! batches that bypass the cache, with a pause after each batch. It verifies the checksum and the page number of each
//! page. Optionally it overwrites the remains of deleted data. ESE: online database scan, database maintenance.
//!
//! Invariants:
//! - One step is one read and the check of its pages. A step that only checks never evicts pages that sessions use.
//! - There are no false findings. A suspect page is read again while the cache blocks writes of it. If memory has a
//!   newer version of a page, the older version on disk is not reported.
//! - The scan repairs nothing. A page that contains only zeros is treated as never written; a lost write could be
//!   detected only through the page's tree.
//! - Overwriting is a logged change ([`crate::pages::scrub`]), so redo and copies of the database apply it. Data that
//!   a transaction can still see is never overwritten.
//! - A failed step does not change the counters, and is repeated. An interrupted pass resumes after the last batch
//!   whose progress was stored.
//! - For copies, the scan logs the state of a page at the position of the record, but only if a copy is registered.
//! - All reads of batches have the reason [`IoReason::Scan`](jetcell_vfs::IoReason), so they are not counted as work
//!   of a session.
//!
//! Not verified: the tree that a page belongs to, and the structure of pages.

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
