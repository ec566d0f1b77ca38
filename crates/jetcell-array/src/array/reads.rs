//! Reads for callers: in batches, from all members at the same time.

use std::collections::{BTreeMap, BTreeSet};

use super::Array;
use super::fetched::Place;
use crate::error::Result;
use crate::integrity::{BlockRecord, CellState};

/// Blocks that are read for a caller at once.
const BATCH: usize = 2048;
/// The same while members are missing: for each of them, the other blocks of its row may have to be read.
const DEGRADED_BATCH: usize = 512;

/// A block that a member has.
struct Wanted {
    place: Place,
    record: BlockRecord,
    /// Its place in the caller's list.
    index: usize,
    /// The caller has it.
    is_read: bool,
}

impl Array {
    /// Reads blocks of the array, each into a buffer of its own.
    pub(super) fn read_blocks(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        let batch = if self.lost_slots().is_empty() { BATCH } else { DEGRADED_BATCH };
        for (blocks, buffers) in blocks.chunks(batch).zip(buffers.chunks_mut(batch)) {
            let result = self.read_batch(blocks, buffers);
            self.release_fetched();
            result?;
        }
        Ok(())
    }

    fn read_batch(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.records.trim();
        let layout = self.config.layout;
        self.load_records_of_rows(blocks.iter().map(|block| layout.locate(*block).0));
        let rows = blocks
            .iter()
            .filter(|block| !self.staged.contains_key(block))
            .map(|block| layout.locate(*block).0);
        let rows: BTreeSet<u64> = rows.collect();
        let states = self.row_states(&rows);
        let mut wanted: Vec<Wanted> = vec![];
        // By row: cells with their places in the caller's list.
        let mut doubtful: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
        for (index, block) in blocks.iter().enumerate() {
            if let Some(staged) = self.staged.get(block) {
                buffers[index].copy_from_slice(staged);
                continue;
            }
            let (row, column) = layout.locate(*block);
            let cell = self.preferred_cell(row, column);
            let state = &states[&row];
            match state.cells[cell] {
                CellState::Empty => buffers[index].fill(0),
                CellState::Written(record) => match self.place(row, cell, state) {
                    Some(place) => wanted.push(Wanted { place, record, index, is_read: false }),
                    None => doubtful.entry(row).or_default().push((cell, index)),
                },
                CellState::Stale | CellState::Missing => doubtful.entry(row).or_default().push((cell, index)),
            }
        }
        wanted.sort_unstable_by_key(|wanted| wanted.place);
        let mut places: Vec<Place> = wanted.iter().map(|wanted| wanted.place).collect();
        for (row, of_row) in &doubtful {
            let cells: Vec<usize> = of_row.iter().map(|(cell, _)| *cell).collect();
            let sources = self.cells_with(&cells);
            places.extend(self.places(*row, &states[row], &sources));
        }
        let reads = self.start_fetch(places);
        self.finish_fetch_with(reads, |piece| {
            let first = wanted.partition_point(|wanted| wanted.place < (piece.device, piece.offset));
            let blocks =
                wanted[first..].iter_mut().map_while(|wanted| Some((piece.block(wanted.place)?, wanted)));
            for (block, wanted) in blocks.filter(|(block, wanted)| wanted.record.matches(block)) {
                buffers[wanted.index].copy_from_slice(block);
                wanted.is_read = true;
            }
        });
        for wanted in wanted.iter().filter(|wanted| !wanted.is_read) {
            let (row, column) = layout.locate(blocks[wanted.index]);
            let cell = self.preferred_cell(row, column);
            doubtful.entry(row).or_default().push((cell, wanted.index));
        }
        self.read_doubtful(doubtful, buffers)
    }

    /// Reads what the batch did not bring, row by row.
    fn read_doubtful(
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
