//! A LUN as a block device.

use std::ops::Range;

use jetcell_array::{ArrayError, ArrayRefusal, BLOCK, BlockReadAhead, BlockStore, Result, WriteData};
use jetcell_vfs::IoBuffer;

use super::LunVolume;
use super::block_map::MapLookup;
use super::catalogue::LunId;
use super::next_point::{BlockContent, PendingBlock};

/// Maximum number of blocks of a write that are admitted at once. Together with the nodes above them, they fit into
/// the reserve of a full volume.
const WRITE_BATCH: u64 = 32;
/// Number of blocks that are deallocated at a time.
const TRIM_BATCH: u64 = 1024;

/// A LUN in a volume, open for reading and writing.
pub struct Lun<'volume> {
    pub(super) volume: &'volume mut LunVolume,
    pub(super) id: LunId,
    pub(super) blocks: u64,
}

impl Lun<'_> {
    fn check(&self, range: &Range<u64>) -> Result<()> {
        self.volume.check_running()?;
        if range.start <= range.end && range.end <= self.blocks {
            return Ok(());
        }
        let (first, last) = (range.start, range.end.saturating_sub(1));
        Err(ArrayRefusal::OutOfRange { first, last, blocks: self.blocks }.into())
    }

    fn lookups(&self) -> MapLookup {
        let entry = self.volume.catalogue.luns.iter().find(|entry| entry.id == self.id);
        let (root, height) = entry.map_or_else(Default::default, |entry| (entry.root, entry.height()));
        MapLookup::new(root, height)
    }

    /// Returns the location of a block on the array, or `None` if the block reads as zeros.
    fn block_location(&mut self, lookups: &mut MapLookup, index: u64) -> Result<Option<u64>> {
        if let Some(block) = self.volume.written_through_block(self.id, index) {
            return Ok(Some(block));
        }
        let pointer = lookups.next(&mut self.volume.reader(), index)?;
        Ok((!pointer.is_hole()).then_some(pointer.block))
    }

    /// Starts to read blocks. The volume may be used before the blocks are requested.
    pub(crate) fn start_read(&mut self, blocks: &[u64]) -> Result<BlockReadAhead> {
        let (mut stored, mut lookups) = (vec![], self.lookups());
        for index in blocks.iter().copied() {
            self.check(&(index..index.saturating_add(1)))?;
            if self.volume.content(self.id, index).is_none() {
                stored.extend(self.block_location(&mut lookups, index)?);
            }
        }
        self.volume.finish_write_through_of(&stored)?;
        Ok(self.volume.array.start_read(&stored))
    }

    /// Reads blocks. [`Lun::start_read`] may already have started to read some of them.
    pub(crate) fn finish_read(
        &mut self,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        let (mut stored, mut targets, mut lookups) = (vec![], vec![], self.lookups());
        for (index, buffer) in blocks.iter().copied().zip(buffers) {
            self.check(&(index..index.saturating_add(1)))?;
            match self.volume.content(self.id, index) {
                Some(BlockContent::Data(data)) => buffer.copy_from_slice(data),
                Some(BlockContent::Hole) => buffer.fill(0),
                None => match self.block_location(&mut lookups, index)? {
                    None => buffer.fill(0),
                    Some(block) => {
                        stored.push(block);
                        targets.push(&mut **buffer);
                    }
                },
            }
        }
        self.volume.finish_write_through_of(&stored)?;
        self.volume.array.finish_read(&stored, &mut targets, ahead)
    }

    fn write(&mut self, first: u64, written: &WriteData<'_>) -> Result<()> {
        let end = first.saturating_add((written.len() / BLOCK) as u64);
        self.check(&(first..end))?;
        self.volume.counters.host_writes += 1;
        for start in (first..end).step_by(WRITE_BATCH as usize) {
            let range = start..end.min(start + WRITE_BATCH);
            self.volume.admit(self.id, range.clone())?;
            self.volume.counters.host_blocks += range.end - range.start;
            for index in range {
                self.volume.write_block(self.id, index, written, (index - first) as usize)?;
            }
        }
        Ok(())
    }
}

impl BlockStore for Lun<'_> {
    fn block_count(&self) -> u64 {
        self.blocks
    }

    fn read_blocks(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.finish_read(blocks, buffers, None)
    }

    fn write_blocks(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.write(first, &WriteData::Bytes(data))
    }

    fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        let Some(blocks) = self.volume.adopt_buffer(buffer) else { return self.write_blocks(first, buffer) };
        let written = WriteData::Blocks(blocks);
        let result = self.write(first, &written);
        written.into_blocks().into_iter().for_each(|block| self.volume.array.recycle_block(block));
        result
    }

    fn flush(&mut self) -> Result<()> {
        self.volume.flush()
    }

    fn allocation(&mut self, blocks: Range<u64>) -> Result<Vec<(u64, bool)>> {
        self.check(&blocks)?;
        let mapped = self.volume.mapped_blocks(self.id, blocks.clone())?;
        let mut runs: Vec<(u64, bool)> = vec![];
        let mut add = |count: u64, has_content: bool| match runs.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.1 == has_content => last.0 += count,
            _ => runs.push((count, has_content)),
        };
        let mut at = blocks.start;
        for index in mapped {
            add(index - at, false);
            add(1, true);
            at = index + 1;
        }
        add(blocks.end - at, false);
        Ok(runs)
    }

    /// Deallocates the blocks, which then use no space.
    fn zero_blocks(&mut self, blocks: Range<u64>) -> Result<()> {
        self.check(&blocks)?;
        for start in blocks.clone().step_by(TRIM_BATCH as usize) {
            let range = start..blocks.end.min(start + TRIM_BATCH);
            let mapped = self.volume.mapped_blocks(self.id, range.clone())?;
            let (Some(first), Some(last)) = (mapped.first(), mapped.last()) else { continue };
            self.volume.close_open_zone();
            let span = *first..last + 1;
            let is_much = self.volume.next.pending() as u64 > self.volume.log_blocks();
            if is_much || !self.volume.has_room(0, &span, 0) {
                self.volume.consistency_point()?;
            }
            if !self.volume.has_room(0, &span, 0) {
                return Err(ArrayError::Full);
            }
            for index in mapped {
                self.volume.put_counted(self.id, index, PendingBlock::Hole);
            }
        }
        Ok(())
    }
}
