//! Sequential writes to new rows. Their blocks go to an open zone, without a copy in the staging area.
//!
//! An open zone continues a sequence whose first rows were staged and started as [new rows](super::new_rows), as long
//! as the writer stays within the open rows. The blocks of an open zone have not been written yet. They become staged
//! if the zone does not fill up, or if an operation other than a write needs them.

use std::ops::Range;

use super::Staging;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::shared_block::SharedBlock;

/// Interval in zones at which the records of the next rows are read ahead.
const ZONES_PER_RECORD_READ: u64 = 4;

impl Staging {
    /// Returns true if a block that is about to be written belongs to the open zone. Before that, opens the zone that
    /// begins with this block if a sequential writer has reached it.
    pub(super) fn ensure_open_zone_for(&mut self, block: u64) -> bool {
        if !self.has_new_rows() && self.open_zone.is_none() {
            return false;
        }
        if !self.is_in_open_zone(block) {
            self.open_zone_at(block);
        }
        self.is_in_open_zone(block)
    }

    fn is_in_open_zone(&self, block: u64) -> bool {
        self.open_zone.as_ref().is_some_and(|zone| zone.has(block))
    }

    /// Sets the content of a block in the open zone.
    ///
    /// # Errors
    /// Returns an error if the array failed.
    ///
    /// # Panics
    /// Panics if the block is not in the open zone; see [`Staging::ensure_open_zone_for`].
    pub(super) fn put_in_open_zone(&mut self, block: u64, content: SharedBlock) -> Result<()> {
        let open_zone = self.open_zone.as_mut().expect("a zone is open");
        let replaced = open_zone.put(block, content);
        self.writer.rows.members.buffers.recycle_blocks(replaced);
        if open_zone.is_full() { self.start_full_zone() } else { Ok(()) }
    }

    /// Opens the zone of a block if a sequential writer has reached it.
    fn open_zone_at(&mut self, block: u64) {
        let layout = *self.writer.rows.members.layout();
        let unit = self.new_rows.unit;
        let first = layout.locate(block).0 / unit * unit;
        let rows = first..first + unit;
        let begins = layout.block_at(first, 0);
        // The writer of the current zone may still send some of its last blocks.
        let is_next = self
            .open_zone
            .as_ref()
            .is_some_and(|zone| zone.rows().last().is_some_and(|last| last + 1 == first));
        if is_next || block != begins && !self.blocks.contains_key(&begins) || !self.can_open_zone(&rows) {
            return;
        }
        let Some(mut open_zone) = self.writer.open_zone(rows.clone().collect()) else { return };
        self.close_open_zone();
        for row in rows {
            for block in (0..layout.data_columns()).map(|column| layout.block_at(row, column)) {
                if let Some(staged) = self.blocks.remove(&block) {
                    open_zone.put(block, staged);
                }
            }
        }
        self.open_zone = Some(open_zone);
    }

    /// Returns true if rows are open, so they may be written without the journal, but their writes have not been
    /// started.
    fn can_open_zone(&self, rows: &Range<u64>) -> bool {
        self.writer.rows.members.config.open_rows.contains_range(rows)
            && self.new_rows.started.last_in(rows).is_none()
    }

    fn start_full_zone(&mut self) -> Result<()> {
        let Some(zone) = self.open_zone.take() else { return Ok(()) };
        let first = zone.rows()[0];
        let rows = first..first + zone.rows().len() as u64;
        if !self.can_open_zone(&rows) {
            self.blocks.extend(self.writer.close_zone(zone));
            return Ok(());
        }
        self.new_rows.started.insert(rows.clone());
        self.writer.rows.members.counters.new_rows += rows.end - rows.start;
        self.writer.start_zone(zone)?;
        if rows.end.is_multiple_of(ZONES_PER_RECORD_READ * ZONE_ROWS) {
            self.new_rows.read_records_ahead(&mut self.writer);
        }
        Ok(())
    }

    /// Closes the open zone. Its blocks become staged.
    pub fn close_open_zone(&mut self) {
        if let Some(zone) = self.open_zone.take() {
            self.blocks.extend(self.writer.close_zone(zone));
        }
    }

    /// Closes the open zone if it contains one of these blocks.
    pub(super) fn close_open_zone_with(&mut self, blocks: &[u64]) {
        if blocks.iter().any(|block| self.is_in_open_zone(*block)) {
            self.close_open_zone();
        }
    }
}
