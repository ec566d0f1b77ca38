//! Locations of written-through blocks, which are written to whole rows before their consistency point begins.
//!
//! A consistency point syncs the members twice, but writes without a flush need no sync. When such writes fill the
//! memory, their blocks are written to the array, and only their locations are kept in memory. The next consistency
//! point puts the locations into the block maps. After a crash, nothing refers to these blocks, as with the blocks of
//! a consistency point that did not complete.

use std::collections::BTreeMap;
use std::ops::Range;

use jetcell_array::BLOCK;

use super::block_map::FAN_OUT;
use super::catalogue::LunId;

/// Number of pending blocks that triggers write-through. It is small enough to keep the members busy while more
/// blocks arrive.
pub(super) const WRITE_THROUGH_BATCH: u64 = (16 << 20) / BLOCK as u64;

/// Number of blocks in the window for a run of writes without a flush. This many blocks are written between two
/// consistency points, and startup after a crash may have to clear as many.
pub(super) const WRITE_THROUGH_WINDOW: u64 = (2 << 30) / BLOCK as u64;

/// Locations of the blocks below one node of a map. Block 0 stands for no block.
type LeafLocations = Box<[u64; FAN_OUT]>;

/// LUN blocks that have been written to the array but are not in the block maps yet. The next consistency point adds
/// them to the maps.
#[derive(Default)]
pub(super) struct WriteThroughBlocks {
    /// Leaves by LUN and leaf number, which is the index of the leaf's first block divided by the number of blocks
    /// per leaf.
    leaves: BTreeMap<(LunId, u64), LeafLocations>,
    /// Total number of LUN blocks in the leaves.
    count: u64,
    /// Blocks of the array that were replaced before the next consistency point.
    replaced: Vec<u64>,
}

fn leaf_and_slot(index: u64) -> (u64, usize) {
    (index / FAN_OUT as u64, (index % FAN_OUT as u64) as usize)
}

impl WriteThroughBlocks {
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.replaced.is_empty()
    }

    /// Returns the location of a LUN's block.
    pub fn block(&self, lun: LunId, index: u64) -> Option<u64> {
        let (leaf, slot) = leaf_and_slot(index);
        self.leaves.get(&(lun, leaf)).map(|leaf| leaf[slot]).filter(|block| *block != 0)
    }

    /// Returns the blocks of a LUN with their locations, in ascending order.
    pub fn blocks_of_lun(&self, lun: LunId, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let leaves =
            self.leaves.range((lun, leaf_and_slot(range.start).0)..=(lun, leaf_and_slot(range.end).0));
        let blocks =
            leaves.flat_map(|((_, leaf), blocks)| (leaf * FAN_OUT as u64..).zip(blocks.iter().copied()));
        blocks.filter(move |(index, block)| *block != 0 && range.contains(index))
    }

    /// Sets the location of a LUN's block. Returns its previous location.
    pub fn put(&mut self, lun: LunId, index: u64, block: u64) -> Option<u64> {
        let (leaf, slot) = leaf_and_slot(index);
        let leaf = self.leaves.entry((lun, leaf)).or_insert_with(|| Box::new([0; FAN_OUT]));
        let before = std::mem::replace(&mut leaf[slot], block);
        self.count += u64::from(before == 0);
        (before != 0).then_some(before)
    }

    /// Adds a block of the array that becomes unused once the next consistency point has completed.
    pub fn release(&mut self, block: u64) {
        self.replaced.push(block);
    }

    /// Removes a block of a LUN, and returns its location.
    pub fn forget(&mut self, lun: LunId, index: u64) -> Option<u64> {
        let (leaf, slot) = leaf_and_slot(index);
        let before = std::mem::take(self.leaves.get_mut(&(lun, leaf))?.get_mut(slot)?);
        self.count -= u64::from(before != 0);
        (before != 0).then_some(before)
    }

    /// Removes a block of a LUN that has newer content. Its location becomes unused with the next consistency point.
    pub fn replace(&mut self, lun: LunId, index: u64) {
        let before = self.forget(lun, index);
        self.replaced.extend(before);
    }

    /// Removes and returns the blocks that become unused once the next consistency point has completed.
    pub fn take_replaced(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.replaced)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn write_through_blocks_behave_like_a_map(
            changes in prop::collection::vec((1u32..3, 240u64..280, prop::option::of(1u64..40)), 0..80),
        ) {
            let (mut early, mut model) = (WriteThroughBlocks::default(), BTreeMap::new());
            for (lun, index, block) in changes {
                let (found, expected) = match block {
                    Some(block) => (early.put(lun, index, block), model.insert((lun, index), block)),
                    None => (early.forget(lun, index), model.remove(&(lun, index))),
                };
                prop_assert_eq!((found, early.is_empty()), (expected, model.is_empty()));
                for (lun, start) in (0..4).flat_map(|lun| (239..281).map(move |start| (lun, start))) {
                    prop_assert_eq!(early.block(lun, start), model.get(&(lun, start)).copied());
                    for end in [start, start + 3, 300, u64::MAX] {
                        let of_model = model.range((lun, start)..(lun, end));
                        let expected: Vec<_> = of_model.map(|((_, index), block)| (*index, *block)).collect();
                        prop_assert_eq!(early.blocks_of_lun(lun, start..end).collect::<Vec<_>>(), expected);
                    }
                }
            }
        }
    }
}
