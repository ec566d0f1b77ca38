//! The open zone for runs of writes without a flush: each block is put directly at its location in a zone, and the
//! zone is written when it is full.
//!
//! An open zone is used once [write-through](super::write_through) has begun, and avoids the copy in memory that
//! pending blocks need. While a zone is open, no block is pending. Any operation except a write closes the zone, and
//! its blocks become pending.

use std::collections::BTreeMap;
use std::ops::Range;

use jetcell_array::{OpenZone, Result, SharedBlock};
use jetcell_vfs::IoBuffer;

use super::catalogue::LunId;
use super::consistency_point::RESERVE;
use super::{LunVolume, PendingBlock};

/// The open zone and the array blocks in its rows.
pub(super) struct LunOpenZone {
    zone: OpenZone,
    /// Blocks of the array, in the order in which they are used.
    blocks: Vec<u64>,
    /// LUN blocks with content. They occupy the beginning of `blocks`, in the same order.
    lun_blocks: Vec<(LunId, u64)>,
}

impl LunVolume {
    /// Opens a zone for the next writes, and moves pending blocks into it. Does nothing if a deallocation is pending,
    /// or if there is no room.
    pub(super) fn open_zone_for_writes(&mut self) -> Result<()> {
        if self.pending.values().any(|pending| matches!(pending, PendingBlock::Hole))
            || !self.open_next_zone()
        {
            return Ok(());
        }
        self.pending_data = 0;
        self.unlogged.clear();
        for ((lun, index), pending) in std::mem::take(&mut self.pending) {
            match pending {
                PendingBlock::Data(content) if self.open_zone.is_some() => {
                    self.put_in_open_zone(lun, index, content)?;
                }
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
        let room = self.write_through_room();
        let Some(allocation) = self.space.allocate_zone(room) else { return false };
        let Some(zone) = self.array.row_writer().open_zone(allocation.whole_rows.into_iter().collect())
        else {
            allocation.blocks.iter().for_each(|block| self.space.mark_free(*block));
            return false;
        };
        let filled = Vec::with_capacity(allocation.blocks.len());
        self.open_zone = Some(LunOpenZone { zone, blocks: allocation.blocks, lun_blocks: filled });
        true
    }

    /// Returns true if a zone is open and can take these blocks. If the zone cannot take them, it is closed.
    pub(super) fn keep_open_zone_for(&mut self, range: &Range<u64>) -> bool {
        if self.open_zone.is_none() {
            return false;
        }
        if self.are_pending_blocks_scattered() || !self.has_room(range.end - range.start, range, RESERVE) {
            self.close_open_zone();
        }
        self.open_zone.is_some()
    }

    /// Takes over a caller's buffer for the open zone. See
    /// [`RowWriter::adopt_buffer`](jetcell_array::RowWriter::adopt_buffer).
    pub(super) fn adopt_buffer(&mut self, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        self.array.row_writer().adopt_buffer(&mut self.open_zone.as_mut()?.zone, buffer)
    }

    /// Puts a block into the open zone.
    ///
    /// # Errors
    /// The array failed. The volume must then be started again. No flushed write is lost.
    ///
    /// # Panics
    /// No zone is open.
    pub(super) fn put_in_open_zone(&mut self, lun: LunId, index: u64, content: SharedBlock) -> Result<()> {
        let open_zone = self.open_zone.as_mut().expect("a zone is open");
        let block = open_zone.blocks[open_zone.lun_blocks.len()];
        if let Some(before) = self.write_through.put(lun, index, block) {
            if open_zone.zone.has(before) {
                self.write_through.put(lun, index, before);
                let replaced = open_zone.zone.put(before, content);
                replaced.into_iter().for_each(|block| self.array.recycle_block(block));
                self.counters.blocks_absorbed += 1;
                return Ok(());
            }
            self.write_through.release(before);
        }
        open_zone.zone.put(block, content);
        open_zone.lun_blocks.push((lun, index));
        self.pending_leaves.insert((lun, index / super::block_map::FAN_OUT as u64));
        if open_zone.zone.is_full()
            && let Some(LunOpenZone { zone, blocks, .. }) = self.open_zone.take()
        {
            self.counters.data_blocks += blocks.len() as u64;
            self.counters.blocks_in_whole_rows += blocks.len() as u64;
            let started = self.array.row_writer().start_zone(zone);
            self.has_failed |= started.is_err();
            started?;
            self.open_next_zone();
        }
        Ok(())
    }

    /// Returns the content of a LUN's block if it is in the open zone.
    pub(super) fn open_zone_content(&self, lun: LunId, index: u64) -> Option<&[u8]> {
        let filling = self.open_zone.as_ref()?;
        let block = self.write_through.block(lun, index).filter(|block| filling.zone.has(*block))?;
        filling.zone.block(block).map(|content| &**content)
    }

    /// Closes the open zone. Its blocks become pending.
    pub(super) fn close_open_zone(&mut self) {
        let Some(LunOpenZone { zone, blocks, lun_blocks: filled }) = self.open_zone.take() else { return };
        let places: BTreeMap<u64, (LunId, u64)> = blocks.iter().copied().zip(filled).collect();
        for (block, content) in self.array.row_writer().close_zone(zone) {
            let (lun, index) = places[&block];
            self.write_through.forget(lun, index);
            self.put_pending(lun, index, PendingBlock::Data(content));
            self.unlogged.insert((lun, index));
        }
        blocks.iter().for_each(|block| self.space.mark_free(*block));
    }
}
