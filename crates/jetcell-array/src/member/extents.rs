//! A set of zones or rows, stored as a small number of ranges.

use std::ops::Range;

/// Ranges in ascending order that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Extents(Vec<Range<u64>>);

impl Extents {
    pub fn contains(&self, zone: u64) -> bool {
        let behind = self.0.partition_point(|range| range.end <= zone);
        self.0.get(behind).is_some_and(|range| range.start <= zone)
    }

    pub fn contains_range(&self, range: &Range<u64>) -> bool {
        let behind = self.0.partition_point(|own| own.end <= range.start);
        self.0.get(behind).is_some_and(|own| own.start <= range.start && range.end <= own.end)
    }

    pub fn insert(&mut self, added: Range<u64>) {
        if added.is_empty() {
            return;
        }
        let first = self.0.partition_point(|range| range.end < added.start);
        let behind = self.0.partition_point(|range| range.start <= added.end);
        let merged = self.0[first..behind]
            .iter()
            .fold(added, |sum, range| sum.start.min(range.start)..sum.end.max(range.end));
        self.0.splice(first..behind, [merged]);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last element of the set in a range.
    pub fn last_in(&self, range: &Range<u64>) -> Option<u64> {
        let after = self.0.partition_point(|own| own.start < range.end);
        let own = self.0[..after].last()?;
        Some(own.end.min(range.end) - 1).filter(|last| *last >= range.start)
    }

    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// Returns the first zone at or after `zone` that is not in the set.
    pub fn next_gap(&self, zone: u64) -> u64 {
        let behind = self.0.partition_point(|range| range.end <= zone);
        match self.0.get(behind) {
            Some(range) if range.start <= zone => range.end,
            _ => zone,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extents_behave_like_a_set(ranges in prop::collection::vec((0u64..40, 0u64..8), 0..20)) {
            let mut extents = Extents::default();
            let mut model = std::collections::BTreeSet::new();
            for (start, len) in ranges {
                extents.insert(start..start + len);
                model.extend(start..start + len);
                prop_assert_eq!(extents.len(), model.len() as u64);
                prop_assert!(extents.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
                for (start, end) in (0..50).flat_map(|start| (start..50).map(move |end| (start, end))) {
                    let mut all = start..end;
                    let has_all = start < end && all.all(|one| model.contains(&one));
                    prop_assert!(start == end || extents.contains_range(&(start..end)) == has_all);
                    prop_assert_eq!(extents.last_in(&(start..end)), model.range(start..end).last().copied());
                }
                for zone in 0..50 {
                    prop_assert_eq!(extents.contains(zone), model.contains(&zone));
                    prop_assert_eq!(extents.next_gap(zone), (zone..).find(|zone| !model.contains(zone)).unwrap());
                }
            }
        }
    }
}
