//! Writes of new rows, which were never written before: each is written once, as a whole row, in place and without
//! the journal.
//!
//! The journal protects the previous content of a row, but new rows have none. After a crash, [open
//! rows](super::open_rows) tell startup which rows to clear. Writes that were not acknowledged are therefore lost as
//! if they had not happened.
//!
//! Rows are written this way once staged writes fill the journal. Until then, a flush is a single commit: it is
//! atomic and needs one sync, whereas open rows require a save of the configuration. After that, until the next
//! flush, whole rows are written this way, and all other blocks are committed through the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Staging;
use crate::array::rows::FreeRowWrite;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::member::Extents;

/// Minimum and maximum number of rows that are opened ahead of a writer.
const ROWS_AHEAD: Range<u64> = 32 * ZONE_ROWS..256 * ZONE_ROWS;

/// State of writes to new rows.
pub(super) struct NewRowWrites {
    /// Number of rows that are started together between flushes. By default this is a zone, which a member writes in
    /// one transfer. If it is 0, all writes go through the journal.
    pub(super) unit: u64,
    /// Minimum and maximum number of rows that are opened ahead of a writer.
    pub(super) ahead: Range<u64>,
    /// New rows whose writes were started but are not acknowledged yet. All of these rows are open.
    pub(super) started: Extents,
}

impl Default for NewRowWrites {
    fn default() -> NewRowWrites {
        NewRowWrites { unit: ZONE_ROWS, ahead: ROWS_AHEAD, started: Extents::default() }
    }
}

impl Staging {
    /// Routes all further writes through the journal, except for writes of whole rows that the caller starts itself.
    pub fn journal_new_rows(&mut self) {
        self.new_rows.unit = 0;
    }

    /// Sets a smaller unit and a smaller number of rows to open ahead, for test arrays with few rows.
    #[cfg(test)]
    pub fn set_new_rows(&mut self, unit: u64, ahead: Range<u64>) {
        (self.new_rows.unit, self.new_rows.ahead) = (unit, ahead);
    }

    /// Returns true if some rows were started but are not acknowledged yet.
    pub fn has_new_rows(&self) -> bool {
        !self.new_rows.started.is_empty()
    }

    /// Returns the rows that were never written and whose blocks are all staged.
    fn staged_new_rows(&mut self) -> Result<Extents> {
        self.writer.start_computed()?;
        let layout = *self.writer.rows.members.layout();
        let mut columns: BTreeMap<u64, usize> = BTreeMap::new();
        self.blocks.keys().for_each(|block| *columns.entry(layout.locate(*block).0).or_default() += 1);
        columns.retain(|_, count| *count == layout.data_columns());
        let whole: BTreeSet<u64> = columns.into_keys().collect();
        self.writer.rows.members.records.trim();
        self.writer.rows.members.load_records_of_rows(whole.iter().copied());
        let mut new = Extents::default();
        for (row, _) in self.writer.rows.row_states(&whole).iter().filter(|(_, state)| state.is_new()) {
            new.insert(*row..row + 1);
        }
        Ok(new)
    }

    /// Opens the staged new rows and some rows after them. Then starts to write the staged rows in whole units.
    pub(super) fn start_new_rows(&mut self) -> Result<()> {
        let unit = self.new_rows.unit;
        if unit == 0 {
            return Ok(());
        }
        let (mut runs, mut units) = (Extents::default(), Extents::default());
        for run in self.staged_new_rows()?.ranges() {
            let (first, behind) = (run.start.next_multiple_of(unit), run.end / unit * unit);
            if first < behind {
                units.insert(first..behind);
                runs.insert(run.clone());
            }
        }
        self.new_rows.open(&mut self.writer, &runs)?;
        self.start_open_rows(&units)?;
        self.new_rows.read_records_ahead(&mut self.writer);
        Ok(())
    }

    /// Starts to write the given staged rows, except for rows that are not open.
    fn start_open_rows(&mut self, rows: &Extents) -> Result<()> {
        let layout = *self.writer.rows.members.layout();
        let is_open = |row: &u64| self.writer.rows.members.config.open_rows.contains(*row);
        let open: Vec<u64> = rows.ranges().iter().flat_map(Clone::clone).filter(is_open).collect();
        let mut content = |block| self.blocks.remove(&block).expect("all blocks of the row are staged");
        let columns = 0..layout.data_columns();
        let mut row =
            |row| (row, columns.clone().map(|column| content(layout.block_at(row, column))).collect());
        let rows: Vec<FreeRowWrite> = open.into_iter().map(&mut row).collect();
        rows.iter().for_each(|(row, _)| self.new_rows.started.insert(*row..row + 1));
        if let Err(error) = self.writer.start_free_rows(&rows) {
            for (row, columns) in rows {
                let blocks = (0..).map(|column| layout.block_at(row, column));
                self.blocks.extend(blocks.zip(columns));
            }
            return Err(error);
        }
        self.writer.rows.members.counters.new_rows += rows.len() as u64;
        let blocks = rows.into_iter().flat_map(|(_, columns)| columns);
        self.writer.rows.members.buffers.recycle_blocks(blocks);
        Ok(())
    }

    /// Makes started rows durable, and removes them from the open rows. Blocks that are still staged afterwards must
    /// go through the journal.
    pub fn acknowledge_new_rows(&mut self) -> Result<()> {
        if !self.has_new_rows() {
            return Ok(());
        }
        let rest = self.staged_new_rows()?;
        self.start_open_rows(&rest)?;
        let layout = *self.writer.rows.members.layout();
        let journalled = self.blocks.keys().map(|block| layout.locate(*block).0).collect();
        self.new_rows.close(&mut self.writer, &journalled)
    }

    /// Waits for the writes of new rows and the commits that must complete before these blocks can be read. Closes the
    /// open zone if it contains any of them.
    pub fn finish_writes_of(&mut self, blocks: &[u64]) -> Result<()> {
        self.close_open_zone_with(blocks);
        if self.has_new_rows() {
            self.writer.finish_rows_of(blocks)
        } else {
            self.writer.finish_commits_of(blocks)
        }
    }
}
