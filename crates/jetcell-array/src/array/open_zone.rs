//! A zone whose free rows get their blocks one by one, and are then written as one transfer of each member.
//!
//! [`Array::start_free_rows`] copies blocks that its caller has in memory. Here, the caller's copy is the only one: blocks are put where the
//! members' transfers begin.

use super::Array;
use super::zone_write::{Content, ZoneWrite};
use crate::error::Result;
use crate::geometry::Layout;
use crate::integrity::BlockRecord;

/// Records are read this many zones before they are needed: reads wait behind the writes that are under way.
const ZONES_AHEAD: u64 = 24;

/// Zones whose records are read at once.
const ZONES_AT_ONCE: u64 = 4;

/// Rows of a zone, and the content of their blocks, as far as it is known.
pub(crate) struct OpenZone {
    write: ZoneWrite,
    layout: Layout,
    /// By row and column. Computed when the processor's cache has the block.
    checksums: Vec<u64>,
}

impl OpenZone {
    /// Whether a block of the array is in one of the rows.
    pub fn has(&self, block: u64) -> bool {
        self.write.rows().binary_search(&self.layout.locate(block).0).is_ok()
    }

    /// The content of a block, which was put there.
    ///
    /// # Panics
    /// The block is in another row.
    pub fn block(&self, block: u64) -> &[u8] {
        let (row, column) = self.layout.locate(block);
        self.write.block(self.layout.slot(row, column), row)
    }

    /// Gives a block its content, instead of what it had.
    ///
    /// # Panics
    /// The block is in another row.
    pub fn put(&mut self, block: u64, content: &[u8]) {
        let (row, column) = self.layout.locate(block);
        let place = self.write.block_mut(self.layout.slot(row, column), row);
        place.copy_from_slice(content);
        let checksum = BlockRecord::checksum_of(place);
        let index = self.write.rows().binary_search(&row).expect("a row of the write");
        self.checksums[index * self.layout.data_columns() + column] = checksum;
    }
}

impl Array {
    /// Opens rows of one zone that nothing refers to, in ascending order. Their blocks have no content yet. `None`: cells have copies.
    pub(crate) fn open_zone(&mut self, rows: Vec<u64>) -> Option<OpenZone> {
        if self.code.copies() != 1 {
            return None;
        }
        let layout = self.config.layout;
        let checksums = vec![0; rows.len() * layout.data_columns()];
        Some(OpenZone { write: self.zone_write(rows), layout, checksums })
    }

    /// Starts to write the rows of a zone, whose blocks all have their content. See [`Array::start_free_rows`].
    ///
    /// # Errors
    /// The array failed. No write of free rows is under way then.
    pub(crate) fn start_open_zone(&mut self, open: OpenZone) -> Result<()> {
        let zone = open.write.zone();
        self.prepare_free_rows(open.write.rows())?;
        if zone.is_multiple_of(ZONES_AT_ONCE) {
            self.read_records_ahead(zone + 1..zone + 1 + ZONES_AHEAD);
        }
        let started = self.start_prepared(open);
        if started.is_err() {
            return self.finish_free_rows().and(started);
        }
        Ok(())
    }

    fn start_prepared(&mut self, open: OpenZone) -> Result<()> {
        let OpenZone { mut write, layout, checksums } = open;
        self.counters.blocks_written += (write.rows().len() * layout.data_columns()) as u64;
        let devices = self.sole_devices();
        match devices.filter(|devices| self.put_records(devices, &mut write).is_some()) {
            Some(devices) => self.compute_zone(devices, write, Content::Buffers(checksums)),
            None => {
                let started = self.start_in_any_state(&write.copied_rows(&layout))?;
                self.add_under_way([write.zone()].into(), started)
            }
        }
    }

    /// Gives the buffers of a zone back that is not written.
    pub(crate) fn discard_open_zone(&mut self, open: OpenZone) {
        open.write.into_buffers().for_each(|buffer| self.buffers.keep(buffer));
    }
}
