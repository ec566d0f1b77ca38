//! Reads: batches for callers, and the verified or recovered content of rows.

mod batches;
mod fetched_blocks;
mod row_content;

pub use self::batches::BlockReadAhead;
pub(in crate::array) use self::fetched_blocks::FetchedBlocks;
