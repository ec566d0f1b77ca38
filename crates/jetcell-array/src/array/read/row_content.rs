//! Blocks of one row: reading, verification, recovery and repair.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_vfs::{IoBuffer, IoReason, TransferKind};

use crate::array::{Array, ArrayMode};
use crate::error::{ArrayError, Result};
use crate::geometry::{BLOCK, RedundancyCode, ZONE_ROWS};
use crate::integrity::{BlockRecord, CellState, RecordSlot, RowState};
use crate::kernels::Consistency;

/// The cells of a row, with their correct contents.
pub(crate) struct WholeRow {
    /// Content by cell number. Cells that were not needed are zeros.
    pub cells: Vec<IoBuffer>,
    /// Cells that had to be recovered.
    pub recovered: Vec<usize>,
}

impl Array {
    /// Returns the state of a row, determined from its records.
    pub(crate) fn row_state(&mut self, row: u64) -> RowState {
        let cells = self.config.layout.slots;
        let mut records = Vec::with_capacity(cells);
        for cell in 0..cells {
            let slot = self.config.layout.slot(row, cell);
            let mut best = None;
            for device in self.sources(slot, row) {
                best = newer_record(best, self.record(device, row, cell));
            }
            records.push(best);
        }
        RowState::new(&self.code, &records)
    }

    /// Returns the states of several rows. If each slot has exactly one member, each zone's records are looked up
    /// only once.
    pub(in crate::array) fn row_states(&mut self, rows: &BTreeSet<u64>) -> BTreeMap<u64, RowState> {
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
                devices.iter().map(|device| self.records.block(*device, zone)).collect();
            let Some(blocks) = blocks else {
                // The records are read row by row, and unreadable ones are detected there.
                states.extend(of_zone.into_iter().map(|row| (row, self.row_state(row))));
                continue;
            };
            states.extend(of_zone.into_iter().map(|row| (row, coding.row_state(row, &blocks))));
        }
        states
    }

    /// Returns the correct content of a cell, if a member has it.
    pub(crate) fn read_cell(&mut self, row: u64, cell: usize, state: &RowState) -> Option<IoBuffer> {
        let mut block = IoBuffer::zeroed(BLOCK);
        let record = match &state.cells[cell] {
            CellState::Empty => return Some(block),
            CellState::Written(record) => *record,
            CellState::Stale => {
                self.counters.stale_blocks += 1;
                return None;
            }
            CellState::Missing => return None,
        };
        let slot = self.config.layout.slot(row, cell);
        for device in self.sources(slot, row) {
            if self.record(device, row, cell) != RecordSlot::Written(record) {
                continue;
            }
            let place = (device, self.devices[device].layout.block(row));
            if let Some(found) = self.fetched.block(place).filter(|found| record.matches(found)) {
                block.copy_from_slice(found);
                return Some(block);
            }
            if self.read_member(device, place.1, &mut block).is_err() {
                self.counters.read_errors += 1;
            } else if record.matches(&block) {
                return Some(block);
            } else {
                self.counters.checksum_errors += 1;
            }
        }
        None
    }

    /// Returns a device that has a block with this record.
    pub(in crate::array) fn device_with_record(
        &mut self,
        row: u64,
        cell: usize,
        record: BlockRecord,
    ) -> Option<usize> {
        let slot = self.config.layout.slot(row, cell);
        self.sources(slot, row).find(|device| self.record(*device, row, cell) == RecordSlot::Written(record))
    }

    /// Returns the group of cells that can be recovered from each other and that includes the given cells: all copies
    /// of their columns, or all cells of the row.
    pub(crate) fn recovery_group(&self, wanted: &[usize]) -> Vec<usize> {
        match &self.code {
            RedundancyCode::Mirror { copies } => {
                let columns: BTreeSet<usize> = wanted.iter().map(|cell| cell / copies).collect();
                columns.into_iter().flat_map(|column| column * copies..(column + 1) * copies).collect()
            }
            _ => (0..self.config.layout.slots).collect(),
        }
    }

    /// Reads the group of cells to which the given cells belong, and recovers missing ones. Recovered cells are
    /// verified against their records and against any remaining redundancy.
    pub(crate) fn whole_row(&mut self, row: u64, state: &RowState, wanted: &[usize]) -> Result<WholeRow> {
        let mut cells: Vec<IoBuffer> = state.cells.iter().map(|_| IoBuffer::zeroed(0)).collect();
        let mut recovered = vec![];
        for cell in self.recovery_group(wanted) {
            match self.read_cell(row, cell, state) {
                Some(content) => cells[cell] = content,
                None => recovered.push(cell),
            }
        }
        cells.iter_mut().filter(|cell| cell.is_empty()).for_each(|cell| *cell = IoBuffer::zeroed(BLOCK));
        if recovered.is_empty() {
            return Ok(WholeRow { cells, recovered });
        }
        if !self.code.recovers(&recovered) {
            return Err(self.unrecoverable(row, &recovered));
        }
        // A write leaves records on more members than the level may lose. If there is no record at all, the row was
        // never written, and its blocks are zeros.
        if state.cells.iter().all(|cell| matches!(cell, CellState::Empty | CellState::Missing)) {
            return Ok(WholeRow { cells, recovered });
        }
        let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
        self.code.recover(&self.kernel, &mut targets, &recovered);
        let is_refuted = recovered.iter().any(|cell| match &state.cells[*cell] {
            CellState::Written(record) => !record.matches(&cells[*cell]),
            _ => false,
        });
        let has_more_parity = recovered.len() < self.code.tolerance();
        if is_refuted || has_more_parity && self.check_consistency(&cells) != Consistency::Consistent {
            return Err(ArrayError::Inconsistent { row });
        }
        Ok(WholeRow { cells, recovered })
    }

    /// Checks whether a row's redundancy agrees with its data.
    pub(crate) fn check_consistency(&self, cells: &[IoBuffer]) -> Consistency {
        let cells: Vec<&[u8]> = cells.iter().map(|cell| &cell[..]).collect();
        self.code.check_consistency(&self.kernel, &cells)
    }

    pub(crate) fn unrecoverable(&self, row: u64, cells: &[usize]) -> ArrayError {
        let name = |cell: &usize| {
            let slot = self.config.layout.slot(row, *cell);
            let device = self.sources(slot, row).next();
            device.map_or_else(
                || format!("(slot {slot} has no member)").into(),
                |index| self.devices[index].path(),
            )
        };
        ArrayError::Unrecoverable { row, damaged: cells.iter().map(name).collect() }
    }

    /// Returns the cell from which a data column is read. With mirrors, the copies are read in turn, chunk by chunk.
    pub(in crate::array) fn preferred_cell(&self, row: u64, column: usize) -> usize {
        let copies = self.code.copies();
        let turn = (row / u64::from(self.config.layout.chunk)) as usize;
        column * copies + turn % copies
    }

    /// Counts the recovered cells that a member has, but that are damaged or stale. Returns that number.
    pub(in crate::array) fn count_defects(&mut self, state: &RowState, recovered: &[usize]) -> u64 {
        let is_defect = |cell: &&usize| state.cells[**cell] != CellState::Missing;
        let count = recovered.iter().filter(is_defect).count() as u64;
        self.counters.defects += count;
        count
    }

    /// Reads cells of a row individually, each into its own buffer. Cells that no member has are recovered and
    /// written back.
    pub(in crate::array) fn read_cells(&mut self, row: u64, wanted: Vec<(usize, &mut [u8])>) -> Result<()> {
        self.records.trim();
        let state = self.row_state(row);
        let mut lost = vec![];
        for (cell, target) in wanted {
            match self.read_cell(row, cell, &state) {
                Some(content) => target.copy_from_slice(&content),
                None => lost.push((cell, target)),
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let cells: Vec<usize> = lost.iter().map(|(cell, _)| *cell).collect();
        let whole = self.whole_row(row, &state, &cells)?;
        for (cell, target) in lost {
            target.copy_from_slice(&whole.cells[cell]);
        }
        self.counters.rows_recovered += 1;
        self.count_defects(&state, &whole.recovered);
        self.repair(row, &state, &whole)
    }

    /// Writes the recovered cells of a row back to the members of their slots.
    pub(crate) fn repair(&mut self, row: u64, state: &RowState, whole: &WholeRow) -> Result<()> {
        if self.mode == ArrayMode::ReadOnly {
            return Ok(());
        }
        // Writes in flight may include the records of the same zone.
        self.finish_rows()?;
        for &cell in &whole.recovered {
            let record = self.expected_record(row, cell, state, &whole.cells[cell]);
            let slot = self.config.layout.slot(row, cell);
            for device in self.sources(slot, row) {
                let result = self.write_cell(device, row, record, &whole.cells[cell]);
                let result = result.and_then(|()| self.write_records(device, row / ZONE_ROWS));
                self.handle_write_result(device, result)?;
                self.counters.blocks_repaired += 1;
            }
        }
        if self.is_config_changed { self.save_config() } else { Ok(()) }
    }

    /// Writes a block in place, and its record into the cache.
    pub(crate) fn write_cell(
        &mut self,
        device: usize,
        row: u64,
        record: RecordSlot,
        block: &[u8],
    ) -> Result<()> {
        if matches!(record, RecordSlot::Written(_)) {
            let offset = self.devices[device].layout.block(row);
            self.count_transfer(TransferKind::Write, device, offset, block.len());
            self.devices[device].write(offset, block, IoReason::Other)?;
        }
        self.put_record(device, row, record)
    }

    /// Returns the record that a cell must have, based on its own record or those of the other cells.
    pub(crate) fn expected_record(
        &self,
        row: u64,
        cell: usize,
        state: &RowState,
        block: &[u8],
    ) -> RecordSlot {
        if let CellState::Written(record) = &state.cells[cell] {
            return RecordSlot::Written(*record);
        }
        let columns = self.code.data_columns(state.cells.len());
        let copies = self.code.copies();
        let is_parity = self.code.parities() > 0 && cell >= columns;
        let generation = if is_parity {
            state.generation
        } else if self.code.parities() > 0 {
            state.generation_of(cell)
        } else {
            let column = &state.cells[cell / copies * copies..(cell / copies + 1) * copies];
            let generation = column.iter().find_map(|cell| match cell {
                CellState::Written(record) => Some(record.generation.get()),
                _ => None,
            });
            generation.unwrap_or(0)
        };
        let tag_is_empty = !is_parity && self.code.parities() > 0 && state.tags[cell] == 0;
        if generation == 0 || tag_is_empty {
            return RecordSlot::Empty;
        }
        let tags = if is_parity { state.tags } else { Default::default() };
        let stored_cell = self.config.layout.stored_cell(cell);
        RecordSlot::Written(BlockRecord::new(self.config.array, row, stored_cell, generation, tags, block))
    }
}

/// Returns the more recent of the two records for a slot.
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
