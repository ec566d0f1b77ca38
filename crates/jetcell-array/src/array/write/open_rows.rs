//! Rows that the superblocks list as open: they may contain writes that bypass the journal and are not acknowledged.
//!
//! 1. A row is opened durably on the members before its first write begins, and only if it was never written.
//! 2. A row is closed when its writes are durable, by the save of the configuration that acknowledges them. Each save
//!    acknowledges all rows that were written since the previous save.
//! 3. A commit through the journal never writes an open row: it closes the row first. An open row therefore contains
//!    no acknowledged writes, and a replay of the journal does not touch it.
//! 4. Startup after a crash clears all open rows, regardless of their content, and closes them.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::array::Array;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::integrity::{CellState, RowState};
use crate::member::{ArrayConfig, Extents};

/// Number of rows whose records are read in one batch to find out whether the rows can be opened.
const ROWS_EXAMINED: u64 = 64 * ZONE_ROWS;

impl RowState {
    /// Returns true if no member has content of the row. A write leaves records on more members than the level may
    /// lose, so missing members do not matter.
    pub(in crate::array) fn is_new(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell, CellState::Empty | CellState::Missing))
    }
}

impl Array {
    /// Returns the end of the never-written rows at the beginning of a range.
    fn end_of_new_rows(&mut self, rows: Range<u64>) -> u64 {
        for start in rows.clone().step_by(ROWS_EXAMINED as usize) {
            let part = start..rows.end.min(start + ROWS_EXAMINED);
            self.records.trim();
            self.load_records_of_rows(part.clone());
            let zones = part.start / ZONE_ROWS..part.end.div_ceil(ZONE_ROWS);
            let written: BTreeSet<u64> = zones.filter(|zone| !self.is_zone_new(*zone)).collect();
            let states = self.row_states(&part.filter(|row| written.contains(&(row / ZONE_ROWS))).collect());
            if let Some((row, _)) = states.into_iter().find(|(_, state)| !state.is_new()) {
                return row;
            }
        }
        rows.end
    }

    /// Returns the number of rows to open ahead of a writer. A writer that has written a lot since the last save gets
    /// more rows, so it seldom has to wait. The maximum keeps startup after a crash short, because it examines all
    /// open rows.
    fn rows_ahead(&self) -> u64 {
        let range = &self.new_rows.ahead;
        (2 * self.new_rows.started.len()).clamp(range.start, range.end)
    }

    /// Returns the open rows that remain after the started rows are removed. A range with started rows now begins
    /// after the last of them and after any rows to be written through the journal. A range without started rows is
    /// not needed by any writer, so it is dropped if it contains rows for the journal.
    fn remaining_open_rows(&self, journalled: &BTreeSet<u64>) -> Vec<Range<u64>> {
        let mut rest = vec![];
        for range in self.config.open_rows.ranges() {
            let started = self.new_rows.started.last_in(range);
            let journalled = journalled.range(range.clone()).next_back().copied();
            match started {
                Some(started) => rest.push(journalled.map_or(started, |row| row.max(started)) + 1..range.end),
                None if journalled.is_none() => rest.push(range.clone()),
                None => {}
            }
        }
        rest
    }

    /// Opens these runs of never-written rows, and some rows after each run. If the configuration has no room for all
    /// runs, some of them stay closed.
    pub(in crate::array) fn open_rows(&mut self, runs: &Extents) -> Result<()> {
        if runs.ranges().iter().all(|run| self.config.open_rows.contains_range(run)) {
            return Ok(());
        }
        let (none, mut ahead) = (BTreeSet::new(), vec![]);
        for run in runs.ranges() {
            ahead.push(run.start..self.end_of_rows_ahead(run.end, run.end, &none));
        }
        let mut open = Extents::default();
        self.remaining_open_rows(&none).into_iter().chain(ahead.clone()).for_each(|range| open.insert(range));
        if open.ranges().len() > ArrayConfig::MAX_OPEN_RANGES {
            open = Extents::default();
            ahead.into_iter().take(ArrayConfig::MAX_OPEN_RANGES).for_each(|range| open.insert(range));
        }
        self.replace_open_rows(open)
    }

    /// Returns the end of the rows to open for a writer that continues at row `next` and already has the rows before
    /// `open`. The additional rows were never written, and they are not in `journalled`, the rows to be written
    /// through the journal.
    fn end_of_rows_ahead(&mut self, next: u64, open: u64, journalled: &BTreeSet<u64>) -> u64 {
        let end = (next + self.rows_ahead()).min(self.config.layout.rows).max(open);
        let end = journalled.range(open..end).next().map_or(end, |row| *row);
        self.end_of_new_rows(open..end)
    }

    /// Reads the records of the rows that will be opened next, as soon as half of the open rows are used. This way,
    /// the writer does not have to wait for these reads.
    pub(in crate::array) fn read_records_of_next_rows(&mut self) {
        for range in self.config.open_rows.ranges().to_vec() {
            let middle = range.start + (range.end - range.start) / 2;
            if self.new_rows.started.last_in(&range).is_some_and(|last| last >= middle) {
                let rows = (2 * (range.end - range.start)).min(self.new_rows.ahead.end);
                self.read_records_ahead(range.end / ZONE_ROWS..(range.end + rows).div_ceil(ZONE_ROWS));
            }
        }
    }

    /// Acknowledges the writes to open rows, and closes these rows and the rows that are to be written through the
    /// journal. The rows after them are then open, so a sequential writer needs no further save.
    pub(in crate::array) fn close_rows(&mut self, journalled: &BTreeSet<u64>) -> Result<()> {
        let mut open = Extents::default();
        for range in self.remaining_open_rows(journalled) {
            let is_as_before = self.config.open_rows.ranges().contains(&range);
            let Range { start, end } = range;
            let end = if is_as_before { end } else { self.end_of_rows_ahead(start, end, journalled) };
            open.insert(start..end);
        }
        self.replace_open_rows(open)
    }

    /// Makes all started rows durable, and then saves a new list of open rows.
    fn replace_open_rows(&mut self, open: Extents) -> Result<()> {
        if !self.new_rows.started.is_empty() {
            self.sync_members()?;
            self.new_rows.started = Extents::default();
        }
        self.config.open_rows = open;
        self.save_config()
    }

    /// Clears the rows that were open at a crash. The caller saves the configuration, which then lists no open rows.
    pub(in crate::array) fn clear_open_rows(&mut self) -> Result<()> {
        for range in self.config.open_rows.ranges().to_vec() {
            for start in range.clone().step_by(ROWS_EXAMINED as usize) {
                let rows: Vec<u64> = (start..range.end.min(start + ROWS_EXAMINED)).collect();
                self.clear_rows(&rows)?;
            }
        }
        // The list is cleared only now: a save during the loop must still contain these rows.
        self.config.open_rows = Extents::default();
        Ok(())
    }
}
