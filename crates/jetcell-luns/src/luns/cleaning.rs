//! Cleaning of free space: blocks in almost empty zones are moved together, which frees whole rows.
//!
//! Only blocks that belong exclusively to the current state of one LUN are moved. If a block shared with a snapshot
//! were moved, it would then exist twice.

use std::collections::BTreeSet;

use jetcell_array::{BLOCK, Result, ZONE_ROWS};
use jetcell_vfs::IoBuffer;

use super::block_map::{BlockPointer, for_each_mapped};
use super::consistency_point::RESERVE;
use super::{LunVolume, PendingBlock};

/// Number of zones cleaned in one step.
const ZONES_PER_STEP: usize = 16;

/// Result of one cleaning step on a LUN volume.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CleaningProgress {
    /// Number of blocks that were moved.
    pub moved: u64,
    /// Number of rows without used blocks before the step.
    pub whole_rows_before: u64,
    /// Number of rows without used blocks after the step.
    pub whole_rows_after: u64,
}

impl LunVolume {
    /// Empties some zones in which some of the blocks are used, but at most half. Moves nothing if there are no such
    /// zones, or if there is no room.
    ///
    /// # Errors
    /// The array failed.
    pub fn clean_step(&mut self) -> Result<CleaningProgress> {
        self.consistency_point()?;
        let whole_rows_before = self.space.whole_row_count();
        let mut progress =
            CleaningProgress { moved: 0, whole_rows_before, whole_rows_after: whole_rows_before };
        let victims = self.cheapest_zones();
        if victims.is_empty() {
            return Ok(progress);
        }
        for place in 0..self.catalogue.luns.len() {
            let lun = &self.catalogue.luns[place];
            let (id, root, height, shared) = (lun.id, lun.root, lun.height(), lun.shared_up_to());
            let blocks = 0..lun.blocks;
            let zone = |layout: &jetcell_array::ArrayLayout, block: u64| layout.locate(block).0 / ZONE_ROWS;
            let layout = *self.array.layout();
            let mut moving: Vec<(u64, BlockPointer)> = vec![];
            for_each_mapped(&mut self.reader(), root, height, &blocks, &mut |index, pointer| {
                if pointer.birth > shared && victims.contains(&zone(&layout, pointer.block)) {
                    moving.push((index, pointer));
                }
            })?;
            for (index, pointer) in moving {
                if self.pending_data * 4 > self.space.free()
                    || !self.has_room(1, &(index..index + 1), RESERVE)
                {
                    break;
                }
                let mut data = IoBuffer::zeroed(BLOCK);
                self.array.read(pointer.block, &mut data)?;
                self.put_pending(id, index, PendingBlock::Data(data.into()));
                progress.moved += 1;
            }
        }
        self.consistency_point()?;
        self.counters.blocks_moved += progress.moved;
        progress.whole_rows_after = self.space.whole_row_count();
        Ok(progress)
    }

    /// Returns the zones that are cheapest to empty.
    fn cheapest_zones(&self) -> BTreeSet<u64> {
        let layout = self.array.layout();
        let size = ZONE_ROWS * layout.data_columns() as u64;
        let mut zones: Vec<(u64, u64)> = (0..layout.zones())
            .map(|zone| (self.space.used_in_zone(zone), zone))
            .filter(|(used, zone)| (1..=size / 2).contains(used) && !self.holds_catalogue(*zone))
            .collect();
        zones.sort_unstable();
        zones.into_iter().take(ZONES_PER_STEP).map(|(_, zone)| zone).collect()
    }

    fn holds_catalogue(&self, zone: u64) -> bool {
        let layout = self.array.layout();
        (0..super::FIRST_BLOCK).step_by(16).any(|block| layout.locate(block).0 / ZONE_ROWS == zone)
    }
}
