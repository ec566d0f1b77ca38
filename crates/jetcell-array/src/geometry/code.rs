//! Redundancy of a row, with one interface for mirrors and parity.

use crate::kernels::{Consistency, Kernel, ReedSolomon, RowDiagonal};

/// Redundancy code of a row: which cells can be computed from which other cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    /// Each data column has this many copies; one copy means no redundancy.
    Mirror { copies: usize },
    /// Parity over GF(2^8).
    Sums(ReedSolomon),
    /// Row and diagonal parity.
    Diagonal(RowDiagonal),
}

impl Code {
    /// Returns the number of parity cells in a row.
    pub fn parities(&self) -> usize {
        match self {
            Code::Mirror { .. } => 0,
            Code::Sums(code) => code.parities(),
            Code::Diagonal(_) => 2,
        }
    }

    /// Returns the number of cells of a data column.
    pub fn copies(&self) -> usize {
        if let Code::Mirror { copies } = self { *copies } else { 1 }
    }

    /// Returns the number of data columns in a row with this many cells.
    pub fn data_columns(&self, cells: usize) -> usize {
        (cells - self.parities()) / self.copies()
    }

    /// Returns the number of lost cells that can be recovered regardless of their position.
    pub fn tolerance(&self) -> usize {
        match self {
            Code::Mirror { copies } => copies - 1,
            _ => self.parities(),
        }
    }

    /// Returns true if the cells in `lost` can be recovered.
    pub fn recovers(&self, lost: &[usize]) -> bool {
        match self {
            Code::Mirror { copies } => lost.iter().all(|cell| {
                let column = cell / copies;
                lost.iter().filter(|other| *other / copies == column).count() < *copies
            }),
            _ => lost.len() <= self.parities(),
        }
    }

    /// Computes parity from all data columns. Mirrors have no parity.
    pub fn encode(&self, kernel: &Kernel, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        match (self, parity) {
            (Code::Mirror { .. }, _) => {}
            (Code::Sums(code), parity) => code.encode(kernel, data, parity),
            (Code::Diagonal(code), [rows, diagonals]) => code.encode(kernel, data, rows, diagonals),
            (Code::Diagonal(_), _) => panic!("two parity blocks"),
        }
    }

    /// Computes the cells in `lost` from the others. [`Code::recovers`] must be true for them.
    pub fn recover(&self, kernel: &Kernel, cells: &mut [&mut [u8]], lost: &[usize]) {
        match self {
            Code::Mirror { copies } => {
                for &cell in lost {
                    let column = cell / copies * copies..(cell / copies + 1) * copies;
                    let good =
                        column.into_iter().find(|other| !lost.contains(other)).expect("a copy is left");
                    let target = std::mem::take(&mut cells[cell]);
                    target.copy_from_slice(cells[good]);
                    cells[cell] = target;
                }
            }
            Code::Sums(code) => code.recover(kernel, cells, lost),
            Code::Diagonal(code) => code.recover(kernel, cells, lost),
        }
    }

    /// Updates parity after a change to one data column. `delta` is the old content XOR the new content.
    pub fn update(&self, kernel: &Kernel, column: usize, delta: &[u8], parity: &mut [&mut [u8]]) {
        match self {
            Code::Mirror { .. } => {}
            Code::Sums(code) => code.update(kernel, column, delta, parity),
            Code::Diagonal(code) => code.update(kernel, column, delta, parity),
        }
    }

    /// Checks whether the redundancy agrees with the data.
    pub fn examine(&self, kernel: &Kernel, cells: &[&[u8]]) -> Consistency {
        match self {
            Code::Mirror { copies } => {
                let differs = |column: &[&[u8]]| column.iter().any(|cell| cell != &column[0]);
                if cells.chunks(*copies).any(differs) {
                    Consistency::Inconsistent
                } else {
                    Consistency::Consistent
                }
            }
            Code::Sums(code) => code.examine(kernel, cells),
            Code::Diagonal(code) => code.examine(kernel, cells),
        }
    }
}
