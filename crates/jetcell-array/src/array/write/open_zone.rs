//! A zone whose rows receive their blocks one at a time. The rows are then written with one transfer per member.
//!
//! The blocks stay in the writer's buffers until a [worker](super::zone_worker) copies them into the transfers.

use crate::array::rows::FreeRowWrite;
use crate::geometry::ArrayLayout;
use crate::shared_block::SharedBlock;

/// Maximum total size of the shared buffers of a zone, in bytes. A single block keeps its whole buffer in memory,
/// even if the other blocks of the buffer were replaced.
const MAX_ADOPTED_BYTES: usize = 32 << 20;

/// Rows of a zone, with the contents of the blocks written so far. Nothing refers to the rows, and their writes have
/// not started. The layer that opened the zone decides which blocks go into it, and when to write or close it.
pub struct OpenZone {
    layout: ArrayLayout,
    /// Rows in ascending order.
    rows: Vec<u64>,
    /// Content by row and column.
    blocks: Vec<Option<SharedBlock>>,
    /// Number of blocks without content.
    missing: usize,
    /// Total size of the buffers taken over for the zone's blocks, in bytes.
    adopted_bytes: usize,
}

impl OpenZone {
    pub(super) fn new(layout: ArrayLayout, rows: Vec<u64>) -> OpenZone {
        let missing = rows.len() * layout.data_columns();
        OpenZone { layout, rows, blocks: vec![None; missing], missing, adopted_bytes: 0 }
    }

    /// Returns the rows in ascending order.
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Returns the index of a block in `blocks`, or `None` if the block is in another row.
    fn block_index(&self, block: u64) -> Option<usize> {
        let (row, column) = self.layout.locate(block);
        let index = self.rows.binary_search(&row).ok()?;
        Some(index * self.layout.data_columns() + column)
    }

    /// Returns true if a block of the array is in one of the rows.
    pub fn has(&self, block: u64) -> bool {
        self.block_index(block).is_some()
    }

    /// Returns the content of a block of the array, if it was set.
    pub fn block(&self, block: u64) -> Option<&SharedBlock> {
        self.blocks[self.block_index(block)?].as_ref()
    }

    /// Returns the number of blocks with content.
    pub fn filled(&self) -> usize {
        self.blocks.len() - self.missing
    }

    /// Returns true if all blocks have content, so the zone can be written.
    pub fn is_full(&self) -> bool {
        self.missing == 0
    }

    /// Sets the content of a block. Returns its previous content.
    ///
    /// # Panics
    /// Panics if the block is in another row.
    pub fn put(&mut self, block: u64, content: SharedBlock) -> Option<SharedBlock> {
        let place = self.block_index(block).expect("a row of the zone");
        let replaced = self.blocks[place].replace(content);
        self.missing -= usize::from(replaced.is_none());
        replaced
    }

    /// Returns true if a buffer of this size may be taken over for blocks of the zone, and counts it.
    pub(super) fn reserve_adopted_bytes(&mut self, bytes: usize) -> bool {
        let fits = self.adopted_bytes + bytes <= MAX_ADOPTED_BYTES;
        self.adopted_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Returns the blocks that have content.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = (u64, SharedBlock)> {
        let OpenZone { layout, rows, blocks, .. } = self;
        let cells = rows
            .into_iter()
            .flat_map(move |row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column)));
        cells.zip(blocks).filter_map(|(block, content)| Some((block, content?)))
    }

    /// Returns the rows, whose blocks must all have content.
    pub(super) fn into_rows(self) -> Vec<FreeRowWrite> {
        let columns = self.layout.data_columns();
        let mut blocks = self.blocks.into_iter().map(|block| block.expect("the zone is full"));
        self.rows.into_iter().map(|row| (row, blocks.by_ref().take(columns).collect())).collect()
    }
}
