//! Blocks that callers wrote for the next consistency point, and the places in which they are kept until then.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jetcell_array::{OpenZone, SharedBlock};

use super::block_map::FAN_OUT;
use super::catalogue::LunId;
use super::write_log::WriteLogEntry;
use super::write_through::WriteThroughBlocks;

/// Content of a block for the next consistency point.
pub(super) enum PendingBlock {
    Data(SharedBlock),
    /// The block is deallocated, and reads as zeros.
    Hole,
}

/// Pending blocks by LUN and index.
pub(super) type PendingBlocks = BTreeMap<(LunId, u64), PendingBlock>;

/// Blocks of the array, and their new content.
pub(super) type NewBlockContent = Vec<(u64, SharedBlock)>;

/// Content of a LUN's block that is in memory.
pub(super) enum BlockContent<'volume> {
    Data(&'volume [u8]),
    /// The block was deallocated.
    Hole,
}

impl PendingBlock {
    pub fn content(&self) -> BlockContent<'_> {
        match self {
            PendingBlock::Data(data) => BlockContent::Data(data),
            PendingBlock::Hole => BlockContent::Hole,
        }
    }

    pub fn has_data(&self) -> bool {
        matches!(self, PendingBlock::Data(_))
    }
}

/// Blocks that are waiting in memory for a consistency point. A flush appends them to the log.
#[derive(Default)]
pub(super) struct PendingMemory {
    blocks: PendingBlocks,
    /// Number of blocks that have data.
    data: u64,
    /// Blocks that are not in the log.
    unlogged: BTreeSet<(LunId, u64)>,
}

/// An open zone. New blocks are placed at their final locations in it.
pub(super) struct ZonePlacement {
    pub zone: OpenZone,
    /// Blocks of the array in the rows of the zone, in the order in which they are used.
    pub blocks: Vec<u64>,
    /// LUN blocks with content. They occupy the beginning of `blocks`, in the same order.
    pub lun_blocks: Vec<(LunId, u64)>,
}

/// Destination of new blocks until the consistency point. While a zone is open, no block is pending in memory.
pub(super) enum BlockIntake {
    Memory(PendingMemory),
    Zone(ZonePlacement),
}

impl Default for BlockIntake {
    fn default() -> BlockIntake {
        BlockIntake::Memory(PendingMemory::default())
    }
}

/// Writes since the last consistency point began.
#[derive(Default)]
pub(super) struct NextPoint {
    pub intake: BlockIntake,
    /// Blocks that are already on the array, and become part of the maps with the consistency point.
    pub write_through: WriteThroughBlocks,
    /// Leaf nodes that the consistency point must write, each with its LUN and leaf number.
    pub leaves: BTreeSet<(LunId, u64)>,
}

impl NextPoint {
    fn memory(&self) -> Option<&PendingMemory> {
        match &self.intake {
            BlockIntake::Memory(memory) => Some(memory),
            BlockIntake::Zone(_) => None,
        }
    }

    /// # Panics
    /// Panics if a zone is open.
    fn memory_mut(&mut self) -> &mut PendingMemory {
        match &mut self.intake {
            BlockIntake::Memory(memory) => memory,
            BlockIntake::Zone(_) => panic!("blocks are pending only while no zone is open"),
        }
    }

    pub fn open_zone(&self) -> Option<&OpenZone> {
        match &self.intake {
            BlockIntake::Memory(_) => None,
            BlockIntake::Zone(placement) => Some(&placement.zone),
        }
    }

    pub fn open_zone_mut(&mut self) -> Option<&mut OpenZone> {
        match &mut self.intake {
            BlockIntake::Memory(_) => None,
            BlockIntake::Zone(placement) => Some(&mut placement.zone),
        }
    }

    /// Returns true if a consistency point has nothing to write.
    pub fn is_empty(&self) -> bool {
        self.pending() == 0 && self.write_through.is_empty()
    }

    /// Returns the number of blocks that are pending in memory.
    pub fn pending(&self) -> usize {
        self.memory().map_or(0, |memory| memory.blocks.len())
    }

    /// Returns the number of blocks with data that are pending in memory.
    pub fn pending_data(&self) -> u64 {
        self.memory().map_or(0, |memory| memory.data)
    }

    /// Returns the number of pending blocks that are not in the log.
    pub fn unlogged(&self) -> usize {
        self.memory().map_or(0, |memory| memory.unlogged.len())
    }

    /// Returns true if the pending changes include deallocations.
    pub fn has_holes(&self) -> bool {
        self.pending_data() < self.pending() as u64
    }

    /// Returns the content of a LUN's block if it waits in memory or in the open zone.
    pub fn content(&self, lun: LunId, index: u64) -> Option<BlockContent<'_>> {
        match &self.intake {
            BlockIntake::Memory(memory) => memory.blocks.get(&(lun, index)).map(PendingBlock::content),
            BlockIntake::Zone(placement) => {
                let content = placement.zone.block(self.write_through.block(lun, index)?)?;
                Some(BlockContent::Data(content))
            }
        }
    }

    /// Updates `found`, the indices of a LUN's blocks that have content, with the changes in a range.
    pub fn apply_to(&self, found: &mut BTreeSet<u64>, lun: LunId, range: Range<u64>) {
        found.extend(self.write_through.blocks_of_lun(lun, range.clone()).map(|(index, _)| index));
        let pending = self.memory().map(|memory| memory.blocks.range((lun, range.start)..(lun, range.end)));
        for ((_, index), block) in pending.into_iter().flatten() {
            if block.has_data() {
                found.insert(*index)
            } else {
                found.remove(index)
            };
        }
    }

    /// Adds a pending block that is in the log, or that needs no log. Returns true if it replaces data that no
    /// consistency point has written.
    ///
    /// # Panics
    /// Panics if a zone is open.
    pub fn put_logged(&mut self, lun: LunId, index: u64, block: PendingBlock) -> bool {
        self.write_through.replace(lun, index);
        self.leaves.insert((lun, index / FAN_OUT as u64));
        let memory = self.memory_mut();
        memory.data += u64::from(block.has_data());
        let replaces_data = memory.blocks.insert((lun, index), block).is_some_and(|before| before.has_data());
        memory.data -= u64::from(replaces_data);
        replaces_data
    }

    /// Adds a pending block that the next flush appends to the log. See [`NextPoint::put_logged`].
    pub fn put(&mut self, lun: LunId, index: u64, block: PendingBlock) -> bool {
        let replaces_data = self.put_logged(lun, index, block);
        self.memory_mut().unlogged.insert((lun, index));
        replaces_data
    }

    /// Returns the pending blocks that are not in the log. Each run of adjacent blocks is one entry, with at most
    /// `max_blocks` blocks of data.
    pub fn unlogged_entries(&self, max_blocks: u64) -> Vec<WriteLogEntry> {
        let mut entries: Vec<WriteLogEntry> = vec![];
        let Some(memory) = self.memory() else { return entries };
        for (lun, index) in &memory.unlogged {
            let Some(content) = memory.blocks.get(&(*lun, *index)) else { continue };
            let last =
                entries.last_mut().filter(|last| last.lun == *lun && last.first + last.count == *index);
            match (content, last) {
                (PendingBlock::Data(block), Some(WriteLogEntry { count, data: Some(data), .. }))
                    if *count < max_blocks =>
                {
                    data.push(block.clone());
                    *count += 1;
                }
                (PendingBlock::Hole, Some(WriteLogEntry { count, data: None, .. })) => *count += 1,
                (content, _) => {
                    let data = match content {
                        PendingBlock::Data(block) => Some(vec![block.clone()]),
                        PendingBlock::Hole => None,
                    };
                    entries.push(WriteLogEntry { lun: *lun, first: *index, count: 1, data });
                }
            }
        }
        entries
    }

    /// Records that the log contains all pending blocks.
    pub fn mark_logged(&mut self) {
        self.memory_mut().unlogged.clear();
    }

    /// Assigns these locations to pending blocks, which are then written through. Returns the blocks with their
    /// locations. The log must not contain any pending block.
    pub fn place_pending(&mut self, locations: &[u64]) -> NewBlockContent {
        let PendingMemory { blocks, .. } = std::mem::take(self.memory_mut());
        let (mut placed, mut locations) = (vec![], locations.iter());
        let mut rest = PendingMemory::default();
        for ((lun, index), block) in blocks {
            let location = if block.has_data() { locations.next() } else { None };
            match (block, location) {
                (PendingBlock::Data(data), Some(location)) => {
                    placed.push((*location, data));
                    self.write_through.put(lun, index, *location);
                }
                (block, _) => {
                    rest.data += u64::from(block.has_data());
                    rest.unlogged.insert((lun, index));
                    rest.blocks.insert((lun, index), block);
                }
            }
        }
        *self.memory_mut() = rest;
        placed
    }

    /// Opens a zone for the next blocks. Returns the blocks that were pending, which the caller must add again.
    pub fn open(&mut self, placement: ZonePlacement) -> PendingBlocks {
        match std::mem::replace(&mut self.intake, BlockIntake::Zone(placement)) {
            BlockIntake::Memory(memory) => memory.blocks,
            BlockIntake::Zone(_) => panic!("only one zone is open"),
        }
    }

    /// Puts a block into the open zone. Returns the content that it replaces, if the zone already has the block.
    ///
    /// # Panics
    /// Panics if no zone is open.
    pub fn put_in_zone(&mut self, lun: LunId, index: u64, content: SharedBlock) -> Option<SharedBlock> {
        let BlockIntake::Zone(placement) = &mut self.intake else { panic!("a zone is open") };
        let block = placement.blocks[placement.lun_blocks.len()];
        if let Some(before) = self.write_through.put(lun, index, block) {
            if placement.zone.has(before) {
                self.write_through.put(lun, index, before);
                return placement.zone.put(before, content);
            }
            self.write_through.release(before);
        }
        placement.zone.put(block, content);
        placement.lun_blocks.push((lun, index));
        self.leaves.insert((lun, index / FAN_OUT as u64));
        None
    }

    /// Takes the open zone if it is full. Its blocks are then written through.
    pub fn take_full_zone(&mut self) -> Option<OpenZone> {
        self.open_zone().filter(|zone| zone.is_full())?;
        match std::mem::take(&mut self.intake) {
            BlockIntake::Zone(placement) => Some(placement.zone),
            BlockIntake::Memory(_) => None,
        }
    }

    /// Takes the open zone, so the caller can close it. The zone's blocks then no longer have a location.
    pub fn take_zone(&mut self) -> Option<ZonePlacement> {
        self.open_zone()?;
        match std::mem::take(&mut self.intake) {
            BlockIntake::Zone(placement) => {
                for (lun, index) in &placement.lun_blocks {
                    self.write_through.forget(*lun, *index);
                }
                Some(placement)
            }
            BlockIntake::Memory(_) => None,
        }
    }

    /// Returns the pending blocks and those that were written through, for the consistency point that takes them over.
    ///
    /// # Panics
    /// Panics if a zone is open.
    pub fn into_blocks(mut self) -> (PendingBlocks, WriteThroughBlocks) {
        (std::mem::take(&mut self.memory_mut().blocks), self.write_through)
    }
}
