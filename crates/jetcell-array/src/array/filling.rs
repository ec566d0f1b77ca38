//! The open zone of a sequential writer to new rows. The zone's blocks are passed directly to the member transfers,
//! without a copy in the staging area.
//!
//! An open zone continues a sequence whose first rows were staged and started as [new rows](super::new_rows), as long
//! as the writer stays within the open rows. The blocks of an open zone have not been written yet. They become staged
//! if the zone does not fill up, or if an operation other than a write needs them.

use std::ops::Range;

use super::{Array, OpenZone};
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::shared_block::SharedBlock;

/// Interval in zones at which the records of the next rows are read ahead.
const ZONES_PER_LOOK: u64 = 4;

/// The rows of a zone that is being filled. The rows are open but not started. All writes to these rows go to the
/// zone, and their blocks are never staged.
pub(super) struct Filling {
    pub(super) zone: OpenZone,
    rows: Range<u64>,
    blocks: usize,
    /// Number of blocks without content.
    missing: usize,
}

impl Filling {
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
    pub(super) fn is_filled_next(&mut self, block: u64) -> bool {
        if !self.has_new_rows() && self.filling.is_none() {
            return false;
        }
        let (row, _) = self.config.layout.locate(block);
        let is_filled =
            |filling: &Option<Filling>| filling.as_ref().is_some_and(|filling| filling.has_row(row));
        if !is_filled(&self.filling) {
            self.begin_filling(block);
        }
        is_filled(&self.filling)
    }

    /// Sets the content of a block in the open zone.
    ///
    /// # Errors
    /// The array failed.
    ///
    /// # Panics
    /// The block is not in the open zone; see [`Array::is_filled_next`].
    pub(super) fn fill(&mut self, block: u64, content: SharedBlock) -> Result<()> {
        let filling = self.filling.as_mut().expect("rows are filled");
        if let Some(replaced) = filling.put(block, content) {
            self.buffers.keep_block(replaced);
        }
        if filling.missing == 0 {
            self.start_filled_rows()?;
        }
        Ok(())
    }

    /// Opens the zone of a block if a sequential writer has reached it.
    fn begin_filling(&mut self, block: u64) {
        let layout = self.config.layout;
        let unit = self.new_rows.unit;
        let first = layout.locate(block).0 / unit * unit;
        let rows = first..first + unit;
        let begins = layout.block_at(first, 0);
        // The writer of the current zone may still send some of its last blocks.
        let is_next = self.filling.as_ref().is_some_and(|filling| filling.rows.end == first);
        if is_next || block != begins && !self.staged.contains_key(&begins) || !self.can_fill(&rows) {
            return;
        }
        let Some(zone) = self.open_zone(rows.clone().collect()) else { return };
        self.end_filling();
        let blocks = unit as usize * layout.data_columns();
        let mut filling = Filling { zone, rows: rows.clone(), blocks, missing: blocks };
        for row in rows {
            for block in (0..layout.data_columns()).map(|column| layout.block_at(row, column)) {
                if let Some(staged) = self.staged.remove(&block) {
                    filling.put(block, staged);
                }
            }
        }
        self.filling = Some(filling);
    }

    /// Returns true if rows are open, so they may be written without the journal, but have not been started yet.
    fn can_fill(&self, rows: &Range<u64>) -> bool {
        self.config.open_rows.contains_range(rows) && self.new_rows.started.last_in(rows).is_none()
    }

    fn start_filled_rows(&mut self) -> Result<()> {
        let Some(Filling { rows, .. }) = &self.filling else { return Ok(()) };
        let rows = rows.clone();
        if !self.can_fill(&rows) {
            self.end_filling();
            return Ok(());
        }
        let Some(Filling { zone, .. }) = self.filling.take() else { return Ok(()) };
        self.new_rows.started.insert(rows.clone());
        self.counters.new_rows += rows.end - rows.start;
        self.start_open_zone(zone)?;
        if rows.end.is_multiple_of(ZONES_PER_LOOK * ZONE_ROWS) {
            self.read_records_of_next_rows();
        }
        Ok(())
    }

    /// Closes the open zone. Its blocks become staged.
    pub(super) fn end_filling(&mut self) {
        let Some(Filling { zone, .. }) = self.filling.take() else { return };
        for (block, content) in zone.into_blocks() {
            // A shared block keeps a larger buffer in memory than the block needs, so it is copied.
            let copy = self.copied(&content, true);
            self.staged.insert(block, copy);
            self.buffers.keep_block(content);
        }
    }

    /// Closes the open zone if it contains one of these blocks.
    pub(super) fn end_filling_of(&mut self, blocks: &[u64]) {
        let layout = self.config.layout;
        let has = |filling: &Filling| blocks.iter().any(|block| filling.has_row(layout.locate(*block).0));
        if self.filling.as_ref().is_some_and(has) {
            self.end_filling();
        }
    }
}
