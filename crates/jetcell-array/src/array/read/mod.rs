//! Reads of array blocks for callers.

mod block_reader;

pub use self::block_reader::BlockReadAhead;
pub(in crate::array) use self::block_reader::BlockReader;
