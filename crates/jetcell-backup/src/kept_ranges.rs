//! The ranges of an interrupted backup that a continued one keeps.
//!
//! The state file only names candidates. A range is kept if its bytes, read back, have the stored checksum, and each page in it is
//! good, zero, or a bad page of the source that the state lists. The counts of pages come from these bytes.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::{PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode};

use crate::destination::{Destination, PartialDatabase};
use crate::error::{BackupError, Result};
use crate::manifest::{MAX_BAD_PAGES, StoredPages};
use crate::pace::Gauge;
use crate::ranges::{RANGE_BYTES, RangeSums, range_of, sum_of};

/// Pages in front of the first one: the header and its copy.
const HEADER_PAGES: u64 = 2;

/// The ranges that are kept.
pub struct KeptRanges {
    /// The copy, which ends with the last range that is kept.
    pub file: Arc<dyn File>,
    pub sums: RangeSums,
    /// The bytes of the first range, with zeros in place of the header.
    pub first: IoBuffer,
    /// The state of the database up to the end of the last range.
    pub state: PartialDatabase,
}

impl KeptRanges {
    /// Reads the ranges back, up to the first one that is different. `source_bytes` is the length of the original. `None`: no range
    /// is kept.
    pub fn verify(
        destination: &Destination,
        earlier: &PartialDatabase,
        (size, source_bytes): (PageSize, u64),
        gauge: &Gauge,
    ) -> Result<Option<KeptRanges>> {
        let Some(RangeSums(mut sums)) = RangeSums::from_text(&earlier.ranges) else { return Ok(None) };
        let path = destination.directory.join(&earlier.file);
        let failed = |error: std::io::Error| BackupError::io(&path, &error);
        let file = match destination.vfs.open(&path, OpenMode::WriteOwn) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let bytes = file.len().map_err(failed)?.min(source_bytes);
        sums.truncate((bytes / RANGE_BYTES as u64) as usize);
        let mut pages = KeptPages::new(earlier, size);
        let mut first = IoBuffer::zeroed(RANGE_BYTES);
        let mut buffer = IoBuffer::zeroed(RANGE_BYTES);
        let mut kept = 0;
        for (index, sum) in sums.iter().enumerate() {
            gauge.check()?;
            let (at, _) = range_of(index, bytes);
            file.read_at(at, &mut buffer, IoReason::Backup).map_err(failed)?;
            if index == 0 {
                // An earlier call may have written the header already.
                buffer[..HEADER_PAGES as usize * size.bytes()].fill(0);
                first.copy_from_slice(&buffer);
            }
            if sum_of(&buffer) != *sum || !pages.accept(at, &mut buffer) {
                break;
            }
            kept += 1;
        }
        if kept == 0 {
            return Ok(None);
        }
        let is_whole = kept == sums.len();
        sums.truncate(kept);
        // The bytes after these ranges are written again.
        file.truncate(kept as u64 * RANGE_BYTES as u64).map_err(failed)?;
        let state = pages.state(earlier, is_whole);
        Ok(Some(KeptRanges { file, sums: RangeSums(sums), first, state }))
    }
}

/// The pages in the ranges that are kept.
struct KeptPages {
    size: PageSize,
    /// Bad pages of the source that the state lists.
    listed: BTreeSet<u32>,
    counts: StoredPages,
    /// Number of the first page after those that were accepted.
    end: u64,
}

impl KeptPages {
    fn new(earlier: &PartialDatabase, size: PageSize) -> KeptPages {
        let listed = earlier.bad_pages.iter().map(|bad| bad.page).collect();
        KeptPages { size, listed, counts: StoredPages::default(), end: 1 }
    }

    /// Counts the pages of the range at `at`. Returns false, and counts none, if one is bad and not listed.
    fn accept(&mut self, at: u64, range: &mut [u8]) -> bool {
        // Further bad pages of the source are only counted, not listed.
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

    /// The state of the database. `is_whole`: all ranges of the earlier state are kept.
    fn state(self, earlier: &PartialDatabase, is_whole: bool) -> PartialDatabase {
        let mut counts = self.counts;
        // The bytes do not tell how often a page was read, nor that a page that was not listed could not be read.
        counts.read_again = earlier.pages.read_again.min(counts.read);
        counts.corrected = earlier.pages.corrected.min(counts.read);
        counts.torn = earlier.pages.torn.min(counts.read);
        if is_whole {
            counts.bad = counts.bad.max(earlier.pages.bad.min(counts.read));
        }
        let bad_pages = earlier.bad_pages.iter().filter(|bad| u64::from(bad.page) < self.end).cloned();
        PartialDatabase {
            file: earlier.file.clone(),
            identity: earlier.identity.clone(),
            ranges: String::new(),
            pages: counts,
            bad_pages: bad_pages.collect(),
        }
    }
}
