//! Reads all pages of a database from disk in large, concurrent reads, and verifies each page.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::time::Duration;

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::header::DatabaseHeader;
use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_sync::mpsc::{Receiver, Sender, channel};
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind, Vfs};

use super::page_source::{OfflineDatabase, PageSource};
use crate::cache::{OnDiskVerification, WatchedRead};
use crate::scan::PageFlaw;
use crate::storage::DatabaseFile;
use crate::{InternalError, Result};

/// Maximum number of times that a suspect page is read again. The value is the same as in ESE.
const ATTEMPTS: u32 = 16;
/// Pause after the first attempt. Each later pause is longer than the previous one by this amount.
const REREAD_BACKOFF: Duration = Duration::from_millis(10);
/// Maximum number of extents in memory, as a multiple of `reads_in_flight`. Reads complete in any order, but their
/// extents are returned in page order. Without memory for extents that arrive early, one slow read would block new
/// reads.
const EXTENTS_PER_READ: usize = 4;
/// Maximum number of bad pages that are listed. Additional bad pages are only counted.
const BAD_LISTED: usize = 1000;

/// Options for reading the pages of a database.
#[derive(Clone, Copy, Debug)]
pub struct PageReadOptions {
    /// Size of one read in bytes. Jetstress reads 256 KiB.
    pub read_bytes: usize,
    /// Number of concurrent reads per database.
    pub reads_in_flight: usize,
    /// Number of the first page to read. A backup that continues an earlier one starts after page 1.
    pub from: PageNumber,
}

impl Default for PageReadOptions {
    fn default() -> PageReadOptions {
        PageReadOptions { read_bytes: 256 << 10, reads_in_flight: 8, from: PageNumber::fixed(1) }
    }
}

/// A range of consecutive pages. For an unreadable page, it contains the bytes that the last attempt returned.
pub struct PageExtent {
    /// Number of the first page.
    pub first: PageNumber,
    /// Content of the pages.
    pub bytes: IoBuffer,
}

/// Statistics about the pages that a [`DatabasePageReader`] has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageReadCounters {
    /// Number of pages that were read.
    pub pages: u64,
    /// Number of all-zero pages, which were never written.
    pub zero: u64,
    /// Number of bytes read, excluding repeated reads.
    pub bytes: u64,
    /// Number of pages that were reread because they were being written or seemed damaged.
    pub read_again: u64,
    /// Number of pages with flipped bits, which are corrected in the copy.
    pub corrected: u64,
    /// Number of torn pages in a database that was not shut down. The copy contains their images from the
    /// double-write file.
    pub torn: u64,
    /// Number of bad pages.
    pub bad: u64,
    /// The first thousand bad pages.
    pub bad_pages: BTreeMap<PageNumber, PageFlaw>,
}

/// A read that was started and whose result has not been returned yet.
struct PendingRead {
    first: PageNumber,
    /// Records which pages are written during the read.
    watch: Option<WatchedRead>,
    done: Option<CompletedRead>,
}

/// A completed read: its result, the pages that were written during the read, and the bytes.
struct CompletedRead {
    result: io::Result<()>,
    suspect_pages: BTreeSet<PageNumber>,
    bytes: IoBuffer,
}

/// A read's number, its result and its bytes, sent when the read completes.
type ReadCompletion = (u64, io::Result<()>, IoBuffer);

/// Reader that returns the pages of one database in order. It ignores pages that are added to the file later, because
/// redo adds them to the copy.
pub struct DatabasePageReader {
    source: PageSource,
    options: PageReadOptions,
    last: u32,
    next: u32,
    /// Reads that were started but not yet returned, in page order.
    reads_begun: VecDeque<PendingRead>,
    /// Number of reads whose results were returned. This is also the number of the first read in `reads_begun`.
    returned: u64,
    /// Number of reads in flight.
    in_flight: usize,
    sender: Sender<ReadCompletion>,
    completions: Receiver<ReadCompletion>,
    spare: Vec<IoBuffer>,
    reads: PageReadCounters,
    /// Tells the backup that pages are still being read.
    _reading: Option<Arc<()>>,
}

impl DatabasePageReader {
    /// Creates a reader for the pages of an attached database.
    pub(super) fn for_attached(
        database: Arc<DatabaseFile>,
        options: PageReadOptions,
        reading: Arc<()>,
    ) -> Result<DatabasePageReader> {
        DatabasePageReader::new(PageSource::Attached(database), options, Some(reading))
    }

    /// Creates a reader for the pages of a database that no engine uses and whose log ends at `end_of_log`. Also
    /// returns the header. The caller must lock the file, which is not changed.
    pub fn for_file(
        vfs: &dyn Vfs,
        path: &Path,
        end_of_log: LogPosition,
        options: PageReadOptions,
    ) -> Result<(DatabasePageReader, DatabaseHeader)> {
        let (still, header) = OfflineDatabase::open(vfs, path, end_of_log)?;
        Ok((DatabasePageReader::new(PageSource::Offline(still), options, None)?, header))
    }

    fn new(
        source: PageSource,
        options: PageReadOptions,
        reading: Option<Arc<()>>,
    ) -> Result<DatabasePageReader> {
        let (sender, completions) = channel();
        Ok(DatabasePageReader {
            last: source.pages()?,
            next: options.from.get(),
            source,
            options,
            reads_begun: VecDeque::new(),
            returned: 0,
            in_flight: 0,
            sender,
            completions,
            spare: Vec::new(),
            reads: PageReadCounters::default(),
            _reading: reading,
        })
    }

    /// Returns the number of the last page that will be read, or 0 if there are no pages.
    pub fn last_page(&self) -> u32 {
        self.last
    }

    /// Returns the page size of the database.
    pub fn page_size(&self) -> PageSize {
        self.source.page_size()
    }

    /// Returns statistics about the pages read so far.
    pub fn reads(&self) -> &PageReadCounters {
        &self.reads
    }

    /// Returns the next pages, or `None` after the last one.
    ///
    /// Returns an error if the instance has ended. A page that cannot be read is not an error; it is listed in
    /// [`PageReadCounters::bad_pages`].
    pub fn next_extent(&mut self) -> Result<Option<PageExtent>> {
        let Some((first, done)) = self.next_completed()? else { return Ok(None) };
        let CompletedRead { result, suspect_pages: doubts, mut bytes } = done;
        let doubts = self.verify_pages(first, &mut bytes, result, doubts)?;
        self.reread_pages(first, &mut bytes, doubts)?;
        let pages = (bytes.len() / self.page_size().bytes()) as u64;
        self.reads.pages += pages;
        self.reads.bytes += bytes.len() as u64;
        Ok(Some(PageExtent { first, bytes }))
    }

    /// Returns the buffer of an extent to the pool for reuse.
    pub fn recycle(&mut self, extent: PageExtent) {
        self.spare.push(extent.bytes);
    }

    /// Waits for the next read in page order and returns its result. Returns `None` after the last read.
    fn next_completed(&mut self) -> Result<Option<(PageNumber, CompletedRead)>> {
        loop {
            self.refill_reads()?;
            match self.reads_begun.front_mut() {
                None => return Ok(None),
                Some(PendingRead { first, done, .. }) => {
                    if let Some(done) = done.take() {
                        let first = *first;
                        self.reads_begun.pop_front();
                        self.returned += 1;
                        return Ok(Some((first, done)));
                    }
                }
            }
            let completion = self.completions.recv();
            self.ended(completion.map_err(|_| InternalError::LostRead)?);
        }
    }

    /// Processes completed reads and starts new reads to replace them.
    fn refill_reads(&mut self) -> Result<()> {
        while let Ok(completion) = self.completions.try_recv() {
            self.ended(completion);
        }
        let most = self.options.reads_in_flight.max(1);
        while self.in_flight < most
            && self.reads_begun.len() < most * EXTENTS_PER_READ
            && self.next <= self.last
        {
            self.begin()?;
        }
        Ok(())
    }

    fn ended(&mut self, (number, result, bytes): ReadCompletion) {
        self.in_flight -= 1;
        if let Some(read) = self.reads_begun.get_mut((number - self.returned) as usize) {
            let doubts = read.watch.take().map(|watch| watch.possibly_written()).unwrap_or_default();
            read.done = Some(CompletedRead { result, suspect_pages: doubts, bytes });
        }
    }

    fn begin(&mut self) -> Result<()> {
        let size = self.page_size();
        let first = PageNumber::fixed(self.next);
        // Each read ends at a file offset that is a multiple of the read size.
        let most = (self.options.read_bytes / size.bytes()).max(1) as u64;
        let in_file = size.offset_of(first) / size.bytes() as u64;
        let count = ((most - in_file % most) as u32).min(self.last - self.next + 1);
        let len = count as usize * size.bytes();
        let spare = self.spare.pop().filter(|spare| spare.capacity() >= len);
        let mut buffer = spare.unwrap_or_else(|| IoBuffer::zeroed(len));
        buffer.resize(len);
        let watch = self.source.watch(first, count)?;
        let (sender, number) = (self.sender.clone(), self.returned + self.reads_begun.len() as u64);
        let transfer = Transfer {
            kind: TransferKind::Read,
            offset: size.offset_of(first),
            buffer,
            reason: IoReason::Backup,
            // Sending fails only if the reader was dropped.
            done: Box::new(move |result, buffer| drop(sender.send((number, result, buffer)))),
        };
        self.reads_begun.push_back(PendingRead { first, watch, done: None });
        self.source.file().submit(vec![transfer]);
        self.next += count;
        self.in_flight += 1;
        Ok(())
    }

    /// Verifies the pages of a read. The pages in `suspect_pages` were written during the read. Returns the pages to
    /// read again.
    fn verify_pages(
        &mut self,
        first: PageNumber,
        bytes: &mut [u8],
        result: io::Result<()>,
        mut suspect_pages: BTreeSet<PageNumber>,
    ) -> Result<BTreeSet<PageNumber>> {
        let size = self.page_size();
        let torn = self.source.replace_torn(first, bytes);
        self.reads.torn += torn.len() as u64;
        for (page, bytes) in (0..).map(|index| first.plus(index)).zip(bytes.chunks_exact_mut(size.bytes())) {
            // Keep the device busy while the pages are verified.
            self.refill_reads()?;
            // If an extent could not be read, at least one of its pages is unreadable, so each page is read
            // separately.
            if suspect_pages.contains(&page) || (result.is_err() && !torn.contains(&page)) {
                suspect_pages.insert(page);
                continue;
            }
            match verify_page(bytes, size, page) {
                PageIntegrity::Good => {}
                PageIntegrity::Zero => self.reads.zero += 1,
                PageIntegrity::Repaired { .. } | PageIntegrity::WrongPage { .. } | PageIntegrity::Bad => {
                    suspect_pages.insert(page);
                }
            }
        }
        Ok(suspect_pages)
    }

    /// Rereads pages individually, while they are not being written, until they are good or the maximum number of
    /// attempts is reached.
    fn reread_pages(
        &mut self,
        first: PageNumber,
        bytes: &mut [u8],
        mut doubts: BTreeSet<PageNumber>,
    ) -> Result<()> {
        let size = self.page_size();
        self.reads.read_again += doubts.len() as u64;
        let mut single = IoBuffer::zeroed(if doubts.is_empty() { 0 } else { size.bytes() });
        let mut flaws = BTreeMap::new();
        for attempt in 1..=ATTEMPTS {
            for page in doubts.clone() {
                let flaw = match self.source.reread_page(page, &mut single)? {
                    OnDiskVerification::Verified(PageIntegrity::Good) => None,
                    OnDiskVerification::Verified(PageIntegrity::Zero) => {
                        self.reads.zero += 1;
                        None
                    }
                    OnDiskVerification::Verified(PageIntegrity::Repaired { .. }) => {
                        self.reads.corrected += 1;
                        None
                    }
                    OnDiskVerification::Verified(PageIntegrity::WrongPage { stored })
                        if stored <= self.last =>
                    {
                        Some(PageFlaw::WrongPage(stored))
                    }
                    OnDiskVerification::Verified(_) => Some(PageFlaw::Checksum),
                    OnDiskVerification::Unreadable(error) => Some(PageFlaw::Unreadable(error.to_string())),
                    OnDiskVerification::Busy | OnDiskVerification::Superseded => {
                        Some(PageFlaw::Unreadable("the page is rewritten continuously".to_string()))
                    }
                };
                let at = (page.get() - first.get()) as usize * size.bytes();
                if let Some(place) = bytes.get_mut(at..at + size.bytes()) {
                    place.copy_from_slice(&single);
                }
                match flaw {
                    None => drop(doubts.remove(&page)),
                    Some(flaw) => drop(flaws.insert(page, flaw)),
                }
            }
            if doubts.is_empty() {
                return Ok(());
            }
            self.source.clock().sleep(REREAD_BACKOFF * attempt);
        }
        for page in doubts {
            self.reads.bad += 1;
            let flaw = flaws.remove(&page).unwrap_or(PageFlaw::Checksum);
            if self.reads.bad_pages.len() < BAD_LISTED {
                self.reads.bad_pages.insert(page, flaw);
            }
        }
        Ok(())
    }
}
