//! Pages on demand, verified, through a small cache with read-ahead.
//!
//! Invariants: never more than [`CACHED`] pages in memory; a page handed out has a good (or repaired) checksum;
//! a page number from the disk is compared with the file size before anything is read.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, io};

use ese_format::checksum::{PageVerdict, verify_page};
use ese_format::page::Page;
use ese_format::{PageNumber, PageSize};
use vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use crate::database::Database;
use crate::finding::FindingKind;

/// Pages kept, a descent with its siblings several times over.
const CACHED: usize = 512;
/// Pages requested ahead of need at most.
const AHEAD: usize = 128;

/// A page that passed its checksum.
pub struct PageImage {
    buffer: IoBuffer,
    start: usize,
    size: PageSize,
}

impl PageImage {
    /// All of it, headers included.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.size.bytes()).unwrap_or_default()
    }

    /// A view of it.
    pub fn page(&self) -> Page<'_> {
        Page::new(self.bytes(), self.size)
    }
}

/// Why a page cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageProblem {
    /// The file is shorter.
    BeyondFile {
        /// Pages it has.
        file_pages: u32,
    },
    /// Nothing but zeros: never written.
    Zero,
    /// Checksum.
    Damaged,
    /// Written for another place.
    WrongPage(u32),
    /// The read failed.
    Io(String),
}

impl fmt::Display for PageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageProblem::BeyondFile { file_pages } => {
                write!(f, "lies beyond the file, which has {file_pages} pages")
            }
            PageProblem::Zero => f.write_str("was never written (all zero)"),
            PageProblem::Damaged => f.write_str("has a bad checksum"),
            PageProblem::WrongPage(stored) => write!(f, "was written as page {stored}"),
            PageProblem::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl PageProblem {
    /// What to call it.
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

/// A page, or why there is none.
pub type Loaded = Result<Arc<PageImage>, PageProblem>;
type Completion = (PageNumber, io::Result<()>, IoBuffer);

/// Reads the pages of one database.
pub struct PageReader<'d> {
    /// Whose pages.
    pub database: &'d Database,
    cache: HashMap<PageNumber, Loaded>,
    order: VecDeque<PageNumber>,
    in_flight: HashSet<PageNumber>,
    sender: Sender<Completion>,
    completions: Receiver<Completion>,
}

impl<'d> PageReader<'d> {
    /// A reader with an empty cache.
    pub fn new(database: &'d Database) -> PageReader<'d> {
        let (sender, completions) = channel();
        let (cache, order, in_flight) = (HashMap::new(), VecDeque::new(), HashSet::new());
        PageReader { database, cache, order, in_flight, sender, completions }
    }

    /// The page, verified.
    pub fn get(&mut self, page: PageNumber) -> Loaded {
        let file_pages = self.database.file_pages;
        if !self.database.holds(page) {
            return Err(PageProblem::BeyondFile { file_pages });
        }
        while self.in_flight.contains(&page) {
            self.take_completion();
        }
        if let Some(loaded) = self.cache.get(&page) {
            return loaded.clone();
        }
        let (offset, len, _) = self.database.aligned_range(page, 1);
        self.database.pace.before_read(len as u64);
        let mut buffer = IoBuffer::zeroed(len);
        let result = self.database.file.read_at(offset, &mut buffer, IoReason::Verify);
        self.store(page, result, buffer)
    }

    /// Starts reading pages that will be asked for soon.
    pub fn prefetch(&mut self, pages: impl Iterator<Item = PageNumber>) {
        let mut batch = Vec::new();
        if self.database.pace.is_throttled() {
            return;
        }
        for page in pages {
            if self.in_flight.len() >= AHEAD {
                break;
            }
            if !self.database.holds(page) || self.cache.contains_key(&page) || !self.in_flight.insert(page) {
                continue;
            }
            let (offset, len, _) = self.database.aligned_range(page, 1);
            let sender = self.sender.clone();
            batch.push(Transfer {
                kind: TransferKind::Read,
                offset,
                buffer: IoBuffer::zeroed(len),
                reason: IoReason::Verify,
                // A reader that is gone needs no page.
                done: Box::new(move |result, buffer| drop(sender.send((page, result, buffer)))),
            });
        }
        if !batch.is_empty() {
            self.database.file.submit(batch);
        }
    }

    fn take_completion(&mut self) {
        match self.completions.recv() {
            Ok((page, result, buffer)) => {
                self.in_flight.remove(&page);
                // Kept for the caller that asked for it ahead of time.
                let _ = self.store(page, result, buffer);
            }
            // Impossible while we hold a sender; without it, read again instead of waiting.
            Err(_) => self.in_flight.clear(),
        }
    }

    fn store(&mut self, page: PageNumber, result: io::Result<()>, mut buffer: IoBuffer) -> Loaded {
        let (_, _, start) = self.database.aligned_range(page, 1);
        let size = self.database.page_size;
        let loaded = match result {
            Err(error) => Err(PageProblem::Io(error.to_string())),
            Ok(()) => {
                match buffer.get_mut(start..start + size.bytes()).map(|bytes| verify_page(bytes, size, page))
                {
                    Some(PageVerdict::Good | PageVerdict::Repaired { .. }) => {
                        Ok(Arc::new(PageImage { buffer, start, size }))
                    }
                    Some(PageVerdict::Zero) => Err(PageProblem::Zero),
                    Some(PageVerdict::WrongPage { stored }) => Err(PageProblem::WrongPage(stored)),
                    Some(PageVerdict::Bad) | None => Err(PageProblem::Damaged),
                }
            }
        };
        if self.cache.insert(page, loaded.clone()).is_none() {
            self.order.push_back(page);
        }
        while self.order.len() > CACHED {
            if let Some(oldest) = self.order.pop_front() {
                self.cache.remove(&oldest);
            }
        }
        loaded
    }
}
