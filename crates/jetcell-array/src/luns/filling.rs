//! Runs of writes without a flush: each block goes straight to its place in a zone, which is written when it is full.
//!
//! This follows on [early writes](super::early_writes), and spares the copy in memory that pending blocks are. While a zone is filled,
//! nothing is pending. All but writes ends the filling; what is in the zone then becomes pending.

use std::collections::BTreeMap;
use std::ops::Range;

use jetcell_vfs::IoBuffer;

use super::catalogue::LunId;
use super::point::RESERVE;
use super::{LunVolume, Pending};
use crate::array::OpenZone;
use crate::error::Result;
use crate::shared_block::SharedBlock;

/// A zone that is being filled, with the blocks of the array that its rows have.
pub(super) struct Filling {
    zone: OpenZone,
    /// In the order in which they are used.
    blocks: Vec<u64>,
    /// The blocks of LUNs that have the first of them.
    filled: Vec<(LunId, u64)>,
}

impl LunVolume {
    /// Opens a zone for what is written next, and moves what is pending there. Does nothing if something is given up, or without room.
    pub(super) fn start_filling(&mut self) -> Result<()> {
        if self.pending.values().any(|pending| matches!(pending, Pending::Hole)) || !self.open_next_zone() {
            return Ok(());
        }
        self.pending_data = 0;
        self.unlogged.clear();
        for ((lun, index), pending) in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Data(content) if self.filling.is_some() => self.fill(lun, index, content)?,
                pending => {
                    self.put_pending(lun, index, pending);
                    self.unlogged.insert((lun, index));
                }
            }
        }
        Ok(())
    }

    /// Returns false without room.
    fn open_next_zone(&mut self) -> bool {
        let room = self.room_for_early_writes();
        let Some(allocation) = self.space.allocate_zone(room) else { return false };
        let Some(zone) = self.array.open_zone(allocation.whole_rows.into_iter().collect()) else {
            allocation.blocks.iter().for_each(|block| self.space.release(*block));
            return false;
        };
        let filled = Vec::with_capacity(allocation.blocks.len());
        self.filling = Some(Filling { zone, blocks: allocation.blocks, filled });
        true
    }

    /// Whether a zone is filled that takes these blocks. If they do not belong there, the filling ends.
    pub(super) fn is_filling(&mut self, range: &Range<u64>) -> bool {
        if self.filling.is_none() {
            return false;
        }
        if self.are_scattered() || !self.has_room(range.end - range.start, range, RESERVE) {
            self.end_filling();
        }
        self.filling.is_some()
    }

    /// Takes a buffer of a caller over for the zone that is filled. See [`Array::share`](crate::array::Array::share).
    pub(super) fn share(&mut self, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        self.array.share(&mut self.filling.as_mut()?.zone, buffer)
    }

    /// Puts a block into the zone that is filled.
    ///
    /// # Errors
    /// The array failed. The volume must be started again then; nothing that was flushed is lost.
    ///
    /// # Panics
    /// No zone is filled.
    pub(super) fn fill(&mut self, lun: LunId, index: u64, content: SharedBlock) -> Result<()> {
        let filling = self.filling.as_mut().expect("a zone is filled");
        let block = filling.blocks[filling.filled.len()];
        if let Some(before) = self.early.put(lun, index, block) {
            if filling.zone.has(before) {
                self.early.put(lun, index, before);
                let replaced = filling.zone.put(before, content);
                replaced.into_iter().for_each(|block| self.array.keep_block(block));
                self.counters.blocks_absorbed += 1;
                return Ok(());
            }
            self.early.release(before);
        }
        filling.zone.put(block, content);
        filling.filled.push((lun, index));
        self.pending_leaves.insert((lun, index / super::block_map::FAN_OUT as u64));
        let is_full = filling.filled.len() == filling.blocks.len();
        if is_full && let Some(Filling { zone, blocks, .. }) = self.filling.take() {
            self.counters.data_blocks += blocks.len() as u64;
            self.counters.blocks_in_whole_rows += blocks.len() as u64;
            let started = self.array.start_open_zone(zone);
            self.has_failed |= started.is_err();
            started?;
            self.open_next_zone();
        }
        Ok(())
    }

    /// The content of a block of a LUN that is in the zone.
    pub(super) fn filled_content(&self, lun: LunId, index: u64) -> Option<&[u8]> {
        let filling = self.filling.as_ref()?;
        let block = self.early.block(lun, index).filter(|block| filling.zone.has(*block))?;
        filling.zone.block(block).map(|content| &**content)
    }

    /// Makes pending what is in the zone that is filled.
    pub(super) fn end_filling(&mut self) {
        let Some(Filling { zone, blocks, filled }) = self.filling.take() else { return };
        let places: BTreeMap<u64, (LunId, u64)> = blocks.iter().copied().zip(filled).collect();
        for (block, content) in zone.into_blocks() {
            let (lun, index) = places[&block];
            self.early.forget(lun, index);
            // What is shared keeps more in memory than the block.
            let copy = self.array.copied(&content, true);
            self.put_pending(lun, index, Pending::Data(copy));
            self.unlogged.insert((lun, index));
            self.array.keep_block(content);
        }
        blocks.iter().for_each(|block| self.space.release(*block));
    }
}
