//! Block parity: computing it, updating it after a change, recovering lost blocks from it, and checking it when no
//! block is known to be damaged.
//!
//! The data blocks of a row are columns 0 to n - 1, and the parity blocks follow. An empty slice stands for a block
//! of zeros. This module does not deal with members, files or checksums.

mod diagonals;
mod galois;
mod kernel;
mod lanes;
mod p_and_q;
mod reed_solomon;
mod row_diagonal;
#[cfg(test)]
mod tests;
mod words;

pub use kernel::{InstructionSet, Kernel};
pub use reed_solomon::ReedSolomon;
pub use row_diagonal::{RecoveryStep, RowDiagonal};

/// Size in bytes of blocks for which there are specialized loops. This is the block size of an array, and also the
/// distance at which addresses map to the same L1 cache sets.
const BLOCK: usize = 4096;

/// Number of bytes that are read from each column in turn. Runs of 128 bytes from many blocks reach the full memory
/// bandwidth, whereas runs of 256 bytes reach only 80 % of it.
const RUN: usize = 128;

/// Result of checking the parity of an array row against its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// Parity and data agree.
    Consistent,
    /// Parity and data would agree if this column had different content.
    OneColumn(usize),
    /// Parity and data disagree, and a change to a single column does not explain it.
    Inconsistent,
}
