//! New rows that are filled: their blocks go straight to where the members' transfers begin, without a copy in memory before.
//!
//! This goes on where [new rows](super::new_rows) of staged blocks have begun, as long as a writer follows the open rows. What is filled is
//! not written: it becomes staged again when the rows do not become full, or when anything but a write needs it.

use std::ops::Range;

use super::{Array, OpenZone};
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::shared_block::SharedBlock;

/// Records of the next rows are read so many zones apart.
const ZONES_PER_LOOK: u64 = 4;

/// Rows of a zone that are open and not started. All writes to them go here; none of their blocks is staged.
pub(super) struct Filling {
    pub(super) zone: OpenZone,
    rows: Range<u64>,
    blocks: usize,
    /// Blocks without content.
    missing: usize,
}

impl Filling {
    fn has_row(&self, row: u64) -> bool {
        self.rows.contains(&row)
    }

    /// Blocks that have content.
    pub fn len(&self) -> usize {
        self.blocks - self.missing
    }

    /// Returns what the block had.
    fn put(&mut self, block: u64, content: SharedBlock) -> Option<SharedBlock> {
        let replaced = self.zone.put(block, content);
        self.missing -= usize::from(replaced.is_none());
        replaced
    }
}

impl Array {
    /// Whether a block that is written now belongs to the rows that are filled, which may begin with it.
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

    /// Gives a block of the rows that are filled its content.
    ///
    /// # Errors
    /// The array failed.
    ///
    /// # Panics
    /// The block is for others: see [`Array::is_filled_next`].
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

    /// Begins to fill the rows of a block if a writer has come to them.
    fn begin_filling(&mut self, block: u64) {
        let layout = self.config.layout;
        let unit = self.new_rows.unit;
        let first = layout.locate(block).0 / unit * unit;
        let rows = first..first + unit;
        let begins = layout.block_at(first, 0);
        // The writer of the rows before may send some of their last blocks late.
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

    /// Whether rows are open, so that they may be written without the journal, and were not written yet.
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

    /// Makes staged what is filled.
    pub(super) fn end_filling(&mut self) {
        let Some(Filling { zone, .. }) = self.filling.take() else { return };
        for (block, content) in zone.into_blocks() {
            // What is shared keeps more in memory than the block.
            let copy = self.copied(&content, true);
            self.staged.insert(block, copy);
            self.buffers.keep_block(content);
        }
    }

    /// Makes staged what is filled, if some of these blocks are there.
    pub(super) fn end_filling_of(&mut self, blocks: &[u64]) {
        let layout = self.config.layout;
        let has = |filling: &Filling| blocks.iter().any(|block| filling.has_row(layout.locate(*block).0));
        if self.filling.as_ref().is_some_and(has) {
            self.end_filling();
        }
    }
}
