//! Fetches pages from memory or from disk, and creates pages without reading them.
//!
//! Invariant: two sessions that miss the same page cause only one read. The second session waits for the first, and
//! reads the page itself only if the first read failed.

use std::io;
use std::time::Duration;

use ese_format::PageNumber;
use ese_format::PageSize;
use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::validate;
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::{Clock, IoBuffer, IoReason};

use crate::background_thread::is_background_thread;
use crate::cache::frame::{Frame, FrameState};
use crate::cache::options::CacheLimits;
use crate::cache::replacement::{PageTable, ResidentPages};
use crate::cache::shared::{AttachedFile, CacheInner, RepairWaitResult, unused_page};
use crate::cache::supply::FrameSupply;
use crate::cache::{PageKey, PinnedPage};
use crate::events::{EventKind, PageDamage, PageDamageKind};
use crate::{Corruption, Error, PageDefect, Result};

/// Maximum number of times a page is read if its checksum is wrong. A retry helps if the transfer damaged the data.
const READ_ATTEMPTS: u32 = 4;

/// Mode in which a page is fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FetchMode {
    /// The fetch counts as a use of the page.
    Normal,
    /// The fetch does not count as a use, because the page is needed only once.
    Cold,
    /// The fetch is for redo: a page that was never written to disk is not an error.
    Redo,
    /// Same as `Normal`, except that an invalid page is not reported as an event. The caller may not need its
    /// content.
    Tentative,
}

/// Reads pages into frames, or directly into buffers, bypassing the frames.
pub struct PageReader {
    pub(in crate::cache) shared: Arc<CacheInner>,
    pub(in crate::cache) limits: CacheLimits,
    pub(in crate::cache) clock: Arc<dyn Clock>,
    pub(super) page_size: PageSize,
    pub(super) supply: FrameSupply,
}

impl PageReader {
    pub(in crate::cache) fn new(
        shared: Arc<CacheInner>,
        limits: CacheLimits,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> PageReader {
        PageReader {
            page_size: shared.page_size,
            supply: FrameSupply::new(shared.clone(), limits, clock.clone(), seed),
            shared,
            limits,
            clock,
        }
    }

    pub(in crate::cache) fn supply(&self) -> &FrameSupply {
        &self.supply
    }

    pub(in crate::cache) fn residents(&self) -> &ResidentPages {
        self.supply.residents()
    }

    pub(in crate::cache) fn page_table(&self) -> &PageTable {
        self.residents().page_table()
    }

    /// Returns the number of pages that were read because sessions needed them, and the total time of these reads in
    /// microseconds.
    pub(crate) fn fault_times(&self) -> (u64, u64) {
        let counters = &self.shared.counters;
        (counters.faults.get(), counters.fault_us.get())
    }

    /// Pins the page's frame, whatever its state. If the page has no frame, it gets an empty one, which will be evicted
    /// next.
    pub(super) fn frame_of(&self, key: PageKey) -> Result<PinnedPage> {
        loop {
            if let Some(page) = self.page_table().pin(key) {
                return Ok(page);
            }
            let frame = self.supply.take_available().map_or_else(|| self.supply.evict_or_write(), Ok)?;
            frame.assign(key, FrameState::Unread);
            let page = PinnedPage::adopt(frame);
            if self.residents().insert(&page, false) {
                return Ok(page);
            }
        }
    }
    /// Pins a page, reading and verifying it if necessary. Must not be called with a latch held. After an error, the
    /// page is unchanged, and the next call tries again.
    ///
    /// If copies may repair a damaged page, the call waits for the repair, for at most
    /// [`CopyOptions::page_repair_wait`](crate::CopyOptions::page_repair_wait). Background threads of the
    /// engine do not wait, because they may be the threads that perform the repair.
    pub fn fetch(&self, key: PageKey) -> Result<PinnedPage> {
        let fetched = self.fetch_in_mode(key, FetchMode::Normal);
        match fetched {
            Err(Error::Corrupt { .. } | Error::Io { .. }) if !is_background_thread() => {
                self.fetch_when_repaired(key, fetched)
            }
            fetched => fetched,
        }
    }

    #[cold]
    fn fetch_when_repaired(&self, key: PageKey, failed: Result<PinnedPage>) -> Result<PinnedPage> {
        let (began, mut fetched, mut again) = (self.clock.monotonic(), failed, false);
        let Some(attached) = self.shared.find_file(key.file) else { return fetched };
        while fetched.is_err() {
            match attached.damaged.wait_for_repair(key.page, &*self.clock, began) {
                RepairWaitResult::TimedOut => break,
                RepairWaitResult::NotDamaged if std::mem::replace(&mut again, true) => break,
                RepairWaitResult::Repaired | RepairWaitResult::NotDamaged => {}
            }
            fetched = self.fetch_in_mode(key, FetchMode::Normal);
        }
        fetched
    }

    /// Fetches a page that the caller may be able to rebuild. Unlike [`PageReader::fetch`], it does not report an
    /// invalid page as an event.
    pub(crate) fn fetch_tentatively(&self, key: PageKey) -> Result<PinnedPage> {
        self.fetch_in_mode(key, FetchMode::Tentative)
    }

    /// Fetches a page for a scan. Unlike [`PageReader::fetch`], this does not count as a use of the page, which will be
    /// evicted next.
    #[doc(alias = "supercold")]
    pub fn fetch_cold(&self, key: PageKey) -> Result<PinnedPage> {
        self.fetch_in_mode(key, FetchMode::Cold)
    }

    /// Fetches a page for redo. A page that was never written, or that lies past the end of the file, is returned
    /// with all bytes zero. The next fetch reads such a page again unless it was marked dirty.
    pub fn fetch_or_zero(&self, key: PageKey) -> Result<PinnedPage> {
        self.fetch_in_mode(key, FetchMode::Redo)
    }

    /// Returns true if the cache has the page or its deltas in memory. In that case, the state in memory may be newer
    /// than the state on disk.
    pub fn contains(&self, key: PageKey) -> bool {
        self.page_table().pin(key).is_some() || self.page_table().is_evicted_dirty(key)
    }

    /// Returns true if the cache has a verified copy of the page.
    pub(crate) fn has_verified(&self, key: PageKey) -> bool {
        let state = self.page_table().pin(key).map(|page| page.frame().state());
        matches!(state, Some(FrameState::Ready | FrameState::Fresh))
    }

    /// Pins a page if this is possible without I/O and without waiting. May be called with latches held.
    pub fn resident(&self, key: PageKey) -> Option<PinnedPage> {
        let page = self.page_table().pin(key)?;
        let frame = page.frame();
        let is_here = match frame.state() {
            FrameState::Ready => true,
            FrameState::Fresh => frame.pins() > 1,
            FrameState::Unverified => {
                frame.transition(FrameState::Unverified, FrameState::Loading) && self.verify_read_ahead(frame)
            }
            FrameState::Free | FrameState::Loading | FrameState::Unread | FrameState::Retired => false,
        };
        if !is_here {
            return None;
        }
        self.page_table().count(key, true);
        self.residents().touch(frame);
        Some(page)
    }

    /// Pins a page without reading it. The caller formats the page under the write latch and marks it dirty.
    ///
    /// A page that was not in memory has a header of zeros, followed by arbitrary bytes. A page that was already in
    /// memory keeps its bytes. The call may evict other pages, and may therefore wait for them to be written.
    ///
    /// # Errors
    ///
    /// Returns [`Error::ReadOnly`] after the cache has failed.
    pub fn create(&self, key: PageKey) -> Result<PinnedPage> {
        loop {
            self.shared.check()?;
            self.shared.file(key.file)?.released.remove(key.page.get(), key.page.get());
            if let Some(page) = self.page_table().pin(key) {
                let frame = page.frame();
                match self.page_table().stable_state(&page) {
                    FrameState::Ready | FrameState::Fresh => {
                        self.residents().touch(frame);
                        return Ok(page);
                    }
                    state @ (FrameState::Unread | FrameState::Unverified)
                        if frame.transition(state, FrameState::Loading) =>
                    {
                        return self.clear(page);
                    }
                    _ => frame.wait_while_loading(),
                }
                continue;
            }
            let frame = self.supply.take_frame()?;
            frame.assign(key, FrameState::Loading);
            let page = PinnedPage::adopt(frame);
            if self.residents().insert(&page, true) {
                return self.clear(page);
            }
        }
    }

    fn clear(&self, page: PinnedPage) -> Result<PinnedPage> {
        let frame = page.frame();
        if frame.deltas_pending() {
            // The page is read after all. Its deltas must not be lost if the caller leaves the page unchanged.
            return self.load(page, FetchMode::Normal);
        }
        let mut bytes = frame.take_bytes();
        bytes[..self.page_size.header_len()].fill(0);
        frame.put_bytes(bytes);
        frame.read_ahead.store(false, Ordering::Relaxed);
        frame.transition(FrameState::Loading, FrameState::Fresh);
        Ok(page)
    }

    fn fetch_in_mode(&self, key: PageKey, mode: FetchMode) -> Result<PinnedPage> {
        let mut waited = false;
        loop {
            let Some(page) = self.page_table().pin(key) else {
                self.shared.file(key.file)?;
                let frame = self.supply.take_frame()?;
                frame.assign(key, FrameState::Loading);
                let page = PinnedPage::adopt(frame);
                if !self.residents().insert(&page, mode != FetchMode::Cold) {
                    continue;
                }
                self.page_table().count(key, false);
                return self.load(page, mode);
            };
            let frame = page.frame();
            match frame.state() {
                FrameState::Ready => {}
                FrameState::Loading => {
                    if frame.read_ahead.load(Ordering::Relaxed) && !waited {
                        self.shared.counters.preread_stalls.add(1);
                    }
                    waited = true;
                    frame.wait_while_loading();
                    continue;
                }
                FrameState::Unverified => {
                    if !frame.transition(FrameState::Unverified, FrameState::Loading)
                        || !self.verify_read_ahead(frame)
                    {
                        continue;
                    }
                }
                FrameState::Unread => {
                    if frame.transition(FrameState::Unread, FrameState::Loading) {
                        self.page_table().count(key, false);
                        return self.load(page, mode);
                    }
                    continue;
                }
                FrameState::Fresh => {
                    if self.page_table().reload_fresh(&page) {
                        return self.load(page, mode);
                    }
                }
                FrameState::Free | FrameState::Retired => {
                    self.shared.file(key.file)?;
                    continue;
                }
            }
            self.page_table().count(key, !waited);
            if mode != FetchMode::Cold {
                self.residents().touch(frame);
            }
            return Ok(page);
        }
    }

    /// Reads a page into its frame, which the caller has set to `Loading`.
    fn load(&self, page: PinnedPage, mode: FetchMode) -> Result<PinnedPage> {
        let frame = page.frame();
        frame.read_ahead.store(false, Ordering::Relaxed);
        let mut bytes = frame.take_bytes();
        let read = self.shared.file(page.key().file).and_then(|attached| {
            self.shared.counters.faults.add(1);
            let began = self.clock.monotonic();
            let state = self.read_page(&attached, page.key(), &mut bytes, mode)?;
            let took = self.clock.monotonic().saturating_sub(began);
            self.shared.counters.fault_us.add(took.as_micros() as usize);
            Ok((attached, state))
        });
        frame.put_bytes(bytes);
        let outcome = read.and_then(|(attached, state)| {
            if state == FrameState::Ready {
                self.apply_pending_deltas(frame, &attached)?;
            }
            Ok(state)
        });
        frame.transition(FrameState::Loading, *outcome.as_ref().unwrap_or(&FrameState::Unread));
        outcome.map(|_| page)
    }

    fn read_page(
        &self,
        attached: &AttachedFile,
        key: PageKey,
        bytes: &mut IoBuffer,
        mode: FetchMode,
    ) -> Result<FrameState> {
        let path = attached.file.path();
        let is_given_back = || attached.released.contains(key.page.get(), key.page.get());
        let mut attempt = 0;
        loop {
            attempt += 1;
            let offset = self.page_size.offset_of(key.page);
            match attached.file.read_at(offset, bytes, IoReason::DatabaseRead) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && mode == FetchMode::Redo => {
                    bytes.fill(0);
                    return Ok(FrameState::Fresh);
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && is_given_back() => {
                    unused_page(bytes, self.page_size, key.page);
                    return Ok(FrameState::Ready);
                }
                Err(error)
                    if error.kind() == io::ErrorKind::UnexpectedEof && mode == FetchMode::Tentative =>
                {
                    return Err(corrupt_page(attached, key.page, PageDefect::PastEnd));
                }
                Err(error) => {
                    self.report_damage(attached, key, PageDamageKind::Unreadable(error.to_string()));
                    return Err(Error::io(path, &error));
                }
            }
            match self.verify(attached, key, bytes) {
                Ok(()) => return Ok(FrameState::Ready),
                Err(PageDefect::Zero) if mode == FetchMode::Redo => return Ok(FrameState::Fresh),
                Err(PageDefect::Zero) if is_given_back() => {
                    unused_page(bytes, self.page_size, key.page);
                    return Ok(FrameState::Ready);
                }
                Err(defect) if may_be_transient(&defect) && attempt < READ_ATTEMPTS => {
                    self.shared.counters.read_retries.add(1);
                    self.clock.sleep(Duration::from_millis(1 << attempt));
                }
                Err(defect) => {
                    if mode != FetchMode::Tentative {
                        let pages = attached.file.len().unwrap_or(0) / self.page_size.bytes() as u64;
                        self.report_damage(attached, key, damage_kind(&defect, pages));
                    }
                    return Err(corrupt_page(attached, key.page, defect));
                }
            }
        }
    }

    fn apply_pending_deltas(&self, frame: &Frame, attached: &AttachedFile) -> Result<()> {
        let applied = frame.apply_pending_deltas(self.page_size);
        applied.map_err(|fault| corrupt_page(attached, frame.key().page, fault))
    }

    /// Verifies a page that was read ahead. Returns false if it must be read again.
    fn verify_read_ahead(&self, frame: &Frame) -> bool {
        let mut bytes = frame.take_bytes();
        // An invalid page is not reported here. It is read again, and reported only if it is still invalid.
        let attached = self.shared.find_file(frame.key().file);
        let verified =
            attached.is_some_and(|attached| self.verify(&attached, frame.key(), &mut bytes).is_ok());
        frame.put_bytes(bytes);
        let good = verified && frame.apply_pending_deltas(self.page_size).is_ok();
        frame.transition(FrameState::Loading, if good { FrameState::Ready } else { FrameState::Unread });
        good
    }

    fn report_damage(&self, attached: &AttachedFile, key: PageKey, fault: PageDamageKind) {
        if !matches!(fault, PageDamageKind::Corrected(_)) {
            attached.damaged.insert(key.page, self.clock.monotonic());
        }
        attached.events.report(EventKind::PageDamaged(PageDamage {
            file: attached.file.path().to_path_buf(),
            offset: self.page_size.offset_of(key.page),
            bytes: self.page_size.bytes() as u64,
            page: key.page,
            fault,
        }));
    }

    fn verify(
        &self,
        attached: &AttachedFile,
        key: PageKey,
        bytes: &mut [u8],
    ) -> std::result::Result<(), PageDefect> {
        match verify_page(bytes, self.page_size, key.page) {
            PageIntegrity::Good => {}
            PageIntegrity::Repaired { bits } => {
                self.shared.counters.bits_repaired.add(bits.len());
                self.report_damage(attached, key, PageDamageKind::Corrected(bits));
            }
            PageIntegrity::Zero => return Err(PageDefect::Zero),
            PageIntegrity::WrongPage { stored } => return Err(PageDefect::WrongPage(stored)),
            PageIntegrity::Bad => return Err(PageDefect::Checksum),
        }
        validate(bytes, self.page_size).map_err(PageDefect::Structure)
    }
}

/// Converts a defect to the form used in events. The file has `pages` pages.
fn damage_kind(defect: &PageDefect, pages: u64) -> PageDamageKind {
    match defect {
        PageDefect::Zero => PageDamageKind::Missing,
        // Small pages encode their number only in the checksum. Any damage therefore looks like a wrong page number.
        PageDefect::WrongPage(stored) if u64::from(*stored) < pages => PageDamageKind::WrongPage(*stored),
        _ => PageDamageKind::Checksum,
    }
}

fn may_be_transient(defect: &PageDefect) -> bool {
    matches!(defect, PageDefect::Checksum | PageDefect::WrongPage(_))
}

fn corrupt_page(attached: &AttachedFile, page: PageNumber, fault: impl Into<Corruption>) -> Error {
    Error::Corrupt { path: attached.file.path().to_path_buf(), page: Some(page), fault: fault.into() }
}
