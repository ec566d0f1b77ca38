//! The admission budget: whether it pays to evict dirty pages without a write.
//!
//! An eviction with deltas spends one unit. A page that is read again because a session needs it returns [`GAIN`] units:
//! it saved a write. A page that is read again only to be written costs [`GAIN`] units: it cost a read.

use jetcell_sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// If fewer than one page in so many is used again, evicting without a write does not pay.
const GAIN: i64 = 2;
/// Pages per frame in the first budget. Evicted pages are used again only after a while, and the budget must last until
/// then. If none is used again, the cache has read so many pages for nothing, once.
const FIRST_PAGES_PER_FRAME: usize = 8;
/// The largest budget, in units of the first.
const LARGEST: i64 = 2;
/// Below this share of the largest budget, the budget is running out.
const RUNNING_OUT: i64 = 16;
/// With an empty budget, one eviction in so many is admitted to find out whether it pays now.
const PROBE_INTERVAL: usize = 64;

/// Units left for evictions without a write.
pub(super) struct AdmissionBudget {
    units: AtomicI64,
    largest: AtomicI64,
    probes: AtomicUsize,
    /// Recoveries under way. They do not spend.
    recoveries: AtomicUsize,
}

impl AdmissionBudget {
    /// The first budget of a cache.
    pub fn new(frames: usize) -> AdmissionBudget {
        let units = (FIRST_PAGES_PER_FRAME * frames) as i64;
        AdmissionBudget {
            units: AtomicI64::new(units),
            largest: AtomicI64::new(LARGEST * units),
            probes: AtomicUsize::new(0),
            recoveries: AtomicUsize::new(0),
        }
    }

    /// Lowers the budget to `pages`. When the checkpoint reaches evicted pages, they must be few enough to be read again
    /// in time.
    pub fn lower_to(&self, pages: usize) {
        let units = i64::try_from(pages).unwrap_or(i64::MAX / LARGEST).min(i64::MAX / LARGEST);
        self.units.fetch_min(units, Ordering::Relaxed);
        self.largest.fetch_min(LARGEST * units, Ordering::Relaxed);
    }

    /// During recovery evictions cost nothing: no session waits for the later writes, only recovery itself does.
    pub fn begin_recovery(&self) {
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end_recovery(&self) {
        self.recoveries.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_recovering(&self) -> bool {
        self.recoveries.load(Ordering::Relaxed) > 0
    }

    /// Whether units are left.
    pub fn admits(&self) -> bool {
        self.is_recovering() || self.units.load(Ordering::Relaxed) > 0
    }

    /// As [`AdmissionBudget::admits`], for one eviction; some are admitted as probes.
    pub fn admits_or_probes(&self) -> bool {
        self.admits() || self.probes.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE_INTERVAL)
    }

    /// An estimate of how many of `pages` will be evicted before the budget is empty. It falls gradually, so that the
    /// cleaner does not have to write all pages at once when the budget is empty.
    pub fn estimate_admitted(&self, pages: usize) -> usize {
        if self.is_recovering() {
            return pages;
        }
        let plenty = (self.largest.load(Ordering::Relaxed) / RUNNING_OUT).max(1) as usize;
        let units = self.units.load(Ordering::Relaxed).max(0) as usize;
        pages * units.min(plenty) / plenty
    }

    /// A page was evicted with its deltas.
    pub fn spend(&self) {
        if !self.is_recovering() {
            self.units.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// An evicted page was read again.
    pub fn gain(&self) {
        if self.units.load(Ordering::Relaxed) < self.largest.load(Ordering::Relaxed) {
            self.units.fetch_add(GAIN, Ordering::Relaxed);
        }
    }

    /// Evicted pages are read again only to be written.
    pub fn lose(&self, pages: usize) {
        self.units.fetch_sub(GAIN * pages as i64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_falls_gradually_to_zero_as_the_budget_is_spent() {
        let budget = AdmissionBudget::new(1000);
        let mut before = budget.estimate_admitted(500);
        assert_eq!(before, 500);
        while budget.admits() {
            budget.spend();
            let now = budget.estimate_admitted(500);
            assert!(now <= before && now + 1 >= before, "{before} pages, then {now}");
            before = now;
        }
        assert_eq!(before, 0);
    }

    #[test]
    fn a_lowered_budget_is_never_exceeded() {
        let budget = AdmissionBudget::new(1000);
        budget.lower_to(30);
        budget.lower_to(2000);
        (0..100).for_each(|_| budget.gain());
        let mut spent = 0;
        while budget.admits() {
            budget.spend();
            spent += 1;
        }
        assert_eq!(spent, LARGEST * 30);
    }

    #[test]
    fn each_page_that_is_read_only_to_be_written_costs_the_gain_of_a_useful_one() {
        let budget = AdmissionBudget::new(1000);
        budget.lower_to(30);
        budget.lose(7);
        (0..3).for_each(|_| budget.gain());
        let mut spent = 0;
        while budget.admits() {
            budget.spend();
            spent += 1;
        }
        assert_eq!(spent, 30 - GAIN * (7 - 3));
    }
}
