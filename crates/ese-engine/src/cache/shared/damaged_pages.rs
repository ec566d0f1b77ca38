//! Pages of a file that could not be read, and the sessions that wait for them to be repaired from copies.

use std::collections::BTreeMap;
use std::time::Duration;

use ese_format::PageNumber;
use jetcell_sync::{Condvar, Mutex};
use jetcell_vfs::Clock;

/// Maximum number of damaged pages that are remembered.
const MAX_DAMAGED: usize = 1000;

/// The damaged pages of a file.
#[derive(Default)]
pub(in crate::cache) struct DamagedPages {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Damaged pages, each with the clock reading at which the damage was found.
    found: BTreeMap<PageNumber, Duration>,
    /// Maximum time to wait for a repair, measured from when the damage was found.
    limit: Duration,
}

/// Result of waiting for a damaged page to be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum RepairWaitResult {
    /// The page was repaired.
    Repaired,
    /// The page is not known to be damaged. Either it has been repaired since it was read, or the error has another
    /// cause.
    NotDamaged,
    /// The page was still damaged when the time limit expired.
    TimedOut,
}

impl DamagedPages {
    /// Records that a page could not be read.
    pub fn insert(&self, page: PageNumber, now: Duration) {
        let found = &mut self.state.lock().found;
        if found.len() < MAX_DAMAGED {
            found.entry(page).or_insert(now);
        }
    }

    /// Records that a page is valid again, and wakes its waiters.
    pub fn remove(&self, page: PageNumber) {
        self.state.lock().found.remove(&page);
        self.changed.notify_all();
    }

    /// Returns all damaged pages.
    pub fn list(&self) -> Vec<PageNumber> {
        self.state.lock().found.keys().copied().collect()
    }

    /// Sets the maximum time to wait for a repair, measured from when the damage was found. Zero ends all waits.
    pub fn set_limit(&self, limit: Duration) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.limit, limit) != limit {
            self.changed.notify_all();
        }
    }

    /// Waits until a page that could not be read is repaired. The time limit is counted from when the damage was found,
    /// or from `began` if that is earlier.
    pub fn wait_for_repair(&self, page: PageNumber, clock: &dyn Clock, began: Duration) -> RepairWaitResult {
        let (mut state, mut waited) = (self.state.lock(), false);
        while let Some(found) = state.found.get(&page) {
            let left = (*found.min(&began) + state.limit).saturating_sub(clock.monotonic());
            if left.is_zero() {
                return RepairWaitResult::TimedOut;
            }
            waited = true;
            self.changed.wait_for(&mut state, left);
        }
        if waited { RepairWaitResult::Repaired } else { RepairWaitResult::NotDamaged }
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{RealClock, SimClock};

    use super::*;

    #[test]
    fn waiting_for_a_repair_ends_on_repair_or_timeout() {
        let (clock, page) = (RealClock::new(), PageNumber::fixed(7));
        let damaged = DamagedPages::default();
        let now = clock.monotonic();
        assert_eq!(damaged.wait_for_repair(page, &clock, now), RepairWaitResult::NotDamaged);
        damaged.insert(page, now);
        assert_eq!(damaged.wait_for_repair(page, &clock, now), RepairWaitResult::TimedOut, "nobody repairs");
        damaged.set_limit(Duration::from_secs(3600));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| damaged.wait_for_repair(page, &clock, now));
            damaged.remove(PageNumber::fixed(8));
            damaged.remove(page);
            assert!(matches!(
                waiting.join().unwrap(),
                RepairWaitResult::Repaired | RepairWaitResult::NotDamaged
            ));
        });
        damaged.insert(page, now);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| damaged.wait_for_repair(page, &clock, now));
            damaged.set_limit(Duration::ZERO);
            assert_eq!(waiting.join().unwrap(), RepairWaitResult::TimedOut, "the instance ends");
        });
        assert_eq!(damaged.list(), [page]);
    }

    #[test]
    fn a_repeated_damage_report_does_not_extend_the_repair_timeout() {
        let (clock, page) = (SimClock::new(), PageNumber::fixed(7));
        let damaged = DamagedPages::default();
        damaged.set_limit(Duration::from_secs(10));
        damaged.insert(page, clock.monotonic());
        clock.advance(Duration::from_secs(20));
        damaged.insert(page, clock.monotonic());
        assert_eq!(damaged.wait_for_repair(page, &clock, clock.monotonic()), RepairWaitResult::TimedOut);
    }
}
