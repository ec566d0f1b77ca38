//! Determines which blocks of a row are current, from the records of all its cells.
//!
//! Each write to a row gets a higher generation than all earlier writes to the row. The generation is stored in the
//! records of the cells that the write covers: the changed data columns and all parity cells. Parity records also
//! contain the generation of every data column. Therefore, if a member acknowledged a write but lost it, the member's
//! record contradicts the others:
//! - a parity cell whose generation is not the highest of the row is stale;
//! - a data cell is stale if its generation differs from the one that a current parity cell lists for it;
//! - a copy whose generation is not the highest of its column is stale.

use crate::geometry::{MAX_DATA_COLUMNS, RedundancyCode};

use super::{BlockRecord, RecordSlot};

/// State of one cell of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CellState {
    /// No member has the cell.
    Missing,
    /// The record of the cell is damaged, or older than the last write.
    Stale,
    /// The cell was never written, and reads as zeros.
    Empty,
    /// The cell was written. The block must match the record.
    Written(BlockRecord),
}

/// State of a row and its cells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowState {
    /// Highest generation of the row; 0 if no write is known.
    pub generation: u64,
    /// State of each cell.
    pub cells: Vec<CellState>,
    /// Low byte of the generation of each data column.
    pub tags: [u8; MAX_DATA_COLUMNS],
}

impl RowState {
    /// Returns true if no member stores any content of the row. A write leaves records on more members than the level
    /// may lose, so missing members do not matter.
    pub fn is_new(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell, CellState::Empty | CellState::Missing))
    }

    /// Determines the state of every cell from its record. `None` stands for a cell that no member has.
    pub fn new(code: &RedundancyCode, records: &[Option<RecordSlot>]) -> RowState {
        let columns = code.data_columns(records.len());
        let generation = |record: &Option<RecordSlot>| match record {
            Some(RecordSlot::Written(record)) => record.generation.get(),
            _ => 0,
        };
        let highest = records.iter().map(generation).max().unwrap_or(0);
        let mut state = RowState { generation: highest, cells: vec![], tags: [0; MAX_DATA_COLUMNS] };
        if let RedundancyCode::Mirror { copies } = code {
            for (column, records) in records.chunks(*copies).enumerate() {
                let highest = records.iter().map(generation).max().unwrap_or(0);
                state.tags[column] = highest as u8;
                state.cells.extend(records.iter().map(|record| cell_state(record, |found| found == highest)));
            }
            return state;
        }
        let is_current = |found: u64| found == highest;
        let parity: Vec<CellState> =
            records[columns..].iter().map(|record| cell_state(record, is_current)).collect();
        let named = parity.iter().find_map(|cell| match cell {
            CellState::Written(record) => Some(record.tags),
            CellState::Empty => Some([0; MAX_DATA_COLUMNS]),
            _ => None,
        });
        for (column, record) in records[..columns].iter().enumerate() {
            // Without current parity, every data cell is accepted, because it could not be recovered anyway.
            let tag = named.map_or(generation(record) as u8, |tags| tags[column]);
            state.tags[column] = tag;
            let cell = match cell_state(record, |found| found as u8 == tag) {
                // The column was never written, regardless of its record.
                CellState::Stale | CellState::Missing if tag == 0 && named.is_some() => CellState::Empty,
                cell => cell,
            };
            state.cells.push(cell);
        }
        state.cells.extend(parity);
        state
    }

    /// Returns the generation for the next write to the row. Its low byte is not 0, and differs from the low bytes of
    /// all cells before that write.
    pub fn next_generation(&self) -> u64 {
        let has_bytes = "fewer columns than bytes";
        (self.generation + 1..).find(|generation| self.allows(*generation)).expect(has_bytes)
    }

    /// Returns a generation for a write to several rows, which satisfies the conditions of
    /// [`RowState::next_generation`] for each of them. Returns `None` if the rows' cells already use all values of
    /// the low byte.
    pub fn common_generation(rows: &[RowState]) -> Option<u64> {
        let highest = rows.iter().map(|row| row.generation).max()?;
        (highest + 1..=highest + 256).find(|generation| rows.iter().all(|row| row.allows(*generation)))
    }

    /// Returns true if this generation is allowed for the next write to the row.
    pub fn allows(&self, generation: u64) -> bool {
        let byte = generation as u8;
        let is_new = byte != 0 && !self.tags.contains(&byte) && byte != self.generation as u8;
        generation > self.generation && is_new
    }

    /// Returns the generation in which a data column was written, reconstructed from the low byte.
    pub fn generation_of(&self, column: usize) -> u64 {
        let tag = self.tags[column];
        let back = (self.generation as u8).wrapping_sub(tag);
        self.generation.saturating_sub(u64::from(back))
    }
}

/// Returns the generation for the next write to a row whose cells all have the same generation. See
/// [`RowState::next_generation`].
pub(crate) fn generation_after(generation: u64) -> u64 {
    if (generation + 1) as u8 == 0 { generation + 2 } else { generation + 1 }
}

fn cell_state(record: &Option<RecordSlot>, is_current: impl Fn(u64) -> bool) -> CellState {
    match record {
        None => CellState::Missing,
        Some(RecordSlot::Empty) if is_current(0) => CellState::Empty,
        Some(RecordSlot::Written(record)) if is_current(record.generation.get()) => {
            CellState::Written(*record)
        }
        Some(_) => CellState::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::ReedSolomon;

    fn written(cell: u16, generation: u64, tags: &[u8]) -> Option<RecordSlot> {
        let mut all = [0; MAX_DATA_COLUMNS];
        all[..tags.len()].copy_from_slice(tags);
        Some(RecordSlot::Written(BlockRecord::new(1, 0, cell, generation, all, &[])))
    }

    fn stale(code: RedundancyCode, records: &[Option<RecordSlot>]) -> Vec<usize> {
        let state = RowState::new(&code, records);
        let bad = |cell: &usize| matches!(state.cells[*cell], CellState::Stale | CellState::Missing);
        (0..records.len()).filter(bad).collect()
    }

    #[test]
    fn a_lost_write_of_any_cell_is_found() {
        let code = RedundancyCode::ReedSolomon(ReedSolomon::new(2));
        let (empty, tags) = (Some(RecordSlot::Empty), [3, 2, 0]);
        let good =
            [written(0, 3, &[]), written(1, 2, &[]), empty, written(3, 3, &tags), written(4, 3, &tags)];
        assert_eq!(stale(code, &good), [0usize; 0]);
        // The cells' records before the last write, which wrote column 0.
        let before = [written(0, 1, &[]), None, None, written(3, 2, &[1, 2, 0]), written(4, 2, &[1, 2, 0])];
        for cell in [0, 3, 4] {
            let mut records = good;
            records[cell] = before[cell];
            assert_eq!(stale(code, &records), [cell]);
            records[cell] = empty;
            assert_eq!(stale(code, &records), [cell]);
        }
        let both = [before[0], good[1], good[2], before[3], good[4]];
        assert_eq!(stale(code, &both), [0, 3]);
    }

    #[test]
    fn an_empty_column_needs_no_member() {
        let code = RedundancyCode::ReedSolomon(ReedSolomon::new(1));
        let records = [written(0, 1, &[]), None, Some(RecordSlot::Damaged), written(3, 1, &[1, 0, 0])];
        let state = RowState::new(&code, &records);
        assert_eq!(state.cells[1..3], [CellState::Empty, CellState::Empty]);
    }

    #[test]
    fn the_newer_of_two_copies_is_current() {
        let code = RedundancyCode::Mirror { copies: 2 };
        assert_eq!(
            stale(code, &[written(0, 4, &[]), written(1, 5, &[]), Some(RecordSlot::Empty), None]),
            [0, 3]
        );
    }

    #[test]
    fn the_next_generation_low_byte_differs_from_all_cells() {
        let mut state = RowState { generation: 254, cells: vec![], tags: [0; MAX_DATA_COLUMNS] };
        state.tags[..3].copy_from_slice(&[255, 1, 254]);
        assert_eq!(state.next_generation(), 258);
        assert_eq!((state.generation_of(2), state.generation_of(1)), (254, 1));
    }

    #[test]
    fn rows_written_together_get_a_generation_new_to_each_row() {
        let row = |generation: u64, tags: &[u8]| {
            let mut state = RowState { generation, cells: vec![], tags: [0; MAX_DATA_COLUMNS] };
            state.tags[..tags.len()].copy_from_slice(tags);
            state
        };
        assert_eq!(RowState::common_generation(&[row(0, &[]), row(0, &[])]), Some(1));
        assert_eq!(
            RowState::common_generation(&[row(3, &[3, 1]), row(300, &[46, 45]), row(5, &[47, 48])]),
            Some(305)
        );
        let all: Vec<RowState> = (0..=255).map(|byte| row(byte, &[byte as u8])).collect();
        assert_eq!(RowState::common_generation(&all), None);
        for generation in [1, 2, 254, 255, 256, 257, 511] {
            let next = generation_after(generation);
            let tags = [generation as u8; 3];
            let state = row(generation, &tags);
            assert_eq!(state.next_generation(), next);
            assert_eq!(RowState::common_generation(&[state.clone(), state]), Some(next));
        }
    }
}
