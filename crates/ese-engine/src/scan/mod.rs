//! The maintenance scan of an open database. It reads the file from the first page to the last, pass after pass, in
//! batches that bypass the cache, with a pause after each batch. It verifies each page's checksum and page number.
//! Optionally, it overwrites remnants of deleted data. ESE: online database scan, database maintenance.
//!
//! Invariants:
//! - A step reads one batch and checks its pages. A step that only checks never evicts pages that sessions use.
//! - There are no false findings. A suspect page is reread while the cache blocks writes to it. If memory has a newer
//!   version of a page, the older version on disk is not reported.
//! - The scan repairs nothing. A page that contains only zeros is treated as never written; only the tree that the
//!   page belongs to could show that a write was lost.
//! - Overwriting is a logged change ([`crate::pages::scrub`]), so redo and copies of the database apply it. Data that
//!   a transaction can still see is never overwritten.
//! - A failed step does not change the counters, and is repeated. An interrupted pass resumes after the last batch
//!   for which progress was stored.
//! - If a copy is registered, the scan logs the state that each page has at the position of its record.
//! - All batch reads have the reason [`IoReason::Scan`](jetcell_vfs::IoReason), so they are not attributed to a
//!   session.
//!
//! The scan does not verify page structure, or which tree a page belongs to.

mod batch_reader;
mod check_page;
pub(crate) mod check_record;
mod options;
mod progress;
mod scan_pass;
mod zero;

pub use self::options::ScanOptions;
pub use self::progress::{PageFlaw, ScanProgress};
pub(crate) use self::scan_pass::{ScanPass, ScanState};

#[cfg(test)]
mod tests;
