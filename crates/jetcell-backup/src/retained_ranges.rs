//! The ranges of an interrupted backup that the continued backup retains.
//!
//! The ranges that the state file lists are only candidates. A range is retained if its bytes, read back from the
//! file, match the stored checksum. In addition, each page in it must be valid, zero, or listed in the state file as
//! a bad page of the source. The page counts are computed from these bytes.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::{PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode};

use crate::backup_directory::{BackupDirectory, PartialDatabaseCopy};
use crate::error::{BackupError, Result};
use crate::manifest::{MAX_BAD_PAGES, StoredPageCounts};
use crate::ranges::{RANGE_BYTES, RangeChecksums, range_bounds, range_checksum};
use crate::transfer_control::TransferMeter;

/// Number of pages before page 1: the header and its copy.
const HEADER_PAGES: u64 = 2;

/// The part of an incomplete database copy that is retained when its backup continues.
pub struct RetainedRanges {
    /// The copy of the database, truncated after the last retained range.
    pub file: Arc<dyn File>,
    pub sums: RangeChecksums,
    /// Bytes of the first range, with the header replaced by zeros.
    pub first: IoBuffer,
    /// Database state up to the end of the last retained range.
    pub state: PartialDatabaseCopy,
}

impl RetainedRanges {
    /// Reads the ranges back until the first mismatch.
    ///
    /// `source_bytes` is the length of the original. Returns `None` if no range is retained.
    pub fn verify(
        destination: &BackupDirectory,
        earlier: &PartialDatabaseCopy,
        (size, source_bytes): (PageSize, u64),
        gauge: &TransferMeter,
    ) -> Result<Option<RetainedRanges>> {
        let Some(RangeChecksums(mut sums)) = RangeChecksums::from_text(&earlier.ranges) else {
            return Ok(None);
        };
        let path = destination.directory.join(&earlier.file);
        let io_error = |error: std::io::Error| BackupError::io(&path, &error);
        let file = match destination.vfs.open(&path, OpenMode::WriteOwn) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error)?,
        };
        let bytes = file.len().map_err(io_error)?.min(source_bytes);
        sums.truncate((bytes / RANGE_BYTES as u64) as usize);
        let mut pages = RetainedPages::new(earlier, size);
        let mut first = IoBuffer::zeroed(RANGE_BYTES);
        let mut buffer = IoBuffer::zeroed(RANGE_BYTES);
        let mut kept = 0;
        for (index, sum) in sums.iter().enumerate() {
            gauge.check()?;
            let (at, _) = range_bounds(index, bytes);
            file.read_at(at, &mut buffer, IoReason::Backup).map_err(io_error)?;
            if index == 0 {
                // An interrupted call may already have written the header.
                buffer[..HEADER_PAGES as usize * size.bytes()].fill(0);
                first.copy_from_slice(&buffer);
            }
            if range_checksum(&buffer) != *sum || !pages.accept(at, &mut buffer) {
                break;
            }
            kept += 1;
        }
        if kept == 0 {
            return Ok(None);
        }
        let is_whole = kept == sums.len();
        sums.truncate(kept);
        // The bytes after the retained ranges are copied again.
        file.truncate(kept as u64 * RANGE_BYTES as u64).map_err(io_error)?;
        let state = pages.state(earlier, is_whole);
        Ok(Some(RetainedRanges { file, sums: RangeChecksums(sums), first, state }))
    }
}

/// Page counts of the retained ranges.
struct RetainedPages {
    size: PageSize,
    /// Bad pages of the source that the state file lists.
    listed: BTreeSet<u32>,
    counts: StoredPageCounts,
    /// Number of the first page after the accepted ranges.
    end: u64,
}

impl RetainedPages {
    fn new(earlier: &PartialDatabaseCopy, size: PageSize) -> RetainedPages {
        let listed = earlier.bad_pages.iter().map(|bad| bad.page).collect();
        RetainedPages { size, listed, counts: StoredPageCounts::default(), end: 1 }
    }

    /// Counts the pages of the range at offset `at`. If a page is bad and not listed, returns false without counting
    /// any page.
    fn accept(&mut self, at: u64, range: &mut [u8]) -> bool {
        // When the list is full, further bad pages in the source are counted but not listed.
        let is_complete = self.listed.len() < MAX_BAD_PAGES;
        let mut counts = self.counts;
        let begin = at / self.size.bytes() as u64;
        let end = begin + (range.len() / self.size.bytes()) as u64;
        for (position, page) in (begin..end).zip(range.chunks_exact_mut(self.size.bytes())) {
            let Some(number) = (position + 1).checked_sub(HEADER_PAGES).filter(|number| *number > 0) else {
                continue;
            };
            let Ok(number) = u32::try_from(number) else { return false };
            counts.read += 1;
            let integrity = verify_page(page, self.size, PageNumber::fixed(number));
            match (self.listed.contains(&number), integrity) {
                (true, _) => counts.bad += 1,
                (false, PageIntegrity::Good) => {}
                (false, PageIntegrity::Zero) => counts.zero += 1,
                (false, _) if is_complete => return false,
                (false, _) => counts.bad += 1,
            }
        }
        (self.counts, self.end) = (counts, (end + 1).saturating_sub(HEADER_PAGES));
        true
    }

    /// Returns the database state. `is_whole` is true if all ranges of the earlier state were retained.
    fn state(self, earlier: &PartialDatabaseCopy, is_whole: bool) -> PartialDatabaseCopy {
        let mut counts = self.counts;
        // The bytes do not show how often a page was reread, or that an unlisted page could not be read.
        counts.read_again = earlier.pages.read_again.min(counts.read);
        counts.corrected = earlier.pages.corrected.min(counts.read);
        counts.torn = earlier.pages.torn.min(counts.read);
        if is_whole {
            counts.bad = counts.bad.max(earlier.pages.bad.min(counts.read));
        }
        let bad_pages = earlier.bad_pages.iter().filter(|bad| u64::from(bad.page) < self.end).cloned();
        PartialDatabaseCopy {
            file: earlier.file.clone(),
            identity: earlier.identity.clone(),
            ranges: String::new(),
            pages: counts,
            bad_pages: bad_pages.collect(),
        }
    }
}
