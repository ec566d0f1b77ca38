//! Writes of free rows, which are rows that nothing refers to. They are written as whole rows, in place and without
//! the journal, while the caller continues.

use std::collections::BTreeSet;
use std::ops::Range;

use jetcell_vfs::{IoBuffer, IoReason};

use super::zone_states::ZoneState;
use super::{OpenZone, RowWriter};
use crate::array::members::{InFlightTransfers, MIN_POOLED_BYTES};
use crate::array::rows::{FreeRowWrite, NewColumns, ZoneWrite, fill_all, is_whole};
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::member::Extents;
use crate::shared_block::SharedBlock;

/// Number of zones whose records are read ahead, as a multiple of the number of zones being written. Reads wait for the
/// writes in flight, so records are read early.
const ZONES_AHEAD_FACTOR: u64 = 4;

/// Maximum number of zones whose records are read ahead.
const MAX_ZONES_AHEAD: u64 = 32;

/// Number of zones for which records are read ahead of an open zone. Reads wait for the writes in flight, so records
/// are read early.
const OPEN_ZONES_AHEAD: u64 = 24;

/// Interval in zones at which records are read ahead of an open zone.
const ZONES_PER_READ: u64 = 4;

/// Number of rows that each thread computes in a batch.
const ROWS_PER_THREAD: usize = ZONE_ROWS as usize;

/// Number of rows that are cleared in a batch.
const ROWS_CLEARED: usize = 64 * ZONE_ROWS as usize;

/// Splits rows, which are in ascending order, into batches at zone boundaries. This way, the single block with a zone's
/// records is written only once. All batches except the last have at least `least` rows.
fn batches(rows: &[FreeRowWrite], least: usize) -> Vec<&[FreeRowWrite]> {
    let mut batches = vec![];
    let mut rest = rows;
    while !rest.is_empty() {
        let ends = |at: &usize| rest[*at].0 / ZONE_ROWS != rest[*at - 1].0 / ZONE_ROWS;
        let end = (least..rest.len()).find(ends).unwrap_or(rest.len());
        let (batch, behind) = rest.split_at(end);
        batches.push(batch);
        rest = behind;
    }
    batches
}

/// Returns the zones in which the next rows are expected. Returns `None` if the rows are scattered, because the next
/// rows may then be anywhere.
fn zones_after(rows: &[FreeRowWrite]) -> Option<Range<u64>> {
    let zones: BTreeSet<u64> = rows.iter().map(|(row, _)| row / ZONE_ROWS).collect();
    let (first, end, count) = (*zones.first()?, zones.last()? + 1, zones.len() as u64);
    (end - first == count).then(|| end..end + (ZONES_AHEAD_FACTOR * count).min(MAX_ZONES_AHEAD))
}

/// Number of rows whose records are read in one batch to find out whether the rows can be opened.
const ROWS_EXAMINED: u64 = 64 * ZONE_ROWS;

impl RowWriter {
    /// Ensures that a journal replay does not write these rows.
    fn prevent_replay_of(&mut self, rows: &[u64]) -> Result<()> {
        let is_in_journal = |row: &u64| self.replayable_rows.iter().any(|of| of.contains(row));
        if !rows.iter().any(is_in_journal) {
            return Ok(());
        }
        self.sync_members()?;
        let sequence = self.sequence;
        self.rows.members.config.journal_floor = sequence;
        self.replayable_rows.clear();
        self.rows.members.save_config()
    }

    /// Starts in-place writes of whole rows, which must be in ascending order, without the journal and without a sync.
    /// These rows must not be read until [`RowWriter::finish_rows`] or [`RowWriter::finish_rows_of`] returns. Other
    /// rows may be read; all other operations that change the array wait for these writes. After a crash, each row may
    /// have any content and may be inconsistent. Therefore, nothing may refer to the rows' blocks before a sync, and
    /// [`RowWriter::clear_rows`] must be called after a crash.
    ///
    /// # Errors
    /// Returns an error if the array failed. In that case, no write of these rows is in flight.
    pub fn start_free_rows(&mut self, rows: &[FreeRowWrite]) -> Result<()> {
        // All rows are prepared at once, because later reads of records would wait for the first writes.
        self.prepare_free_rows(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>())?;
        if let Some(zones) = zones_after(rows) {
            self.rows.members.read_records_ahead(zones);
        }
        for batch in batches(rows, self.threads * ROWS_PER_THREAD) {
            if let Err(error) = self.start_batch(batch) {
                return self.finish_rows().and(Err(error));
            }
        }
        Ok(())
    }

    /// Waits for the operations that must complete before these rows can be written, and loads the records of the
    /// rows.
    pub(super) fn prepare_free_rows(&mut self, rows: &[u64]) -> Result<()> {
        self.rows.members.check_writable()?;
        self.finish_rows_in(&rows.iter().map(|row| row / ZONE_ROWS).collect())?;
        self.prevent_replay_of(rows)?;
        self.rows.members.records.trim();
        let of_zones = rows.chunk_by(|one, next| one / ZONE_ROWS == next / ZONE_ROWS);
        let need_records = |rows: &&[u64]| {
            let generation = self.rows.members.records.next_generation(rows[0] / ZONE_ROWS);
            generation.is_none() || !is_whole(rows)
        };
        let needed: Vec<u64> = of_zones.filter(need_records).flatten().copied().collect();
        self.rows.members.load_records_of_rows(needed.into_iter());
        Ok(())
    }

    /// Opens rows of one zone, in ascending order. Nothing may refer to the rows, and their blocks have no content
    /// yet. Returns `None` if cells have copies.
    pub fn open_zone(&self, rows: Vec<u64>) -> Option<OpenZone> {
        let members = &self.rows.members;
        (members.code.copies() == 1).then(|| OpenZone::new(*members.layout(), rows))
    }

    /// Takes over a caller's buffer for blocks of a zone. The caller gets a buffer of the same length and capacity
    /// with arbitrary content in exchange. Returns `None` if the content must be copied instead.
    pub fn adopt_buffer(&mut self, zone: &mut OpenZone, buffer: &mut IoBuffer) -> Option<Vec<SharedBlock>> {
        let bytes = buffer.capacity();
        if bytes < MIN_POOLED_BYTES || !zone.reserve_adopted_bytes(bytes) {
            return None;
        }
        let mut other = self.rows.members.buffers.take_exact(bytes);
        other.resize(buffer.len());
        Some(SharedBlock::split_buffer(std::mem::replace(buffer, other)))
    }

    /// Closes a zone without writing it. Returns copies of the blocks with content, because a shared block keeps a
    /// larger buffer in memory than the block needs.
    pub fn close_zone(&mut self, zone: OpenZone) -> Vec<(u64, SharedBlock)> {
        let pool = &mut self.rows.members.buffers;
        let copy = |(block, content): (u64, SharedBlock)| {
            let copy = pool.copy_to_block(&content, true);
            pool.recycle_block(content);
            (block, copy)
        };
        zone.into_blocks().map(copy).collect()
    }

    /// Starts to write a full zone. See [`RowWriter::start_free_rows`].
    ///
    /// # Errors
    /// Returns an error if the array failed. In that case, no write of free rows is in flight.
    pub fn start_zone(&mut self, zone: OpenZone) -> Result<()> {
        let number = zone.rows()[0] / ZONE_ROWS;
        self.prepare_free_rows(zone.rows())?;
        if number.is_multiple_of(ZONES_PER_READ) {
            self.rows.members.read_generations_ahead(number + 1..number + 1 + OPEN_ZONES_AHEAD);
        }
        let started = self.start_prepared(zone);
        if started.is_err() {
            return self.finish_rows().and(started);
        }
        Ok(())
    }

    fn start_prepared(&mut self, zone: OpenZone) -> Result<()> {
        let mut write = self.rows.zone_write(zone.rows().to_vec());
        let rows = zone.into_rows();
        self.record_written_rows(&rows);
        let devices = self.rows.device_per_slot();
        match devices.filter(|devices| self.rows.put_records(devices, &mut write).is_some()) {
            Some(devices) => self.compute_zone(devices, write, rows),
            None => {
                let started = self.start_rows_in_any_state(&rows)?;
                self.track(ZoneState::Writing, [write.zone()].into(), started)
            }
        }
    }

    /// Counts the blocks of the rows that are being written, and remembers which of these rows are lost.
    fn record_written_rows(&mut self, rows: &[FreeRowWrite]) {
        self.rows.members.note_written(rows.iter().map(|(row, _)| *row));
        let blocks = rows.iter().map(|(_, columns)| columns.len() as u64).sum::<u64>();
        self.rows.members.counters.blocks_written += blocks;
    }

    /// Writes zeros to all blocks of rows that nothing refers to, regardless of their state. The rows must be in
    /// ascending order. The zeros are durable when this returns.
    pub fn clear_rows(&mut self, rows: &[u64]) -> Result<()> {
        let zeros = SharedBlock::from(IoBuffer::zeroed(BLOCK));
        let columns = self.rows.members.layout().data_columns();
        let zero_row = |row| (row, vec![zeros.clone(); columns]);
        for rows in rows.chunks(ROWS_CLEARED) {
            self.rows.members.records.trim();
            self.rows.members.load_records_of_rows(rows.iter().copied());
            let states = self.rows.row_states(&rows.iter().copied().collect());
            let written = states.iter().filter(|(_, state)| !state.is_new());
            let rows: Vec<FreeRowWrite> = written.map(|(row, _)| zero_row(*row)).collect();
            if !rows.is_empty() {
                self.rows.members.counters.rows_cleared += rows.len() as u64;
                self.start_free_rows(&rows)?;
            }
        }
        self.sync_members()
    }

    /// Returns the end of the never-written rows at the beginning of a range.
    pub(super) fn end_of_new_rows(&mut self, rows: Range<u64>) -> u64 {
        for start in rows.clone().step_by(ROWS_EXAMINED as usize) {
            let part = start..rows.end.min(start + ROWS_EXAMINED);
            self.rows.members.records.trim();
            self.rows.members.load_records_of_rows(part.clone());
            let zones = part.start / ZONE_ROWS..part.end.div_ceil(ZONE_ROWS);
            let written: BTreeSet<u64> = zones.filter(|zone| !self.rows.members.is_zone_new(*zone)).collect();
            let states =
                self.rows.row_states(&part.filter(|row| written.contains(&(row / ZONE_ROWS))).collect());
            if let Some((row, _)) = states.into_iter().find(|(_, state)| !state.is_new()) {
                return row;
            }
        }
        rows.end
    }

    /// Clears the rows that were open at a crash. The caller saves the configuration, which then lists no open rows.
    pub(in crate::array) fn clear_open_rows(&mut self) -> Result<()> {
        for range in self.rows.members.config.open_rows.ranges().to_vec() {
            for start in range.clone().step_by(ROWS_EXAMINED as usize) {
                let rows: Vec<u64> = (start..range.end.min(start + ROWS_EXAMINED)).collect();
                self.clear_rows(&rows)?;
            }
        }
        // The list is cleared only now: a save during the loop must still contain these rows.
        self.rows.members.config.open_rows = Extents::default();
        Ok(())
    }

    fn start_batch(&mut self, rows: &[FreeRowWrite]) -> Result<()> {
        self.record_written_rows(rows);
        let write = match self.start_whole_zones(rows) {
            Some(write) => write,
            None => self.start_rows_in_any_state(rows)?,
        };
        self.track(ZoneState::Writing, rows.iter().map(|(row, _)| row / ZONE_ROWS).collect(), write)
    }

    /// Fills the buffers for these rows and starts to write them. Returns `None` unless each slot has exactly one
    /// working member.
    fn start_whole_zones(&mut self, rows: &[FreeRowWrite]) -> Option<InFlightTransfers> {
        let devices = self.rows.device_per_slot()?;
        let mut writes = vec![];
        for rows in rows.chunk_by(|one, next| one.0 / ZONE_ROWS == next.0 / ZONE_ROWS) {
            let mut write = self.rows.zone_write(rows.iter().map(|(row, _)| *row).collect());
            self.rows.put_records(&devices, &mut write)?;
            writes.push((write, rows));
        }
        let threads = rows.len().div_ceil(ROWS_PER_THREAD).min(self.threads);
        fill_all(&mut writes, &self.rows.row_encoder(), threads);
        Some(self.start_filled_writes(&devices, writes.into_iter().map(|(write, _)| write).collect()))
    }

    /// Starts writes whose buffers are filled.
    pub(super) fn start_filled_writes(
        &mut self,
        devices: &[usize],
        writes: Vec<ZoneWrite>,
    ) -> InFlightTransfers {
        self.rows.members.counters.full_row_writes +=
            writes.iter().map(|write| write.rows().len() as u64).sum::<u64>();
        self.remember_recent_zones(writes.iter().map(ZoneWrite::zone).collect());
        let pieces = writes.into_iter().flat_map(|write| self.rows.zone_segments(devices, write)).collect();
        self.rows.members.start_writes(pieces, IoReason::Other)
    }

    /// Starts writes of whole rows even if slots have no device or several devices, or if cells have copies.
    pub(in crate::array) fn start_rows_in_any_state(
        &mut self,
        rows: &[FreeRowWrite],
    ) -> Result<InFlightTransfers> {
        let rows: Vec<(u64, NewColumns)> =
            rows.iter().map(|(row, columns)| (*row, columns.iter().cloned().enumerate().collect())).collect();
        let planned = self.rows.plan_rows(&rows)?;
        let by_device = self.group_by_device(&planned);
        self.start_in_place_writes(&by_device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_in_adjacent_zones_predict_the_next_zones() {
        let after = |rows: &[u64]| zones_after(&rows.iter().map(|row| (*row, vec![])).collect::<Vec<_>>());
        assert_eq!(after(&[70, 100, 130]), Some(3..11));
        assert_eq!(after(&[70, 200]), None);
        assert_eq!(after(&[]), None);
        assert_eq!(after(&(0..100 * ZONE_ROWS).collect::<Vec<_>>()), Some(100..100 + MAX_ZONES_AHEAD));
    }

    #[test]
    fn row_batches_share_no_zone_and_have_a_minimum_size() {
        let rows: Vec<u64> = (10..200).chain([300, 700, 701]).chain(1000..1100).collect();
        let free: Vec<FreeRowWrite> = rows.iter().map(|row| (*row, vec![])).collect();
        for least in [1, 64, 100] {
            let found: Vec<Vec<u64>> = batches(&free, least)
                .iter()
                .map(|batch| batch.iter().map(|(row, _)| *row).collect())
                .collect();
            assert_eq!(found.concat(), rows);
            assert!(found.len() > 2 && found[..found.len() - 1].iter().all(|batch| batch.len() >= least));
            let zones = |batch: &Vec<u64>| batch.iter().map(|row| row / ZONE_ROWS).collect::<BTreeSet<u64>>();
            assert!(found.windows(2).all(|pair| zones(&pair[0]).is_disjoint(&zones(&pair[1]))));
        }
    }
}
