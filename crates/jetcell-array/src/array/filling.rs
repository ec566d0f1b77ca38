//! New rows that are filled: their blocks go straight to where the members' transfers begin, without a copy in memory before.
//!
//! This goes on where [new rows](super::new_rows) of staged blocks have begun, as long as a writer follows the open rows. What is filled is
//! not written: it becomes staged again when the rows do not become full, or when anything but a write needs it.

use std::ops::Range;

use jetcell_sync::Arc;

use super::{Array, OpenZone};
use crate::bytes::copy_of;
use crate::error::Result;
use crate::geometry::{Layout, ZONE_ROWS};

/// Records of the next rows are read so many zones apart.
const ZONES_PER_LOOK: u64 = 4;

/// Rows of a zone that are open and not started. All writes to them go here; none of their blocks is staged.
pub(super) struct Filling {
    zone: OpenZone,
    rows: Range<u64>,
    /// By row and column, whether the block has content.
    filled: Vec<bool>,
    missing: usize,
}

impl Filling {
    fn has_row(&self, row: u64) -> bool {
        self.rows.contains(&row)
    }

    /// Blocks that have content.
    pub fn len(&self) -> usize {
        self.filled.len() - self.missing
    }

    fn put(&mut self, layout: &Layout, block: u64, data: &[u8]) {
        let (row, column) = layout.locate(block);
        self.zone.put(block, data);
        let place = (row - self.rows.start) as usize * layout.data_columns() + column;
        self.missing -= usize::from(!std::mem::replace(&mut self.filled[place], true));
    }
}

impl Array {
    /// Puts a block into the rows that are filled. Returns false if it is for others, and none begin with it.
    ///
    /// # Errors
    /// The array failed.
    pub(super) fn fill(&mut self, block: u64, data: &[u8]) -> Result<bool> {
        if !self.has_new_rows() && self.filling.is_none() {
            return Ok(false);
        }
        let layout = self.config.layout;
        let (row, _) = layout.locate(block);
        if !self.filling.as_ref().is_some_and(|filling| filling.has_row(row)) {
            self.begin_filling(block);
        }
        let Some(filling) = self.filling.as_mut().filter(|filling| filling.has_row(row)) else {
            return Ok(false);
        };
        filling.put(&layout, block, data);
        if filling.missing == 0 {
            self.start_filled_rows()?;
        }
        Ok(true)
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
        let mut filling = Filling { zone, rows: rows.clone(), filled: vec![false; blocks], missing: blocks };
        for row in rows {
            for block in (0..layout.data_columns()).map(|column| layout.block_at(row, column)) {
                if let Some(staged) = self.staged.remove(&block) {
                    filling.put(&layout, block, &staged);
                    self.buffers.keep_block(staged);
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
        let Some(Filling { zone, rows, filled, .. }) = self.filling.take() else { return };
        let layout = self.config.layout;
        let cells =
            rows.flat_map(|row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column)));
        for (block, _) in cells.zip(filled).filter(|(_, is_filled)| *is_filled) {
            self.staged.insert(block, Arc::new(copy_of(zone.block(block))));
        }
        self.discard_open_zone(zone);
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
