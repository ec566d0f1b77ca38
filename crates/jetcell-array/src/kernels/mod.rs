//! Parity of blocks: computed, brought up to date after a change, solved for lost blocks, and questioned when no block admits
//! to be wrong.
//!
//! Data blocks of a row have the columns 0 to n - 1, parity blocks follow. An empty slice stands for a block of zeros. Nothing
//! here knows about members, files or checksums.

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

/// Bytes of the blocks that have loops of their own: those of an array. They also are the distance at which addresses meet in the same sets of a
/// first-level cache.
const BLOCK: usize = 4096;

/// Bytes of each column that are read in turn. Runs of 128 bytes of many blocks come from memory at its full rate, those of 256 bytes at 0.8
/// of it.
const RUN: usize = 128;

/// What the parity of a row says about its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// Parity and data agree.
    Consistent,
    /// They would agree if this column had other content.
    OneColumn(usize),
    /// They disagree, and no single column explains it.
    Inconsistent,
}
