//! Where a block of the array is, and which blocks of a row follow from which.
//!
//! A row has one block of each slot (a slot is the place of a member). Its blocks are numbered as cells: the data columns, then
//! the parity blocks; with mirrors, the copies of the first column, of the second, and so on.

mod code;
mod layout;
mod level;

pub use layout::Layout;
pub use level::Level;

pub(crate) use code::Code;

/// Bytes of a block, the unit of reads, writes and checksums.
pub const BLOCK: usize = 4096;
/// Rows of a zone, whose blocks have their records together in one block.
pub const ZONE_ROWS: u64 = 64;
/// Most slots of an array.
pub const MAX_SLOTS: usize = 32;
/// Generations and commits are numbered from 1 to less than this. A greater number was not written by an array, and an addition
/// to it could overflow.
pub(crate) const MAX_NUMBER: u64 = 1 << 62;
/// Most data columns of a row, because parity records keep one byte for each.
pub const MAX_DATA_COLUMNS: usize = 28;
