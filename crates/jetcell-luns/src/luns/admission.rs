//! Admission of writes: decides whether blocks are kept in memory or placed in an open zone, and first makes room.
//!
//! When many blocks are pending without a flush, they are [written through](super::write_through), and a zone is
//! opened: later blocks are put directly at their locations, which avoids a copy in memory. A full zone is written,
//! and the next zone is opened. Any operation except a write closes the zone, and its blocks become pending.

use std::collections::BTreeMap;
use std::ops::Range;

use jetcell_array::{ArrayError, BLOCK, Result, SharedBlock, WriteData};
use jetcell_vfs::IoBuffer;

use super::LunVolume;
use super::block_map::{FAN_OUT, for_each_mapped};
use super::catalogue::LunId;
use super::next_point::{BlockIntake, PendingBlock, ZonePlacement};
use super::write_through::WRITE_THROUGH_BATCH;

/// Number of blocks that must remain free when new data is written. They allow old data to be replaced and
/// deallocated in a full volume.
pub(super) const RESERVE: u64 = 64;

/// How a write is admitted: the destination of its blocks, or the reason why room must be made first.
enum Admission {
    /// The blocks are placed in the open zone.
    Zone,
    /// The blocks are kept in memory.
    Memory,
    /// Enough blocks are waiting in memory to be written through.
    WriteThrough,
    /// More blocks are waiting in memory than fit in the log. They are written through, or else by a consistency point.
    LogFull,
    /// The next consistency point would need more blocks than are free, so it must begin now.
    NoSpace,
}

impl LunVolume {
    /// Returns the number of blocks that fit in the log.
    pub(super) fn log_blocks(&self) -> u64 {
        self.log.bytes() / BLOCK as u64
    }

    /// Returns true if the next consistency point has room for this many data blocks, and for the nodes above the LUN
    /// blocks `indexes`. `rest` blocks must remain free.
    pub(super) fn has_room(&self, data: u64, indexes: &Range<u64>, rest: u64) -> bool {
        let fan_out = FAN_OUT as u64;
        let leaves = indexes.end.div_ceil(fan_out) - indexes.start / fan_out;
        let nodes = self.max_nodes() + leaves * self.height();
        self.next.pending_data() + data + nodes + rest <= self.space.free()
    }

    /// Returns the height of the highest map.
    fn height(&self) -> u64 {
        self.catalogue.luns.iter().map(|lun| u64::from(lun.height())).max().unwrap_or(1)
    }

    /// Returns the maximum number of nodes that the next consistency point writes.
    fn max_nodes(&self) -> u64 {
        self.next.leaves.len() as u64 * self.height()
    }

    /// Returns true if the pending blocks are scattered over the LUNs. Such blocks need many map nodes, which the
    /// consistency point holds in memory until it has written them.
    fn are_pending_blocks_scattered(&self) -> bool {
        self.next.leaves.len() as u64 > self.log_blocks().min(WRITE_THROUGH_BATCH)
    }

    /// Returns the number of blocks in whole rows of the window that write-through can use. The rest is reserved for
    /// the consistency point. Without this reserve, the consistency point would need a new window, which takes as
    /// long as another consistency point.
    fn write_through_room(&self) -> u64 {
        self.space.window_blocks().saturating_sub(self.max_nodes() + self.log_blocks())
    }

    fn admission(&self, range: &Range<u64>) -> Admission {
        let data = range.end - range.start;
        let pending = self.next.pending_data() + data;
        match &self.next.intake {
            _ if !self.has_room(data, range, RESERVE) => Admission::NoSpace,
            BlockIntake::Zone(_) if !self.are_pending_blocks_scattered() => Admission::Zone,
            _ if pending > self.log_blocks() => Admission::LogFull,
            _ if pending > WRITE_THROUGH_BATCH => Admission::WriteThrough,
            _ => Admission::Memory,
        }
    }

    /// Makes room for a write of these blocks, with a consistency point if necessary.
    pub(super) fn admit(&mut self, lun: LunId, range: Range<u64>) -> Result<()> {
        if self.next.open_zone().is_some() {
            if matches!(self.admission(&range), Admission::Zone) {
                return Ok(());
            }
            self.close_open_zone();
        }
        match self.admission(&range) {
            Admission::Zone | Admission::Memory => {}
            Admission::WriteThrough => _ = self.start_write_through()?,
            Admission::LogFull => {
                if !self.start_write_through()? {
                    self.start_consistency_point()?;
                }
            }
            Admission::NoSpace => self.start_consistency_point()?,
        }
        let data = range.end - range.start;
        if self.has_room(data, &range, RESERVE) {
            return Ok(());
        }
        // The blocks that the consistency point replaces become free when it completes.
        self.finish_consistency_point()?;
        let has_room =
            self.has_room(data, &range, RESERVE) || self.owns(lun, &range)? && self.has_room(data, &range, 0);
        if has_room { Ok(()) } else { Err(ArrayError::Full) }
    }

    /// Returns true if all of these blocks have content, and nothing else refers to that content.
    fn owns(&mut self, lun: LunId, range: &Range<u64>) -> Result<bool> {
        let Some(entry) = self.catalogue.luns.iter().find(|entry| entry.id == lun) else { return Ok(false) };
        let (root, height, shared_up_to) = (entry.root, entry.height(), entry.shared_up_to());
        let mut owned = 0;
        for_each_mapped(&mut self.reader(), root, height, range, &mut |_, pointer| {
            owned += u64::from(pointer.birth > shared_up_to);
        })?;
        Ok(owned == range.end - range.start)
    }

    /// Writes a block of an admitted write. Its content is block number `place` of `written`.
    ///
    /// # Errors
    /// Returns an error if the array failed. The volume must then be started again. No flushed write is lost.
    pub(super) fn write_block(
        &mut self,
        lun: LunId,
        index: u64,
        written: &WriteData<'_>,
        place: usize,
    ) -> Result<()> {
        match &self.next.intake {
            BlockIntake::Zone(_) => {
                let shared = written.shared(place);
                let content = shared.unwrap_or_else(|| self.array.copy_to_block(written.block(place), true));
                self.put_in_open_zone(lun, index, content)
            }
            BlockIntake::Memory(_) => {
                let are_many = self.next.pending_data() >= (IoBuffer::HUGE / BLOCK) as u64;
                let content = self.array.copy_to_block(written.block(place), are_many);
                self.put_counted(lun, index, PendingBlock::Data(content));
                Ok(())
            }
        }
    }

    /// Adds a pending block, and counts data that it replaces.
    pub(super) fn put_counted(&mut self, lun: LunId, index: u64, block: PendingBlock) {
        let is_absorbed = self.next.put(lun, index, block);
        self.counters.blocks_absorbed += u64::from(is_absorbed);
    }

    /// Makes room for more pending blocks by starting to write the current ones to whole rows. Returns false without
    /// doing anything if some pending blocks were flushed, so a consistency point must make room in the write log; if
    /// the blocks are scattered over the LUNs; or if the window has too few whole rows.
    ///
    /// # Errors
    /// Returns an error if the array failed. The volume must then be started again. No flushed write is lost.
    fn start_write_through(&mut self) -> Result<bool> {
        if self.are_pending_blocks_scattered() || self.next.unlogged() != self.next.pending() {
            return Ok(false);
        }
        self.finish_consistency_point()?;
        let allocation = self.space.allocate_zones(self.next.pending_data().min(self.write_through_room()));
        if allocation.blocks.is_empty() {
            return Ok(false);
        }
        let content = self.next.place_pending(&allocation.blocks);
        self.counters.data_blocks += content.len() as u64;
        let buffers: Vec<SharedBlock> = content.iter().map(|(_, data)| data.clone()).collect();
        let started = self.start_content(&allocation, content).map(drop);
        self.fail_on_error(started)?;
        buffers.into_iter().for_each(|block| self.array.recycle_block(block));
        self.open_zone_for_writes()?;
        Ok(true)
    }

    /// Opens a zone for the next writes, and moves pending blocks into it. Does nothing if a deallocation is pending,
    /// or if there is no room.
    fn open_zone_for_writes(&mut self) -> Result<()> {
        if self.next.has_holes() {
            return Ok(());
        }
        let Some(placement) = self.next_zone() else { return Ok(()) };
        for ((lun, index), pending) in self.next.open(placement) {
            match pending {
                PendingBlock::Data(content) if self.next.open_zone().is_some() => {
                    self.put_in_open_zone(lun, index, content)?;
                }
                pending => _ = self.next.put(lun, index, pending),
            }
        }
        Ok(())
    }

    /// Allocates the next zone. Returns `None` if there is no room.
    fn next_zone(&mut self) -> Option<ZonePlacement> {
        let room = self.write_through_room();
        let allocation = self.space.allocate_zone(room)?;
        let rows = allocation.whole_rows.into_iter().collect();
        let Some(zone) = self.array.row_writer().open_zone(rows) else {
            allocation.blocks.iter().for_each(|block| self.space.mark_free(*block));
            return None;
        };
        let lun_blocks = Vec::with_capacity(allocation.blocks.len());
        Some(ZonePlacement { zone, blocks: allocation.blocks, lun_blocks })
    }

    /// Takes over a caller's buffer for the open zone. See
    /// [`RowWriter::adopt_buffer`](jetcell_array::RowWriter::adopt_buffer).
    pub(super) fn adopt_buffer(&mut self, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        self.array.row_writer().adopt_buffer(self.next.open_zone_mut()?, buffer)
    }

    /// Puts a block into the open zone. A full zone is written, and the next zone is opened.
    fn put_in_open_zone(&mut self, lun: LunId, index: u64, content: SharedBlock) -> Result<()> {
        if let Some(replaced) = self.next.put_in_zone(lun, index, content) {
            self.array.recycle_block(replaced);
            self.counters.blocks_absorbed += 1;
        }
        let Some(zone) = self.next.take_full_zone() else { return Ok(()) };
        self.counters.data_blocks += zone.filled() as u64;
        self.counters.blocks_in_whole_rows += zone.filled() as u64;
        let started = self.array.row_writer().start_zone(zone);
        self.fail_on_error(started)?;
        if let Some(placement) = self.next_zone() {
            self.next.open(placement);
        }
        Ok(())
    }

    /// Closes the open zone. Its blocks become pending.
    pub(super) fn close_open_zone(&mut self) {
        let Some(ZonePlacement { zone, blocks, lun_blocks }) = self.next.take_zone() else { return };
        let places: BTreeMap<u64, (LunId, u64)> = blocks.iter().copied().zip(lun_blocks).collect();
        for (block, content) in self.array.row_writer().close_zone(zone) {
            let (lun, index) = places[&block];
            self.next.put(lun, index, PendingBlock::Data(content));
        }
        blocks.iter().for_each(|block| self.space.mark_free(*block));
    }
}
