//! The list of rows that may have lost data, which the superblocks store.

use std::ops::Range;

use super::Extents;
use crate::geometry::{ArrayLayout, BLOCK};

/// Maximum number of chunks that are examined to list lost bytes.
const MAX_CHUNKS: usize = 10_000;

/// Consecutive rows that have lost the data on the same slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LostRange {
    pub rows: Range<u64>,
    /// Mask of the slots whose blocks are lost.
    pub slots: u32,
}

/// Rows with lost data, in ascending order.
///
/// If there are more ranges than a superblock has room for, the closest ranges are merged. The list then also contains
/// the intact rows between them, and slots of a row that lost nothing. It becomes exact again when a scrub has examined
/// these rows and the ranges fit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct LostRows(Vec<LostRange>);

impl LostRows {
    /// Maximum number of ranges, which is determined by the space in a superblock.
    pub const MAX_RANGES: usize = 64;

    /// Returns the set of these ranges. Returns `None` if the ranges are not in order, or if one of them is empty or
    /// exceeds the array.
    pub fn from_ranges(ranges: Vec<LostRange>, rows: u64, slots: usize) -> Option<LostRows> {
        let is_possible = |range: &LostRange| {
            !range.rows.is_empty()
                && range.rows.end <= rows
                && range.slots != 0
                && u64::from(range.slots) < 1 << slots
        };
        let are_ordered = ranges.windows(2).all(|pair| pair[0].rows.end <= pair[1].rows.start);
        (are_ordered && ranges.iter().all(is_possible)).then_some(LostRows(ranges))
    }

    pub fn ranges(&self) -> &[LostRange] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.rows.end - range.rows.start).sum()
    }

    /// Returns the mask of the slots that have lost their block of this row.
    pub fn slots_of(&self, row: u64) -> u32 {
        let place = self.0.partition_point(|range| range.rows.end <= row);
        self.0.get(place).filter(|range| range.rows.start <= row).map_or(0, |range| range.slots)
    }

    /// Sets the mask of the slots that have lost their block of this row. A mask of 0 means that the row is no longer
    /// lost.
    pub fn set(&mut self, row: u64, slots: u32) {
        let place = self.0.partition_point(|range| range.rows.end <= row);
        let mut around = vec![];
        let old = self.0.get(place).filter(|range| range.rows.start <= row).cloned();
        if let Some(LostRange { rows, slots }) = &old {
            around.push(LostRange { rows: rows.start..row, slots: *slots });
        }
        around.push(LostRange { rows: row..row + 1, slots });
        if let Some(LostRange { rows, slots }) = &old {
            around.push(LostRange { rows: row + 1..rows.end, slots: *slots });
        }
        around.retain(|range| !range.rows.is_empty() && range.slots != 0);
        self.0.splice(place..place + usize::from(old.is_some()), around);
        self.0.dedup_by(|next, range| {
            let is_continued = range.rows.end == next.rows.start && range.slots == next.slots;
            if is_continued {
                range.rows.end = next.rows.end;
            }
            is_continued
        });
        while self.0.len() > LostRows::MAX_RANGES {
            self.merge_closest();
        }
    }

    fn merge_closest(&mut self) {
        let gap = |place: &usize| self.0[place + 1].rows.start - self.0[*place].rows.end;
        let Some(place) = (0..self.0.len() - 1).min_by_key(gap) else { return };
        let next = self.0.remove(place + 1);
        self.0[place].rows.end = next.rows.end;
        self.0[place].slots |= next.slots;
    }

    /// Returns the lost byte ranges of an array with this layout, and the number of rows that were not examined. At
    /// most [`MAX_CHUNKS`] chunks of rows are examined.
    pub fn lost_bytes(&self, layout: &ArrayLayout) -> (Vec<Range<u64>>, u64) {
        let chunk = u64::from(layout.chunk);
        let chunks = self.0.iter().flat_map(|range| {
            let LostRange { rows, slots } = range;
            (rows.start / chunk..rows.end.div_ceil(chunk)).map(move |number| {
                (rows.start.max(number * chunk)..rows.end.min((number + 1) * chunk), *slots)
            })
        });
        let mut blocks = Extents::default();
        let mut rows_left = self.len();
        for (rows, slots) in chunks.take(MAX_CHUNKS) {
            rows_left -= rows.end - rows.start;
            // All rows of a chunk have the same columns on the same slots, and their blocks are consecutive.
            for column in layout.columns_only_on(rows.start, slots) {
                let first = layout.block_at(rows.start, column);
                blocks.insert(first..first + (rows.end - rows.start));
            }
        }
        let in_bytes = |range: &Range<u64>| range.start * BLOCK as u64..range.end * BLOCK as u64;
        (blocks.ranges().iter().map(in_bytes).collect(), rows_left)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geometry::RaidLevel;

    proptest! {
        #[test]
        fn lost_rows_behave_like_a_map(changes in prop::collection::vec((0u64..50, 0u32..4), 0..60)) {
            let mut lost = LostRows::default();
            let mut model = std::collections::BTreeMap::new();
            for (row, slots) in changes {
                lost.set(row, slots);
                model.insert(row, slots);
                model.retain(|_, slots| *slots != 0);
                for row in 0..50 {
                    prop_assert_eq!(lost.slots_of(row), model.get(&row).copied().unwrap_or(0));
                }
                prop_assert_eq!(lost.len(), model.len() as u64);
                prop_assert!(LostRows::from_ranges(lost.ranges().to_vec(), 50, 2).is_some());
            }
        }
    }

    #[test]
    fn more_ranges_than_fit_are_merged_and_no_row_is_forgotten() {
        let mut lost = LostRows::default();
        let rows: Vec<u64> = (0..200).map(|number| number * number).collect();
        rows.iter().for_each(|row| lost.set(*row, 1 << (row % 5)));
        assert_eq!(lost.ranges().len(), LostRows::MAX_RANGES);
        assert!(rows.iter().all(|row| lost.slots_of(*row) & 1 << (row % 5) != 0));
        // A scrub finds that all rows are intact.
        (0..40_000).for_each(|row| lost.set(row, 0));
        assert!(lost.is_empty());
    }

    #[test]
    fn lost_bytes_are_those_of_the_data_on_the_slots() {
        let layout = ArrayLayout { level: RaidLevel::Raid5, chunk: 4, rows: 128, base_slots: 4, slots: 4 };
        let mut lost = LostRows::default();
        assert_eq!(lost.lost_bytes(&layout), (vec![], 0));
        (2..9).for_each(|row| lost.set(row, 0b0011));
        let mut expected = std::collections::BTreeSet::new();
        for row in 2..9 {
            for column in 0..3 {
                if layout.slot(row, column) < 2 {
                    expected.insert(layout.block_at(row, column));
                }
            }
        }
        let (found, rows_left) = lost.lost_bytes(&layout);
        assert_eq!(rows_left, 0);
        let blocks = found.iter().flat_map(|range| range.start / BLOCK as u64..range.end / BLOCK as u64);
        assert_eq!(blocks.collect::<std::collections::BTreeSet<_>>(), expected);
        // A mirrored column is lost only if all copies are lost.
        let mirrored =
            ArrayLayout { level: RaidLevel::Raid10 { copies: 2 }, base_slots: 4, slots: 4, ..layout };
        let mut lost = LostRows::default();
        lost.set(0, 0b0110);
        assert_eq!(lost.lost_bytes(&mirrored), (vec![], 0));
        lost.set(0, 0b1110);
        let block = mirrored.block_at(0, 1) * BLOCK as u64;
        assert_eq!(lost.lost_bytes(&mirrored).0, vec![block..block + BLOCK as u64]);
    }

    #[test]
    fn rows_whose_bytes_are_not_listed_are_counted() {
        let chunk = 4;
        let rows = (MAX_CHUNKS as u64 + 16) * chunk;
        let layout = ArrayLayout { level: RaidLevel::Raid0, chunk: 4, rows, base_slots: 2, slots: 2 };
        let lost = LostRows::from_ranges(vec![LostRange { rows: 2..rows, slots: 1 }], rows, 2).unwrap();
        let (bytes, rows_left) = lost.lost_bytes(&layout);
        assert_eq!(rows_left, 16 * chunk);
        let blocks = bytes.iter().map(|range| (range.end - range.start) / BLOCK as u64).sum::<u64>();
        assert_eq!(blocks, rows - 2 - rows_left);
    }
}
