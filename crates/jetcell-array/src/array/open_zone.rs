//! A zone whose free rows get their blocks one by one, and are then written as one transfer of each member.
//!
//! The blocks stay where their writer had them, until a [worker](super::zone_worker) brings them to the transfers.

use jetcell_vfs::IoBuffer;

use super::Array;
use super::buffers::{Buffers, SHORTEST};
use super::zone_write::FreeRow;
use crate::error::Result;
use crate::geometry::{Layout, ZONE_ROWS};
use crate::shared_block::SharedBlock;

/// Records are read this many zones before they are needed: reads wait behind the writes that are under way.
const ZONES_AHEAD: u64 = 24;

/// Zones whose records are read at once.
const ZONES_AT_ONCE: u64 = 4;

/// Bytes of shared buffers, at most. One block keeps all of its buffer, of which others may have been replaced.
const MOST_SHARED: usize = 32 << 20;

/// Rows of a zone, and the content of their blocks, as far as it is known.
pub(crate) struct OpenZone {
    layout: Layout,
    /// In ascending order.
    rows: Vec<u64>,
    /// By row and column.
    blocks: Vec<Option<SharedBlock>>,
    /// Bytes of buffers that were given away for blocks of the zone.
    shared: usize,
}

impl OpenZone {
    /// The place of a block in `blocks`. `None`: it is in another row.
    fn place(&self, block: u64) -> Option<usize> {
        let (row, column) = self.layout.locate(block);
        let index = self.rows.binary_search(&row).ok()?;
        Some(index * self.layout.data_columns() + column)
    }

    /// Whether a block of the array is in one of the rows.
    pub fn has(&self, block: u64) -> bool {
        self.place(block).is_some()
    }

    /// The content of a block of the array, if it was put there.
    pub fn block(&self, block: u64) -> Option<&SharedBlock> {
        self.blocks[self.place(block)?].as_ref()
    }

    /// Gives a block its content. Returns what it had.
    ///
    /// # Panics
    /// The block is in another row.
    pub fn put(&mut self, block: u64, content: SharedBlock) -> Option<SharedBlock> {
        let place = self.place(block).expect("a row of the zone");
        self.blocks[place].replace(content)
    }

    /// Takes a buffer over for blocks of the zone, and leaves another one of its length and capacity, with any content. `None`: its content
    /// must be copied.
    pub(super) fn share(&mut self, buffers: &mut Buffers, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        let bytes = buffer.capacity();
        if bytes < SHORTEST || self.shared + bytes > MOST_SHARED {
            return None;
        }
        self.shared += bytes;
        let mut other = buffers.take_exact(bytes);
        other.resize(buffer.len());
        Some(SharedBlock::all_of(std::mem::replace(buffer, other)))
    }

    /// Blocks that have content.
    pub fn into_blocks(self) -> impl Iterator<Item = (u64, SharedBlock)> {
        let OpenZone { layout, rows, blocks, .. } = self;
        let cells = rows
            .into_iter()
            .flat_map(move |row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column)));
        cells.zip(blocks).filter_map(|(block, content)| Some((block, content?)))
    }

    /// The rows, whose blocks all have their content.
    fn into_rows(self) -> Vec<FreeRow> {
        let columns = self.layout.data_columns();
        let mut blocks = self.blocks.into_iter().map(|block| block.expect("the zone is full"));
        self.rows.into_iter().map(|row| (row, blocks.by_ref().take(columns).collect())).collect()
    }
}

impl Array {
    /// Opens rows of one zone that nothing refers to, in ascending order. Their blocks have no content yet. `None`: cells have copies.
    pub(crate) fn open_zone(&mut self, rows: Vec<u64>) -> Option<OpenZone> {
        if self.code.copies() != 1 {
            return None;
        }
        let layout = self.config.layout;
        let blocks = vec![None; rows.len() * layout.data_columns()];
        Some(OpenZone { layout, rows, blocks, shared: 0 })
    }

    /// Takes a buffer of a caller over for blocks of a zone. See [`OpenZone::share`].
    pub(crate) fn share(&mut self, zone: &mut OpenZone, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        zone.share(&mut self.buffers, buffer)
    }

    /// Starts to write the rows of a zone, whose blocks all have their content. See [`Array::start_free_rows`].
    ///
    /// # Errors
    /// The array failed. No write of free rows is under way then.
    pub(crate) fn start_open_zone(&mut self, open: OpenZone) -> Result<()> {
        let zone = open.rows[0] / ZONE_ROWS;
        self.prepare_free_rows(&open.rows)?;
        if zone.is_multiple_of(ZONES_AT_ONCE) {
            self.read_generations_ahead(zone + 1..zone + 1 + ZONES_AHEAD);
        }
        let started = self.start_prepared(open);
        if started.is_err() {
            return self.finish_rows().and(started);
        }
        Ok(())
    }

    fn start_prepared(&mut self, open: OpenZone) -> Result<()> {
        let mut write = self.zone_write(open.rows.clone());
        let rows = open.into_rows();
        self.counters.blocks_written += rows.iter().map(|(_, columns)| columns.len() as u64).sum::<u64>();
        let devices = self.sole_devices();
        match devices.filter(|devices| self.put_records(devices, &mut write).is_some()) {
            Some(devices) => self.compute_zone(devices, write, rows),
            None => {
                let started = self.start_in_any_state(&rows)?;
                self.add_under_way([write.zone()].into(), started)
            }
        }
    }
}
