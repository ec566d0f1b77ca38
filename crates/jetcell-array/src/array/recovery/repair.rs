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
