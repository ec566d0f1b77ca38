//! Writes of free rows, which are rows that nothing refers to. They are written as whole rows, in place and without
//! the journal, while the caller continues.

use std::collections::BTreeSet;
use std::ops::Range;

use jetcell_vfs::{IoBuffer, IoReason};

use super::commit::NewColumns;
use super::zone_encoding::{FreeRowWrite, ZoneWrite, fill_all, is_whole};
use crate::array::Array;
use crate::array::members::InFlightTransfers;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::CellState;
use crate::shared_block::SharedBlock;

/// Ratio of zones whose records are read ahead to zones that are being written. Reads wait for the writes in flight,
/// so records are read early.
const ZONES_AHEAD_FACTOR: u64 = 4;

/// Maximum number of zones whose records are read ahead.
const MAX_ZONES_AHEAD: u64 = 32;

/// Maximum number of threads that compute rows.
pub(in crate::array) const MAX_THREADS: usize = 8;

/// Number of rows that each thread computes in a batch.
const ROWS_PER_THREAD: usize = ZONE_ROWS as usize;

/// Number of rows that are cleared in a batch.
const ROWS_CLEARED: usize = 64 * ZONE_ROWS as usize;

/// Splits rows, which are in ascending order, into batches at zone boundaries. A zone's records are a single block,
/// which is then written only once. All batches except the last have at least `least` rows.
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

impl Array {
    /// Ensures that a journal replay does not write these rows.
    fn prevent_replay_of(&mut self, rows: &[u64]) -> Result<()> {
        let is_in_journal = |row: &u64| self.replayable_rows.iter().any(|of| of.contains(row));
        if !rows.iter().any(is_in_journal) {
            return Ok(());
        }
        self.sync_members()?;
        self.config.journal_floor = self.sequence;
        self.replayable_rows.clear();
        self.save_config()
    }

    /// Starts in-place writes of whole rows, which must be in ascending order, without the journal and without a
    /// sync. These rows must not be read until [`Array::finish_rows`] or [`Array::finish_rows_of`] returns. Other
    /// rows may be read; all other operations that change the array wait for these writes. After a crash, each row
    /// may have any content and may be inconsistent. Therefore, nothing may refer to the rows' blocks before a sync,
    /// and [`Array::clear_rows`] must be called after a crash.
    ///
    /// # Errors
    /// The array failed. In that case, no write of these rows is in flight.
    pub fn start_free_rows(&mut self, rows: &[FreeRowWrite]) -> Result<()> {
        // All rows are prepared at once, because later reads of records would wait for the first writes.
        self.prepare_free_rows(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>())?;
        if let Some(zones) = zones_after(rows) {
            self.read_records_ahead(zones);
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
    pub(in crate::array) fn prepare_free_rows(&mut self, rows: &[u64]) -> Result<()> {
        self.check_writable()?;
        self.finish_rows_in(&rows.iter().map(|row| row / ZONE_ROWS).collect())?;
        self.prevent_replay_of(rows)?;
        self.records.trim();
        let of_zones = rows.chunk_by(|one, next| one / ZONE_ROWS == next / ZONE_ROWS);
        let need_records = |rows: &&[u64]| {
            let generation = self.records.next_generation(rows[0] / ZONE_ROWS);
            generation.is_none() || !is_whole(rows)
        };
        let needed: Vec<u64> = of_zones.filter(need_records).flatten().copied().collect();
        self.load_records_of_rows(needed.into_iter());
        Ok(())
    }

    /// Writes zeros to all blocks of rows that nothing refers to, regardless of their state. The rows must be in
    /// ascending order. The zeros are durable when this returns.
    pub fn clear_rows(&mut self, rows: &[u64]) -> Result<()> {
        let zeros = SharedBlock::from(IoBuffer::zeroed(BLOCK));
        let columns = self.config.layout.data_columns();
        let zero_row = |row| (row, vec![zeros.clone(); columns]);
        let has_state = |cell: &CellState| !matches!(cell, CellState::Empty | CellState::Missing);
        for rows in rows.chunks(ROWS_CLEARED) {
            self.records.trim();
            self.load_records_of_rows(rows.iter().copied());
            let states = self.row_states(&rows.iter().copied().collect());
            let written = states.iter().filter(|(_, state)| state.cells.iter().any(has_state));
            let rows: Vec<FreeRowWrite> = written.map(|(row, _)| zero_row(*row)).collect();
            if !rows.is_empty() {
                self.counters.rows_cleared += rows.len() as u64;
                self.start_free_rows(&rows)?;
            }
        }
        self.sync_members()
    }

    fn start_batch(&mut self, rows: &[FreeRowWrite]) -> Result<()> {
        self.counters.blocks_written += rows.iter().map(|(_, columns)| columns.len() as u64).sum::<u64>();
        let write = match self.start_whole_zones(rows) {
            Some(write) => write,
            None => self.start_rows_in_any_state(rows)?,
        };
        self.track_row_writes(rows.iter().map(|(row, _)| row / ZONE_ROWS).collect(), write)
    }

    /// Starts writes of rows, and fills their buffers first, if each slot has exactly one working member. Returns
    /// `None` otherwise.
    fn start_whole_zones(&mut self, rows: &[FreeRowWrite]) -> Option<InFlightTransfers> {
        let devices = self.device_per_slot()?;
        let mut writes = vec![];
        for rows in rows.chunk_by(|one, next| one.0 / ZONE_ROWS == next.0 / ZONE_ROWS) {
            let mut write = self.zone_write(rows.iter().map(|(row, _)| *row).collect());
            self.put_records(&devices, &mut write)?;
            writes.push((write, rows));
        }
        let threads = rows.len().div_ceil(ROWS_PER_THREAD).min(self.threads);
        fill_all(&mut writes, &self.row_encoder(), threads);
        Some(self.start_filled_writes(&devices, writes.into_iter().map(|(write, _)| write).collect()))
    }

    /// Starts writes whose buffers are filled.
    pub(in crate::array) fn start_filled_writes(
        &mut self,
        devices: &[usize],
        writes: Vec<ZoneWrite>,
    ) -> InFlightTransfers {
        self.counters.full_row_writes += writes.iter().map(|write| write.rows().len() as u64).sum::<u64>();
        self.remember_recent_zones(writes.iter().map(ZoneWrite::zone).collect());
        let pieces = writes.into_iter().flat_map(|write| self.zone_segments(devices, write)).collect();
        self.start_writes(pieces, IoReason::Other)
    }

    /// Starts writes of whole rows on an array with lost members, spares that are being rebuilt, or copies.
    pub(in crate::array) fn start_rows_in_any_state(
        &mut self,
        rows: &[FreeRowWrite],
    ) -> Result<InFlightTransfers> {
        let rows: Vec<(u64, NewColumns)> =
            rows.iter().map(|(row, columns)| (*row, columns.iter().cloned().enumerate().collect())).collect();
        let planned = self.plan_rows(&rows)?;
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
