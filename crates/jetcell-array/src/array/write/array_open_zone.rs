//! The open zone of a sequential writer to new rows. The zone's blocks are passed directly to the member transfers,
//! without a copy in the staging area.
//!
//! An open zone continues a sequence whose first rows were staged and started as [new rows](crate::array::write::new_rows), as long
//! as the writer stays within the open rows. The blocks of an open zone have not been written yet. They become staged
//! if the zone does not fill up, or if an operation other than a write needs them.

use std::ops::Range;

use crate::array::{Array, ZoneBuffer};
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::shared_block::SharedBlock;

/// Interval in zones at which the records of the next rows are read ahead.
const ZONES_PER_RECORD_READ: u64 = 4;

/// The rows of a zone that is being filled. The rows are open but not started. All writes to these rows go to the
/// zone, and their blocks are never staged.
pub(in crate::array) struct ArrayOpenZone {
    pub(in crate::array) zone: ZoneBuffer,
    rows: Range<u64>,
    blocks: usize,
    /// Number of blocks without content.
    missing: usize,
}

impl ArrayOpenZone {
    fn has_row(&self, row: u64) -> bool {
        self.rows.contains(&row)
    }

    /// Returns the number of blocks with content.
    pub fn len(&self) -> usize {
        self.blocks - self.missing
    }

    /// Sets the content of a block. Returns its previous content.
    fn put(&mut self, block: u64, content: SharedBlock) -> Option<SharedBlock> {
        let replaced = self.zone.put(block, content);
        self.missing -= usize::from(replaced.is_none());
        replaced
    }
}

impl Array {
    /// Returns true if a block that is about to be written belongs to the open zone. If a sequential writer has
    /// reached a zone that begins with this block, opens the zone.
    pub(in crate::array) fn ensure_open_zone_for(&mut self, block: u64) -> bool {
        if !self.has_new_rows() && self.open_zone.is_none() {
            return false;
        }
        let (row, _) = self.config.layout.locate(block);
        let has_row = |open_zone: &Option<ArrayOpenZone>| {
            open_zone.as_ref().is_some_and(|filling| filling.has_row(row))
        };
        if !has_row(&self.open_zone) {
            self.open_zone_at(block);
        }
        has_row(&self.open_zone)
    }

    /// Sets the content of a block in the open zone.
    ///
    /// # Errors
    /// The array failed.
    ///
    /// # Panics
    /// The block is not in the open zone; see [`Array::ensure_open_zone_for`].
    pub(in crate::array) fn put_in_open_zone(&mut self, block: u64, content: SharedBlock) -> Result<()> {
        let open_zone = self.open_zone.as_mut().expect("a zone is open");
        if let Some(replaced) = open_zone.put(block, content) {
            self.buffers.recycle_block(replaced);
        }
        if open_zone.missing == 0 {
            self.start_full_zone()?;
        }
        Ok(())
    }

    /// Opens the zone of a block if a sequential writer has reached it.
    fn open_zone_at(&mut self, block: u64) {
        let layout = self.config.layout;
        let unit = self.new_rows.unit;
        let first = layout.locate(block).0 / unit * unit;
        let rows = first..first + unit;
        let begins = layout.block_at(first, 0);
        // The writer of the current zone may still send some of its last blocks.
        let is_next = self.open_zone.as_ref().is_some_and(|open_zone| open_zone.rows.end == first);
        if is_next || block != begins && !self.staged.contains_key(&begins) || !self.can_open_zone(&rows) {
            return;
        }
        let Some(zone) = self.start_zone_buffer(rows.clone().collect()) else { return };
        self.close_open_zone();
        let blocks = unit as usize * layout.data_columns();
        let mut open_zone = ArrayOpenZone { zone, rows: rows.clone(), blocks, missing: blocks };
        for row in rows {
            for block in (0..layout.data_columns()).map(|column| layout.block_at(row, column)) {
                if let Some(staged) = self.staged.remove(&block) {
                    open_zone.put(block, staged);
                }
            }
        }
        self.open_zone = Some(open_zone);
    }

    /// Returns true if rows are open, so they may be written without the journal, but have not been started yet.
    fn can_open_zone(&self, rows: &Range<u64>) -> bool {
        self.config.open_rows.contains_range(rows) && self.new_rows.started.last_in(rows).is_none()
    }

    fn start_full_zone(&mut self) -> Result<()> {
        let Some(ArrayOpenZone { rows, .. }) = &self.open_zone else { return Ok(()) };
        let rows = rows.clone();
        if !self.can_open_zone(&rows) {
            self.close_open_zone();
            return Ok(());
        }
        let Some(ArrayOpenZone { zone, .. }) = self.open_zone.take() else { return Ok(()) };
        self.new_rows.started.insert(rows.clone());
        self.counters.new_rows += rows.end - rows.start;
        self.start_open_zone(zone)?;
        if rows.end.is_multiple_of(ZONES_PER_RECORD_READ * ZONE_ROWS) {
            self.read_records_of_next_rows();
        }
        Ok(())
    }

    /// Closes the open zone. Its blocks become staged.
    pub(in crate::array) fn close_open_zone(&mut self) {
        let Some(ArrayOpenZone { zone, .. }) = self.open_zone.take() else { return };
        for (block, content) in zone.into_blocks() {
            // A shared block keeps a larger buffer in memory than the block needs, so it is copied.
            let copy = self.copy_to_block(&content, true);
            self.staged.insert(block, copy);
            self.buffers.recycle_block(content);
        }
    }

    /// Closes the open zone if it contains one of these blocks.
    pub(in crate::array) fn close_open_zone_with(&mut self, blocks: &[u64]) {
        let layout = self.config.layout;
        let has_written_row =
            |filling: &ArrayOpenZone| blocks.iter().any(|block| filling.has_row(layout.locate(*block).0));
        if self.open_zone.as_ref().is_some_and(has_written_row) {
            self.close_open_zone();
        }
    }
}
