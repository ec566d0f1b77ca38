//! A zone whose free rows get their blocks one by one, and are then written as one transfer of each member.
//!
//! [`Array::start_free_rows`] copies blocks that its caller has in memory. Here, the caller's copy is the only one: blocks are put where the
//! members' transfers begin.

use std::collections::BTreeSet;

use jetcell_sync::Arc;

use super::Array;
use super::zone_write::{Coding, Content, FreeRow, ZoneWrite};
use crate::bytes::copy_of;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::integrity::BlockRecord;

/// Records are read this many zones before they are needed: reads wait behind the writes that are under way.
const ZONES_AHEAD: u64 = 24;

/// Zones whose records are read at once.
const ZONES_AT_ONCE: u64 = 4;

/// Rows of a zone, and the content of their blocks, as far as it is known.
pub(crate) struct OpenZone {
    write: ZoneWrite,
    coding: Coding,
    /// Of the data of each row. Computed when the processor's cache has the block.
    checksums: Vec<Vec<u64>>,
    /// Of the parity of each row, which is computed when the row has its last block: the processor's cache still has the others. Empty: it
    /// must be computed.
    parity: Vec<Vec<u64>>,
}

impl OpenZone {
    /// Whether a block of the array is in one of the rows.
    pub fn has(&self, block: u64) -> bool {
        self.write.rows().binary_search(&self.coding.layout.locate(block).0).is_ok()
    }

    /// The content of a block, which was put there.
    ///
    /// # Panics
    /// The block is in another row.
    pub fn block(&self, block: u64) -> &[u8] {
        let layout = &self.coding.layout;
        let (row, column) = layout.locate(block);
        self.write.block(layout.slot(row, column), row)
    }

    /// Gives a block its content, instead of what it had.
    ///
    /// # Panics
    /// The block is in another row.
    pub fn put(&mut self, block: u64, content: &[u8]) {
        let layout = &self.coding.layout;
        let (row, column) = layout.locate(block);
        let index = self.write.rows().binary_search(&row).expect("a row of the write");
        let place = self.write.block_mut(layout.slot(row, column), row);
        place.copy_from_slice(content);
        self.checksums[index][column] = BlockRecord::checksum_of(place);
        self.parity[index].clear();
        if column + 1 == layout.data_columns() {
            self.parity[index] = self.write.encode_row(&self.coding, row);
        }
    }

    /// The checksums of all cells of each row, once the parity has its content.
    fn complete(&mut self) -> Vec<Vec<u64>> {
        let mut checksums = std::mem::take(&mut self.checksums);
        for (index, of_row) in checksums.iter_mut().enumerate() {
            if self.parity[index].is_empty() {
                self.parity[index] = self.write.encode_row(&self.coding, self.write.rows()[index]);
            }
            of_row.append(&mut self.parity[index]);
        }
        checksums
    }

    /// The rows with their content, in buffers of their own.
    fn copied_rows(&self) -> Vec<FreeRow> {
        let layout = &self.coding.layout;
        let block = |row, column| Arc::new(copy_of(self.block(layout.block_at(row, column))));
        let columns = |row| (0..layout.data_columns()).map(|column| block(row, column)).collect();
        self.write.rows().iter().map(|row| (*row, columns(*row))).collect()
    }
}

impl Array {
    /// Opens rows of one zone that nothing refers to, in ascending order. Their blocks have no content yet. `None`: cells have copies.
    pub(crate) fn open_zone(&mut self, rows: Vec<u64>) -> Option<OpenZone> {
        if self.code.copies() != 1 {
            return None;
        }
        let checksums = vec![vec![0; self.config.layout.data_columns()]; rows.len()];
        let parity = vec![vec![]; rows.len()];
        Some(OpenZone { write: self.zone_write(rows), coding: self.coding(), checksums, parity })
    }

    /// Starts to write the rows of a zone, whose blocks all have their content. See [`Array::start_free_rows`].
    ///
    /// # Errors
    /// The array failed. No write of free rows is under way then.
    pub(crate) fn start_open_zone(&mut self, open: OpenZone) -> Result<()> {
        let (zone, rows) = (open.write.zone(), open.write.rows().to_vec());
        self.prepare_free_rows(&rows)?;
        if zone.is_multiple_of(ZONES_AT_ONCE) {
            self.read_records_ahead(zone + 1..zone + 1 + ZONES_AHEAD);
        }
        let started = self.start_prepared(open, &rows);
        if started.is_err() {
            return self.finish_free_rows().and(started);
        }
        Ok(())
    }

    fn start_prepared(&mut self, mut open: OpenZone, rows: &[u64]) -> Result<()> {
        let devices = self.sole_devices();
        let devices = devices.filter(|devices| self.put_records(devices, &mut open.write).is_some());
        self.counters.blocks_written += (rows.len() * self.config.layout.data_columns()) as u64;
        let write = match devices {
            Some(devices) => {
                let checksums = open.complete();
                self.start_zone_writes(&devices, vec![(open.write, Content::Buffers(checksums))])
            }
            None => self.start_in_any_state(&open.copied_rows())?,
        };
        self.add_under_way(BTreeSet::from([rows[0] / ZONE_ROWS]), write)
    }

    /// Gives the buffers of a zone back that is not written.
    pub(crate) fn discard_open_zone(&mut self, open: OpenZone) {
        open.write.into_buffers().for_each(|buffer| self.buffers.keep(buffer));
    }
}
