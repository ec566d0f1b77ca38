//! Array geometry: the locations of the blocks, and the redundancy between the blocks of a row.
//!
//! A row has one block on each slot; a slot is the position of a member in the array. The blocks of a row are
//! numbered as cells: first the data columns, then the parity blocks. With mirrors, the cells are the copies of the
//! first column, then those of the second column, and so on.

mod code;
mod layout;
mod level;

pub use layout::ArrayLayout;
pub use level::{RaidLevel, UnknownLevel};

pub(crate) use code::RedundancyCode;

/// Size of a block in bytes. A block is the unit of reads, writes and checksums.
pub const BLOCK: usize = 4096;
/// Number of rows in a zone. On each member, the records of a zone's blocks are stored together in one block.
pub const ZONE_ROWS: u64 = 64;
/// Maximum number of slots in an array.
pub const MAX_SLOTS: usize = 32;
/// Exclusive upper bound for generation and commit numbers, which start at 1. A larger number cannot have been
/// written by an array, and adding to it could overflow.
pub const MAX_NUMBER: u64 = 1 << 62;
/// Maximum number of data columns in a row. Parity records have one byte for each column.
pub const MAX_DATA_COLUMNS: usize = 28;
