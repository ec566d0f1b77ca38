//! An assembled array: reads, staged writes, commits through the journal, and failures of members.

mod assemble;
#[cfg(test)]
mod cost_tests;
mod create;
mod examination;
#[cfg(test)]
mod first_write_tests;
mod load_meter;
mod member_label;
mod members;
mod membership;
mod read;
mod recovery;
mod rows;
#[cfg(test)]
mod rows_in_flight_tests;
mod status;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

use jetcell_vfs::IoBuffer;

use self::members::{ArrayMode, MemberSet};
use self::read::BlockReader;
use self::write::Staging;
use crate::bytes::BlockStore;
use crate::error::{ArrayRefusal, Result};
use crate::geometry::{ArrayLayout, BLOCK};
use crate::kernels::Kernel;
use crate::member::{Extents, LifetimeTotals};
use crate::shared_block::{SharedBlock, WriteData};

pub use self::assemble::{ArrayAccess, AssembleOptions};
pub use self::create::CreateArrayOptions;
pub use self::examination::{ArrayExamination, MemberState};
pub use self::load_meter::LoadMeter;
pub use self::member_label::MemberLabel;
pub use self::members::{ArrayIoCounters, MemberPurpose, MemberRequirements, PreparedMember};
pub(crate) use self::members::{
    InFlightTransfers, PartialZoneRebuild, RebuildTarget, TransferSegment, join_writes,
};
pub use self::read::BlockReadAhead;
pub use self::rows::FreeRowWrite;
pub(crate) use self::rows::RowStore;
pub use self::status::{ArrayState, ArrayStatus, SlotState, SlotStatus};
pub use self::write::{OpenZone, RowWriter};

/// A RAID array over files. Only one thread can use it at a time.
///
/// Writes are staged in memory, and are immediately visible to reads. [`Array::flush`] commits them durably. The
/// commit is atomic if it fits in the journal. A crash, or dropping the array, discards writes that were not flushed,
/// as if they had not happened. If more blocks are written than the journal holds, some of them may become durable
/// before the flush, block by block.
///
/// An array has no lock of its own: exclusive access to it protects all its parts. If several threads share the array,
/// the caller must provide a lock. The parts are listed from the highest to the lowest; none of them refers to a higher
/// one:
///
/// | part | decides |
/// | --- | --- |
/// | `BlockReader` | which blocks of a batch are staged, read, or recovered |
/// | `Staging` | when writes are committed, and which of them are written as whole rows |
/// | `RowWriter` | which writes are in flight, and what waits for them |
/// | `RowStore` | what is in a row, and what a write changes in it |
/// | `MemberSet` | which device has a slot, and which members have failed |
pub struct Array {
    staging: Staging,
    reader: BlockReader,
    /// Number of zones rebuilt since the progress was last saved in the superblocks. It is saved every
    /// `zones_per_save` zones.
    pub(crate) zones_since_save: u64,
    pub(crate) zones_per_save: u64,
    load: LoadMeter,
}

impl Array {
    /// Returns the layout, which maps blocks of the array to members.
    pub fn layout(&self) -> &ArrayLayout {
        self.members().layout()
    }

    /// Returns the identity of the array.
    pub fn id(&self) -> u128 {
        self.members().config.array
    }

    /// Returns true if any block was ever written.
    pub fn was_written(&self) -> bool {
        self.staging.writer.sequence > 1 || self.lifetime().blocks_written > 0
    }

    pub(crate) fn members(&self) -> &MemberSet {
        &self.staging.writer.rows.members
    }

    pub(crate) fn members_mut(&mut self) -> &mut MemberSet {
        &mut self.staging.writer.rows.members
    }

    /// Returns the writer of rows, for layers that manage the space of the array themselves.
    pub fn row_writer(&mut self) -> &mut RowWriter {
        &mut self.staging.writer
    }

    /// Runs a step of a rebuild, copy or scrub. Its transfers are counted as maintenance.
    pub(crate) fn maintain<T>(
        &mut self,
        step: impl FnOnce(&mut RowWriter, &LoadMeter) -> Result<T>,
    ) -> Result<T> {
        self.row_writer().finish_rows()?;
        self.members_mut().is_maintenance = true;
        let result = step(&mut self.staging.writer, &self.load);
        self.members_mut().is_maintenance = false;
        self.staging.writer.rows.release_fetched();
        result
    }

    /// Returns the counters accumulated since the array was assembled.
    pub fn counters(&self) -> ArrayIoCounters {
        self.members().counters
    }

    /// Returns the totals since the array was created. After a crash, activity since the last save of the superblocks
    /// is not included.
    pub fn lifetime(&self) -> LifetimeTotals {
        self.members().lifetime()
    }

    /// Returns the state of the array and its slots.
    pub fn status(&self) -> ArrayStatus {
        ArrayStatus::new(self.members(), self.staging.len())
    }

    /// Returns the byte ranges of the array that cannot be recovered, in ascending order. At most 10,000 chunks of rows
    /// are examined.
    pub fn lost_bytes(&self) -> Vec<Range<u64>> {
        let config = &self.members().config;
        config.lost_rows.lost_bytes(&config.layout).0
    }

    /// Returns the kernel in use.
    pub fn kernel(&self) -> Kernel {
        self.staging.writer.rows.kernel
    }

    /// Returns the meter for operations of the load. Callers that share the array through a lock should time their
    /// operations with this meter, because the wait for the lock is part of the latency.
    pub fn load_meter(&self) -> LoadMeter {
        self.load.clone()
    }

    fn check_range(&self, first: u64, bytes: usize) -> Result<u64> {
        if !bytes.is_multiple_of(BLOCK) {
            return Err(ArrayRefusal::PartOfABlock(bytes).into());
        }
        let (count, blocks) = ((bytes / BLOCK) as u64, self.layout().blocks());
        if first.checked_add(count).is_none_or(|end| end > blocks) {
            let last = first.saturating_add(count.saturating_sub(1));
            return Err(ArrayRefusal::OutOfRange { first, last, blocks }.into());
        }
        Ok(count)
    }

    /// Reads whole blocks, starting at block `first`. Blocks that are missing or damaged on a member are recovered
    /// from the other members and written back.
    pub fn read(&mut self, first: u64, buffer: &mut [u8]) -> Result<()> {
        let count = self.check_range(first, buffer.len())?;
        let blocks: Vec<u64> = (first..first + count).collect();
        let mut buffers: Vec<&mut [u8]> = buffer.chunks_exact_mut(BLOCK).collect();
        self.finish_read(&blocks, &mut buffers, None)
    }

    /// Starts to read blocks of the array. The array may be used before [`Array::finish_read`] requests the blocks.
    pub fn start_read(&mut self, blocks: &[u64]) -> BlockReadAhead {
        self.reader.start_read(&mut self.staging, blocks)
    }

    /// Reads individual blocks, some of which may already be in flight because of [`Array::start_read`].
    ///
    /// # Panics
    /// Panics if the number of buffers differs from the number of blocks, or if a buffer is not one block long.
    pub fn finish_read(
        &mut self,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        self.members().check_running()?;
        assert!(blocks.len() == buffers.len() && buffers.iter().all(|buffer| buffer.len() == BLOCK));
        for block in blocks {
            self.check_range(*block, BLOCK)?;
        }
        self.members_mut().counters.blocks_read += blocks.len() as u64;
        self.reader.read_blocks(&mut self.staging, blocks, buffers, ahead)
    }

    /// Returns which blocks were ever written, as runs in ascending order. Each run consists of a number of blocks
    /// and a flag that tells whether they were written. Unwritten blocks read as zeros.
    pub fn written_runs(&mut self, blocks: Range<u64>) -> Result<Vec<(u64, bool)>> {
        self.members().check_running()?;
        if blocks.end > self.layout().blocks() {
            let (first, last, blocks) = (blocks.start, blocks.end - 1, self.layout().blocks());
            return Err(ArrayRefusal::OutOfRange { first, last, blocks }.into());
        }
        self.reader.written_runs(&mut self.staging, blocks)
    }

    /// Writes whole blocks, starting at block `first`. They are staged until [`Array::flush`], or until many blocks
    /// are staged.
    pub fn write(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.members().check_writable()?;
        self.check_range(first, data.len())?;
        self.staging.write(first, &WriteData::Bytes(data))
    }

    /// Commits all staged writes. They survive a crash once this returns. After an error, writes that were not
    /// committed remain staged.
    pub fn flush(&mut self) -> Result<()> {
        self.staging.flush()?;
        self.row_writer().examine_rewritten_rows()
    }

    /// Returns a copy of the content of a block. If `are_many` is set, new buffers are allocated in huge pages.
    pub fn copy_to_block(&mut self, content: &[u8], are_many: bool) -> SharedBlock {
        self.members_mut().buffers.copy_to_block(content, are_many)
    }

    /// Puts a block's buffer back into the pool, unless the block is still shared.
    pub fn recycle_block(&mut self, block: SharedBlock) {
        self.members_mut().buffers.recycle_block(block);
    }

    /// Routes all further writes through the journal, except for writes of whole rows that the caller starts itself.
    pub fn journal_new_rows(&mut self) {
        self.staging.journal_new_rows();
    }

    /// Flushes staged writes, makes all in-place writes durable, and records on the members that the array was shut
    /// down.
    pub fn close(mut self) -> Result<()> {
        if self.members().mode == ArrayMode::ReadOnly {
            return Ok(());
        }
        self.flush()?;
        self.row_writer().sync_members()?;
        let sequence = self.staging.writer.sequence;
        let config = &mut self.members_mut().config;
        config.is_open = false;
        config.open_rows = Extents::default();
        config.journal_floor = sequence;
        self.members_mut().save_config()
    }
}

#[cfg(test)]
impl Array {
    /// Sets a smaller unit and a smaller number of rows to open ahead, for test arrays with few rows.
    pub(crate) fn set_new_rows(&mut self, unit: u64, ahead: Range<u64>) {
        self.staging.set_new_rows(unit, ahead);
    }
}

impl BlockStore for Array {
    fn block_count(&self) -> u64 {
        self.layout().blocks()
    }

    fn read_blocks(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.finish_read(blocks, buffers, None)
    }

    fn write_blocks(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.write(first, data)
    }

    fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        self.check_range(first, buffer.len())?;
        self.members().check_writable()?;
        self.staging.write_buffer(first, buffer)
    }

    fn flush(&mut self) -> Result<()> {
        Array::flush(self)
    }

    fn allocation(&mut self, blocks: Range<u64>) -> Result<Vec<(u64, bool)>> {
        self.written_runs(blocks)
    }
}
