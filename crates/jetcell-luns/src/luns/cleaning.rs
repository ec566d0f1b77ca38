//! Cleaning of free space: blocks in almost empty zones are moved together, which frees whole rows.
//!
//! Only blocks that belong exclusively to the current state of one LUN are moved. If a block shared with a snapshot
//! were moved, it would then exist twice.

use std::collections::BTreeSet;

use jetcell_array::{ArrayLayout, BLOCK, Result, ZONE_ROWS};
use jetcell_vfs::IoBuffer;

use super::admission::RESERVE;
use super::block_allocator::BlockAllocator;
use super::block_map::{BlockPointer, for_each_mapped};
use super::next_point::PendingBlock;
use super::{FIRST_BLOCK, LunVolume};

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

/// Empties some zones; see [`LunVolume::clean_step`].
pub(super) fn clean_zones(volume: &mut LunVolume) -> Result<CleaningProgress> {
    volume.consistency_point()?;
    let whole_rows_before = volume.space.whole_row_count();
    let mut progress = CleaningProgress { moved: 0, whole_rows_before, whole_rows_after: whole_rows_before };
    let layout = *volume.array.layout();
    let victims = cheapest_zones(&layout, &volume.space);
    if victims.is_empty() {
        return Ok(progress);
    }
    for place in 0..volume.catalogue.luns.len() {
        let lun = &volume.catalogue.luns[place];
        let (id, root, height, shared) = (lun.id, lun.root, lun.height(), lun.shared_up_to());
        let blocks = 0..lun.blocks;
        let mut moving: Vec<(u64, BlockPointer)> = vec![];
        for_each_mapped(&mut volume.reader(), root, height, &blocks, &mut |index, pointer| {
            if pointer.birth > shared && victims.contains(&zone_of(&layout, pointer.block)) {
                moving.push((index, pointer));
            }
        })?;
        for (index, pointer) in moving {
            if volume.next.pending_data() * 4 > volume.space.free()
                || !volume.has_room(1, &(index..index + 1), RESERVE)
            {
                break;
            }
            let mut data = IoBuffer::zeroed(BLOCK);
            volume.array.read(pointer.block, &mut data)?;
            volume.next.put_logged(id, index, PendingBlock::Data(data.into()));
            progress.moved += 1;
        }
    }
    volume.consistency_point()?;
    volume.counters.blocks_moved += progress.moved;
    progress.whole_rows_after = volume.space.whole_row_count();
    Ok(progress)
}

fn zone_of(layout: &ArrayLayout, block: u64) -> u64 {
    layout.locate(block).0 / ZONE_ROWS
}

/// Returns the zones that are cheapest to empty.
fn cheapest_zones(layout: &ArrayLayout, space: &BlockAllocator) -> BTreeSet<u64> {
    let size = ZONE_ROWS * layout.data_columns() as u64;
    let has_catalogue = |zone: u64| (0..FIRST_BLOCK).step_by(16).any(|block| zone_of(layout, block) == zone);
    let mut zones: Vec<(u64, u64)> = (0..layout.zones())
        .map(|zone| (space.used_in_zone(zone), zone))
        .filter(|(used, zone)| (1..=size / 2).contains(used) && !has_catalogue(*zone))
        .collect();
    zones.sort_unstable();
    zones.into_iter().take(ZONES_PER_STEP).map(|(_, zone)| zone).collect()
}
