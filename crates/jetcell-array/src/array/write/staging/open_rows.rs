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

use super::RowWriter;
use super::new_rows::NewRowWrites;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::member::{ArrayConfig, Extents};

impl NewRowWrites {
    /// Returns the number of rows to open ahead of a writer. A writer that has written a lot since the last save gets
    /// more rows, so it seldom has to wait. The maximum keeps startup after a crash short, because it examines all
    /// open rows.
    fn rows_ahead(&self) -> u64 {
        let range = &self.ahead;
        (2 * self.started.len()).clamp(range.start, range.end)
    }

    /// Returns the open rows that remain after the started rows are removed. A range with started rows now begins
    /// after the last of them and after any rows to be written through the journal. A range without started rows is
    /// not needed by any writer, so it is dropped if it contains rows for the journal.
    fn remaining_open_rows(&self, writer: &RowWriter, journalled: &BTreeSet<u64>) -> Vec<Range<u64>> {
        let mut rest = vec![];
        for range in writer.rows.members.config.open_rows.ranges() {
            let started = self.started.last_in(range);
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
    pub fn open(&mut self, writer: &mut RowWriter, runs: &Extents) -> Result<()> {
        let open = &writer.rows.members.config.open_rows;
        if runs.ranges().iter().all(|run| open.contains_range(run)) {
            return Ok(());
        }
        let (none, mut ahead) = (BTreeSet::new(), vec![]);
        for run in runs.ranges() {
            ahead.push(run.start..self.end_of_rows_ahead(writer, run.end, run.end, &none));
        }
        let mut open = Extents::default();
        self.remaining_open_rows(writer, &none)
            .into_iter()
            .chain(ahead.clone())
            .for_each(|range| open.insert(range));
        if open.ranges().len() > ArrayConfig::MAX_OPEN_RANGES {
            open = Extents::default();
            ahead.into_iter().take(ArrayConfig::MAX_OPEN_RANGES).for_each(|range| open.insert(range));
        }
        self.replace_open_rows(writer, open)
    }

    /// Returns the end of the rows to open for a writer that continues at row `next`. The rows before `open` are
    /// already open. The additional rows were never written, and they are not in `journalled`, the rows to be written
    /// through the journal.
    fn end_of_rows_ahead(
        &self,
        writer: &mut RowWriter,
        next: u64,
        open: u64,
        journalled: &BTreeSet<u64>,
    ) -> u64 {
        let end = (next + self.rows_ahead()).min(writer.rows.members.layout().rows).max(open);
        let end = journalled.range(open..end).next().map_or(end, |row| *row);
        writer.end_of_new_rows(open..end)
    }

    /// Reads the records of the rows that will be opened next, as soon as half of the open rows are used. This way,
    /// the writer does not have to wait for these reads.
    pub fn read_records_ahead(&self, writer: &mut RowWriter) {
        for range in writer.rows.members.config.open_rows.ranges().to_vec() {
            let middle = range.start + (range.end - range.start) / 2;
            if self.started.last_in(&range).is_some_and(|last| last >= middle) {
                let rows = (2 * (range.end - range.start)).min(self.ahead.end);
                writer
                    .rows
                    .members
                    .read_records_ahead(range.end / ZONE_ROWS..(range.end + rows).div_ceil(ZONE_ROWS));
            }
        }
    }

    /// Acknowledges the writes to open rows, and closes these rows and the rows that are to be written through the
    /// journal. The rows after them are then open, so a sequential writer needs no further save.
    pub fn close(&mut self, writer: &mut RowWriter, journalled: &BTreeSet<u64>) -> Result<()> {
        let mut open = Extents::default();
        for range in self.remaining_open_rows(writer, journalled) {
            let is_as_before = writer.rows.members.config.open_rows.ranges().contains(&range);
            let Range { start, end } = range;
            let end = if is_as_before { end } else { self.end_of_rows_ahead(writer, start, end, journalled) };
            open.insert(start..end);
        }
        self.replace_open_rows(writer, open)
    }

    /// Makes all started rows durable, and then saves a new list of open rows.
    fn replace_open_rows(&mut self, writer: &mut RowWriter, open: Extents) -> Result<()> {
        if !self.started.is_empty() {
            writer.sync_members()?;
            self.started = Extents::default();
        }
        writer.rows.members.config.open_rows = open;
        writer.rows.members.save_config()
    }
}
