//! Rows that were never written: written whole, once, in place and without the journal.
//!
//! The journal protects what a row had before. These rows had nothing: [open rows](super::open_rows) tell a start after a crash to clear
//! them, so that writes that were not acknowledged are lost as if they had not happened.
//!
//! This begins when staged writes fill the journal. Up to there, a flush is one commit: atomic, and with one sync, where open rows need a
//! save of the configuration. From there to the next flush, whole rows go this way; all other blocks are committed through the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Array, FreeRow};
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::member::Extents;

/// Rows that are opened behind those of a writer, at least and at most.
const ROWS_AHEAD: Range<u64> = 32 * ZONE_ROWS..256 * ZONE_ROWS;

/// How rows are written that were never written before.
pub(super) struct NewRows {
    /// Rows that are started together until a flush: a zone, which a member writes in one transfer. 0: the journal has all writes.
    pub(super) unit: u64,
    /// The least and the most rows that are opened behind those of a writer.
    pub(super) ahead: Range<u64>,
    /// Rows that were started and are not acknowledged. All of them are open.
    pub(super) started: Extents,
}

impl Default for NewRows {
    fn default() -> NewRows {
        NewRows { unit: ZONE_ROWS, ahead: ROWS_AHEAD, started: Extents::default() }
    }
}

impl Array {
    /// From now on all writes go through the journal, except for those of whole rows that the caller itself starts.
    pub(crate) fn journal_new_rows(&mut self) {
        self.new_rows.unit = 0;
    }

    /// Starts new rows in smaller units, and opens fewer of them, for arrays that are smaller than a zone's worth of anything.
    #[cfg(test)]
    pub(crate) fn set_new_rows(&mut self, unit: u64, ahead: Range<u64>) {
        (self.new_rows.unit, self.new_rows.ahead) = (unit, ahead);
    }

    /// Whether rows were started that are not acknowledged.
    pub(super) fn has_new_rows(&self) -> bool {
        !self.new_rows.started.is_empty()
    }

    /// Rows that were never written and whose blocks are all staged.
    fn staged_new_rows(&mut self) -> Result<Extents> {
        self.start_computed()?;
        let layout = self.config.layout;
        let mut columns: BTreeMap<u64, usize> = BTreeMap::new();
        self.staged.keys().for_each(|block| *columns.entry(layout.locate(*block).0).or_default() += 1);
        columns.retain(|_, count| *count == layout.data_columns());
        let whole: BTreeSet<u64> = columns.into_keys().collect();
        self.records.trim();
        self.load_records_of_rows(whole.iter().copied());
        let mut new = Extents::default();
        for (row, _) in self.row_states(&whole).iter().filter(|(_, state)| state.is_new()) {
            new.insert(*row..row + 1);
        }
        Ok(new)
    }

    /// Starts to write whole units of staged rows that were never written, and opens these rows and those beside them first.
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
        self.open_rows(&runs)?;
        self.start_open_rows(&units)?;
        self.read_records_of_next_rows();
        Ok(())
    }

    /// Starts to write those of these staged rows that are open.
    fn start_open_rows(&mut self, rows: &Extents) -> Result<()> {
        let layout = self.config.layout;
        let is_open = |row: &u64| self.config.open_rows.contains(*row);
        let open: Vec<u64> = rows.ranges().iter().flat_map(Clone::clone).filter(is_open).collect();
        let mut content = |block| self.staged.remove(&block).expect("all blocks of the row are staged");
        let columns = 0..layout.data_columns();
        let mut row =
            |row| (row, columns.clone().map(|column| content(layout.block_at(row, column))).collect());
        let rows: Vec<FreeRow> = open.into_iter().map(&mut row).collect();
        rows.iter().for_each(|(row, _)| self.new_rows.started.insert(*row..row + 1));
        if let Err(error) = self.start_free_rows(&rows) {
            for (row, columns) in rows {
                let blocks = (0..).map(|column| layout.block_at(row, column));
                self.staged.extend(blocks.zip(columns));
            }
            return Err(error);
        }
        self.counters.new_rows += rows.len() as u64;
        self.keep_blocks(rows);
        Ok(())
    }

    /// Makes rows that were started durable, and takes them out of the open rows. Staged blocks that remain are for the journal.
    pub(super) fn acknowledge_new_rows(&mut self) -> Result<()> {
        if !self.has_new_rows() {
            return Ok(());
        }
        let rest = self.staged_new_rows()?;
        self.start_open_rows(&rest)?;
        let layout = self.config.layout;
        let journalled = self.staged.keys().map(|block| layout.locate(*block).0).collect();
        self.close_rows(&journalled)
    }

    /// Waits for new rows and commits after which these blocks can be read, or finds them staged.
    pub(super) fn finish_writes_of(&mut self, blocks: &[u64]) -> Result<()> {
        self.end_filling_of(blocks);
        if self.has_new_rows() { self.finish_rows_of(blocks) } else { self.finish_commits_of(blocks) }
    }
}
