//! Plans writes to some columns of a row: determines the new contents of the columns and of the parity. The parity is
//! computed by the cheapest method that the state of the row permits.

use jetcell_vfs::IoBuffer;

use super::{CellWrite, NewColumns, RowStore};
use crate::error::Result;
use crate::geometry::BLOCK;
use crate::integrity::{CellState, RowState};

/// Number of rows whose old blocks are read in one batch.
const ROWS_FETCHED: usize = 64;

/// Method for computing the new parity of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ParityMethod {
    /// Parity is not computed, because no member has the row's parity.
    NoParity,
    /// Parity is computed from the new columns alone, because all columns are new.
    FullRow,
    /// Parity is computed from the old parity and the changes to the columns (read-modify-write).
    ReadModifyWrite,
    /// Parity is computed from the new columns and all others (reconstruct-write).
    ReconstructWrite,
    /// Parity is computed from the new columns and all others, some of which must be recovered.
    RecoverAndReconstruct,
}

impl RowStore {
    /// Returns the method with the fewest transfers that the row's state permits, and the cells that it reads.
    fn parity_method(&self, state: &RowState, is_new: impl Fn(usize) -> bool) -> (ParityMethod, Vec<usize>) {
        let (cells, parities) = (state.cells.len(), self.members.code.parities());
        let data = self.members.code.data_columns(cells);
        let count = (0..data).filter(|column| is_new(*column)).count();
        let parity: Vec<usize> =
            (cells - parities..cells).filter(|cell| state.cells[*cell] != CellState::Missing).collect();
        if parity.is_empty() {
            return (ParityMethod::NoParity, vec![]);
        }
        if count == data {
            return (ParityMethod::FullRow, vec![]);
        }
        let is_readable =
            |cell: &usize| matches!(state.cells[*cell], CellState::Written(_) | CellState::Empty);
        let (new, others): (Vec<usize>, Vec<usize>) = (0..data).partition(|column| is_new(*column));
        // Read-modify-write reads and writes the columns and the parity. Reconstruct-write transfers each cell once.
        let is_cheaper = 2 * (count + parities) <= data + parities;
        if is_cheaper && new.iter().chain(&parity).all(is_readable) {
            return (ParityMethod::ReadModifyWrite, [new, parity].concat());
        }
        if others.iter().all(is_readable) {
            return (ParityMethod::ReconstructWrite, others);
        }
        (ParityMethod::RecoverAndReconstruct, (0..cells).collect())
    }

    /// Plans writes to these rows. Returns the cells to be written in each row, with their new contents.
    pub fn plan_rows(&mut self, rows: &[(u64, NewColumns)]) -> Result<Vec<(u64, Vec<CellWrite>)>> {
        self.members.records.trim();
        self.members.load_records_of_rows(rows.iter().map(|(row, _)| *row));
        let read = |store: &RowStore| store.members.counters.members.data_and_parity.blocks_read;
        let before = read(self);
        let mut planned = vec![];
        for rows in rows.chunks(ROWS_FETCHED) {
            self.fetch_for_plans(rows);
            let plans: Result<Vec<_>> =
                rows.iter().map(|(row, columns)| Ok((*row, self.plan_row(*row, columns)?))).collect();
            self.release_fetched();
            planned.extend(plans?);
        }
        let count = read(self) - before;
        self.members.counters.blocks_read_for_writes += count;
        Ok(planned)
    }

    /// Reads the existing blocks that are needed to plan these writes, from all members concurrently.
    fn fetch_for_plans(&mut self, rows: &[(u64, NewColumns)]) {
        let mut places = vec![];
        for (row, columns) in rows {
            let state = self.row_state(*row);
            let (_, cells) = self.parity_method(&state, |cell| columns.contains_key(&cell));
            places.extend(self.block_locations(*row, &state, &cells));
        }
        self.fetch(places);
    }

    /// Plans a write to some columns of a row. Returns the cells to be written, with their new contents.
    fn plan_row(&mut self, row: u64, new: &NewColumns) -> Result<Vec<CellWrite>> {
        let state = self.row_state(row);
        let cells = state.cells.len();
        let data = self.members.code.data_columns(cells);
        let copies = self.members.code.copies();
        let generation = state.next_generation();
        let mut tags = state.tags;
        new.keys().for_each(|column| tags[*column] = generation as u8);
        // Checksums are computed first: they read the blocks one after the other, which is the fastest way to read
        // memory. The parity computation then finds all blocks in the cache.
        let mut writes = vec![];
        for (column, block) in new {
            let lost: Vec<usize> = (column * copies..(column + 1) * copies)
                .filter(|cell| self.members.targets(self.members.layout().slot(row, *cell)).next().is_none())
                .collect();
            if self.members.code.parities() == 0 && lost.len() == copies {
                return Err(self.unrecoverable(row, &lost));
            }
            for cell in column * copies..(column + 1) * copies {
                writes.push(CellWrite {
                    cell,
                    record: self.new_record(row, cell, generation, Default::default(), block),
                    block: block.clone(),
                });
            }
        }
        let parity =
            if self.members.code.parities() == 0 { vec![] } else { self.new_parity(row, &state, new, data)? };
        for (index, block) in parity.into_iter().enumerate() {
            if let Some(block) = block {
                writes.push(CellWrite {
                    cell: data + index,
                    record: self.new_record(row, data + index, generation, tags, &block),
                    block: block.into(),
                });
            }
        }
        Ok(writes)
    }

    /// Computes the new parity of a row. Parity blocks without a member are `None`.
    fn new_parity(
        &mut self,
        row: u64,
        state: &RowState,
        new: &NewColumns,
        data: usize,
    ) -> Result<Vec<Option<IoBuffer>>> {
        let parities = self.members.code.parities();
        let (way, _) = self.parity_method(state, |column| new.contains_key(&column));
        if way == ParityMethod::NoParity {
            return Ok((0..parities).map(|_| None).collect());
        }
        if way == ParityMethod::FullRow {
            let columns: Vec<&[u8]> = new.values().map(|block| &block[..]).collect();
            let mut parity: Vec<IoBuffer> = (0..parities).map(|_| IoBuffer::zeroed(BLOCK)).collect();
            let mut targets: Vec<&mut [u8]> = parity.iter_mut().map(|block| &mut block[..]).collect();
            self.members.code.encode(&self.kernel, &columns, &mut targets);
            self.members.counters.full_row_writes += 1;
            return Ok(parity.into_iter().map(Some).collect());
        }
        let mut defects = state.cells.iter().filter(|cell| **cell == CellState::Stale).count() as u64;
        if way == ParityMethod::ReadModifyWrite {
            if let Some(parity) = self.parity_from_changes(row, state, new, data) {
                self.members.counters.read_modify_writes += 1;
                self.members.counters.defects += defects;
                return Ok(parity);
            }
            // The row's state did not reveal that this block is damaged.
            defects += 1;
        }
        let others = if way == ParityMethod::RecoverAndReconstruct {
            None
        } else {
            self.other_columns(row, state, new, data)
        };
        let mut cells = match others {
            Some(cells) => {
                self.members.counters.defects += defects;
                cells
            }
            None => {
                let whole = self.whole_row(row, state, &[])?;
                self.count_defects(state, &whole.recovered);
                whole.cells
            }
        };
        for (column, block) in new {
            cells[*column].copy_from_slice(block);
        }
        cells.resize_with(data + parities, || IoBuffer::zeroed(BLOCK));
        let lost: Vec<usize> = (data..data + parities).collect();
        let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
        self.members.code.recover(&self.kernel, &mut targets, &lost);
        self.members.counters.reconstruct_writes += 1;
        Ok(cells.split_off(data).into_iter().map(Some).collect())
    }

    /// Computes parity from its old content and the changes. Returns `None` if a required block is missing or
    /// damaged.
    fn parity_from_changes(
        &mut self,
        row: u64,
        state: &RowState,
        new: &NewColumns,
        data: usize,
    ) -> Option<Vec<Option<IoBuffer>>> {
        let mut parity = vec![];
        for cell in data..data + self.members.code.parities() {
            match state.cells[cell] {
                CellState::Missing => parity.push(None),
                _ => parity.push(Some(self.read_cell(row, cell, state)?)),
            }
        }
        for (column, block) in new {
            let mut delta = self.read_cell(row, *column, state)?;
            self.kernel.xor_into(&mut delta, &[&block[..]]);
            let mut blocks: Vec<&mut [u8]> = parity
                .iter_mut()
                .map(|block| block.as_mut().map_or(&mut [][..], |block| &mut block[..]))
                .collect();
            self.members.code.update(&self.kernel, *column, &delta, &mut blocks);
        }
        Some(parity)
    }

    /// Reads the data columns that are not overwritten. The result has zeroed buffers for the overwritten columns.
    /// Returns `None` if a column is missing or damaged.
    fn other_columns(
        &mut self,
        row: u64,
        state: &RowState,
        new: &NewColumns,
        data: usize,
    ) -> Option<Vec<IoBuffer>> {
        let column = |column| {
            if new.contains_key(&column) {
                return Some(IoBuffer::zeroed(BLOCK));
            }
            self.read_cell(row, column, state)
        };
        (0..data).map(column).collect()
    }
}
