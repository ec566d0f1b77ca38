//! Early writes: blocks that go to whole rows before their consistency point begins.
//!
//! A consistency point syncs the members twice. Writes without a flush need none, so when memory is full of them, their blocks are
//! written, and only where they are is remembered. The next consistency point puts that into the block maps. After a crash nothing refers
//! to these blocks, as to those of a consistency point that did not end.

use std::collections::BTreeMap;
use std::ops::Range;

use super::block_map::FAN_OUT;
use super::catalogue::LunId;
use super::{LunVolume, Pending};
use crate::error::Result;
use crate::geometry::BLOCK;

/// Pending blocks from which on they are written early: few enough that the members are never idle while more of them come.
pub(super) const EARLY_BATCH: u64 = (16 << 20) / BLOCK as u64;

/// Blocks of the window for a run of writes without a flush: so much is written between two consistency points. A start after a crash
/// may have to clear as much.
pub(super) const EARLY_WINDOW: u64 = (2 << 30) / BLOCK as u64;

/// Where the blocks below one node of a map are. Block 0 stands for none.
type Leaf = Box<[u64; FAN_OUT]>;

/// Blocks of LUNs that are on the array, and that the next consistency point has to put into the maps.
#[derive(Default)]
pub(super) struct EarlyWrites {
    /// By LUN, and by first block divided by the span.
    leaves: BTreeMap<(LunId, u64), Leaf>,
    /// Blocks of LUNs in them.
    count: u64,
    /// Blocks whose content was replaced before that.
    replaced: Vec<u64>,
}

fn leaf_and_slot(index: u64) -> (u64, usize) {
    (index / FAN_OUT as u64, (index % FAN_OUT as u64) as usize)
}

impl EarlyWrites {
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.replaced.is_empty()
    }

    /// Where a block of a LUN is.
    pub fn block(&self, lun: LunId, index: u64) -> Option<u64> {
        let (leaf, slot) = leaf_and_slot(index);
        self.leaves.get(&(lun, leaf)).map(|leaf| leaf[slot]).filter(|block| *block != 0)
    }

    /// Blocks of a LUN and where they are, in ascending order.
    pub fn of_lun(&self, lun: LunId, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let leaves =
            self.leaves.range((lun, leaf_and_slot(range.start).0)..=(lun, leaf_and_slot(range.end).0));
        let blocks =
            leaves.flat_map(|((_, leaf), blocks)| (leaf * FAN_OUT as u64..).zip(blocks.iter().copied()));
        blocks.filter(move |(index, block)| *block != 0 && range.contains(index))
    }

    /// A block of a LUN is there. Returns where it was.
    pub fn put(&mut self, lun: LunId, index: u64, block: u64) -> Option<u64> {
        let (leaf, slot) = leaf_and_slot(index);
        let leaf = self.leaves.entry((lun, leaf)).or_insert_with(|| Box::new([0; FAN_OUT]));
        let before = std::mem::replace(&mut leaf[slot], block);
        self.count += u64::from(before == 0);
        (before != 0).then_some(before)
    }

    /// Nothing needs this block once the next consistency point has ended.
    pub fn release(&mut self, block: u64) {
        self.replaced.push(block);
    }

    /// A block of a LUN is not where it was said to be. Returns where that is.
    pub fn forget(&mut self, lun: LunId, index: u64) -> Option<u64> {
        let (leaf, slot) = leaf_and_slot(index);
        let before = std::mem::take(self.leaves.get_mut(&(lun, leaf))?.get_mut(slot)?);
        self.count -= u64::from(before != 0);
        (before != 0).then_some(before)
    }

    /// A block of a LUN has newer content.
    pub fn replace(&mut self, lun: LunId, index: u64) {
        let before = self.forget(lun, index);
        self.replaced.extend(before);
    }

    /// Blocks that nothing needs once the next consistency point has ended.
    pub fn take_replaced(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.replaced)
    }
}

impl LunVolume {
    /// Where a block of a LUN is that no map on the array has yet, if it is not in memory.
    pub(super) fn early_block(&self, lun: LunId, index: u64) -> Option<u64> {
        let of_point = || self.point.as_ref()?.early.block(lun, index);
        self.early.block(lun, index).or_else(of_point)
    }

    /// Waits until these blocks of the array can be read.
    ///
    /// # Errors
    /// The array failed. The volume must be started again then; nothing that was flushed is lost.
    pub(super) fn finish_early_writes_of(&mut self, blocks: &[u64]) -> Result<()> {
        let finished = self.array.finish_rows_of(blocks);
        self.has_failed |= finished.is_err();
        finished
    }

    /// Blocks of whole rows of the window that early writes can take. What remains has room for the consistency point: otherwise it needs a
    /// new window, which is as slow as another point.
    pub(super) fn room_for_early_writes(&self) -> u64 {
        let logged = self.log.bytes() / BLOCK as u64;
        self.space.in_window().saturating_sub(self.most_nodes() + logged)
    }

    /// Whether pending blocks are scattered over the LUNs: they need many nodes, which are all in memory when the point writes them.
    pub(super) fn are_scattered(&self) -> bool {
        let logged = self.log.bytes() / BLOCK as u64;
        self.pending_leaves.len() as u64 > logged.min(EARLY_BATCH)
    }

    /// Starts to write pending blocks to whole rows, which makes room for more of them. Returns false, and does nothing, if some were
    /// flushed, so that a consistency point must make room in the write log, if blocks are scattered over the LUNs, or if the window has
    /// too few whole rows.
    ///
    /// # Errors
    /// The array failed. The volume must be started again then; nothing that was flushed is lost.
    pub(super) fn start_early_writes(&mut self) -> Result<bool> {
        if self.are_scattered() || self.unlogged.len() != self.pending.len() {
            return Ok(false);
        }
        self.finish_point()?;
        let allocation = self.space.allocate_zones(self.pending_data.min(self.room_for_early_writes()));
        if allocation.blocks.is_empty() {
            return Ok(false);
        }
        let (mut content, mut addresses) = (vec![], allocation.blocks.iter());
        for ((lun, index), pending) in std::mem::take(&mut self.pending) {
            let address = match &pending {
                Pending::Data(_) => addresses.next(),
                Pending::Hole => None,
            };
            match (pending, address) {
                (Pending::Data(data), Some(block)) => {
                    content.push((*block, data));
                    self.early.put(lun, index, *block);
                }
                (pending, _) => {
                    self.pending.insert((lun, index), pending);
                }
            }
        }
        // As before, all that is pending is not in the log.
        self.unlogged = self.pending.keys().copied().collect();
        self.pending_data -= content.len() as u64;
        self.counters.data_blocks += content.len() as u64;
        let buffers: Vec<_> = content.iter().map(|(_, data)| data.clone()).collect();
        let started = self.start_content(&allocation, content);
        self.has_failed |= started.is_err();
        started?;
        buffers.into_iter().for_each(|block| self.array.keep_block(block));
        self.start_filling()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behave_like_a_map(
            changes in prop::collection::vec((1u32..3, 240u64..280, prop::option::of(1u64..40)), 0..80),
        ) {
            let (mut early, mut model) = (EarlyWrites::default(), BTreeMap::new());
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
                        prop_assert_eq!(early.of_lun(lun, start..end).collect::<Vec<_>>(), expected);
                    }
                }
            }
        }
    }
}
