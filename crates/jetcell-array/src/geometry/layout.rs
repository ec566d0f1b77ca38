//! Maps blocks of an array to rows, cells and slots.

use super::{BLOCK, RaidLevel, RedundancyCode, ZONE_ROWS};

/// Number of the first parity cell, as stored in its record.
const STORED_PARITY: u16 = 0x8000;

/// Maps an array's blocks to rows, cells and slots.
///
/// Chunks of consecutive blocks are distributed in turn over the slots with which the array was created. Parity
/// rotates over these slots (left symmetric), except for RAID-DP. A slot that was added later is an additional data
/// column in all rows: its blocks come after the existing blocks of the array, and no block moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayLayout {
    /// RAID level of the array.
    pub level: RaidLevel,
    /// Number of consecutive blocks on one slot.
    pub chunk: u32,
    /// Number of rows in the array, a multiple of [`ZONE_ROWS`].
    pub rows: u64,
    /// Number of slots with which the array was created.
    pub base_slots: usize,
    /// Current number of slots.
    pub slots: usize,
}

impl ArrayLayout {
    pub(crate) fn code(&self) -> RedundancyCode {
        self.level.code(self.base_slots)
    }

    /// Returns true if the level tolerates the loss of these slots.
    pub fn tolerates_loss(&self, lost: &[usize]) -> bool {
        // With mirrors, cells are slots; with parity, only the number of lost slots matters.
        self.code().recovers(lost)
    }

    /// Returns the number of data columns in a row.
    pub fn data_columns(&self) -> usize {
        self.code().data_columns(self.slots)
    }

    fn base_columns(&self) -> usize {
        self.code().data_columns(self.base_slots)
    }

    /// Returns the number of blocks in the array.
    pub fn blocks(&self) -> u64 {
        self.rows * self.data_columns() as u64
    }

    /// Returns the capacity of the array in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK as u64
    }

    /// Returns the number of zones on each member.
    pub fn zones(&self) -> u64 {
        self.rows / ZONE_ROWS
    }

    /// Returns the row and data column of a block.
    pub fn locate(&self, block: u64) -> (u64, usize) {
        let (base, chunk) = (self.base_columns() as u64, u64::from(self.chunk));
        if block >= self.rows * base {
            let behind = block - self.rows * base;
            return (behind % self.rows, (base + behind / self.rows) as usize);
        }
        let (chunks, within) = (block / chunk, block % chunk);
        (chunks / base * chunk + within, (chunks % base) as usize)
    }

    /// Returns the block at a row and data column.
    pub fn block_at(&self, row: u64, column: usize) -> u64 {
        let (base, chunk) = (self.base_columns() as u64, u64::from(self.chunk));
        let column = column as u64;
        if column >= base {
            return self.rows * base + (column - base) * self.rows + row;
        }
        (row / chunk * base + column) * chunk + row % chunk
    }

    /// Returns the slot of a cell.
    pub fn slot(&self, row: u64, cell: usize) -> usize {
        let (code, base) = (self.code(), self.base_columns());
        let parities = code.parities();
        if parities == 0 {
            return cell;
        }
        let columns = self.data_columns();
        if (base..columns).contains(&cell) {
            return self.base_slots + cell - base;
        }
        // Position among the original slots, before rotation.
        let place = if cell < base { cell } else { base + cell - columns };
        if matches!(code, RedundancyCode::RowDiagonal(_)) {
            return place;
        }
        let turn = (row / u64::from(self.chunk) % self.base_slots as u64) as usize;
        let first_parity = self.base_slots - 1 - turn;
        let behind = if place < base { parities + place } else { place - base };
        (first_parity + behind) % self.base_slots
    }

    /// Returns the data columns of a row whose copies are all on slots in this mask.
    pub(crate) fn columns_only_on(&self, row: u64, slots: u32) -> impl Iterator<Item = usize> + use<> {
        let (layout, copies) = (*self, self.code().copies());
        let is_on_slot = move |cell: usize| slots & 1 << layout.slot(row, cell) != 0;
        (0..self.data_columns())
            .filter(move |column| (column * copies..(column + 1) * copies).all(is_on_slot))
    }

    /// Returns the number of a cell as stored in its record. Unlike the cell number, it does not change when columns
    /// are added.
    pub(crate) fn stored_cell(&self, cell: usize) -> u16 {
        let first_parity = self.data_columns() * self.code().copies();
        if cell < first_parity { cell as u16 } else { STORED_PARITY + (cell - first_parity) as u16 }
    }

    /// Returns the cell of a row that is on this slot.
    pub fn cell(&self, row: u64, slot: usize) -> usize {
        (0..self.slots).find(|cell| self.slot(row, *cell) == slot).expect("each slot has one cell of a row")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts() -> impl Iterator<Item = ArrayLayout> {
        RaidLevel::ALL.into_iter().flat_map(|level| {
            level.member_counts().take(4).flat_map(move |base_slots| {
                (0..3).map(move |added| ArrayLayout {
                    level,
                    chunk: 4,
                    rows: 128,
                    base_slots,
                    slots: base_slots + added * level.code(base_slots).copies(),
                })
            })
        })
    }

    #[test]
    fn blocks_and_cells_correspond_one_to_one() {
        for layout in layouts().filter(|layout| layout.level != RaidLevel::Mirror) {
            let mut seen = std::collections::BTreeSet::new();
            for block in 0..layout.blocks() {
                let (row, column) = layout.locate(block);
                assert!(row < layout.rows && column < layout.data_columns());
                assert_eq!(layout.block_at(row, column), block, "{layout:?}");
                assert!(seen.insert((row, column)));
            }
        }
    }

    #[test]
    fn each_slot_has_one_cell_per_row() {
        for layout in layouts() {
            for row in 0..layout.rows {
                let mut slots: Vec<usize> = (0..layout.slots).map(|cell| layout.slot(row, cell)).collect();
                assert!((0..layout.slots).all(|slot| slots[layout.cell(row, slot)] == slot));
                slots.sort_unstable();
                assert_eq!(slots, (0..layout.slots).collect::<Vec<_>>(), "{layout:?}");
            }
        }
    }

    #[test]
    fn added_slots_move_no_block() {
        let layout = ArrayLayout { level: RaidLevel::Raid6, chunk: 4, rows: 128, base_slots: 5, slots: 5 };
        let grown = ArrayLayout { slots: 7, ..layout };
        assert_eq!(grown.blocks(), layout.blocks() + 2 * 128);
        for block in 0..layout.blocks() {
            let ((row, column), (new_row, new_column)) = (layout.locate(block), grown.locate(block));
            assert_eq!((row, column), (new_row, new_column));
            assert_eq!(layout.slot(row, column), grown.slot(row, column));
        }
    }

    #[test]
    fn raid_6_rotates_like_linux_left_symmetric() {
        let layout = ArrayLayout { level: RaidLevel::Raid6, chunk: 1, rows: 64, base_slots: 4, slots: 4 };
        // Slots of D0, D1, P and Q in a row.
        let slots = |row| [0, 1, 2, 3].map(|cell| layout.slot(row, cell));
        assert_eq!([slots(0), slots(1), slots(2)], [[1, 2, 3, 0], [0, 1, 2, 3], [3, 0, 1, 2]]);
    }

    #[test]
    fn level_names_and_stored_codes_round_trip() {
        for level in RaidLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(RaidLevel::from_stored(level.stored()), Some(level));
        }
        assert!("raid7".parse::<RaidLevel>().unwrap_err().to_string().contains("raid-dp"));
        let counts = |level: RaidLevel| level.member_counts().collect::<Vec<_>>();
        assert_eq!(counts(RaidLevel::RaidDp { prime: 17 }), (4..=18).collect::<Vec<_>>());
        assert_eq!(counts(RaidLevel::Mirror), [2, 3]);
    }
}
