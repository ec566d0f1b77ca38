//! Reads for callers, in batches, from all members concurrently.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::array::members::InFlightTransfers;
use crate::array::rows::BlockLocation;
use crate::array::write::{RowWriter, Staging};
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

/// Number of blocks whose records are loaded in one batch to determine which of the blocks were ever written.
const WRITTEN_BATCH: u64 = 1024;

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
    /// Blocks that must be read individually or recovered, by row. Each is a cell with its index in the caller's list.
    individual_reads: BTreeMap<u64, Vec<(usize, usize)>>,
}

/// Reads blocks for callers. Staged blocks are newer than those on the members.
#[derive(Default)]
pub(in crate::array) struct BlockReader {
    /// Zone in which the last long read ended.
    last_zone_read: u64,
}

impl BlockReader {
    /// Starts to read blocks of the array. The array may be used before the blocks are requested: blocks that have
    /// changed by then are read again.
    pub fn start_read(&mut self, staging: &mut Staging, blocks: &[u64]) -> BlockReadAhead {
        // Errors are not reported here: the subsequent reads report them.
        let can_read =
            staging.finish_writes_of(blocks).is_ok() && staging.writer.rows.members.check_running().is_ok();
        let blocks = if can_read { blocks } else { &[] };
        staging.writer.rows.members.records.trim();
        let states = states_of_rows(staging, blocks);
        let batch = plan_batch(staging, blocks, &states);
        let rows = &mut staging.writer.rows;
        let zones = states.keys().next().zip(states.keys().next_back());
        if let Some((first, last)) = zones.filter(|_| blocks.len() >= MIN_SEQUENTIAL_READ) {
            let (first, last) = (first / ZONE_ROWS, last / ZONE_ROWS);
            let follows = first == self.last_zone_read || first == self.last_zone_read + 1;
            self.last_zone_read = last;
            if follows {
                rows.members.read_records_ahead(last + 1..last + 2);
            }
        }
        let reads = rows.start_fetch(batch.planned.iter().map(|wanted| wanted.location).collect());
        let changes = rows.members.records.changes();
        BlockReadAhead { reads, blocks: blocks.to_vec(), batch, changes }
    }

    /// Reads blocks of the array, each into its own buffer. Some of the reads may already be in flight.
    pub fn read_blocks(
        &mut self,
        staging: &mut Staging,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        mut ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        staging.finish_writes_of(blocks)?;
        let batch = if staging.writer.rows.members.lost_slots().is_empty() { BATCH } else { DEGRADED_BATCH };
        for (blocks, buffers) in blocks.chunks(batch).zip(buffers.chunks_mut(batch)) {
            let result = read_batch(staging, blocks, buffers, ahead.take());
            staging.writer.rows.release_fetched();
            result?;
        }
        Ok(())
    }

    /// Returns which blocks were ever written. See [`Array::written_runs`](crate::Array::written_runs).
    pub fn written_runs(&self, staging: &mut Staging, blocks: Range<u64>) -> Result<Vec<(u64, bool)>> {
        staging.close_open_zone();
        staging.writer.start_computed()?;
        let layout = *staging.writer.rows.members.layout();
        let mut runs: Vec<(u64, bool)> = vec![];
        for batch in blocks.clone().step_by(WRITTEN_BATCH as usize) {
            let batch = batch..blocks.end.min(batch + WRITTEN_BATCH);
            let members = &mut staging.writer.rows.members;
            members.records.trim();
            members.load_records_of_rows(batch.clone().map(|block| layout.locate(block).0));
            for block in batch {
                let (row, column) = layout.locate(block);
                let cell = staging.writer.rows.preferred_cell(row, column);
                let is_written = staging.block(block).is_some()
                    || staging.writer.rows.row_state(row).cells[cell] != CellState::Empty;
                match runs.last_mut() {
                    Some((count, state)) if *state == is_written => *count += 1,
                    _ => runs.push((1, is_written)),
                }
            }
        }
        Ok(runs)
    }
}

/// Returns the states of the rows that contain these blocks. Staged blocks are ignored.
fn states_of_rows(staging: &mut Staging, blocks: &[u64]) -> BTreeMap<u64, RowState> {
    let members = &mut staging.writer.rows.members;
    let layout = *members.layout();
    members.load_records_of_rows(blocks.iter().map(|block| layout.locate(*block).0));
    let needed = blocks.iter().filter(|block| staging.block(**block).is_none());
    let needed: BTreeSet<u64> = needed.map(|block| layout.locate(*block).0).collect();
    staging.writer.rows.row_states(&needed)
}

/// Plans the reads of a batch. Staged blocks are omitted.
fn plan_batch(staging: &mut Staging, blocks: &[u64], states: &BTreeMap<u64, RowState>) -> ReadBatchPlan {
    let layout = *staging.writer.rows.members.layout();
    let mut batch = ReadBatchPlan::default();
    for (index, block) in blocks.iter().enumerate() {
        if staging.block(*block).is_some() {
            continue;
        }
        let rows = &mut staging.writer.rows;
        let (row, column) = layout.locate(*block);
        let cell = rows.preferred_cell(row, column);
        let state = &states[&row];
        match state.cells[cell] {
            CellState::Empty => batch.empty.push(index),
            CellState::Written(record) => match rows.block_location(row, cell, state) {
                Some(location) => {
                    batch.planned.push(PlannedBlockRead { location, record, index, is_read: false });
                }
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
    staging: &mut Staging,
    blocks: &[u64],
    buffers: &mut [&mut [u8]],
    ahead: Option<BlockReadAhead>,
) -> Result<()> {
    staging.writer.rows.members.records.trim();
    let (ahead, planned) = match ahead {
        Some(BlockReadAhead { reads, blocks: of, batch, changes }) => {
            let holds = changes == staging.writer.rows.members.records.changes() && of == blocks;
            (Some(reads), Some(batch).filter(|_| holds))
        }
        None => (None, None),
    };
    let ReadBatchPlan { planned: mut wanted, empty, individual_reads: mut doubtful } = match planned {
        Some(batch) => batch,
        None => {
            let states = states_of_rows(staging, blocks);
            plan_batch(staging, blocks, &states)
        }
    };
    let rows = &mut staging.writer.rows;
    empty.into_iter().for_each(|index| buffers[index].fill(0));
    let mut places: Vec<BlockLocation> = wanted.iter().map(|wanted| wanted.location).collect();
    for (row, of_row) in &doubtful {
        let cells: Vec<usize> = of_row.iter().map(|(cell, _)| *cell).collect();
        let (sources, state) = (rows.recovery_group(&cells), rows.row_state(*row));
        places.extend(rows.block_locations(*row, &state, &sources));
    }
    places.retain(|place| !ahead.as_ref().is_some_and(|reads| reads.covers(*place)));
    let rest = rows.start_fetch(places);
    for reads in ahead.into_iter().chain([rest]) {
        rows.finish_fetch_with(reads, |piece| {
            let first = wanted.partition_point(|wanted| wanted.location < (piece.device, piece.offset));
            let blocks =
                wanted[first..].iter_mut().map_while(|wanted| Some((piece.block(wanted.location)?, wanted)));
            for (block, wanted) in blocks.filter(|(block, wanted)| wanted.record.matches(block)) {
                buffers[wanted.index].copy_from_slice(block);
                wanted.is_read = true;
            }
        });
    }
    for wanted in wanted.iter().filter(|wanted| !wanted.is_read) {
        let (row, column) = rows.members.layout().locate(blocks[wanted.index]);
        let cell = rows.preferred_cell(row, column);
        doubtful.entry(row).or_default().push((cell, wanted.index));
    }
    read_individually(&mut staging.writer, doubtful, buffers)?;
    // Staged blocks are newer than the blocks on the members. Some may have been staged after the reads were planned.
    for (block, buffer) in blocks.iter().zip(buffers) {
        if let Some(staged) = staging.block(*block) {
            buffer.copy_from_slice(staged);
        }
    }
    Ok(())
}

/// Reads the blocks that the batch did not supply, row by row.
fn read_individually(
    writer: &mut RowWriter,
    doubtful: BTreeMap<u64, Vec<(usize, usize)>>,
    buffers: &mut [&mut [u8]],
) -> Result<()> {
    let mut targets: Vec<Option<&mut [u8]>> = buffers.iter_mut().map(|buffer| Some(&mut **buffer)).collect();
    for (row, of_row) in doubtful {
        let wanted = of_row.into_iter().filter_map(|(cell, index)| Some((cell, targets[index].take()?)));
        writer.read_cells(row, wanted.collect())?;
    }
    Ok(())
}
