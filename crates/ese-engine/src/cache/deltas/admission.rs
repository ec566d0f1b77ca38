//! The admission budget decides whether it is worthwhile to evict dirty pages without a write.
//!
//! An eviction with deltas costs one unit. When an evicted page is read again because a session needs it, the budget
//! gains [`GAIN`] units, because a write was saved. When it is read again only to be written, the budget loses
//! [`GAIN`] units, because an extra read was needed.

use jetcell_sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Number of budget units, and thus of evictions, that one reused page earns. If fewer than one in `GAIN` evicted pages
/// is used again, eviction without a write is not worthwhile.
const GAIN: i64 = 2;
/// Initial budget in pages per frame. It takes some time until evicted pages are used again, and the budget must last
/// until then. If none is ever used again, the cost is this many unnecessary reads per frame, once.
const FIRST_PAGES_PER_FRAME: usize = 8;
/// Maximum budget, as a multiple of the initial budget.
const MAX_BUDGET_FACTOR: i64 = 2;
/// Divisor of the maximum budget. Below this share, the budget is considered to be running out.
const RUNNING_OUT: i64 = 16;
/// Number of evictions per probe. When the budget is empty, one eviction per interval is still admitted, to find out
/// whether evictions without a write have become worthwhile.
const PROBE_INTERVAL: usize = 64;

/// The budget for evicting dirty pages without writing them.
pub(super) struct AdmissionBudget {
    units: AtomicI64,
    largest: AtomicI64,
    probes: AtomicUsize,
    /// Number of running recoveries. Evictions cost nothing during recovery.
    recoveries: AtomicUsize,
}

impl AdmissionBudget {
    /// Creates the initial budget of a cache.
    pub fn new(frames: usize) -> AdmissionBudget {
        let units = (FIRST_PAGES_PER_FRAME * frames) as i64;
        AdmissionBudget {
            units: AtomicI64::new(units),
            largest: AtomicI64::new(MAX_BUDGET_FACTOR * units),
            probes: AtomicUsize::new(0),
            recoveries: AtomicUsize::new(0),
        }
    }

    /// Lowers the budget to `pages`. When the checkpoint reaches evicted pages, there must be enough time to read
    /// them again.
    pub fn lower_to(&self, pages: usize) {
        let units =
            i64::try_from(pages).unwrap_or(i64::MAX / MAX_BUDGET_FACTOR).min(i64::MAX / MAX_BUDGET_FACTOR);
        self.units.fetch_min(units, Ordering::Relaxed);
        self.largest.fetch_min(MAX_BUDGET_FACTOR * units, Ordering::Relaxed);
    }

    /// Starts a recovery. During recovery, evictions cost nothing: the later writes delay only the recovery itself, not
    /// any session.
    pub fn begin_recovery(&self) {
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end_recovery(&self) {
        self.recoveries.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_recovering(&self) -> bool {
        self.recoveries.load(Ordering::Relaxed) > 0
    }

    /// Returns true if units are left.
    pub fn admits(&self) -> bool {
        self.is_recovering() || self.units.load(Ordering::Relaxed) > 0
    }

    /// Returns true if one eviction may proceed: units are left, or the eviction is admitted as a probe.
    pub fn admits_or_probes(&self) -> bool {
        self.admits() || self.probes.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE_INTERVAL)
    }

    /// Estimates how many of `pages` will be evicted before the budget is empty.
    ///
    /// The estimate falls gradually. When the budget runs out, the cleaner therefore does not have to write all pages
    /// at once.
    pub fn estimate_admitted(&self, pages: usize) -> usize {
        if self.is_recovering() {
            return pages;
        }
        let plenty = (self.largest.load(Ordering::Relaxed) / RUNNING_OUT).max(1) as usize;
        let units = self.units.load(Ordering::Relaxed).max(0) as usize;
        pages * units.min(plenty) / plenty
    }

    /// Spends one unit for a page that was evicted with its deltas.
    pub fn spend(&self) {
        if !self.is_recovering() {
            self.units.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds [`GAIN`] units for an evicted page that a session needed again.
    pub fn gain(&self) {
        if self.units.load(Ordering::Relaxed) < self.largest.load(Ordering::Relaxed) {
            self.units.fetch_add(GAIN, Ordering::Relaxed);
        }
    }

    /// Deducts [`GAIN`] units for each evicted page that is read again only to be written.
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
        assert_eq!(spent, MAX_BUDGET_FACTOR * 30);
    }

    #[test]
    fn a_read_only_for_writing_cancels_one_admission_gain() {
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
