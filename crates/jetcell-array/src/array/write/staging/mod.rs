//! Writes by callers. They are staged, and committed by a flush or when many blocks are staged.

mod new_rows;
pub(super) mod open_rows;
mod sequential_writes;

use std::collections::BTreeMap;

use jetcell_vfs::IoBuffer;

use self::new_rows::NewRowWrites;
use super::{OpenZone, RowWriter};
use crate::array::rows::NewColumns;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::shared_block::{SharedBlock, WriteData};

/// Blocks written by callers but not yet being written to the members, and new rows whose writes were started.
pub(in crate::array) struct Staging {
    pub writer: RowWriter,
    /// Blocks that were written but not committed yet, by block number.
    blocks: BTreeMap<u64, SharedBlock>,
    /// The open zone: new rows whose blocks are not staged.
    open_zone: Option<OpenZone>,
    new_rows: NewRowWrites,
}

impl Staging {
    pub fn new(writer: RowWriter) -> Staging {
        Staging { writer, blocks: BTreeMap::new(), open_zone: None, new_rows: NewRowWrites::default() }
    }

    /// Returns the content of a block if it is staged. Blocks of the open zone are not staged.
    pub fn block(&self, block: u64) -> Option<&SharedBlock> {
        self.blocks.get(&block)
    }

    /// Returns the number of blocks that callers wrote but that are not yet being written to the members.
    pub fn len(&self) -> usize {
        self.blocks.len() + self.open_zone.as_ref().map_or(0, OpenZone::filled)
    }

    /// Writes whole blocks from a buffer. The buffer may be replaced; see
    /// [`BlockStore::write_buffer`](crate::BlockStore::write_buffer).
    pub fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        let zone = self.open_zone.as_mut();
        let Some(blocks) = zone.and_then(|zone| self.writer.adopt_buffer(zone, buffer)) else {
            return self.write(first, &WriteData::Bytes(buffer));
        };
        let written = WriteData::Blocks(blocks);
        let result = self.write(first, &written);
        self.writer.rows.members.buffers.recycle_blocks(written.into_blocks());
        result
    }

    /// Writes whole blocks, starting at block `first`. All of them must be within the array.
    pub fn write(&mut self, first: u64, written: &WriteData<'_>) -> Result<()> {
        let count = (written.len() / BLOCK) as u64;
        for (index, block) in (first..first + count).enumerate() {
            if self.ensure_open_zone_for(block) {
                let pool = &mut self.writer.rows.members.buffers;
                let content =
                    written.shared(index).unwrap_or_else(|| pool.copy_to_block(written.block(index), true));
                self.put_in_open_zone(block, content)?;
                continue;
            }
            if self.blocks.len() >= max_staged_blocks(&self.writer) && !self.blocks.contains_key(&block) {
                self.make_room()?;
            }
            let pool = &mut self.writer.rows.members.buffers;
            let content =
                pool.copy_to_block(written.block(index), self.blocks.len() >= IoBuffer::HUGE / BLOCK);
            if let Some(replaced) = self.blocks.insert(block, content) {
                pool.recycle_block(replaced);
            }
        }
        Ok(())
    }

    /// Writes at least half of the staged blocks.
    fn make_room(&mut self) -> Result<()> {
        self.start_new_rows()?;
        let most = max_staged_blocks(&self.writer);
        if self.blocks.len() <= most / 2 {
            return Ok(());
        }
        let layout = *self.writer.rows.members.layout();
        let rows = self.blocks.keys().map(|block| layout.locate(*block).0);
        let end = rows.clone().max().map_or(0, |last| (last + 1) / ZONE_ROWS * ZONE_ROWS);
        // A sequential writer continues in the last zone. If that zone were committed now, the next commit to it
        // would have to wait.
        let goes_on = rows.filter(|row| *row >= end).count();
        self.commit_staged(if goes_on < most / 2 { end } else { u64::MAX })
    }

    /// Commits all staged writes. They survive a crash once this returns. After an error, writes that were not
    /// committed remain staged.
    pub fn flush(&mut self) -> Result<()> {
        self.close_open_zone();
        if self.blocks.is_empty() && !self.has_new_rows() {
            return self.writer.rows.members.check_running();
        }
        self.writer.rows.members.check_writable()?;
        self.acknowledge_new_rows()?;
        self.commit_staged(u64::MAX)
    }

    /// Commits the staged blocks of rows before `end`.
    fn commit_staged(&mut self, end: u64) -> Result<()> {
        let layout = *self.writer.rows.members.layout();
        let mut rows: BTreeMap<u64, NewColumns> = BTreeMap::new();
        for (block, content) in &self.blocks {
            let (row, column) = layout.locate(*block);
            if row >= end {
                continue;
            }
            rows.entry(row).or_default().insert(column, content.clone());
        }
        let open_rows = &self.writer.rows.members.config.open_rows;
        if rows.keys().any(|row| open_rows.contains(*row)) {
            self.new_rows.close(&mut self.writer, &rows.keys().copied().collect())?;
        }
        let most = self.writer.rows.members.config.journal_images as usize;
        let mut rows = rows.into_iter();
        loop {
            let batch: Vec<_> = rows.by_ref().take(most).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.writer.commit(&batch)?;
            for (row, columns) in batch {
                for (column, content) in columns {
                    self.blocks.remove(&layout.block_at(row, column));
                    self.writer.rows.members.buffers.recycle_block(content);
                    self.writer.rows.members.counters.blocks_written += 1;
                }
            }
        }
    }
}

/// Returns the maximum number of staged blocks. If the blocks form whole rows, this many blocks fill the journal.
fn max_staged_blocks(writer: &RowWriter) -> usize {
    writer.rows.members.config.journal_images as usize * writer.rows.members.layout().data_columns()
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
                (array.counters().commits, array.staging.blocks.len()),
                (1, staged_rows * layout.data_columns())
            );
            let first_staged =
                array.staging.blocks.keys().map(|block| layout.locate(*block).0).min().unwrap();
            assert_eq!(first_staged, rows.end - staged_rows as u64);
            batch.iter().for_each(|(block, value)| tested.model[*block as usize] = *value);
            tested.flush().unwrap();
            tested.restart();
            tested.check();
        }
    }
}
