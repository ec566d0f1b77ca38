//! Dirty pages that leave their frames without being written: their edits stay, and are made again when the page is
//! read the next time.
//!
//! ```text
//!  frame, dirty by known edits ──go_away──> away: first and last log position, edits ──come_back──> frame being read
//!        ^                                                                                              │
//!        └────────────────────────────────── catch_up: edits made on the bytes ─────────────────────────┘
//! ```
//!
//! A page of which one record in thirty was changed need not be written for that: the record is a thirtieth of the
//! page, so the memory of one frame keeps the changes of many pages, and each is written only when a few of its
//! records have changed. Deuteronomy's LLAMA does the same with the delta chains of its pages (Levandoski, Lomet,
//! Sengupta: LLAMA, a cache/storage subsystem for modern hardware, PVLDB 6, 2013).
//!
//! Invariants:
//! - For redo and the checkpoint nothing changes: a page that is away is dirty in the ledger since its first change.
//! - Edits take the memory of frames that are given up for them. Only when all others are in use does one come back
//!   before the edits have gone.
//! - A page that has to come back only to be written cost a read: who sees too many of them lets no more go.

use std::ops::Range;

use crossbeam_utils::CachePadded;
use ese_format::LogPosition;
use jetcell_sync::Mutex;
use jetcell_sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::{Cache, PageKey};

/// What a page with edits costs beside them while it is away; estimated.
const ENTRY_BYTES: usize = 128;
/// Pages with more edits than this share of a page are written.
const MOST_OF_PAGE: usize = 4;
/// A page that comes back because it is used has saved a write; with fewer than one in so many it does not pay.
const GAIN: i64 = 2;
/// Credit to begin with, in pages per frame, at most. Pages come back only after a while, so it must last until then;
/// what it may cost is so many reads, once.
const FIRST_CREDIT: usize = 8;
/// Credit that experience can earn, in units of the first.
const MOST_CREDIT: i64 = 2;
/// With less than this share of all credit there can be, it is running out.
const RUNNING_OUT: i64 = 16;
/// Pages let go without credit, one in so many, to see whether it would pay by now.
const PROBE: usize = 64;

/// The account of kept edits.
pub(super) struct Kept {
    page_bytes: usize,
    /// Frames that may be given up for edits; 0: no edits are kept.
    limit: usize,
    /// Frames that recovery uses for something else.
    withheld: AtomicUsize,
    recoveries: AtomicUsize,
    /// Edits that no frame was given up for yet.
    slack: usize,
    bytes: CachePadded<AtomicUsize>,
    away: AtomicUsize,
    lent: Mutex<Vec<u32>>,
    lent_count: AtomicUsize,
    credit: AtomicI64,
    most_credit: i64,
    probes: AtomicUsize,
}

impl Kept {
    /// For a checkpoint that follows the log within `depth` bytes: the pages that may be away when it comes to them must be
    /// few enough to be read again in time.
    pub fn new(page_bytes: usize, frames: usize, limit: usize, slack: usize, depth: u64) -> Kept {
        let within_depth = usize::try_from(depth).unwrap_or(usize::MAX) / page_bytes;
        let credit = (FIRST_CREDIT * frames).min(within_depth) as i64;
        Kept {
            page_bytes,
            limit,
            withheld: AtomicUsize::new(0),
            recoveries: AtomicUsize::new(0),
            slack,
            bytes: CachePadded::default(),
            away: AtomicUsize::new(0),
            lent: Mutex::default(),
            lent_count: AtomicUsize::new(0),
            credit: AtomicI64::new(credit),
            most_credit: MOST_CREDIT * credit,
            probes: AtomicUsize::new(0),
        }
    }

    pub fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Recovery begins, and uses so many frames for something else. Until it ends, pages go without credit: nobody
    /// waits for what is written later, but for recovery.
    pub fn begin_recovery(&self, frames: usize) {
        self.withheld.fetch_add(frames, Ordering::Relaxed);
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    /// Recovery gives frames back.
    pub fn release(&self, frames: usize) {
        self.withheld.fetch_sub(frames, Ordering::Relaxed);
    }

    pub fn end_recovery(&self) {
        self.recoveries.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_recovering(&self) -> bool {
        self.recoveries.load(Ordering::Relaxed) > 0
    }

    /// Frames that may be given up for edits now.
    fn limit(&self) -> usize {
        self.limit.saturating_sub(self.withheld.load(Ordering::Relaxed))
    }

    /// Accounts for `more` bytes of edits of a page that has `have`; `false` if there is no room for them.
    pub fn grow(&self, have: usize, more: usize) -> bool {
        let cost = more + if have == 0 { ENTRY_BYTES } else { 0 };
        let covered = self.lent() * self.page_bytes + self.slack;
        let fits = |bytes: usize| (bytes + cost <= covered).then_some(bytes + cost);
        have + more <= self.page_bytes / MOST_OF_PAGE
            && self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// All edits of a page are gone.
    pub fn drop_edits(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes + ENTRY_BYTES, Ordering::Relaxed);
        }
    }

    /// Bytes of edits with which a page may go. The fuller it is here, the fewer: heavy pages are worth their write.
    pub fn heaviest(&self) -> usize {
        let most = self.page_bytes / MOST_OF_PAGE;
        let limit = self.limit() * self.page_bytes;
        let left = limit.saturating_sub(self.bytes.load(Ordering::Relaxed));
        (2 * most * left).checked_div(limit).map_or(0, |heaviest| heaviest.min(most))
    }

    /// Whether it pays, as far as is known.
    pub fn pays(&self) -> bool {
        self.is_on() && (self.is_recovering() || self.credit.load(Ordering::Relaxed) > 0)
    }

    /// How many of `pages` will have gone before credit has run out; estimated, without jumps.
    pub fn will_pay_for(&self, pages: usize) -> usize {
        if !self.is_on() {
            return 0;
        }
        if self.is_recovering() {
            return pages;
        }
        let plenty = (self.most_credit / RUNNING_OUT).max(1) as usize;
        let credit = self.credit.load(Ordering::Relaxed).max(0) as usize;
        pages * credit.min(plenty) / plenty
    }

    /// The same, for one choice of a victim; now and then a page goes to find out.
    pub fn may_go(&self) -> bool {
        self.pays() || self.is_on() && self.probes.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE)
    }

    pub fn went(&self) {
        self.away.fetch_add(1, Ordering::Relaxed);
        if !self.is_recovering() {
            self.credit.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn came_back(&self) {
        self.away.fetch_sub(1, Ordering::Relaxed);
        if self.credit.load(Ordering::Relaxed) < self.most_credit {
            self.credit.fetch_add(GAIN, Ordering::Relaxed);
        }
    }

    /// A page that is away leaves the cache with its file.
    pub fn forgot(&self, edits: usize) {
        self.drop_edits(edits);
        self.away.fetch_sub(1, Ordering::Relaxed);
    }

    /// Pages come back only to be written.
    pub fn fetched_to_write(&self, pages: usize) {
        self.credit.fetch_sub(GAIN * pages as i64, Ordering::Relaxed);
    }

    /// Pages without a frame that differ from the disk.
    pub fn away(&self) -> usize {
        self.away.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames given up.
    pub fn lent(&self) -> usize {
        self.lent_count.load(Ordering::Relaxed)
    }

    /// Whether another frame has to be given up.
    pub fn wants_frame(&self) -> bool {
        let lent = self.lent();
        lent < self.limit() && self.bytes() > lent * self.page_bytes
    }

    pub fn lend(&self, frame: u32) {
        let mut lent = self.lent.lock();
        lent.push(frame);
        self.lent_count.store(lent.len(), Ordering::Relaxed);
    }

    /// A frame that is not needed here any more.
    pub fn give_back(&self) -> Option<u32> {
        if self.bytes() + 2 * self.page_bytes > self.lent() * self.page_bytes {
            return None;
        }
        self.give_back_anyway()
    }

    /// A frame, whether it is needed here or not: those who ask hold all the others, and wait for each other.
    pub fn give_back_anyway(&self) -> Option<u32> {
        if self.lent() == 0 {
            return None;
        }
        let mut lent = self.lent.lock();
        let frame = lent.pop();
        self.lent_count.store(lent.len(), Ordering::Relaxed);
        frame
    }
}

impl Cache {
    /// Whether redo may leave edits for pages that it does not look at.
    pub(crate) fn buffers_changes(&self) -> bool {
        self.books.kept.is_on()
    }

    /// For redo: keeps edits that a page may lack, from the records at `positions`, until somebody reads it.
    /// They must be all there are since those it has on the disk or that are kept already. `false`: the page is in memory,
    /// or there is no room for the edits.
    pub(crate) fn buffer_change(&self, key: PageKey, positions: Range<LogPosition>, edits: &[u8]) -> bool {
        self.reserve_delta_memory();
        self.books.find_file(key.file).is_some_and(|attached| {
            self.table.buffer_change(key, &attached, &self.books.kept, positions, edits)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_credit_runs_out_pages_turn_into_pages_to_write_one_after_the_other() {
        let kept = Kept::new(4096, 1000, 750, 10, u64::MAX);
        let mut before = kept.will_pay_for(500);
        assert_eq!(before, 500);
        while kept.pays() {
            kept.went();
            let now = kept.will_pay_for(500);
            assert!(now <= before && now + 1 >= before, "{before} pages, then {now}");
            before = now;
        }
        assert_eq!(before, 0);
    }
}
