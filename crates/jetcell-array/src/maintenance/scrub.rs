//! Scrubs read everything to find damage while it can still be repaired.
//!
//! | found in a row | action |
//! | --- | --- |
//! | an unreadable block, a wrong checksum, or a damaged record | recovered from the others, verified, written back |
//! | a block of an older generation (a lost write) | recovered from the others, verified, written back |
//! | more such blocks than the level can recover | reported; nothing is written |
//! | only parity disagrees with the data, and one parity block explains it | that block is recomputed |
//! | as before, but a data block or no single block explains it | reported; nothing is written |
//!
//! Parity is never recomputed from data whose checksums do not match.

use std::ops::Range;

use crate::array::Array;
use crate::error::{ArrayError, Result};
use crate::geometry::ZONE_ROWS;
use crate::integrity::{BlockRecord, CellState, RecordSlot, RowState};
use crate::kernels::Consistency;

/// An array row in which all blocks match their checksums, but parity and data disagree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParityMismatch {
    /// Row number.
    pub row: u64,
    /// Slot whose block would explain the disagreement, according to parity alone.
    pub suspect: Option<usize>,
    /// Whether the suspect was a parity block, which was then recomputed.
    pub is_repaired: bool,
}

/// Result of scrubbing an array. One pass visits every zone once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ScrubReport {
    /// Number of zones that were read.
    pub zones: u64,
    /// Number of rows that contained writes.
    pub rows: u64,
    /// Number of damaged or stale blocks, by slot.
    pub damaged: Vec<u64>,
    /// Number of blocks that were written back.
    pub repaired: u64,
    /// Rows with too many damaged blocks.
    pub unrecoverable: Vec<u64>,
    /// Rows in which all checksums are correct but parity is wrong.
    pub parity_mismatches: Vec<ParityMismatch>,
}

impl ScrubReport {
    /// Returns true if the scrub found no damage at all, not even damage that was then repaired.
    pub fn is_clean(&self) -> bool {
        self.damaged.iter().all(|count| *count == 0)
            && self.unrecoverable.is_empty()
            && self.parity_mismatches.is_empty()
    }
}

impl Array {
    /// Checks the next zone, and adds the result to the report. Returns true if this was the last zone of a pass.
    pub fn scrub_step(&mut self, report: &mut ScrubReport) -> Result<bool> {
        self.scrub_zones(1, report)
    }

    /// Checks up to `most` zones, and adds the results to the report. Members read concurrently and ahead of the
    /// check. If an operation of the load is waiting, the call returns after the current zone. Returns true if the
    /// pass is complete.
    pub fn scrub_zones(&mut self, most: u64, report: &mut ScrubReport) -> Result<bool> {
        self.check_writable()?;
        let zones = self.config.layout.zones();
        let first = self.config.scrub_cursor.min(zones - 1);
        let most = zones.min(first + most.clamp(1, self.max_rows_in_memory() / ZONE_ROWS));
        report.damaged.resize(self.config.slots.len(), 0);
        // The scrub must check the records on the members, not those in the cache.
        self.records.trim();
        (first..most).for_each(|zone| self.records.forget_zone(zone));
        let end =
            self.maintain(|array| array.scrub_rows(first * ZONE_ROWS..most * ZONE_ROWS, report))? / ZONE_ROWS;
        report.zones += end - first;
        let is_last = end == zones;
        self.config.scrub_cursor = if is_last { 0 } else { end };
        // Saving the cursor shows the progress to others, and allows an interrupted pass to resume.
        if is_last || first / self.zones_per_save != end / self.zones_per_save {
            self.save_config()?;
        }
        Ok(is_last)
    }

    /// Returns the zone at which the scrub resumes.
    pub fn scrub_cursor(&self) -> u64 {
        self.config.scrub_cursor
    }

    /// Runs a complete pass.
    pub fn scrub(&mut self) -> Result<ScrubReport> {
        let mut report = ScrubReport::default();
        self.config.scrub_cursor = 0;
        while !self.scrub_zones(u64::MAX, &mut report)? {}
        Ok(report)
    }

    /// Checks rows. Returns the end of the checked rows.
    fn scrub_rows(&mut self, rows: Range<u64>, report: &mut ScrubReport) -> Result<u64> {
        let all: Vec<usize> = (0..self.config.layout.slots).collect();
        let mut ahead = self.zone_readahead(rows, |_, _, _| all.clone());
        while let Some(states) = ahead.next(self) {
            for (row, state) in states {
                self.scrub_row(row, &state, report)?;
            }
        }
        Ok(ahead.end_of_read_rows())
    }

    fn scrub_row(&mut self, row: u64, state: &RowState, report: &mut ScrubReport) -> Result<()> {
        report.rows += u64::from(state.generation > 0);
        self.scrub_empty_cells(row, state, report)?;
        if state.cells.iter().all(|cell| *cell == CellState::Empty) {
            return Ok(());
        }
        let all: Vec<usize> = (0..state.cells.len()).collect();
        let before = self.counters().blocks_repaired;
        let whole = match self.whole_row(row, state, &all) {
            Ok(whole) => whole,
            Err(ArrayError::Unrecoverable { .. }) => {
                report.unrecoverable.push(row);
                return Ok(());
            }
            Err(ArrayError::Inconsistent { .. }) => {
                report.parity_mismatches.push(ParityMismatch { row, suspect: None, is_repaired: false });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for cell in &whole.recovered {
            if state.cells[*cell] != CellState::Missing {
                report.damaged[self.config.layout.slot(row, *cell)] += 1;
            }
        }
        if !whole.recovered.is_empty() {
            self.repair(row, state, &whole)?;
            report.repaired += self.counters().blocks_repaired - before;
            return Ok(());
        }
        match self.check_consistency(&whole.cells) {
            Consistency::Consistent => Ok(()),
            Consistency::OneColumn(cell) if cell >= self.code.data_columns(state.cells.len()) => {
                let mut cells = whole.cells;
                let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
                self.code.recover(&self.kernel, &mut targets, &[cell]);
                self.rewrite_parity(row, cell, state, &cells[cell])?;
                let suspect = Some(self.config.layout.slot(row, cell));
                report.parity_mismatches.push(ParityMismatch { row, suspect, is_repaired: true });
                Ok(())
            }
            Consistency::OneColumn(cell) => {
                let suspect = Some(self.config.layout.slot(row, cell));
                report.parity_mismatches.push(ParityMismatch { row, suspect, is_repaired: false });
                Ok(())
            }
            Consistency::Inconsistent => {
                report.parity_mismatches.push(ParityMismatch { row, suspect: None, is_repaired: false });
                Ok(())
            }
        }
    }

    /// Repairs damaged records. According to parity, the blocks of these records were never written.
    fn scrub_empty_cells(&mut self, row: u64, state: &RowState, report: &mut ScrubReport) -> Result<()> {
        for (cell, cell_state) in state.cells.iter().enumerate() {
            if *cell_state != CellState::Empty {
                continue;
            }
            let slot = self.config.layout.slot(row, cell);
            for device in self.sources(slot, row) {
                if self.record(device, row, cell) == RecordSlot::Empty {
                    continue;
                }
                let result = self.put_record(device, row, RecordSlot::Empty);
                let result = result.and_then(|()| self.write_records(device, row / ZONE_ROWS));
                self.handle_write_result(device, result)?;
                report.damaged[slot] += 1;
                report.repaired += 1;
            }
        }
        Ok(())
    }

    fn rewrite_parity(&mut self, row: u64, cell: usize, state: &RowState, block: &[u8]) -> Result<()> {
        let stored_cell = self.config.layout.stored_cell(cell);
        let record =
            BlockRecord::new(self.config.array, row, stored_cell, state.generation, state.tags, block);
        for device in self.sources(self.config.layout.slot(row, cell), row) {
            let result = self.write_cell(device, row, RecordSlot::Written(record), block);
            let result = result.and_then(|()| self.write_records(device, row / ZONE_ROWS));
            self.handle_write_result(device, result)?;
        }
        if self.is_config_changed { self.save_config() } else { Ok(()) }
    }
}
