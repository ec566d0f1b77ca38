//! Reads for callers, in batches, from all members concurrently.

use std::collections::{BTreeMap, BTreeSet};

use super::fetched_blocks::BlockLocation;
use crate::array::Array;
use crate::array::members::InFlightTransfers;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::integrity::{BlockRecord, CellState, RowState};

/// Number of blocks that are read for a caller in one batch.
const BATCH: usize = 2048;
/// Number of blocks in a batch while members are missing. For each missing block, all other blocks of its row may
/// have to be read, so this batch is smaller.
const DEGRADED_BATCH: usize = 512;

/// Reads of at least this many blocks are assumed to be part of a sequential read.
const MIN_SEQUENTIAL_READ: usize = 64;

/// A block to be read from a member.
struct PlannedBlockRead {
    location: BlockLocation,
    record: BlockRecord,
    /// Index in the caller's list.
    index: usize,
    /// Whether the caller's buffer already has the block's content.
    is_read: bool,
}

/// Reads started in advance, for blocks that a caller is expected to request.
pub struct BlockReadAhead {
    reads: InFlightTransfers,
    blocks: Vec<u64>,
    batch: ReadBatchPlan,
    /// Value of [`RecordCache::changes`](crate::array::members::RecordCache::changes) when the reads were started.
    changes: u64,
}

/// Plan for reading a batch of blocks, by their indices in the caller's list.
#[derive(Default)]
struct ReadBatchPlan {
    planned: Vec<PlannedBlockRead>,
    /// Blocks that were never written.
    empty: Vec<usize>,
    /// Blocks that must be read individually or recovered, by row: cells with their indices in the list.
    individual_reads: BTreeMap<u64, Vec<(usize, usize)>>,
}

impl Array {
    /// Starts to read blocks of the array. The array may be used before the blocks are requested: blocks that have
    /// changed by then are read again.
    pub fn start_read(&mut self, blocks: &[u64]) -> BlockReadAhead {
        // Errors are not reported here: the subsequent reads report them.
        let can_read = self.finish_writes_of(blocks).is_ok() && self.check_running().is_ok();
        let blocks = if can_read { blocks } else { &[] };
        self.records.trim();
        let states = self.states_of_rows(blocks);
        let batch = self.plan_batch(blocks, &states);
        let zones = states.keys().next().zip(states.keys().next_back());
        if let Some((first, last)) = zones.filter(|_| blocks.len() >= MIN_SEQUENTIAL_READ) {
            let (first, last) = (first / ZONE_ROWS, last / ZONE_ROWS);
            let follows = first == self.last_zone_read || first == self.last_zone_read + 1;
            self.last_zone_read = last;
            if follows {
                self.read_records_ahead(last + 1..last + 2);
            }
        }
        let reads = self.start_fetch(batch.planned.iter().map(|wanted| wanted.location).collect());
        BlockReadAhead { reads, blocks: blocks.to_vec(), batch, changes: self.records.changes() }
    }

    /// Reads blocks of the array, each into its own buffer. Some of the reads may already be in flight.
    pub(in crate::array) fn read_blocks(
        &mut self,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        mut ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        self.finish_writes_of(blocks)?;
        let batch = if self.lost_slots().is_empty() { BATCH } else { DEGRADED_BATCH };
        for (blocks, buffers) in blocks.chunks(batch).zip(buffers.chunks_mut(batch)) {
            let result = self.read_batch(blocks, buffers, ahead.take());
            self.release_fetched();
            result?;
        }
        Ok(())
    }

    fn states_of_rows(&mut self, blocks: &[u64]) -> BTreeMap<u64, RowState> {
        let layout = self.config.layout;
        self.load_records_of_rows(blocks.iter().map(|block| layout.locate(*block).0));
        let rows = blocks.iter().filter(|block| !self.staged.contains_key(block));
        let rows: BTreeSet<u64> = rows.map(|block| layout.locate(*block).0).collect();
        self.row_states(&rows)
    }

    /// Plans the reads of a batch. Staged blocks are left out.
    fn plan_batch(&mut self, blocks: &[u64], states: &BTreeMap<u64, RowState>) -> ReadBatchPlan {
        let mut batch = ReadBatchPlan::default();
        for (index, block) in blocks.iter().enumerate() {
            if self.staged.contains_key(block) {
                continue;
            }
            let (row, column) = self.config.layout.locate(*block);
            let cell = self.preferred_cell(row, column);
            let state = &states[&row];
            match state.cells[cell] {
                CellState::Empty => batch.empty.push(index),
                CellState::Written(record) => match self.block_location(row, cell, state) {
                    Some(place) => batch.planned.push(PlannedBlockRead {
                        location: place,
                        record,
                        index,
                        is_read: false,
                    }),
                    None => batch.individual_reads.entry(row).or_default().push((cell, index)),
                },
                CellState::Stale | CellState::Missing => {
                    batch.individual_reads.entry(row).or_default().push((cell, index));
                }
            }
        }
        batch.planned.sort_unstable_by_key(|wanted| wanted.location);
        batch
    }

    fn read_batch(
        &mut self,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        self.records.trim();
        let (ahead, planned) = match ahead {
            Some(BlockReadAhead { reads, blocks: of, batch, changes }) => {
                let holds = changes == self.records.changes() && of == blocks;
                (Some(reads), Some(batch).filter(|_| holds))
            }
            None => (None, None),
        };
        let ReadBatchPlan { planned: mut wanted, empty, individual_reads: mut doubtful } = match planned {
            Some(batch) => batch,
            None => {
                let states = self.states_of_rows(blocks);
                self.plan_batch(blocks, &states)
            }
        };
        empty.into_iter().for_each(|index| buffers[index].fill(0));
        let mut places: Vec<BlockLocation> = wanted.iter().map(|wanted| wanted.location).collect();
        for (row, of_row) in &doubtful {
            let cells: Vec<usize> = of_row.iter().map(|(cell, _)| *cell).collect();
            let (sources, state) = (self.recovery_group(&cells), self.row_state(*row));
            places.extend(self.block_locations(*row, &state, &sources));
        }
        places.retain(|place| !ahead.as_ref().is_some_and(|reads| reads.covers(*place)));
        let rest = self.start_fetch(places);
        for reads in ahead.into_iter().chain([rest]) {
            self.finish_fetch_with(reads, |piece| {
                let first = wanted.partition_point(|wanted| wanted.location < (piece.device, piece.offset));
                let blocks = wanted[first..]
                    .iter_mut()
                    .map_while(|wanted| Some((piece.block(wanted.location)?, wanted)));
                for (block, wanted) in blocks.filter(|(block, wanted)| wanted.record.matches(block)) {
                    buffers[wanted.index].copy_from_slice(block);
                    wanted.is_read = true;
                }
            });
        }
        for wanted in wanted.iter().filter(|wanted| !wanted.is_read) {
            let (row, column) = self.config.layout.locate(blocks[wanted.index]);
            let cell = self.preferred_cell(row, column);
            doubtful.entry(row).or_default().push((cell, wanted.index));
        }
        self.read_individually(doubtful, buffers)?;
        // Staged blocks are newer than the blocks on the members. Some may have been staged after the reads were
        // planned.
        for (block, buffer) in blocks.iter().zip(buffers) {
            if let Some(staged) = self.staged.get(block) {
                buffer.copy_from_slice(staged);
            }
        }
        Ok(())
    }

    /// Reads the blocks that the batch did not supply, row by row.
    fn read_individually(
        &mut self,
        doubtful: BTreeMap<u64, Vec<(usize, usize)>>,
        buffers: &mut [&mut [u8]],
    ) -> Result<()> {
        let mut targets: Vec<Option<&mut [u8]>> =
            buffers.iter_mut().map(|buffer| Some(&mut **buffer)).collect();
        for (row, of_row) in doubtful {
            let wanted = of_row.into_iter().filter_map(|(cell, index)| Some((cell, targets[index].take()?)));
            self.read_cells(row, wanted.collect())?;
        }
        Ok(())
    }
}
