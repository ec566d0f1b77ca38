//! Blocks of one row: reading, verification, recovery and repair.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_vfs::IoBuffer;

use super::RowStore;
use crate::error::{ArrayError, Result};
use crate::geometry::{BLOCK, MAX_DATA_COLUMNS, RedundancyCode, ZONE_ROWS};
use crate::integrity::{BlockRecord, CellState, RecordSlot, RowState};
use crate::kernels::Consistency;
use crate::member::ArrayConfig;

/// The cells of a row, with their correct contents.
pub(crate) struct WholeRow {
    /// Content by cell number. Cells that were not needed are zeros.
    pub cells: Vec<IoBuffer>,
    /// Cells that had to be recovered.
    pub recovered: Vec<usize>,
}

impl RowStore {
    /// Returns the state of a row, determined from its records.
    pub fn row_state(&mut self, row: u64) -> RowState {
        let cells = self.members.layout().slots;
        let mut records = Vec::with_capacity(cells);
        for cell in 0..cells {
            let mut best = None;
            for device in self.members.sources(row, cell) {
                best = newer_record(best, self.members.record(device, row, cell));
            }
            records.push(best);
        }
        RowState::new(&self.members.code, &records)
    }

    /// Returns the states of several rows. If each slot has exactly one member, each zone's records are looked up
    /// only once.
    pub fn row_states(&mut self, rows: &BTreeSet<u64>) -> BTreeMap<u64, RowState> {
        let Some(devices) = self.device_per_slot() else {
            return rows.iter().map(|row| (*row, self.row_state(*row))).collect();
        };
        let coding = self.row_encoder();
        let mut states = BTreeMap::new();
        let mut rest = rows.iter().copied().peekable();
        while let Some(zone) = rest.peek().map(|row| row / ZONE_ROWS) {
            let of_zone: Vec<u64> =
                std::iter::from_fn(|| rest.next_if(|row| row / ZONE_ROWS == zone)).collect();
            let blocks: Option<Vec<&[u8]>> =
                devices.iter().map(|device| self.members.records.block(*device, zone)).collect();
            let Some(blocks) = blocks else {
                // `row_state` reads the records of each row, and detects unreadable ones.
                states.extend(of_zone.into_iter().map(|row| (row, self.row_state(row))));
                continue;
            };
            states.extend(of_zone.into_iter().map(|row| (row, coding.row_state(row, &blocks))));
        }
        states
    }

    /// Returns the correct content of a cell, or `None` if no member has it.
    pub fn read_cell(&mut self, row: u64, cell: usize, state: &RowState) -> Option<IoBuffer> {
        let mut block = IoBuffer::zeroed(BLOCK);
        let record = match &state.cells[cell] {
            CellState::Empty => return Some(block),
            CellState::Written(record) => *record,
            CellState::Stale => {
                self.members.counters.stale_blocks += 1;
                return None;
            }
            CellState::Missing => return None,
        };
        for device in self.members.sources(row, cell) {
            if self.members.record(device, row, cell) != RecordSlot::Written(record) {
                continue;
            }
            let place = (device, self.members.devices[device].layout.block(row));
            if let Some(found) = self.fetched.block(place).filter(|found| record.matches(found)) {
                block.copy_from_slice(found);
                return Some(block);
            }
            if self.members.read_member(device, place.1, &mut block).is_err() {
                self.members.counters.read_errors += 1;
            } else if record.matches(&block) {
                return Some(block);
            } else {
                self.members.counters.checksum_errors += 1;
            }
        }
        None
    }

    /// Returns a device that has a block with this record.
    pub fn device_with_record(&mut self, row: u64, cell: usize, record: BlockRecord) -> Option<usize> {
        self.members
            .sources(row, cell)
            .find(|device| self.members.record(*device, row, cell) == RecordSlot::Written(record))
    }

    /// Returns the group of cells that can be recovered from each other and that includes the given cells: all copies
    /// of their columns, or all cells of the row.
    pub fn recovery_group(&self, wanted: &[usize]) -> Vec<usize> {
        match self.members.code {
            RedundancyCode::Mirror { copies } => {
                let columns: BTreeSet<usize> = wanted.iter().map(|cell| cell / copies).collect();
                columns.into_iter().flat_map(|column| column * copies..(column + 1) * copies).collect()
            }
            _ => (0..self.members.layout().slots).collect(),
        }
    }

    /// Reads the group of cells to which the given cells belong, and recovers missing ones. Recovered cells are
    /// verified against their records and against any remaining redundancy.
    pub fn whole_row(&mut self, row: u64, state: &RowState, wanted: &[usize]) -> Result<WholeRow> {
        let (mut cells, recovered) = self.read_group(row, state, wanted);
        self.recover_missing(row, state, &mut cells, &recovered)?;
        Ok(WholeRow { cells, recovered })
    }

    /// Reads the group of cells to which the given cells belong. Returns the contents by cell number, and the cells
    /// that no member has. Their contents are zeros, as are those of cells outside of the group.
    fn read_group(&mut self, row: u64, state: &RowState, wanted: &[usize]) -> (Vec<IoBuffer>, Vec<usize>) {
        let mut cells: Vec<IoBuffer> = state.cells.iter().map(|_| IoBuffer::zeroed(0)).collect();
        let mut missing = vec![];
        for cell in self.recovery_group(wanted) {
            match self.read_cell(row, cell, state) {
                Some(content) => cells[cell] = content,
                None => missing.push(cell),
            }
        }
        cells.iter_mut().filter(|cell| cell.is_empty()).for_each(|cell| *cell = IoBuffer::zeroed(BLOCK));
        (cells, missing)
    }

    /// Recovers the missing cells of a group, and verifies them.
    fn recover_missing(
        &self,
        row: u64,
        state: &RowState,
        cells: &mut [IoBuffer],
        recovered: &[usize],
    ) -> Result<()> {
        if recovered.is_empty() {
            return Ok(());
        }
        if !self.members.code.recovers(recovered) {
            return Err(self.unrecoverable(row, recovered));
        }
        if state.is_new() {
            // The blocks of a row that was never written are zeros.
            return Ok(());
        }
        let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
        self.members.code.recover(&self.kernel, &mut targets, recovered);
        let is_refuted = recovered.iter().any(|cell| match &state.cells[*cell] {
            CellState::Written(record) => !record.matches(&cells[*cell]),
            _ => false,
        });
        let has_more_parity = recovered.len() < self.members.code.tolerance();
        if is_refuted || has_more_parity && self.check_consistency(cells) != Consistency::Consistent {
            return Err(ArrayError::Inconsistent { row });
        }
        Ok(())
    }

    /// Returns a mask of the slots whose data of a row can neither be read nor recovered.
    pub fn slots_with_lost_data(&mut self, row: u64, state: &RowState) -> u32 {
        let all: Vec<usize> = (0..state.cells.len()).collect();
        let (mut cells, missing) = self.read_group(row, state, &all);
        if self.recover_missing(row, state, &mut cells, &missing).is_ok() {
            return 0;
        }
        let layout = self.members.layout();
        let slots = missing.into_iter().fold(0, |slots, cell| slots | 1 << layout.slot(row, cell));
        if layout.columns_only_on(row, slots).next().is_some() { slots } else { 0 }
    }

    /// Checks whether a row's redundancy agrees with its data.
    pub fn check_consistency(&self, cells: &[IoBuffer]) -> Consistency {
        let cells: Vec<&[u8]> = cells.iter().map(|cell| &cell[..]).collect();
        self.members.code.check_consistency(&self.kernel, &cells)
    }

    pub fn unrecoverable(&self, row: u64, cells: &[usize]) -> ArrayError {
        let name = |cell: &usize| {
            self.members.sources(row, *cell).next().map_or_else(
                || format!("(slot {} has no member)", self.members.layout().slot(row, *cell)).into(),
                |index| self.members.devices[index].path(),
            )
        };
        ArrayError::Unrecoverable { row, damaged: cells.iter().map(name).collect() }
    }

    /// Returns the cell from which a data column is read. With mirrors, reads alternate between the copies from chunk
    /// to chunk.
    pub fn preferred_cell(&self, row: u64, column: usize) -> usize {
        let copies = self.members.code.copies();
        let turn = (row / u64::from(self.members.layout().chunk)) as usize;
        column * copies + turn % copies
    }

    /// Counts the recovered cells that are damaged or stale on a member, rather than missing. Returns their number.
    pub fn count_defects(&mut self, state: &RowState, recovered: &[usize]) -> u64 {
        let is_defect = |cell: &&usize| state.cells[**cell] != CellState::Missing;
        let count = recovered.iter().filter(is_defect).count() as u64;
        self.members.counters.defects += count;
        count
    }

    /// Writes a block and its record in place, outside a commit. If the device fails, it is removed from the array.
    pub fn rewrite_cell(&mut self, device: usize, row: u64, record: RecordSlot, block: &[u8]) -> Result<()> {
        let result = self.write_cell(device, row, record, block);
        self.members.handle_write_result(device, result)
    }

    fn write_cell(&mut self, device: usize, row: u64, record: RecordSlot, block: &[u8]) -> Result<()> {
        if matches!(record, RecordSlot::Written(_)) {
            let offset = self.members.devices[device].layout.block(row);
            self.members.write_member(device, offset, block)?;
        }
        self.members.put_record(device, row, record)?;
        self.members.write_records(device, row / ZONE_ROWS)
    }

    /// Returns the record that a cell must have, based on its own record or those of the other cells.
    pub fn expected_record(&self, row: u64, cell: usize, state: &RowState, block: &[u8]) -> RecordSlot {
        if let CellState::Written(record) = &state.cells[cell] {
            return RecordSlot::Written(*record);
        }
        let columns = self.members.code.data_columns(state.cells.len());
        let copies = self.members.code.copies();
        let is_parity = self.members.code.parities() > 0 && cell >= columns;
        let generation = if is_parity {
            state.generation
        } else if self.members.code.parities() > 0 {
            state.generation_of(cell)
        } else {
            let column = &state.cells[cell / copies * copies..(cell / copies + 1) * copies];
            let generation = column.iter().find_map(|cell| match cell {
                CellState::Written(record) => Some(record.generation.get()),
                _ => None,
            });
            generation.unwrap_or(0)
        };
        let tag_is_empty = !is_parity && self.members.code.parities() > 0 && state.tags[cell] == 0;
        if generation == 0 || tag_is_empty {
            return RecordSlot::Empty;
        }
        let tags = if is_parity { state.tags } else { Default::default() };
        RecordSlot::Written(self.new_record(row, cell, generation, tags, block))
    }

    /// Returns the record for new content of a cell.
    pub fn new_record(
        &self,
        row: u64,
        cell: usize,
        generation: u64,
        tags: [u8; MAX_DATA_COLUMNS],
        block: &[u8],
    ) -> BlockRecord {
        let ArrayConfig { array, layout, .. } = &self.members.config;
        BlockRecord::new(*array, row, layout.stored_cell(cell), generation, tags, block)
    }
}

/// Returns the more recent of two records for the same slot.
fn newer_record(one: Option<RecordSlot>, other: RecordSlot) -> Option<RecordSlot> {
    let rank = |slot: &RecordSlot| match slot {
        RecordSlot::Damaged => (0, 0),
        RecordSlot::Empty => (1, 0),
        RecordSlot::Written(record) => (2, record.generation.get()),
    };
    match one {
        Some(one) if rank(&one) >= rank(&other) => Some(one),
        _ => Some(other),
    }
}
