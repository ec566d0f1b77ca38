//! Scrubs read everything to find damage while it can still be repaired.
//!
//! | found in a row | action |
//! | --- | --- |
//! | an unreadable block, a wrong checksum, or a damaged record | recovered from the others, verified, written back |
//! | a block of an older generation (a lost write) | recovered from the others, verified, written back |
//! | more such blocks than the level can recover | reported, and remembered in the superblocks |
//! | only parity disagrees with the data, and one parity block explains it | that block is recomputed |
//! | as before, but a data block or no single block explains it | reported; nothing is written |
//!
//! Parity is never recomputed from data whose checksums do not match.

use std::ops::Range;

use super::zone_readahead::ZoneReadahead;
use crate::array::{LoadMeter, RowWriter};
use crate::error::{ArrayError, Result};
use crate::integrity::{CellState, RecordSlot, RowState};
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

/// A scrub of some rows, which adds its results to a report.
pub(super) struct RowScrub<'a> {
    pub writer: &'a mut RowWriter,
    pub report: &'a mut ScrubReport,
}

impl RowScrub<'_> {
    /// Checks rows. Returns the end of the checked rows.
    pub fn run(&mut self, load: &LoadMeter, rows: Range<u64>) -> Result<u64> {
        let all: Vec<usize> = (0..self.writer.rows.members.layout().slots).collect();
        let mut ahead = ZoneReadahead::new(&mut self.writer.rows, load, rows, |_, _, _| all.clone());
        while let Some(states) = ahead.next(&mut self.writer.rows) {
            for (row, state) in states {
                self.scrub_row(row, &state)?;
            }
        }
        Ok(ahead.end_of_read_rows())
    }

    fn scrub_row(&mut self, row: u64, state: &RowState) -> Result<()> {
        self.report.rows += u64::from(state.generation > 0);
        self.scrub_empty_cells(row, state)?;
        if state.cells.iter().all(|cell| *cell == CellState::Empty) {
            self.writer.rows.members.set_lost(row, 0);
            return Ok(());
        }
        let all: Vec<usize> = (0..state.cells.len()).collect();
        let before = self.writer.rows.members.counters.blocks_repaired;
        let layout = *self.writer.rows.members.layout();
        let (code, kernel) = (self.writer.rows.members.code, self.writer.rows.kernel);
        let whole = match self.writer.rows.whole_row(row, state, &all) {
            Ok(whole) => whole,
            Err(ArrayError::Unrecoverable { .. }) => {
                self.report.unrecoverable.push(row);
                self.writer.remember_lost_cells(row, state);
                return Ok(());
            }
            Err(ArrayError::Inconsistent { .. }) => {
                self.report.parity_mismatches.push(ParityMismatch { row, suspect: None, is_repaired: false });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.writer.rows.members.set_lost(row, 0);
        for cell in &whole.recovered {
            if state.cells[*cell] != CellState::Missing {
                self.report.damaged[layout.slot(row, *cell)] += 1;
            }
        }
        if !whole.recovered.is_empty() {
            self.writer.repair(row, state, &whole)?;
            self.report.repaired += self.writer.rows.members.counters.blocks_repaired - before;
            return Ok(());
        }
        let (suspect, is_repaired) = match self.writer.rows.check_consistency(&whole.cells) {
            Consistency::Consistent => return Ok(()),
            Consistency::OneColumn(cell) if cell >= code.data_columns(state.cells.len()) => {
                let mut cells = whole.cells;
                let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
                code.recover(&kernel, &mut targets, &[cell]);
                self.rewrite_parity(row, cell, state, &cells[cell])?;
                (Some(layout.slot(row, cell)), true)
            }
            Consistency::OneColumn(cell) => (Some(layout.slot(row, cell)), false),
            Consistency::Inconsistent => (None, false),
        };
        self.report.parity_mismatches.push(ParityMismatch { row, suspect, is_repaired });
        Ok(())
    }

    /// Repairs damaged records of blocks that, according to parity, were never written.
    fn scrub_empty_cells(&mut self, row: u64, state: &RowState) -> Result<()> {
        for (cell, cell_state) in state.cells.iter().enumerate() {
            if *cell_state != CellState::Empty {
                continue;
            }
            let rows = &mut self.writer.rows;
            for device in rows.members.sources(row, cell) {
                if rows.members.record(device, row, cell) == RecordSlot::Empty {
                    continue;
                }
                rows.rewrite_cell(device, row, RecordSlot::Empty, &[])?;
                self.report.damaged[rows.members.layout().slot(row, cell)] += 1;
                self.report.repaired += 1;
            }
        }
        Ok(())
    }

    fn rewrite_parity(&mut self, row: u64, cell: usize, state: &RowState, block: &[u8]) -> Result<()> {
        let rows = &mut self.writer.rows;
        let record = rows.new_record(row, cell, state.generation, state.tags, block);
        for device in rows.members.sources(row, cell) {
            rows.rewrite_cell(device, row, RecordSlot::Written(record), block)?;
        }
        rows.members.save_changes()
    }
}
