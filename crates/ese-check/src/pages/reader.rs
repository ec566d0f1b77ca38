//! On-demand access to verified pages through a small cache with read-ahead.
//!
//! Invariants: never more than `CACHE_PAGES` pages are in memory. Every returned page has a valid (or repaired)
//! checksum, unless the database is temporary. A page number from the disk is compared with the file size before anything is read.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, io};

use ese_format::checksum::PageIntegrity;
use ese_format::page::Page;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use crate::findings::finding::FindingKind;
use crate::pages::database::ReadableDatabase;
use crate::pages::page_status::PageStatus;
use crate::pages::verified_pages::VerifiedPages;

/// Number of pages in the cache, which is enough for several descents including siblings.
const CACHE_PAGES: usize = 512;
/// Maximum number of pages to read ahead.
const MAX_PREFETCH_PAGES: usize = 256;
/// Maximum total size in bytes of adjacent pages that are read in one transfer.
const MAX_RUN_LEN: u32 = 256 * 1024;

/// A page whose checksum was verified.
pub struct VerifiedPage {
    /// Buffer that contains the page. It is shared by all pages read in the same transfer.
    buffer: Arc<IoBuffer>,
    start: usize,
    size: PageSize,
}

impl VerifiedPage {
    /// Returns all bytes of the page, including its headers.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.size.bytes()).unwrap_or_default()
    }

    /// Returns a view of the page.
    pub fn page(&self) -> Page<'_> {
        Page::new(self.bytes(), self.size)
    }
}

/// A page whose checksum is bad. Any of its contents may be wrong.
pub struct DamagedPage {
    buffer: IoBuffer,
    start: usize,
    size: PageSize,
}

impl DamagedPage {
    /// Reads a page without verifying it, after [`PageCache::get`] returned [`PageProblem::Damaged`]. Returns `None` if
    /// the page cannot be read.
    pub fn read(database: &ReadableDatabase, page: PageNumber) -> Option<DamagedPage> {
        if !database.contains_page(page) {
            return None;
        }
        let (offset, len, start) = database.aligned_range(page, 1);
        let mut buffer = IoBuffer::zeroed(len);
        database.file.read_at(offset, &mut buffer, IoReason::Verify).ok()?;
        Some(DamagedPage { buffer, start, size: database.page_size })
    }

    /// Returns a view of the page.
    pub fn page(&self) -> Page<'_> {
        let bytes = self.buffer.get(self.start..self.start + self.size.bytes()).unwrap_or_default();
        Page::new(bytes, self.size)
    }
}

/// Reason why a page cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageProblem {
    /// The page is beyond the end of the file.
    BeyondFile {
        /// Number of pages in the file.
        file_pages: u32,
    },
    /// The page is all zero: it was never written.
    Zero,
    /// The checksum does not match.
    Damaged,
    /// The page was written for another location. The value is the stored page number.
    WrongPage(u32),
    /// The read failed.
    Io(String),
}

impl fmt::Display for PageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageProblem::BeyondFile { file_pages } => {
                write!(f, "is past the end of the file, which has {file_pages} pages")
            }
            PageProblem::Zero => f.write_str("was never written (all zero)"),
            PageProblem::Damaged => f.write_str("has a bad checksum"),
            PageProblem::WrongPage(stored) => write!(f, "contains page {stored}"),
            PageProblem::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl PageProblem {
    /// Returns the kind of finding for this problem.
    pub(crate) fn kind(&self) -> FindingKind {
        match self {
            PageProblem::BeyondFile { .. } => FindingKind::PageBeyondFile,
            PageProblem::Zero => FindingKind::PageZero,
            PageProblem::Damaged => FindingKind::PageBadChecksum,
            PageProblem::WrongPage(_) => FindingKind::PageWrongNumber,
            PageProblem::Io(_) => FindingKind::PageUnreadable,
        }
    }
}

/// A page, or the reason why it cannot be used.
pub type PageResult = Result<Arc<VerifiedPage>, PageProblem>;

/// Adjacent pages that have been read.
struct CompletedTransfer {
    first: PageNumber,
    result: io::Result<()>,
    buffer: IoBuffer,
    /// Offset of each page in the buffer, and its status.
    verdicts: Vec<(usize, PageStatus)>,
}

impl CompletedTransfer {
    /// Checks the pages on the thread that completes the read, so that the walk does not have to.
    fn new(
        (first, count, start, size): (PageNumber, u32, usize, PageSize),
        result: io::Result<()>,
        mut buffer: IoBuffer,
    ) -> CompletedTransfer {
        let places = (0..count).map(|index| (first.plus(index), start + index as usize * size.bytes()));
        let judge = |(page, at): (PageNumber, usize)| {
            let verdict = match (&result, buffer.get_mut(at..at + size.bytes())) {
                (Err(error), _) => PageStatus::Unreadable(error.to_string()),
                (Ok(()), None) => PageStatus::Unreadable("short read".to_owned()),
                (Ok(()), Some(bytes)) => PageStatus::verify(bytes, size, page),
            };
            (at, verdict)
        };
        let verdicts = places.map(judge).collect();
        CompletedTransfer { first, result, buffer, verdicts }
    }
}

/// Reads pages of one database and verifies their checksums.
pub struct VerifiedPageReader<'d> {
    /// Database to which the pages belong.
    pub database: &'d ReadableDatabase,
    cache: PageCache,
}

impl<'d> VerifiedPageReader<'d> {
    /// Creates a reader with an empty cache.
    pub fn new(database: &'d ReadableDatabase) -> VerifiedPageReader<'d> {
        VerifiedPageReader { database, cache: PageCache::default() }
    }

    /// Reads and verifies a page.
    pub fn get(&mut self, page: PageNumber) -> PageResult {
        self.cache.get(self.database, page)
    }

    /// Returns the page if it is in memory or is known to be unusable.
    pub(crate) fn get_if_loaded(&mut self, page: PageNumber) -> Option<PageResult> {
        self.cache.get_if_loaded(self.database, page)
    }

    /// Starts reading pages that will be requested soon.
    pub fn prefetch(&mut self, pages: impl Iterator<Item = PageNumber>) {
        self.cache.prefetch(self.database, pages);
    }

    /// Returns the set that records the status of each page as it is read.
    pub(crate) fn verified_pages(&mut self) -> &mut Option<VerifiedPages> {
        &mut self.cache.verified_pages
    }
}

/// Page cache for a [`VerifiedPageReader`], used by readers that cannot borrow their database. Every call must pass
/// the same database.
pub struct PageCache {
    pages: HashMap<PageNumber, PageResult>,
    order: VecDeque<PageNumber>,
    in_flight: HashSet<PageNumber>,
    sender: Sender<CompletedTransfer>,
    completions: Receiver<CompletedTransfer>,
    verified_pages: Option<VerifiedPages>,
}

impl Default for PageCache {
    fn default() -> PageCache {
        let (sender, completions) = channel();
        let (pages, order, in_flight) = (HashMap::new(), VecDeque::new(), HashSet::new());
        PageCache { pages, order, in_flight, sender, completions, verified_pages: None }
    }
}

impl PageCache {
    /// Reads and verifies a page.
    pub fn get(&mut self, database: &ReadableDatabase, page: PageNumber) -> PageResult {
        let file_pages = database.file_pages;
        if !database.contains_page(page) {
            return Err(PageProblem::BeyondFile { file_pages });
        }
        while self.in_flight.contains(&page) {
            self.take_completion(database);
        }
        if let Some(loaded) = self.pages.get(&page) {
            return loaded.clone();
        }
        let (offset, len, start) = database.aligned_range(page, 1);
        database.pace.wait(len as u64);
        let mut buffer = IoBuffer::zeroed(len);
        let result = database.file.read_at(offset, &mut buffer, IoReason::Verify);
        self.store(database, CompletedTransfer::new((page, 1, start, database.page_size), result, buffer));
        self.pages.get(&page).cloned().unwrap_or(Err(PageProblem::Damaged))
    }

    fn get_if_loaded(&mut self, database: &ReadableDatabase, page: PageNumber) -> Option<PageResult> {
        if !database.contains_page(page) {
            return Some(Err(PageProblem::BeyondFile { file_pages: database.file_pages }));
        }
        while let Ok(completion) = self.completions.try_recv() {
            self.accept(database, completion);
        }
        self.pages.get(&page).cloned()
    }

    /// Starts reading pages that will be requested soon.
    pub fn prefetch(&mut self, database: &ReadableDatabase, pages: impl Iterator<Item = PageNumber>) {
        if database.pace.is_limited() {
            return;
        }
        let mut wanted = Vec::new();
        for page in pages {
            if self.in_flight.len() >= MAX_PREFETCH_PAGES {
                break;
            }
            if database.contains_page(page) && !self.pages.contains_key(&page) && self.in_flight.insert(page)
            {
                wanted.push(page);
            }
        }
        wanted.sort_unstable();
        let longest = (MAX_RUN_LEN / database.page_size.get()).max(1) as usize;
        let neighbours = wanted.chunk_by(|a, b| a.plus(1) == *b).flat_map(|run| run.chunks(longest));
        let batch: Vec<Transfer> = neighbours
            .filter_map(|run| Some(self.request(database, *run.first()?, run.len() as u32)))
            .collect();
        if !batch.is_empty() {
            database.file.submit(batch);
        }
    }

    fn request(&self, database: &ReadableDatabase, first: PageNumber, count: u32) -> Transfer {
        let (offset, len, start) = database.aligned_range(first, count);
        let pages = (first, count, start, database.page_size);
        let sender = self.sender.clone();
        Transfer {
            kind: TransferKind::Read,
            offset,
            buffer: IoBuffer::zeroed(len),
            reason: IoReason::Verify,
            // The receiver is gone if the reader has been dropped.
            done: Box::new(move |result, buffer| {
                drop(sender.send(CompletedTransfer::new(pages, result, buffer)));
            }),
        }
    }

    fn take_completion(&mut self, database: &ReadableDatabase) {
        match self.completions.recv() {
            Ok(completion) => self.accept(database, completion),
            // This cannot happen while `self` holds a sender. If it happens anyway, the pages are read again, because
            // waiting could take forever.
            Err(_) => self.in_flight.clear(),
        }
    }

    fn accept(&mut self, database: &ReadableDatabase, completion: CompletedTransfer) {
        for index in 0..completion.verdicts.len() as u32 {
            self.in_flight.remove(&completion.first.plus(index));
        }
        // A bad sector must not make the neighbouring pages unreadable. The pages are read individually when they are
        // requested.
        if completion.result.is_ok() || completion.verdicts.len() == 1 {
            self.store(database, completion);
        }
    }

    fn store(&mut self, database: &ReadableDatabase, completion: CompletedTransfer) {
        let CompletedTransfer { first, buffer, verdicts, .. } = completion;
        let size = database.page_size;
        let buffer = Arc::new(buffer);
        for (index, (start, verdict)) in verdicts.into_iter().enumerate() {
            let page = first.plus(index as u32);
            let verdict = match (verdict, &database.flush_types) {
                (PageStatus::Page(PageIntegrity::Good, nodes), Some(types)) => {
                    let bytes = buffer.get(start..start + size.bytes()).unwrap_or_default();
                    let lost = types.lost_write(page, Page::new(bytes, size).flags());
                    lost.map_or(PageStatus::Page(PageIntegrity::Good, nodes), PageStatus::LostWrite)
                }
                (
                    PageStatus::NoChecksum(nodes)
                    | PageStatus::Page(PageIntegrity::Bad | PageIntegrity::WrongPage { .. }, nodes),
                    _,
                ) if database.is_temporary() => PageStatus::Page(PageIntegrity::Good, nodes),
                (verdict, _) => verdict,
            };
            let loaded = match &verdict {
                PageStatus::Unreadable(error) => Err(PageProblem::Io(error.clone())),
                PageStatus::NoChecksum(_) | PageStatus::Page(PageIntegrity::Bad, _) => {
                    Err(PageProblem::Damaged)
                }
                PageStatus::Page(PageIntegrity::Zero, _) => Err(PageProblem::Zero),
                PageStatus::Page(PageIntegrity::WrongPage { stored }, _) => {
                    Err(PageProblem::WrongPage(*stored))
                }
                PageStatus::LostWrite(_)
                | PageStatus::Page(PageIntegrity::Good | PageIntegrity::Repaired { .. }, _) => {
                    Ok(Arc::new(VerifiedPage { buffer: buffer.clone(), start, size }))
                }
            };
            if let Some(judged) = &mut self.verified_pages {
                judged.record(page, verdict);
            }
            if self.pages.insert(page, loaded).is_none() {
                self.order.push_back(page);
            }
        }
        while self.order.len() > CACHE_PAGES {
            if let Some(oldest) = self.order.pop_front() {
                self.pages.remove(&oldest);
            }
        }
    }
}
