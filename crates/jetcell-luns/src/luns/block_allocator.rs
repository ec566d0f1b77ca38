//! Tracks which blocks of the array are in use, and allocates blocks for consistency points.
//!
//! Rows without used blocks are written as whole rows, in place and without the journal. This is safe only if startup
//! after a crash knows which rows may have been written this way. Therefore, these rows must be in the *window*, a
//! set of zones that the catalogue lists in advance.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_array::{ArrayLayout, ZONE_ROWS};

use super::FIRST_BLOCK;

/// Maximum number of zones in a window.
const MAX_ZONES: usize = 1024;

/// Blocks allocated for a consistency point.
#[derive(Default, Debug)]
pub(super) struct BlockAllocation {
    /// Blocks in the order in which they should be used. Blocks in whole rows come first.
    pub blocks: Vec<u64>,
    /// Rows that are written whole.
    pub whole_rows: BTreeSet<u64>,
}

/// Allocates an array's blocks. It tracks the blocks in use and the zones in the window.
pub(super) struct BlockAllocator {
    layout: ArrayLayout,
    columns: usize,
    /// Bitmap of the blocks in use.
    used: Vec<u64>,
    used_in_row: Vec<u8>,
    /// Number of rows without used blocks in each zone.
    whole_rows: Vec<u8>,
    free: u64,
    window: BTreeSet<u64>,
}

impl BlockAllocator {
    /// Creates an allocator in which only the catalogue is in use.
    pub fn new(layout: ArrayLayout) -> BlockAllocator {
        let blocks = layout.blocks();
        let mut space = BlockAllocator {
            layout,
            columns: layout.data_columns(),
            used: vec![0; blocks.div_ceil(64) as usize],
            used_in_row: vec![0; layout.rows as usize],
            whole_rows: vec![ZONE_ROWS as u8; layout.zones() as usize],
            free: blocks,
            window: BTreeSet::new(),
        };
        for block in 0..FIRST_BLOCK {
            space.mark_used(block);
        }
        space
    }

    pub fn free(&self) -> u64 {
        self.free
    }

    pub fn is_used(&self, block: u64) -> bool {
        self.used[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Marks a block as used. Returns true if it was free.
    pub fn mark_used(&mut self, block: u64) -> bool {
        if self.is_used(block) {
            return false;
        }
        let (row, _) = self.layout.locate(block);
        self.used[(block / 64) as usize] |= 1 << (block % 64);
        if self.used_in_row[row as usize] == 0 {
            self.whole_rows[(row / ZONE_ROWS) as usize] -= 1;
        }
        self.used_in_row[row as usize] += 1;
        self.free -= 1;
        true
    }

    /// Marks a block as free.
    pub fn mark_free(&mut self, block: u64) {
        if !self.is_used(block) {
            return;
        }
        let (row, _) = self.layout.locate(block);
        self.used[(block / 64) as usize] &= !(1 << (block % 64));
        self.used_in_row[row as usize] -= 1;
        if self.used_in_row[row as usize] == 0 {
            self.whole_rows[(row / ZONE_ROWS) as usize] += 1;
        }
        self.free += 1;
    }

    /// Returns the number of used blocks in a zone.
    pub fn used_in_zone(&self, zone: u64) -> u64 {
        let rows = (zone * ZONE_ROWS) as usize..((zone + 1) * ZONE_ROWS) as usize;
        self.used_in_row[rows].iter().map(|used| u64::from(*used)).sum()
    }

    /// Returns the total number of rows without used blocks.
    pub fn whole_row_count(&self) -> u64 {
        self.whole_rows.iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Returns the number of blocks in whole rows of the window.
    pub fn window_blocks(&self) -> u64 {
        let rows = self.window.iter().map(|zone| u64::from(self.whole_rows[*zone as usize]));
        rows.sum::<u64>() * self.columns as u64
    }

    /// Returns a new window for the next consistency points. Returns `None` if the current window has enough whole
    /// rows for this many blocks, or if no other zone has whole rows.
    pub fn next_window(&self, blocks: u64) -> Option<Vec<u64>> {
        let has_more = |zone: &u64| self.whole_rows[*zone as usize] > 0 && !self.window.contains(zone);
        if self.window_blocks() >= blocks || !(0..self.whole_rows.len() as u64).any(|zone| has_more(&zone)) {
            return None;
        }
        Some(self.best_window(2 * blocks))
    }

    /// Returns the zones with the most whole rows, as many as are needed for this many blocks.
    pub fn best_window(&self, blocks: u64) -> Vec<u64> {
        let mut zones: Vec<u64> =
            (0..self.whole_rows.len() as u64).filter(|zone| self.whole_rows[*zone as usize] > 0).collect();
        zones.sort_by_key(|zone| std::cmp::Reverse(self.whole_rows[*zone as usize]));
        let mut found = 0;
        let needed = |zone: &u64| {
            let is_needed = found < blocks;
            found += u64::from(self.whole_rows[*zone as usize]) * self.columns as u64;
            is_needed
        };
        zones.into_iter().take_while(needed).take(MAX_ZONES).collect()
    }

    /// Sets the window to the zones listed in the catalogue on the array.
    pub fn set_window(&mut self, zones: &[u64]) {
        let known = self.whole_rows.len() as u64;
        self.window = zones.iter().copied().filter(|zone| *zone < known).collect();
    }

    /// Returns the rows of the window without used blocks. After a crash, these rows may have any content.
    pub fn possibly_torn_rows(&self) -> Vec<u64> {
        let rows = self.window.iter().flat_map(|zone| zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS);
        rows.filter(|row| self.used_in_row[*row as usize] == 0).collect()
    }

    /// Allocates blocks. Whole rows of the window come first, with the blocks of each member in sequence. Single
    /// blocks follow, starting with the zones that have the fewest used blocks. Returns `None` if there are not
    /// enough free blocks.
    pub fn allocate(&mut self, count: u64) -> Option<BlockAllocation> {
        if count > self.free {
            return None;
        }
        let mut allocation = BlockAllocation::default();
        let zones: Vec<u64> = self.window.iter().copied().collect();
        for zone in zones {
            let missing = count - allocation.blocks.len() as u64;
            self.take_whole_rows(zone, missing, &mut allocation);
        }
        self.allocate_singly(count, &mut allocation);
        Some(allocation)
    }

    /// Allocates all whole rows in some zones of the window, up to this many blocks.
    pub fn allocate_zones(&mut self, most: u64) -> BlockAllocation {
        let mut allocation = BlockAllocation::default();
        let zones: Vec<u64> = self.window.iter().copied().collect();
        for zone in zones {
            let blocks = u64::from(self.whole_rows[zone as usize]) * self.columns as u64;
            if allocation.blocks.len() as u64 + blocks > most {
                break;
            }
            self.take_whole_rows(zone, blocks, &mut allocation);
        }
        allocation
    }

    /// Allocates all whole rows in one zone of the window, if they have at most this many blocks.
    pub fn allocate_zone(&mut self, most: u64) -> Option<BlockAllocation> {
        let zone = *self.window.iter().find(|zone| self.whole_rows[**zone as usize] > 0)?;
        let blocks = u64::from(self.whole_rows[zone as usize]) * self.columns as u64;
        let mut allocation = BlockAllocation::default();
        (blocks <= most).then(|| self.take_whole_rows(zone, blocks, &mut allocation))?;
        Some(allocation)
    }

    /// Allocates up to this many blocks in whole rows of a zone.
    fn take_whole_rows(&mut self, zone: u64, most: u64, allocation: &mut BlockAllocation) {
        let rows: Vec<u64> = (zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS)
            .filter(|row| self.used_in_row[*row as usize] == 0)
            .take(most.div_ceil(self.columns as u64) as usize)
            .collect();
        let blocks = (0..self.columns).flat_map(|column| rows.iter().map(move |row| (*row, column)));
        let blocks: Vec<u64> =
            blocks.map(|(row, column)| self.layout.block_at(row, column)).take(most as usize).collect();
        blocks.iter().for_each(|block| {
            self.mark_used(*block);
        });
        allocation.blocks.extend(blocks);
        allocation.whole_rows.extend(rows);
    }

    fn allocate_singly(&mut self, count: u64, allocation: &mut BlockAllocation) {
        let mut zones: BTreeMap<(u64, u64), ()> = BTreeMap::new();
        if (allocation.blocks.len() as u64) < count {
            zones.extend((0..self.whole_rows.len() as u64).map(|zone| ((self.used_in_zone(zone), zone), ())));
        }
        for ((_, zone), ()) in zones {
            for row in zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS {
                for column in 0..self.columns {
                    if allocation.blocks.len() as u64 == count {
                        return;
                    }
                    let block = self.layout.block_at(row, column);
                    // The remaining blocks of a whole row are part of the row's write.
                    if !allocation.whole_rows.contains(&row) && self.mark_used(block) {
                        allocation.blocks.push(block);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jetcell_array::RaidLevel;

    use super::*;

    fn space() -> BlockAllocator {
        BlockAllocator::new(ArrayLayout {
            level: RaidLevel::Raid6,
            chunk: 16,
            rows: 640,
            base_slots: 6,
            slots: 6,
        })
    }

    #[test]
    fn full_window_rows_are_allocated_first_in_member_order() {
        let mut space = space();
        assert_eq!(space.free(), 640 * 4 - 512);
        assert_eq!(space.next_window(100), Some(vec![2]), "the catalogue is in the first two zones");
        space.set_window(&[2]);
        assert_eq!(space.next_window(256), None);
        let taken = space.allocate(10).unwrap();
        assert_eq!(taken.whole_rows.into_iter().collect::<Vec<_>>(), [128, 129, 130]);
        // Three rows of the first member, then three rows of the second, and so on.
        let block = |row, column| space.layout.block_at(row, column);
        assert_eq!(taken.blocks[..4], [block(128, 0), block(129, 0), block(130, 0), block(128, 1)]);
        assert_eq!(space.possibly_torn_rows().len(), 61);
        for block in taken.blocks {
            space.mark_free(block);
        }
        assert_eq!((space.free(), space.possibly_torn_rows().len()), (640 * 4 - 512, 64));
    }

    #[test]
    fn zones_are_allocated_with_all_full_rows_or_not_allocated() {
        let mut space = space();
        space.set_window(&[2, 3, 5]);
        space.mark_used(space.layout.block_at(3 * 64 + 7, 0));
        assert_eq!(space.window_blocks(), 256 + 252 + 256);
        let taken = space.allocate_zones(600);
        assert_eq!((taken.blocks.len(), taken.whole_rows.len()), (256 + 252, 64 + 63));
        assert!(!taken.whole_rows.contains(&(3 * 64 + 7)));
        assert_eq!((space.allocate_zones(255).blocks.len(), space.window_blocks()), (0, 256));
        assert!(space.allocate_zone(255).is_none());
        assert_eq!(space.allocate_zone(256).unwrap().whole_rows.first(), Some(&(5 * 64)));
        assert!(space.allocate_zone(256).is_none() && space.window_blocks() == 0);
    }

    #[test]
    fn without_whole_rows_the_emptiest_zones_are_filled() {
        let mut space = space();
        space.set_window(&[]);
        let taken = space.allocate(300).unwrap();
        assert!(taken.whole_rows.is_empty() && taken.blocks.len() == 300);
        assert_eq!((space.used_in_zone(2), space.used_in_zone(3)), (256, 44));
        assert!(space.allocate(640 * 4).is_none());
        let rest = space.free();
        assert_eq!(space.allocate(rest).unwrap().blocks.len() as u64, rest);
        assert_eq!(space.next_window(1), None);
    }

    #[test]
    fn the_remainder_of_a_full_row_is_not_allocated_separately() {
        let mut space = space();
        space.set_window(&[2]);
        let taken = space.allocate(255 + 100).unwrap();
        assert_eq!(taken.whole_rows.len(), 64);
        assert_eq!(space.used_in_zone(2), 256);
        let mut space = self::space();
        space.set_window(&[9]);
        // All blocks except those of row 600 are in use.
        for block in FIRST_BLOCK..640 * 4 {
            if space.layout.locate(block).0 != 600 {
                space.mark_used(block);
            }
        }
        let taken = space.allocate(3).unwrap();
        assert_eq!((taken.blocks.len(), taken.whole_rows.len(), space.free()), (3, 1, 1));
    }
}
