//! Tracks which blocks of the array are not used by any file, and which of them were never written.

use std::collections::BTreeMap;
use std::ops::Range;

/// The free blocks, in three groups: previously used, fresh, and past the reserve.
pub(super) struct FreeBlocks {
    /// Free blocks that may have been written: a map from the start to the end of each range. The ranges neither
    /// overlap nor touch.
    previously_used: BTreeMap<u64, u64>,
    /// Blocks before the reserve that were never written.
    fresh: Range<u64>,
    /// Blocks that no file uses any more, but that are still referenced by the table on the array.
    released: Vec<Range<u64>>,
    end: u64,
}

impl FreeBlocks {
    /// Creates the set of blocks in a range that no file uses. Those before the reserve are assumed to have been
    /// written.
    pub fn new<'a>(all: Range<u64>, reserve: u64, used: impl Iterator<Item = &'a Range<u64>>) -> FreeBlocks {
        let mut used: Vec<&Range<u64>> = used.collect();
        used.sort_by_key(|extent| extent.start);
        let reserve = reserve.max(all.start);
        let mut free_blocks = FreeBlocks {
            previously_used: BTreeMap::new(),
            fresh: reserve..reserve,
            released: vec![],
            end: all.end,
        };
        let mut at = all.start;
        for extent in used {
            free_blocks.insert(at..extent.start);
            at = extent.end;
        }
        free_blocks.insert(at..reserve);
        free_blocks
    }

    /// Returns the number of blocks that can be taken, either now or after the reserve is raised.
    pub fn free(&self) -> u64 {
        let used_before: u64 = self.previously_used.iter().map(|(start, end)| end - start).sum();
        used_before + self.end - self.fresh.start
    }

    /// Returns the reserve that must be made durable before more blocks are taken, or `None` if the current reserve
    /// is sufficient.
    pub fn reserve_for(&self, blocks: u64, step: u64) -> Option<u64> {
        let is_needed = self.fresh.is_empty() && self.fresh.end < self.end;
        is_needed.then(|| (self.fresh.end + blocks.max(step)).min(self.end))
    }

    /// Raises the reserve after the new value has been made durable.
    pub fn raise_reserve(&mut self, reserve: u64) {
        self.fresh.end = reserve;
    }

    /// Takes up to `most` blocks: fresh blocks if there are any, and otherwise blocks from the longest range of
    /// previously used blocks. Also returns whether the blocks are fresh.
    pub fn take(&mut self, most: u64) -> Option<(Range<u64>, bool)> {
        if !self.fresh.is_empty() {
            let taken = self.fresh.start..self.fresh.end.min(self.fresh.start + most);
            self.fresh.start = taken.end;
            return Some((taken, true));
        }
        let length = |(start, end): &(&u64, &u64)| (**end - **start, std::cmp::Reverse(**start));
        let (&start, &end) = self.previously_used.iter().max_by_key(length)?;
        let taken = start..end.min(start + most);
        self.previously_used.remove(&start);
        self.insert(taken.end..end);
        Some((taken, false))
    }

    /// Releases blocks. They become free once a newer table is durable.
    pub fn release(&mut self, extents: Vec<Range<u64>>) {
        self.released.extend(extents);
    }

    /// Frees the released blocks, because the table on the array no longer refers to them.
    pub fn free_released(&mut self) {
        for extent in std::mem::take(&mut self.released) {
            self.insert(extent);
        }
    }

    fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let before = self.previously_used.range(..range.start).next_back().map(|(start, end)| (*start, *end));
        if let Some((start, _)) = before.filter(|(_, end)| *end == range.start) {
            self.previously_used.remove(&start);
            range.start = start;
        }
        if let Some(end) = self.previously_used.remove(&range.end) {
            range.end = end;
        }
        self.previously_used.insert(range.start, range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_blocks_are_reused_only_after_the_table_is_saved() {
        let mut space = FreeBlocks::new(10..100, 40, std::iter::once(&(20..30)));
        assert_eq!(space.free(), 80);
        assert_eq!(space.reserve_for(4, 16), Some(56));
        space.raise_reserve(56);
        assert_eq!(space.take(10), Some((40..50, true)));
        assert_eq!(space.take(10), Some((50..56, true)));
        assert_eq!(space.reserve_for(80, 16), Some(100));
        space.raise_reserve(100);
        assert_eq!(space.take(99), Some((56..100, true)));
        assert_eq!((space.reserve_for(1, 16), space.take(99)), (None, Some((10..20, false))));
        space.release(std::iter::once(20..30).collect());
        assert_eq!(space.take(4), Some((30..34, false)));
        space.free_released();
        assert_eq!(space.take(4), Some((20..24, false)));
        assert_eq!(space.free(), 12);
        assert_eq!([space.take(99), space.take(99)], [Some((24..30, false)), Some((34..40, false))]);
        assert_eq!(space.take(1), None);
    }
}
