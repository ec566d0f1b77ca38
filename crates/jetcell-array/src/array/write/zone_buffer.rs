//! A zone whose free rows receive their blocks one at a time. The rows are then written with one transfer per member.
//!
//! The blocks stay in the writer's buffers until a [worker](crate::array::write::zone_worker) copies them into the transfers.

use jetcell_vfs::IoBuffer;

use super::zone_encoding::FreeRowWrite;
use crate::array::Array;
use crate::array::members::{BufferPool, MIN_POOLED_BYTES};
use crate::error::Result;
use crate::geometry::{ArrayLayout, ZONE_ROWS};
use crate::shared_block::SharedBlock;

/// Number of zones for which records are read ahead. Reads wait for the writes in flight, so records are read early.
const ZONES_AHEAD: u64 = 24;

/// Interval in zones at which records are read ahead.
const ZONES_PER_READ: u64 = 4;

/// Maximum total size of the shared buffers of a zone, in bytes. A single block keeps its whole buffer in memory,
/// even if the other blocks of the buffer were replaced.
const MAX_ADOPTED_BYTES: usize = 32 << 20;

/// Buffers rows of a zone, with the contents of the blocks written so far.
pub struct ZoneBuffer {
    layout: ArrayLayout,
    /// Rows in ascending order.
    rows: Vec<u64>,
    /// Content by row and column.
    blocks: Vec<Option<SharedBlock>>,
    /// Total size of the buffers taken over for the zone's blocks, in bytes.
    adopted_bytes: usize,
}

impl ZoneBuffer {
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

    /// Sets the content of a block. Returns its previous content.
    ///
    /// # Panics
    /// The block is in another row.
    pub fn put(&mut self, block: u64, content: SharedBlock) -> Option<SharedBlock> {
        let place = self.block_index(block).expect("a row of the zone");
        self.blocks[place].replace(content)
    }

    /// Takes over a buffer for blocks of the zone, and gives the caller a buffer of the same length and capacity with
    /// arbitrary content in exchange. Returns `None` if the content must be copied instead.
    pub(in crate::array) fn adopt_buffer(
        &mut self,
        buffers: &mut BufferPool,
        buffer: &mut IoBuffer,
    ) -> Option<Vec<SharedBlock>> {
        let bytes = buffer.capacity();
        if bytes < MIN_POOLED_BYTES || self.adopted_bytes + bytes > MAX_ADOPTED_BYTES {
            return None;
        }
        self.adopted_bytes += bytes;
        let mut other = buffers.take_exact(bytes);
        other.resize(buffer.len());
        Some(SharedBlock::split_buffer(std::mem::replace(buffer, other)))
    }

    /// Returns the blocks that have content.
    pub fn into_blocks(self) -> impl Iterator<Item = (u64, SharedBlock)> {
        let ZoneBuffer { layout, rows, blocks, .. } = self;
        let cells = rows
            .into_iter()
            .flat_map(move |row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column)));
        cells.zip(blocks).filter_map(|(block, content)| Some((block, content?)))
    }

    /// Returns the rows, whose blocks must all have content.
    fn into_rows(self) -> Vec<FreeRowWrite> {
        let columns = self.layout.data_columns();
        let mut blocks = self.blocks.into_iter().map(|block| block.expect("the zone is full"));
        self.rows.into_iter().map(|row| (row, blocks.by_ref().take(columns).collect())).collect()
    }
}

impl Array {
    /// Opens rows of one zone, in ascending order. Nothing may refer to the rows, and their blocks have no content
    /// yet. Returns `None` if cells have copies.
    pub fn start_zone_buffer(&mut self, rows: Vec<u64>) -> Option<ZoneBuffer> {
        if self.code.copies() != 1 {
            return None;
        }
        let layout = self.config.layout;
        let blocks = vec![None; rows.len() * layout.data_columns()];
        Some(ZoneBuffer { layout, rows, blocks, adopted_bytes: 0 })
    }

    /// Takes over a caller's buffer for blocks of a zone. See [`ZoneBuffer::adopt_buffer`].
    pub fn adopt_buffer(&mut self, zone: &mut ZoneBuffer, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        zone.adopt_buffer(&mut self.buffers, buffer)
    }

    /// Starts to write the rows of a zone, whose blocks must all have content. See [`Array::start_free_rows`].
    ///
    /// # Errors
    /// The array failed. No write of free rows is in flight then.
    pub fn start_open_zone(&mut self, open: ZoneBuffer) -> Result<()> {
        let zone = open.rows[0] / ZONE_ROWS;
        self.prepare_free_rows(&open.rows)?;
        if zone.is_multiple_of(ZONES_PER_READ) {
            self.read_generations_ahead(zone + 1..zone + 1 + ZONES_AHEAD);
        }
        let started = self.start_prepared(open);
        if started.is_err() {
            return self.finish_rows().and(started);
        }
        Ok(())
    }

    fn start_prepared(&mut self, open: ZoneBuffer) -> Result<()> {
        let mut write = self.zone_write(open.rows.clone());
        let rows = open.into_rows();
        self.counters.blocks_written += rows.iter().map(|(_, columns)| columns.len() as u64).sum::<u64>();
        let devices = self.device_per_slot();
        match devices.filter(|devices| self.put_records(devices, &mut write).is_some()) {
            Some(devices) => self.compute_zone(devices, write, rows),
            None => {
                let started = self.start_rows_in_any_state(&rows)?;
                self.track_row_writes([write.zone()].into(), started)
            }
        }
    }
}
