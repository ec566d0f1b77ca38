//! Getting pages: from memory, from the disk, or from nothing.
//!
//! Invariant: two sessions that miss the same page cause one read; the second waits for the first and takes over
//! only if it failed.

use std::io;
use std::time::Duration;

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::validate;
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::{IoBuffer, IoReason};

use super::files::Attached;
use super::frame::{Frame, State};
use super::{Cache, PageKey, PinnedPage};
use crate::{Error, Result};

/// A transfer that brought wrong bytes may have gone wrong itself.
const READ_ATTEMPTS: u32 = 4;

/// How a page is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// For work that may come back to it.
    Use,
    /// Once.
    Once,
    /// By redo, which can deal with pages that never reached the disk.
    Redo,
}

impl Cache {
    /// Pins a page, reading and verifying it if necessary. Must not be called with a latch held. After an error
    /// the page is as before, and the next call tries again.
    pub fn fetch(&self, key: PageKey) -> Result<PinnedPage> {
        self.get(key, Want::Use)
    }

    /// As [`Cache::fetch`], for scans: the page does not count as used and is the next to be evicted.
    #[doc(alias = "supercold")]
    pub fn fetch_cold(&self, key: PageKey) -> Result<PinnedPage> {
        self.get(key, Want::Once)
    }

    /// As [`Cache::fetch`], for redo: a page that was never written, or lies behind the end of the file, comes as
    /// zeros. It is read again by the next fetch unless it was marked dirty.
    pub fn fetch_or_zero(&self, key: PageKey) -> Result<PinnedPage> {
        self.get(key, Want::Redo)
    }

    /// Whether the page has a frame, and may be newer than on the disk.
    pub fn contains(&self, key: PageKey) -> bool {
        self.table.pin(key).is_some() || self.table.is_away(key)
    }

    /// Pins a page if that needs no I/O and no waiting; may be called with latches held.
    pub fn resident(&self, key: PageKey) -> Option<PinnedPage> {
        let page = self.table.pin(key)?;
        let frame = page.frame();
        let is_here = match frame.state() {
            State::Ready => true,
            State::Fresh => frame.pins() > 1,
            State::Unverified => {
                frame.turn(State::Unverified, State::Loading) && self.verify_read_ahead(frame)
            }
            State::Free | State::Loading | State::Unread | State::Retired => false,
        };
        if !is_here {
            return None;
        }
        self.table.count(key, true);
        self.touch(frame);
        Some(page)
    }

    /// Pins a page without reading it. A page that was not in memory has a header of zeros, so that it is a page of
    /// nothing, and any bytes behind it; otherwise the bytes are what they were. The caller formats it under the write
    /// latch and marks it dirty. May evict, and therefore wait for writes of other pages. [`Error::ReadOnly`] after the
    /// cache failed.
    pub fn create(&self, key: PageKey) -> Result<PinnedPage> {
        loop {
            self.books.check()?;
            self.books.file(key.file)?;
            if let Some(page) = self.table.pin(key) {
                let frame = page.frame();
                match self.table.settled_state(&page) {
                    State::Ready | State::Fresh => {
                        self.touch(frame);
                        return Ok(page);
                    }
                    State::Unread if frame.turn(State::Unread, State::Loading) => return self.blank(page),
                    State::Unverified if frame.turn(State::Unverified, State::Loading) => {
                        return self.blank(page);
                    }
                    _ => frame.wait_while_loading(),
                }
                continue;
            }
            let frame = self.take_frame()?;
            frame.assign(key, State::Loading);
            let page = PinnedPage::adopt(frame);
            if self.enter(&page, Want::Use) {
                return self.blank(page);
            }
        }
    }

    fn blank(&self, page: PinnedPage) -> Result<PinnedPage> {
        let frame = page.frame();
        if frame.lacks_edits() {
            // Should it stay as it was after all, its edits must not be lost.
            return self.load(page, Want::Use);
        }
        let mut bytes = frame.take_bytes();
        bytes[..self.page_size.header_len()].fill(0);
        frame.put_bytes(bytes);
        frame.read_ahead.store(false, Ordering::Relaxed);
        frame.turn(State::Loading, State::Fresh);
        Ok(page)
    }

    fn get(&self, key: PageKey, want: Want) -> Result<PinnedPage> {
        let mut waited = false;
        loop {
            let Some(page) = self.table.pin(key) else {
                self.books.file(key.file)?;
                let frame = self.take_frame()?;
                frame.assign(key, State::Loading);
                let page = PinnedPage::adopt(frame);
                if !self.enter(&page, want) {
                    continue;
                }
                self.table.count(key, false);
                return self.load(page, want);
            };
            let frame = page.frame();
            match frame.state() {
                State::Ready => {}
                State::Loading => {
                    if frame.read_ahead.load(Ordering::Relaxed) && !waited {
                        self.books.tallies.preread_stalls.add(1);
                    }
                    waited = true;
                    frame.wait_while_loading();
                    continue;
                }
                State::Unverified => {
                    if !frame.turn(State::Unverified, State::Loading) || !self.verify_read_ahead(frame) {
                        continue;
                    }
                }
                State::Unread => {
                    if frame.turn(State::Unread, State::Loading) {
                        self.table.count(key, false);
                        return self.load(page, want);
                    }
                    continue;
                }
                State::Fresh => {
                    if self.table.reload_fresh(&page) {
                        return self.load(page, want);
                    }
                }
                State::Free | State::Retired => {
                    self.books.file(key.file)?;
                    continue;
                }
            }
            self.table.count(key, !waited);
            if want != Want::Once {
                self.touch(frame);
            }
            return Ok(page);
        }
    }

    fn touch(&self, frame: &Frame) {
        let now = self.now.load(Ordering::Relaxed);
        if frame.read_ahead.load(Ordering::Relaxed) {
            frame.read_ahead.store(false, Ordering::Relaxed);
            frame.references.first_use(now);
        }
        frame.references.touch(now, self.correlated_interval());
    }

    /// Puts a newly assigned page into the table; if somebody else was first, the frame goes back.
    fn enter(&self, page: &PinnedPage, want: Want) -> bool {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        let entered = self.table.enter(page.shared_frame(), (want != Want::Once).then_some(now));
        if !entered {
            // Freed with the pin.
            page.frame().retire();
        }
        entered
    }

    /// Same, for a page to be read ahead.
    pub(super) fn enter_ahead(&self, page: &PinnedPage) -> bool {
        page.frame().read_ahead.store(true, Ordering::Relaxed);
        self.enter(page, Want::Use)
    }

    /// Same, for a page of which only the frame is needed.
    pub(super) fn enter_once(&self, page: &PinnedPage) -> bool {
        self.enter(page, Want::Once)
    }

    /// Reads the page of a frame that the caller has set to `Loading`.
    fn load(&self, page: PinnedPage, want: Want) -> Result<PinnedPage> {
        let frame = page.frame();
        frame.read_ahead.store(false, Ordering::Relaxed);
        let mut bytes = frame.take_bytes();
        let read = self.books.file(page.key().file).and_then(|attached| {
            self.books.tallies.faults.add(1);
            let state = self.read_page(&attached, page.key(), &mut bytes, want)?;
            Ok((attached, state))
        });
        frame.put_bytes(bytes);
        let outcome = read.and_then(|(attached, state)| {
            if state == State::Ready {
                self.catch_up(frame, &attached)?;
            }
            Ok(state)
        });
        frame.turn(State::Loading, *outcome.as_ref().unwrap_or(&State::Unread));
        outcome.map(|_| page)
    }

    fn read_page(
        &self,
        attached: &Attached,
        key: PageKey,
        bytes: &mut IoBuffer,
        want: Want,
    ) -> Result<State> {
        let path = attached.file.path();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let offset = self.page_size.offset_of(key.page);
            match attached.file.read_at(offset, bytes, IoReason::DatabaseRead) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && want == Want::Redo => {
                    bytes.fill(0);
                    return Ok(State::Fresh);
                }
                Err(error) => return Err(Error::io(path, &error)),
            }
            match self.verify(key, bytes) {
                Ok(()) => return Ok(State::Ready),
                Err(Flaw::Zero) if want == Want::Redo => return Ok(State::Fresh),
                Err(flaw) if flaw.may_be_the_transfer() && attempt < READ_ATTEMPTS => {
                    self.books.tallies.read_retries.add(1);
                    self.clock.sleep(Duration::from_millis(1 << attempt));
                }
                Err(flaw) => {
                    let what = format!("page {}: {flaw}", key.page);
                    return Err(Error::Corrupt { path: path.to_path_buf(), page: Some(key.page), what });
                }
            }
        }
    }

    fn catch_up(&self, frame: &Frame, attached: &Attached) -> Result<()> {
        frame.catch_up(self.page_size).map_err(|what| {
            let page = frame.key().page;
            let what = format!("page {page}: {what}");
            Error::Corrupt { path: attached.file.path().to_path_buf(), page: Some(page), what }
        })
    }

    /// Looks at what a read-ahead brought; wrong bytes are left to be read again.
    fn verify_read_ahead(&self, frame: &Frame) -> bool {
        let mut bytes = frame.take_bytes();
        let verified = self.verify(frame.key(), &mut bytes).is_ok();
        frame.put_bytes(bytes);
        let good = verified && frame.catch_up(self.page_size).is_ok();
        frame.turn(State::Loading, if good { State::Ready } else { State::Unread });
        good
    }

    fn verify(&self, key: PageKey, bytes: &mut [u8]) -> std::result::Result<(), Flaw> {
        match verify_page(bytes, self.page_size, key.page) {
            PageIntegrity::Good => {}
            PageIntegrity::Repaired { bits } => self.books.tallies.bits_repaired.add(bits.len()),
            PageIntegrity::Zero => return Err(Flaw::Zero),
            PageIntegrity::WrongPage { stored } => return Err(Flaw::WrongPage(stored)),
            PageIntegrity::Bad => return Err(Flaw::Checksum),
        }
        validate(bytes, self.page_size).map_err(|fault| Flaw::Structure(fault.to_string()))
    }

    /// A frame for the caller alone, evicting if necessary.
    fn take_frame(&self) -> Result<Arc<Frame>> {
        if let Some(frame) = self.take_available() {
            return Ok(frame);
        }
        self.books.tallies.fault_stalls.add(1);
        self.make_room()
    }

    /// A frame from the available pool. Whoever takes one from a low pool puts another in, if a clean victim is
    /// at hand; the cleaner sees to the dirty ones.
    pub(super) fn take_available(&self) -> Option<Arc<Frame>> {
        if self.available() <= self.limits.start {
            if let Some(victim) = self.evict_clean() {
                self.books.put_free(victim.index);
            }
            // While clean victims last the pool does not shrink; the cleaner has to be called before they are gone.
            if self.available() <= self.limits.start || self.has_batch_to_write() {
                self.books.wake.ring();
            }
        }
        if let Some(index) = self.books.take_free().or_else(|| self.books.kept.give_back()) {
            return self.frames[index as usize].get().cloned();
        }
        let take = |used: usize| (used < self.limits.frames).then_some(used + 1);
        let index = self.used_frames.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
        let new = || Arc::new(Frame::new(index as u32, self.books.clone()));
        Some(self.frames[index].get_or_init(new).clone())
    }
}

/// What is wrong with bytes that were read as a page.
enum Flaw {
    Zero,
    WrongPage(u32),
    Checksum,
    Structure(String),
}

impl Flaw {
    fn may_be_the_transfer(&self) -> bool {
        matches!(self, Flaw::Checksum | Flaw::WrongPage(_))
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flaw::Zero => f.write_str("never written, all zeros (-1019)"),
            Flaw::WrongPage(stored) => write!(f, "holds page {stored} (-1118)"),
            Flaw::Checksum => f.write_str("wrong checksum (-1018)"),
            Flaw::Structure(what) => write!(f, "checksum is right, structure is wrong: {what} (-1018)"),
        }
    }
}
