//! Redundancy of a row, with one interface for mirrors and parity.

use crate::kernels::{Consistency, Kernel, ReedSolomon, RowDiagonal};

/// Redundancy code of a row: which cells can be computed from which other cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RedundancyCode {
    /// Each data column has this many copies; one copy means no redundancy.
    Mirror { copies: usize },
    /// Parity over GF(2^8).
    ReedSolomon(ReedSolomon),
    /// Row and diagonal parity.
    RowDiagonal(RowDiagonal),
}

impl RedundancyCode {
    /// Returns the number of parity cells in a row.
    pub fn parities(&self) -> usize {
        match self {
            RedundancyCode::Mirror { .. } => 0,
            RedundancyCode::ReedSolomon(code) => code.parities(),
            RedundancyCode::RowDiagonal(_) => 2,
        }
    }

    /// Returns the number of cells of a data column.
    pub fn copies(&self) -> usize {
        if let RedundancyCode::Mirror { copies } = self { *copies } else { 1 }
    }

    /// Returns the number of data columns in a row with this many cells.
    pub fn data_columns(&self, cells: usize) -> usize {
        (cells - self.parities()) / self.copies()
    }

    /// Returns the number of lost cells that can be recovered regardless of their position.
    pub fn tolerance(&self) -> usize {
        match self {
            RedundancyCode::Mirror { copies } => copies - 1,
            _ => self.parities(),
        }
    }

    /// Returns true if the cells in `lost` can be recovered.
    pub fn recovers(&self, lost: &[usize]) -> bool {
        match self {
            RedundancyCode::Mirror { copies } => lost.iter().all(|cell| {
                let column = cell / copies;
                lost.iter().filter(|other| *other / copies == column).count() < *copies
            }),
            _ => lost.len() <= self.parities(),
        }
    }

    /// Computes parity from all data columns. Mirrors have no parity.
    pub fn encode(&self, kernel: &Kernel, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        match (self, parity) {
            (RedundancyCode::Mirror { .. }, _) => {}
            (RedundancyCode::ReedSolomon(code), parity) => code.encode(kernel, data, parity),
            (RedundancyCode::RowDiagonal(code), [rows, diagonals]) => {
                code.encode(kernel, data, rows, diagonals);
            }
            (RedundancyCode::RowDiagonal(_), _) => panic!("two parity blocks"),
        }
    }

    /// Computes the cells in `lost` from the others. [`RedundancyCode::recovers`] must be true for them.
    pub fn recover(&self, kernel: &Kernel, cells: &mut [&mut [u8]], lost: &[usize]) {
        match self {
            RedundancyCode::Mirror { copies } => {
                for &cell in lost {
                    let column = cell / copies * copies..(cell / copies + 1) * copies;
                    let good =
                        column.into_iter().find(|other| !lost.contains(other)).expect("a copy is left");
                    let target = std::mem::take(&mut cells[cell]);
                    target.copy_from_slice(cells[good]);
                    cells[cell] = target;
                }
            }
            RedundancyCode::ReedSolomon(code) => code.recover(kernel, cells, lost),
            RedundancyCode::RowDiagonal(code) => code.recover(kernel, cells, lost),
        }
    }

    /// Updates parity after a change to one data column. `delta` is the old content XOR the new content.
    pub fn update(&self, kernel: &Kernel, column: usize, delta: &[u8], parity: &mut [&mut [u8]]) {
        match self {
            RedundancyCode::Mirror { .. } => {}
            RedundancyCode::ReedSolomon(code) => code.update(kernel, column, delta, parity),
            RedundancyCode::RowDiagonal(code) => code.update(kernel, column, delta, parity),
        }
    }

    /// Checks whether the redundancy agrees with the data.
    pub fn check_consistency(&self, kernel: &Kernel, cells: &[&[u8]]) -> Consistency {
        match self {
            RedundancyCode::Mirror { copies } => {
                let differs = |column: &[&[u8]]| column.iter().any(|cell| cell != &column[0]);
                if cells.chunks(*copies).any(differs) {
                    Consistency::Inconsistent
                } else {
                    Consistency::Consistent
                }
            }
            RedundancyCode::ReedSolomon(code) => code.check_consistency(kernel, cells),
            RedundancyCode::RowDiagonal(code) => code.check_consistency(kernel, cells),
        }
    }
}
