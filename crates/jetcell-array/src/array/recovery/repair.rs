//! Reads of blocks that members may lack, and repair of the blocks that had to be recovered.

use crate::array::members::ArrayMode;
use crate::array::rows::WholeRow;
use crate::array::write::RowWriter;
use crate::error::Result;
use crate::integrity::RowState;

impl RowWriter {
    /// Reads cells of a row individually, each into its own buffer. Cells that no member has are recovered and
    /// written back.
    pub(crate) fn read_cells(&mut self, row: u64, wanted: Vec<(usize, &mut [u8])>) -> Result<()> {
        let rows = &mut self.rows;
        rows.members.records.trim();
        let state = rows.row_state(row);
        let mut lost = vec![];
        for (cell, target) in wanted {
            match rows.read_cell(row, cell, &state) {
                Some(content) => target.copy_from_slice(&content),
                None => lost.push((cell, target)),
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let cells: Vec<usize> = lost.iter().map(|(cell, _)| *cell).collect();
        let whole = rows.whole_row(row, &state, &cells)?;
        for (cell, target) in lost {
            target.copy_from_slice(&whole.cells[cell]);
        }
        rows.members.counters.rows_recovered += 1;
        rows.count_defects(&state, &whole.recovered);
        self.repair(row, &state, &whole)
    }

    /// Examines lost rows that were written. Rows whose data can be read again are no longer lost.
    pub(in crate::array) fn examine_rewritten_rows(&mut self) -> Result<()> {
        if self.rows.members.rewritten_rows.is_empty() {
            return Ok(());
        }
        self.finish_rows()?;
        for row in std::mem::take(&mut self.rows.members.rewritten_rows) {
            self.rows.members.records.trim();
            let state = self.rows.row_state(row);
            self.remember_lost_cells(row, &state);
        }
        self.rows.members.save_changes()
    }

    /// Remembers which data of a row cannot be recovered, or that all of it can.
    pub(crate) fn remember_lost_cells(&mut self, row: u64, state: &RowState) {
        let slots = self.rows.slots_with_lost_data(row, state);
        self.rows.members.set_lost(row, slots);
    }

    /// Writes the recovered cells of a row back to the members of their slots.
    pub(crate) fn repair(&mut self, row: u64, state: &RowState, whole: &WholeRow) -> Result<()> {
        if self.rows.members.mode == ArrayMode::ReadOnly {
            return Ok(());
        }
        // Writes in flight may include the records of the same zone.
        self.finish_rows()?;
        let rows = &mut self.rows;
        for &cell in &whole.recovered {
            let record = rows.expected_record(row, cell, state, &whole.cells[cell]);
            for device in rows.members.sources(row, cell) {
                rows.rewrite_cell(device, row, record, &whole.cells[cell])?;
                rows.members.counters.blocks_repaired += 1;
            }
        }
        rows.members.save_changes()
    }
}
