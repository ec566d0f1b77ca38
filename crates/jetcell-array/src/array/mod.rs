//! An assembled array: reads, staged writes, commits through the journal, and failures of members.

mod block_store;
#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod first_write_tests;
mod load_meter;
mod members;
mod read;
mod recovery;
#[cfg(test)]
mod rows_in_flight_tests;
mod status;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::{IoReason, TransferKind, Vfs};

use self::members::{BufferPool, RecordCache};
use self::read::FetchedBlocks;
use self::write::{ArrayOpenZone, NewRowWrites, RowWrites};
use crate::error::{ArrayError, ArrayRefusal, Result};
use crate::geometry::{ArrayLayout, BLOCK, RedundancyCode};
use crate::integrity::CellState;
use crate::kernels::Kernel;
use crate::member::{ArrayConfig, Extents, LifetimeTotals, MemberDevice, MemberTransferCounters};
use crate::shared_block::SharedBlock;

pub use self::load_meter::LoadMeter;
pub use self::members::{
    ArrayExamination, CreateArrayOptions, MemberPurpose, MemberRequirements, MemberState, PreparedMember,
};
pub(crate) use self::members::{InFlightTransfers, PartialZoneRebuild, RebuildTarget, TransferSegment};
pub use self::read::BlockReadAhead;
pub use self::recovery::{ArrayAccess, AssembleOptions};
pub use self::status::{ArrayState, ArrayStatus, SlotState, SlotStatus};
pub use self::write::{FreeRowWrite, ZoneBuffer};

/// Array I/O counters, accumulated since the array was assembled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ArrayIoCounters {
    /// Number of blocks read for callers.
    pub blocks_read: u64,
    /// Number of committed blocks that callers wrote.
    pub blocks_written: u64,
    /// Number of data and parity blocks that were read because of writes to parts of rows.
    pub blocks_read_for_writes: u64,
    /// Member transfers, by purpose.
    pub members: MemberTransferCounters,
    /// Number of commits through the journal.
    pub commits: u64,
    /// Number of rows that were written as a whole.
    pub full_row_writes: u64,
    /// Number of rows that had never been written and were written without the journal.
    pub new_rows: u64,
    /// Number of rows that were cleared because they may have been partially written.
    pub rows_cleared: u64,
    /// Number of rows whose parity was computed from the old parity and the changes (read-modify-write).
    pub read_modify_writes: u64,
    /// Number of rows whose parity was computed from all data (reconstruct-write).
    pub reconstruct_writes: u64,
    /// Number of rows in which blocks had to be recovered for a caller.
    pub rows_recovered: u64,
    /// Number of blocks that did not match their checksum.
    pub checksum_errors: u64,
    /// Number of blocks whose record was damaged or older than the last write.
    pub stale_blocks: u64,
    /// Number of reads that failed on a member.
    pub read_errors: u64,
    /// Number of blocks that were rewritten with recovered content.
    pub blocks_repaired: u64,
    /// Number of blocks with a wrong checksum, a wrong location or an outdated generation that were found by callers'
    /// reads and writes. A block is counted each time it is found, until it is repaired.
    pub defects: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ArrayMode {
    ReadWrite,
    ReadOnly,
    /// More members failed than the level tolerates.
    Stopped,
}

/// A RAID array over files. Only one thread can use it at a time.
///
/// Writes are staged in memory, and are immediately visible to reads. [`Array::flush`] commits them durably. The
/// commit is atomic if it fits in the journal. A crash, or dropping the array, discards writes that were not flushed,
/// as if they had not happened. If more blocks are written than the journal holds, some of them may become durable
/// before the flush, block by block.
pub struct Array {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) kernel: Kernel,
    pub(crate) code: RedundancyCode,
    pub(crate) config: ArrayConfig,
    pub(crate) devices: Vec<MemberDevice>,
    pub(crate) records: RecordCache,
    /// Zone in which the last long read ended.
    last_zone_read: u64,
    buffers: BufferPool,
    row_writes: RowWrites,
    new_rows: NewRowWrites,
    /// Number of threads that compute concurrently.
    threads: usize,
    /// Blocks that were written but not committed yet, by block number.
    staged: BTreeMap<u64, SharedBlock>,
    /// The open zone: new rows whose blocks are not staged.
    open_zone: Option<ArrayOpenZone>,
    /// Number of the next commit.
    pub(crate) sequence: u64,
    mode: ArrayMode,
    /// Whether the configuration has changed but is not saved on the members yet.
    pub(crate) is_config_changed: bool,
    counters: ArrayIoCounters,
    failed: Vec<PathBuf>,
    /// Number of zones rebuilt since the progress was last saved in the superblocks. It is saved every
    /// `zones_per_save` zones.
    pub(crate) zones_since_save: u64,
    pub(crate) zones_per_save: u64,
    load: LoadMeter,
    /// Blocks that were fetched for the current operation.
    fetched: FetchedBlocks,
    /// Whether a step of a rebuild, copy or scrub is running.
    is_maintenance: bool,
    /// The zone that is partially rebuilt.
    pub(crate) partial_rebuild: Option<PartialZoneRebuild>,
    /// Totals from the superblocks, for the time before the array was assembled.
    lifetime_before: LifetimeTotals,
    /// Zones written by the last commits, with the most recent zone last.
    pub(crate) recent_zones: VecDeque<u64>,
    /// Rows of the commits that startup after a crash would replay.
    replayable_rows: VecDeque<BTreeSet<u64>>,
}

/// Number of blocks whose records are loaded in one batch to find out which of them were written.
const WRITTEN_BATCH: u64 = 1024;

/// Default number of zones that are rebuilt between two saves of the rebuild progress in the superblocks.
const ZONES_PER_SAVE: u64 = 64;

impl Array {
    /// Returns the layout, which maps blocks of the array to members.
    pub fn layout(&self) -> &ArrayLayout {
        &self.config.layout
    }

    /// Returns the identity of the array.
    pub fn id(&self) -> u128 {
        self.config.array
    }

    /// Returns true if any block was ever written.
    pub fn was_written(&self) -> bool {
        self.sequence > 1 || self.lifetime().blocks_written > 0
    }

    /// Counts a transfer to or from a member.
    fn count_transfer(&mut self, kind: TransferKind, device: usize, offset: u64, bytes: usize) {
        let layout = self.devices[device].layout;
        layout.count(&mut self.counters.members, kind, offset, bytes, self.is_maintenance);
    }

    /// Reads from a member.
    fn read_member(&mut self, device: usize, offset: u64, to: &mut [u8]) -> Result<()> {
        self.count_transfer(TransferKind::Read, device, offset, to.len());
        self.devices[device].read(offset, to, IoReason::Other)
    }

    /// Runs a step of a rebuild, copy or scrub. Its transfers are counted as maintenance.
    pub(crate) fn maintain<T>(&mut self, step: impl FnOnce(&mut Array) -> Result<T>) -> Result<T> {
        self.finish_rows()?;
        self.is_maintenance = true;
        let result = step(self);
        self.is_maintenance = false;
        self.release_fetched();
        result
    }

    /// Returns the counters accumulated since the array was assembled.
    pub fn counters(&self) -> ArrayIoCounters {
        self.counters
    }

    /// Returns the totals since the array was created. After a crash, activity since the last save of the superblocks
    /// is not included.
    pub fn lifetime(&self) -> LifetimeTotals {
        let ArrayIoCounters { blocks_read, blocks_written, defects, members, .. } = self.counters;
        self.lifetime_before.plus(&LifetimeTotals { blocks_read, blocks_written, defects, members })
    }

    /// Returns the kernel in use.
    pub fn kernel(&self) -> Kernel {
        self.kernel
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
        let (count, blocks) = ((bytes / BLOCK) as u64, self.config.layout.blocks());
        if first.checked_add(count).is_none_or(|end| end > blocks) {
            let last = first.saturating_add(count.saturating_sub(1));
            return Err(ArrayRefusal::OutOfRange { first, last, blocks }.into());
        }
        Ok(count)
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if self.mode != ArrayMode::Stopped {
            return Ok(());
        }
        Err(ArrayError::Stopped { level: self.config.layout.level, failed: self.failed.clone() })
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.mode == ArrayMode::ReadOnly {
            return Err(ArrayRefusal::ReadOnly.into());
        }
        self.check_running()
    }

    /// Reads whole blocks, starting at block `first`. Blocks that are missing or damaged on a member are recovered
    /// from the other members and written back.
    pub fn read(&mut self, first: u64, buffer: &mut [u8]) -> Result<()> {
        self.check_running()?;
        let count = self.check_range(first, buffer.len())?;
        self.counters.blocks_read += count;
        let blocks: Vec<u64> = (first..first + count).collect();
        let mut buffers: Vec<&mut [u8]> = buffer.chunks_exact_mut(BLOCK).collect();
        self.read_blocks(&blocks, &mut buffers, None)
    }

    /// Reads individual blocks as one batch, each into its own buffer. The members work concurrently.
    ///
    /// # Panics
    /// The number of buffers differs from the number of blocks, or a buffer is not one block long.
    pub fn read_scattered(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.finish_read(blocks, buffers, None)
    }

    /// Reads individual blocks, some of which may already be in flight because of [`Array::start_read`].
    pub fn finish_read(
        &mut self,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        self.check_running()?;
        assert!(blocks.len() == buffers.len() && buffers.iter().all(|buffer| buffer.len() == BLOCK));
        for block in blocks {
            self.check_range(*block, BLOCK)?;
        }
        self.counters.blocks_read += blocks.len() as u64;
        self.read_blocks(blocks, buffers, ahead)
    }

    /// Returns which blocks were ever written, as runs in ascending order. Each run consists of a number of blocks
    /// and a flag that tells whether they were written. Unwritten blocks read as zeros.
    pub fn written_runs(&mut self, blocks: Range<u64>) -> Result<Vec<(u64, bool)>> {
        self.check_running()?;
        if blocks.end > self.config.layout.blocks() {
            let (first, last, blocks) = (blocks.start, blocks.end - 1, self.config.layout.blocks());
            return Err(ArrayRefusal::OutOfRange { first, last, blocks }.into());
        }
        self.close_open_zone();
        self.start_computed()?;
        let layout = self.config.layout;
        let mut runs: Vec<(u64, bool)> = vec![];
        for batch in blocks.clone().step_by(WRITTEN_BATCH as usize) {
            let batch = batch..blocks.end.min(batch + WRITTEN_BATCH);
            self.records.trim();
            self.load_records_of_rows(batch.clone().map(|block| layout.locate(block).0));
            for block in batch {
                let (row, column) = layout.locate(block);
                let cell = self.preferred_cell(row, column);
                let is_written =
                    self.staged.contains_key(&block) || self.row_state(row).cells[cell] != CellState::Empty;
                match runs.last_mut() {
                    Some((count, state)) if *state == is_written => *count += 1,
                    _ => runs.push((1, is_written)),
                }
            }
        }
        Ok(runs)
    }

    /// Returns a copy of the content of a block. If `are_many` is set, new buffers are allocated in huge pages.
    pub fn copy_to_block(&mut self, content: &[u8], are_many: bool) -> SharedBlock {
        let mut buffer = self.buffers.take_block(are_many);
        buffer.copy_from_slice(content);
        buffer.into()
    }

    /// Puts a block's buffer back into the pool, unless the block is still shared.
    pub fn recycle_block(&mut self, block: SharedBlock) {
        self.buffers.recycle_block(block);
    }

    /// Puts the buffers of all blocks of these rows back into the pool.
    fn recycle_rows(&mut self, rows: Vec<FreeRowWrite>) {
        rows.into_iter().flat_map(|(_, columns)| columns).for_each(|block| self.buffers.recycle_block(block));
    }

    /// Flushes staged writes, makes all in-place writes durable, and records on the members that the array was shut
    /// down.
    pub fn close(mut self) -> Result<()> {
        if self.mode == ArrayMode::ReadOnly {
            return Ok(());
        }
        self.flush()?;
        self.sync_members()?;
        self.config.is_open = false;
        self.config.open_rows = Extents::default();
        self.config.journal_floor = self.sequence;
        self.save_config()
    }
}

impl Drop for Array {
    /// Waits for the writes in flight, because the members are unlocked afterwards and others may use them.
    fn drop(&mut self) {
        self.row_writes.wait();
    }
}
