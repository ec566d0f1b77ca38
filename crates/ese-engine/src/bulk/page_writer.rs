//! Allocates the pages of a new tree and writes them in large transfers.

use std::collections::VecDeque;

use ese_format::checksum::seal_page;
use ese_format::page::{Page, PageMut};
use ese_format::space::Extent;
use ese_format::{DbTime, LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::IoBuffer;

use crate::btree::Tree;
use crate::cache::{LoadBuffers, NewPageWrites};
use crate::pages::scrub;
use crate::space::SpaceLock;
use crate::{InternalError, Result};

/// Maximum number of concurrent transfers. This is enough to keep a device busy.
const WRITES_IN_FLIGHT: usize = 4;
/// Number of full transfers that may wait for a log sync. Each extent of a small tree has only a few transfers, so
/// one sync can cover several extents.
const TRANSFERS_WAITING: usize = 3;
/// Maximum size of an extent in bytes. In a small tree, each extent is an eighth of the tree's size.
const MAX_EXTENT: usize = 64 << 20;
/// Until the tree has this many transfers, each new extent doubles the tree's size, because each extent costs a log
/// sync.
const DOUBLING_TRANSFERS: u64 = 4;

/// Options for writing pages during a bulk load.
#[derive(Clone)]
pub(crate) struct BulkWriteOptions {
    /// Size of one write in bytes.
    pub bytes: usize,
    /// Whether unused bytes on pages are overwritten with zeros, as the maintenance scan does.
    pub zero: bool,
    /// Pool of the transfer buffers.
    pub buffers: Arc<LoadBuffers>,
}

/// Writes the pages of one tree. Each page is built directly in the buffer of its transfer. A transfer is submitted
/// when all its pages are sealed.
pub(super) struct PageWriter {
    tree: Arc<Tree>,
    /// Database time of all pages, which is no later than that of the durable log.
    time: Option<DbTime>,
    /// Unused part of the newest extent.
    rest: Option<Extent>,
    /// Log position that must be durable before a page of the newest extent is written.
    extent_logged: LogPosition,
    transfer_pages: u32,
    zero: bool,
    /// Transfers that are being filled, in page order.
    open: VecDeque<OpenTransfer>,
    /// Full transfers whose extents' log records may not be durable yet.
    waiting: VecDeque<OpenTransfer>,
    writes: Arc<NewPageWrites>,
    /// Number of pages allocated so far.
    pub pages: u64,
    first: Option<WrittenPage>,
}

/// A page that has been written, with its number and contents.
pub(crate) struct WrittenPage {
    pub number: PageNumber,
    pub bytes: Vec<u8>,
}

/// A transfer that is being filled.
struct OpenTransfer {
    first: PageNumber,
    buffer: IoBuffer,
    used: u32,
    sealed: u32,
    /// End of the log record that allocates the extent.
    logged: LogPosition,
}

impl PageWriter {
    pub fn new(tree: Arc<Tree>, transfers: &BulkWriteOptions) -> PageWriter {
        let size = tree.file.page_size.bytes();
        PageWriter {
            tree,
            time: None,
            rest: None,
            extent_logged: LogPosition::MIN,
            transfer_pages: (transfers.bytes / size).clamp(1, MAX_EXTENT / size) as u32,
            zero: transfers.zero,
            open: VecDeque::new(),
            waiting: VecDeque::new(),
            writes: Arc::new(NewPageWrites::new(transfers.buffers.clone())),
            pages: 0,
            first: None,
        }
    }

    pub fn page_size(&self) -> PageSize {
        self.tree.file.page_size
    }

    /// Removes and returns the first page that was completed.
    pub fn take_first(&mut self) -> Option<WrittenPage> {
        self.first.take()
    }

    /// Returns the number of the next page. Its bytes are arbitrary until the page is formatted.
    pub fn allocate(&mut self) -> Result<PageNumber> {
        if let Some(number) = self.take() {
            return Ok(number);
        }
        let file = &self.tree.file;
        let time = *self.time.get_or_insert_with(|| file.db_time());
        let largest = (MAX_EXTENT / file.page_size.bytes()) as u64;
        let transfer = u64::from(self.transfer_pages).min(largest);
        let doubled = self.pages.min(DOUBLING_TRANSFERS * transfer);
        let wanted = (self.pages / 8).max(doubled).clamp(transfer, largest) as u32;
        let extent = SpaceLock::new(file).add_settled_extent(self.tree.root, wanted)?;
        self.extent_logged = file.log.tail();
        debug_assert!(file.db_time() > time);
        self.rest = Some(extent);
        self.take().ok_or_else(|| InternalError::SpaceTree.into())
    }

    /// Allocates a page in the current extent and assigns it to a transfer.
    fn take(&mut self) -> Option<PageNumber> {
        let rest = self.rest.as_mut().filter(|rest| rest.count > 0)?;
        let number = rest.first();
        let left = rest.count;
        rest.count -= 1;
        let size = self.page_size().bytes();
        let follows = self.open.back().is_some_and(|open| {
            open.first.plus(open.used) == number && (open.used as usize) < open.buffer.len() / size
        });
        if !follows {
            let pages = self.transfer_pages.min(left) as usize;
            let capacity = self.transfer_pages as usize * size;
            let most = WRITES_IN_FLIGHT - self.waiting.len();
            let buffer = self.writes.buffer(pages * size, capacity, most);
            let logged = self.extent_logged;
            self.open.push_back(OpenTransfer { first: number, buffer, used: 0, sealed: 0, logged });
        }
        if let Some(open) = self.open.back_mut() {
            open.used += 1;
        }
        self.pages += 1;
        Some(number)
    }

    fn place(&mut self, number: PageNumber) -> Option<(usize, &mut [u8])> {
        let size = self.page_size().bytes();
        let inside =
            |open: &OpenTransfer| (open.first.get()..open.first.get() + open.used).contains(&number.get());
        let at = self.open.iter().rposition(inside)?;
        let open = &mut self.open[at];
        let offset = (number.get() - open.first.get()) as usize * size;
        Some((at, &mut open.buffer[offset..offset + size]))
    }

    /// Returns the bytes of a page that has been allocated but not sealed yet.
    pub fn page(&mut self, number: PageNumber) -> Result<&mut [u8]> {
        let bytes = self.place(number).map(|(_, bytes)| bytes);
        bytes.ok_or_else(|| InternalError::NotBeingBuilt(number).into())
    }

    /// Completes a page. Its transfer is submitted when all its pages are sealed.
    pub fn seal(&mut self, number: PageNumber) -> Result<()> {
        let (size, time) = (self.page_size(), self.time.unwrap_or_default());
        let (zero, is_first) = (self.zero, self.first.is_none());
        let (at, bytes) = self.place(number).ok_or(InternalError::NotBeingBuilt(number))?;
        let mut page = PageMut::new(bytes, size);
        if zero {
            scrub::overwrite_unused(&mut page);
        } else {
            // The buffer can still contain data from earlier pages.
            page.fill_free_area(0);
        }
        page.set_db_time(time);
        page.set_flags(page.as_page().flags().with_next_flush_type());
        debug_assert_eq!(ese_format::page::validate(bytes, size), Ok(()), "page {number} is malformed");
        debug_assert!(Page::new(bytes, size).node_count() > 0, "page {number} is empty");
        seal_page(bytes, size, number);
        if is_first {
            self.first = Some(WrittenPage { number, bytes: bytes.to_vec() });
        }
        let open = &mut self.open[at];
        open.sealed += 1;
        if open.sealed as usize == open.buffer.len() / size.bytes() {
            self.submit(at)?;
        }
        Ok(())
    }

    /// Removes a transfer from `open`. The transfer is written once the log record of its extent is durable. If too
    /// many transfers are waiting for this, the log is synced.
    fn submit(&mut self, at: usize) -> Result<()> {
        self.waiting.extend(self.open.remove(at));
        let durable = self.tree.file.log.durable();
        if self.waiting.len() > TRANSFERS_WAITING || self.waiting.iter().all(|full| full.logged <= durable) {
            self.write_waiting()?;
        }
        Ok(())
    }

    /// Writes all waiting transfers.
    fn write_waiting(&mut self) -> Result<()> {
        let (file, size) = (&self.tree.file, self.tree.file.page_size.bytes());
        // After a crash, the rollback must find the extent and its torn pages. The database time is later than the
        // time on these pages, because the allocation of the extent advanced it.
        let logged = self.waiting.iter().map(|full| full.logged).max();
        logged.map_or(Ok(()), |logged| file.log.flush(logged))?;
        self.waiting.drain(..).try_for_each(|OpenTransfer { first, mut buffer, used, .. }| {
            buffer.resize(used as usize * size);
            file.cache.write_new_pages(file.file_id, first, buffer, &self.writes)
        })
    }

    /// Writes the remaining transfers, waits for all writes, and frees the unused pages, except for the page that
    /// [`link`](super::link()) needs. All pages must be sealed. They are durable after the next sync of the file.
    pub fn complete(&mut self) -> Result<()> {
        while !self.open.is_empty() {
            self.submit(0)?;
        }
        self.write_waiting()?;
        self.writes.wait()?;
        if let Some(rest) = self.rest.take().filter(|rest| rest.count > 0) {
            SpaceLock::new(&self.tree.file).return_settled(self.tree.root, rest, 1)?;
        }
        Ok(())
    }
}

impl Drop for PageWriter {
    /// Waits for all writes, because the pages may be given to another owner afterwards.
    fn drop(&mut self) {
        if self.writes.wait().is_err() {
            let file = &self.tree.file;
            // A failed write can leave torn pages behind. The rollback scans for such pages.
            file.unsettled.add_all_through(file.file_pages().unwrap_or(u32::MAX));
        }
    }
}
