//! Rows that the superblocks name as open: they may hold writes without the journal that are not acknowledged.
//!
//! 1. A row is opened, durably on the members, before its first write begins, and only if it was never written.
//! 2. A row is closed when what was written to it is durable, in the save of the configuration that acknowledges it: all rows that were
//!    written since the last save at once.
//! 3. No commit through the journal writes an open row: it closes the row first. So an open row has nothing that was acknowledged, and the
//!    journal's replay does not meet it.
//! 4. A start after a crash clears open rows, whatever is in them, and closes them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Array;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::integrity::{CellState, RowState};
use crate::member::{Config, Extents};

/// Rows whose records are read at once to find out whether they can be opened.
const ROWS_EXAMINED: u64 = 64 * ZONE_ROWS;

impl RowState {
    /// Whether no member has anything of the row. A write leaves a record on more members than may be lost.
    pub(super) fn is_new(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell, CellState::Empty | CellState::Missing))
    }
}

impl Array {
    /// The end of the rows at the beginning of a range that were never written.
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

    /// So many rows are opened behind those of a writer: more for one that has written much since the last time, so that it seldom waits,
    /// and few enough that a start after a crash soon has looked at them.
    fn rows_ahead(&self) -> u64 {
        let range = &self.new_rows.ahead;
        (2 * self.new_rows.started.len()).clamp(range.start, range.end)
    }

    /// The open rows without those that were started. These ranges go on behind them, and also behind rows that are to be written through
    /// the journal; without a start, there is no writer who needs them.
    fn rest_of_open_rows(&self, journalled: &BTreeSet<u64>) -> Vec<Range<u64>> {
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

    /// Opens these runs of rows, none of which was ever written, and rows behind them. Runs for which there is no room stay closed.
    pub(super) fn open_rows(&mut self, runs: &Extents) -> Result<()> {
        if runs.ranges().iter().all(|run| self.config.open_rows.contains_range(run)) {
            return Ok(());
        }
        let (none, mut ahead) = (BTreeSet::new(), vec![]);
        for run in runs.ranges() {
            ahead.push(run.start..self.end_of_rows_ahead(run.end, run.end, &none));
        }
        let mut open = Extents::default();
        self.rest_of_open_rows(&none).into_iter().chain(ahead.clone()).for_each(|range| open.insert(range));
        if open.ranges().len() > Config::MAX_OPEN {
            open = Extents::default();
            ahead.into_iter().take(Config::MAX_OPEN).for_each(|range| open.insert(range));
        }
        self.replace_open_rows(open)
    }

    /// The end of the rows that are opened for a writer who goes on at row `next`, and for whom those before `open` are. None of them was
    /// ever written, or is to be written through the journal.
    fn end_of_rows_ahead(&mut self, next: u64, open: u64, journalled: &BTreeSet<u64>) -> u64 {
        let end = (next + self.rows_ahead()).min(self.config.layout.rows).max(open);
        let end = journalled.range(open..end).next().map_or(end, |row| *row);
        self.end_of_new_rows(open..end)
    }

    /// Reads the records of rows that will be opened next, when half of the open ones are used: the writer must not wait for them then.
    pub(super) fn read_records_of_next_rows(&mut self) {
        for range in self.config.open_rows.ranges().to_vec() {
            let middle = range.start + (range.end - range.start) / 2;
            if self.new_rows.started.last_in(&range).is_some_and(|last| last >= middle) {
                let rows = (2 * (range.end - range.start)).min(self.new_rows.ahead.end);
                self.read_records_ahead(range.end / ZONE_ROWS..(range.end + rows).div_ceil(ZONE_ROWS));
            }
        }
    }

    /// Acknowledges what was written to open rows, and closes them and those of rows that are to be written through the journal. Rows behind
    /// them are open afterwards: a writer who goes on needs no further save.
    pub(super) fn close_rows(&mut self, journalled: &BTreeSet<u64>) -> Result<()> {
        let mut open = Extents::default();
        for range in self.rest_of_open_rows(journalled) {
            let is_as_before = self.config.open_rows.ranges().contains(&range);
            let Range { start, end } = range;
            let end = if is_as_before { end } else { self.end_of_rows_ahead(start, end, journalled) };
            open.insert(start..end);
        }
        self.replace_open_rows(open)
    }

    /// Makes all rows that were started durable, and then the open rows those that are named.
    fn replace_open_rows(&mut self, open: Extents) -> Result<()> {
        if !self.new_rows.started.is_empty() {
            self.sync_members()?;
            self.new_rows.started = Extents::default();
        }
        self.config.open_rows = open;
        self.save_config()
    }

    /// After a crash: clears the rows that were open. The caller saves the configuration, in which none is.
    pub(super) fn clear_open_rows(&mut self) -> Result<()> {
        for range in self.config.open_rows.ranges().to_vec() {
            for start in range.clone().step_by(ROWS_EXAMINED as usize) {
                let rows: Vec<u64> = (start..range.end.min(start + ROWS_EXAMINED)).collect();
                self.clear_rows(&rows)?;
            }
        }
        // Only now: a save in between must name them.
        self.config.open_rows = Extents::default();
        Ok(())
    }
}
