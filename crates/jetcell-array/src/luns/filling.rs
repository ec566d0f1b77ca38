//! The open zone for runs of writes without a flush: each block is put directly at its location in a zone, and the
//! zone is written when it is full.
//!
//! An open zone is used once [write-through](super::early_writes) has begun, and avoids the copy in memory that
//! pending blocks need. While a zone is open, no block is pending. Any operation except a write closes the zone, and
//! its blocks become pending.

use std::collections::BTreeMap;
use std::ops::Range;

use jetcell_vfs::IoBuffer;

use super::catalogue::LunId;
use super::point::RESERVE;
use super::{LunVolume, Pending};
use crate::array::OpenZone;
use crate::error::Result;
use crate::shared_block::SharedBlock;

/// The open zone, and the blocks of the array in its rows.
pub(super) struct Filling {
    zone: OpenZone,
    /// Blocks of the array, in the order in which they are used.
    blocks: Vec<u64>,
    /// LUN blocks with content. They occupy the beginning of `blocks`, in the same order.
    filled: Vec<(LunId, u64)>,
}

impl LunVolume {
    /// Opens a zone for the next writes, and moves pending blocks into it. Does nothing if a deallocation is pending,
    /// or if there is no room.
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

    /// Opens the next zone. Returns false if there is no room.
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

    /// Returns true if a zone is open and can take these blocks. If the zone cannot take them, it is closed.
    pub(super) fn is_filling(&mut self, range: &Range<u64>) -> bool {
        if self.filling.is_none() {
            return false;
        }
        if self.are_scattered() || !self.has_room(range.end - range.start, range, RESERVE) {
            self.end_filling();
        }
        self.filling.is_some()
    }

    /// Takes over a caller's buffer for the open zone. See [`Array::share`](crate::array::Array::share).
    pub(super) fn share(&mut self, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        self.array.share(&mut self.filling.as_mut()?.zone, buffer)
    }

    /// Puts a block into the open zone.
    ///
    /// # Errors
    /// The array failed. The volume must then be started again. No flushed write is lost.
    ///
    /// # Panics
    /// No zone is open.
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

    /// Returns the content of a LUN's block if it is in the open zone.
    pub(super) fn filled_content(&self, lun: LunId, index: u64) -> Option<&[u8]> {
        let filling = self.filling.as_ref()?;
        let block = self.early.block(lun, index).filter(|block| filling.zone.has(*block))?;
        filling.zone.block(block).map(|content| &**content)
    }

    /// Closes the open zone. Its blocks become pending.
    pub(super) fn end_filling(&mut self) {
        let Some(Filling { zone, blocks, filled }) = self.filling.take() else { return };
        let places: BTreeMap<u64, (LunId, u64)> = blocks.iter().copied().zip(filled).collect();
        for (block, content) in zone.into_blocks() {
            let (lun, index) = places[&block];
            self.early.forget(lun, index);
            // A shared block keeps a larger buffer in memory than the block needs, so it is copied.
            let copy = self.array.copied(&content, true);
            self.put_pending(lun, index, Pending::Data(copy));
            self.unlogged.insert((lun, index));
            self.array.keep_block(content);
        }
        blocks.iter().for_each(|block| self.space.release(*block));
    }
}
