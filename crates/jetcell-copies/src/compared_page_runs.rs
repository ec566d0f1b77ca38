//! Records which pages were compared, and when. Adjacent pages form runs, and each run stores the oldest comparison
//! time of its pages.
//!
//! There are few runs because a scan reads the pages in order. The stored state never overstates what was compared: a
//! run has the oldest time of its pages, and pages of a discarded run are treated as never compared.

use serde::{Deserialize, Serialize};

/// Maximum number of runs.
const MAX_RUNS: usize = 256;
/// Maximum difference between the times of adjacent pages in one run, in milliseconds.
const MAX_TIME_DIFFERENCE_MS: i64 = 60_000;

/// Runs of compared pages: first page, last page, and the oldest comparison time in milliseconds since 1970 UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComparedPageRuns(Vec<(u32, u32, i64)>);

impl ComparedPageRuns {
    /// Returns true if the stored runs are in order and do not overlap, and their values cannot overflow when added
    /// or subtracted.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.len() <= MAX_RUNS
            && self.0.iter().all(|(first, last, time)| {
                (1..=*last).contains(first) && *last < u32::MAX && (0..=i64::MAX / 2).contains(time)
            })
            && self.0.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    /// Records that a page was compared.
    pub fn record(&mut self, page: u32, at_unix_ms: i64) {
        let runs = &mut self.0;
        let mut at = runs.partition_point(|(_, last, _)| *last < page);
        if let Some(&(first, last, time)) = runs.get(at).filter(|(first, ..)| *first <= page) {
            if time >= at_unix_ms || (0..MAX_TIME_DIFFERENCE_MS).contains(&(at_unix_ms - time)) {
                return;
            }
            let behind = (page < last).then_some((page + 1, last, time));
            let before = (first < page).then_some((first, page - 1, time));
            at += usize::from(before.is_some());
            runs.splice(
                at - usize::from(before.is_some())..=at - usize::from(before.is_some()),
                before.into_iter().chain(behind),
            );
        }
        let joins = |time: i64| (at_unix_ms - time).abs() < MAX_TIME_DIFFERENCE_MS;
        match at.checked_sub(1).and_then(|before| runs.get_mut(before)) {
            Some((_, last, time)) if *last + 1 == page && joins(*time) => {
                (*last, *time) = (page, at_unix_ms.min(*time));
            }
            _ => runs.insert(at, (page, page, at_unix_ms)),
        }
        while self.0.len() > MAX_RUNS {
            self.merge_closest_runs();
        }
    }

    /// Merges the two adjacent runs with the closest times, or discards the shortest run.
    fn merge_closest_runs(&mut self) {
        let runs = &mut self.0;
        let touching = (1..runs.len()).filter(|at| runs[at - 1].1 + 1 == runs[*at].0);
        match touching.min_by_key(|at| (runs[at - 1].2 - runs[*at].2).abs()) {
            Some(at) => {
                let (_, last, time) = runs.remove(at);
                (runs[at - 1].1, runs[at - 1].2) = (last, runs[at - 1].2.min(time));
            }
            None => {
                let shortest = (0..runs.len()).min_by_key(|at| runs[*at].1 - runs[*at].0);
                shortest.map(|at| runs.remove(at));
            }
        }
    }

    /// Returns how many of the first `pages` pages have been compared, and the oldest comparison time among them.
    pub fn compared_among(&self, pages: u32) -> (u32, Option<i64>) {
        let runs = self.0.iter().filter(|(first, ..)| *first <= pages);
        let compared = runs.clone().map(|(first, last, _)| (*last).min(pages) - first + 1).sum();
        (compared, runs.map(|(.., time)| *time).min())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn recorded_compare_times_are_never_later_than_actual_times(
            notes in prop::collection::vec((1..900u32, 1..40u32, 0..40i64), 0..120)
        ) {
            let (mut pages, mut model) = (ComparedPageRuns::default(), BTreeMap::new());
            let mut now = 0;
            for (first, count, minutes) in notes {
                now += minutes * 30_000;
                for page in first..first + count {
                    pages.record(page, now);
                    model.insert(page, now);
                }
                prop_assert!(pages.is_valid(), "{:?}", pages);
            }
            for (first, last, time) in &pages.0 {
                for page in *first..=*last {
                    let compared = model.get(&page);
                    prop_assert!(compared.is_some_and(|compared| compared >= time), "page {}", page);
                }
            }
            let (compared, oldest) = pages.compared_among(u32::MAX - 1);
            prop_assert!(compared as usize <= model.len());
            prop_assert_eq!(oldest, pages.0.iter().map(|run| run.2).min());
        }

        #[test]
        fn sequential_passes_are_recorded_exactly(last in 1..3000u32, passes in 1..4i64, stopped in 0..3000u32) {
            let mut pages = ComparedPageRuns::default();
            let pass = |pages: &mut ComparedPageRuns, until: u32, began: i64| {
                (1..=until).for_each(|page| pages.record(page, began + i64::from(page) * 1000));
            };
            (0..passes).for_each(|pass_number| pass(&mut pages, last, pass_number * 100_000_000));
            let stopped = stopped.min(last - 1);
            pass(&mut pages, stopped, passes * 100_000_000);
            let (compared, oldest) = pages.compared_among(last);
            prop_assert_eq!(compared, last);
            // The first page that the interrupted pass did not reach has the oldest time.
            let true_oldest = (passes - 1) * 100_000_000 + i64::from(stopped + 1) * 1000;
            prop_assert!((true_oldest - MAX_TIME_DIFFERENCE_MS..=true_oldest).contains(&oldest.unwrap()), "{:?} {}", oldest, true_oldest);
        }
    }

    #[test]
    fn impossible_runs_are_invalid() {
        let possible = |runs: &[(u32, u32, i64)]| ComparedPageRuns(runs.to_vec()).is_valid();
        assert!(possible(&[(1, 2, 0), (3, u32::MAX - 1, 7)]));
        for wrong in [(0, 2, 1), (3, 2, 1), (1, u32::MAX, 1), (1, 2, -1), (1, 2, i64::MIN), (1, 2, i64::MAX)]
        {
            assert!(!possible(&[wrong]), "{wrong:?}");
        }
        assert!(!possible(&[(1, 5, 1), (5, 9, 1)]));
    }

    #[test]
    fn only_pages_within_the_file_are_counted() {
        let mut pages = ComparedPageRuns::default();
        [(1, 10), (2, 20), (5, 5)].into_iter().for_each(|(page, at)| pages.record(page, at));
        assert_eq!(pages.compared_among(1), (1, Some(10)));
        assert_eq!(pages.compared_among(4), (2, Some(10)));
        assert_eq!(pages.compared_among(9), (3, Some(5)));
        assert_eq!(ComparedPageRuns::default().compared_among(9), (0, None));
    }
}
