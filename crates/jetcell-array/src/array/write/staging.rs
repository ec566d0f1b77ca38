//! Writes by callers. They are staged, and committed by a flush or when many blocks are staged.

use std::collections::BTreeMap;

use jetcell_vfs::IoBuffer;

use super::commit::NewColumns;
use crate::array::Array;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::shared_block::WriteData;

impl Array {
    /// Writes whole blocks, starting at block `first`. They are staged until [`Array::flush`], or until many blocks
    /// are staged.
    pub fn write(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.write_content(first, &WriteData::Bytes(data))
    }

    /// Writes whole blocks from a buffer. The array may replace the buffer with another one of the same length and
    /// capacity, with arbitrary content.
    pub(crate) fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        self.check_range(first, buffer.len())?;
        let zone = self.open_zone.as_mut().map(|filling| &mut filling.zone);
        let Some(blocks) = zone.and_then(|zone| zone.adopt_buffer(&mut self.buffers, buffer)) else {
            return self.write(first, buffer);
        };
        let written = WriteData::Blocks(blocks);
        let result = self.write_content(first, &written);
        written.into_blocks().into_iter().for_each(|block| self.buffers.recycle_block(block));
        result
    }

    fn write_content(&mut self, first: u64, written: &WriteData<'_>) -> Result<()> {
        self.check_writable()?;
        let count = self.check_range(first, written.len())?;
        for (index, block) in (first..first + count).enumerate() {
            if self.ensure_open_zone_for(block) {
                let content =
                    written.shared(index).unwrap_or_else(|| self.copy_to_block(written.block(index), true));
                self.put_in_open_zone(block, content)?;
                continue;
            }
            if self.staged.len() >= self.max_staged_blocks() && !self.staged.contains_key(&block) {
                self.make_room()?;
            }
            let content =
                self.copy_to_block(written.block(index), self.staged.len() >= IoBuffer::HUGE / BLOCK);
            if let Some(replaced) = self.staged.insert(block, content) {
                self.buffers.recycle_block(replaced);
            }
        }
        Ok(())
    }

    /// Returns the maximum number of staged blocks. If the blocks form whole rows, this many blocks fill the journal.
    fn max_staged_blocks(&self) -> usize {
        self.config.journal_images as usize * self.config.layout.data_columns()
    }

    /// Writes at least half of the staged blocks.
    fn make_room(&mut self) -> Result<()> {
        self.start_new_rows()?;
        if self.staged.len() <= self.max_staged_blocks() / 2 {
            return Ok(());
        }
        let layout = self.config.layout;
        let rows = self.staged.keys().map(|block| layout.locate(*block).0);
        let end = rows.clone().max().map_or(0, |last| (last + 1) / ZONE_ROWS * ZONE_ROWS);
        // A sequential writer continues in the last zone. If that zone were committed now, the next commit to it
        // would have to wait.
        let goes_on = rows.filter(|row| *row >= end).count();
        self.commit_staged(if goes_on < self.max_staged_blocks() / 2 { end } else { u64::MAX })
    }

    /// Commits all staged writes. They survive a crash once this returns. After an error, writes that were not
    /// committed remain staged.
    pub fn flush(&mut self) -> Result<()> {
        self.close_open_zone();
        if self.staged.is_empty() && !self.has_new_rows() {
            return self.check_running();
        }
        self.check_writable()?;
        self.acknowledge_new_rows()?;
        self.commit_staged(u64::MAX)
    }

    /// Commits the staged blocks of rows before `end`.
    fn commit_staged(&mut self, end: u64) -> Result<()> {
        let layout = self.config.layout;
        let mut rows: BTreeMap<u64, NewColumns> = BTreeMap::new();
        for (block, content) in &self.staged {
            let (row, column) = layout.locate(*block);
            if row >= end {
                continue;
            }
            rows.entry(row).or_default().insert(column, content.clone());
        }
        if rows.keys().any(|row| self.config.open_rows.contains(*row)) {
            self.close_rows(&rows.keys().copied().collect())?;
        }
        let mut rows = rows.into_iter();
        loop {
            let batch: Vec<_> = rows.by_ref().take(self.config.journal_images as usize).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.commit(&batch)?;
            for (row, columns) in batch {
                for (column, content) in columns {
                    self.staged.remove(&layout.block_at(row, column));
                    self.buffers.recycle_block(content);
                    self.counters.blocks_written += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RaidLevel;
    use crate::test_array::{JOURNAL, TestArray};

    #[test]
    fn the_zone_a_stream_continues_in_stays_staged() {
        for (first, staged_rows) in [(ZONE_ROWS - 5, 4), (ZONE_ROWS - 8, 1), (ZONE_ROWS - 4, 1)] {
            let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
            tested.array().journal_new_rows();
            let layout = *tested.array().layout();
            let row_blocks = |row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column));
            // One row more than the journal can contain.
            let rows = first..first + u64::from(JOURNAL) + 1;
            let batch = rows.clone().flat_map(row_blocks).map(|block| (block, block + 1)).collect();
            tested.stage(&batch).unwrap();
            let array = tested.array();
            assert_eq!(
                (array.counters().commits, array.staged.len()),
                (1, staged_rows * layout.data_columns())
            );
            let first_staged = array.staged.keys().map(|block| layout.locate(*block).0).min().unwrap();
            assert_eq!(first_staged, rows.end - staged_rows as u64);
            batch.iter().for_each(|(block, value)| tested.model[*block as usize] = *value);
            tested.flush().unwrap();
            tested.restart();
            tested.check();
        }
    }
}
