//! Rows: their state and verified content, recovery of lost blocks, and planning of writes.

mod fetched_blocks;
mod parity_method;
mod row_content;
mod zone_encoding;

use std::collections::BTreeMap;

use super::members::MemberSet;
use crate::integrity::BlockRecord;
use crate::kernels::Kernel;
use crate::shared_block::SharedBlock;

use self::fetched_blocks::FetchedBlocks;

pub(crate) use self::fetched_blocks::BlockLocation;
pub(crate) use self::row_content::WholeRow;
pub use self::zone_encoding::FreeRowWrite;
pub(crate) use self::zone_encoding::{RowEncoder, ZoneWrite, fill_all, is_whole};

/// New contents of the columns that a write to a row covers, by column number.
pub(crate) type NewColumns = BTreeMap<usize, SharedBlock>;

/// A cell's new contents and its new block record.
pub(crate) struct CellWrite {
    pub cell: usize,
    pub record: BlockRecord,
    pub block: SharedBlock,
}

/// Rows on the members. Nothing here waits for writes in flight, so the caller must not use rows that are being
/// written.
pub(crate) struct RowStore {
    pub members: MemberSet,
    pub kernel: Kernel,
    /// Blocks that were fetched for the current operation.
    fetched: FetchedBlocks,
}

impl RowStore {
    pub fn new(members: MemberSet, kernel: Kernel) -> RowStore {
        RowStore { members, kernel, fetched: FetchedBlocks::default() }
    }
}
