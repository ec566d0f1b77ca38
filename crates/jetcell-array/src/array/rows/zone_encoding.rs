//! Writes of whole rows within a zone. The rows are copied directly into the buffers of the member transfers.

use std::ops::Range;

use jetcell_sync::thread;
use jetcell_vfs::IoBuffer;
use zerocopy::IntoBytes;

use super::RowStore;
use crate::array::members::TransferSegment;
use crate::geometry::{ArrayLayout, BLOCK, MAX_DATA_COLUMNS, RedundancyCode, ZONE_ROWS};
use crate::integrity::{BlockRecord, RecordSlot, RowState};
use crate::kernels::Kernel;
use crate::member::MemberDevice;
use crate::shared_block::SharedBlock;

/// An unreferenced row, and its new contents by column.
pub type FreeRowWrite = (u64, Vec<SharedBlock>);

/// Parameters for computing the block records and parity of rows.
pub(crate) struct RowEncoder {
    array: u128,
    layout: ArrayLayout,
    code: RedundancyCode,
    kernel: Kernel,
}

/// A write to rows of one zone. Each slot's buffers contain the blocks for its member.
pub(crate) struct ZoneWrite {
    /// Rows in ascending order.
    rows: Vec<u64>,
    /// Runs of written blocks in the zone. Block 0 contains the records, and block 1 belongs to the first row.
    runs: Vec<Range<usize>>,
    /// Buffers by slot, one for each run. The first buffer of a slot begins with the records.
    buffers: Vec<Vec<IoBuffer>>,
    /// Generation of all rows, if the zone is written whole. `None` if it must be derived from the old records, or if
    /// each row has its own generation.
    generation: Option<u64>,
}

/// Returns the position of a row's block in its zone.
fn block_in_zone(row: u64) -> usize {
    1 + (row % ZONE_ROWS) as usize
}

/// Returns the runs of blocks that are written for these rows.
fn runs(rows: &[u64]) -> Vec<Range<usize>> {
    let records = 0..1;
    let mut runs = vec![records];
    for block in rows.iter().map(|row| block_in_zone(*row)) {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

/// Returns true if `rows` covers a whole zone.
pub(crate) fn is_whole(rows: &[u64]) -> bool {
    rows.len() as u64 == ZONE_ROWS
}

impl RowEncoder {
    /// Returns the state of a row. `records` contains the records of the row's zone by slot.
    pub fn row_state(&self, row: u64, records: &[&[u8]]) -> RowState {
        let RowEncoder { array, layout, code, .. } = self;
        let record = |cell| {
            let bytes = &records[layout.slot(row, cell)][MemberDevice::record_range(row)];
            let bytes = bytes.try_into().expect("a record has its fixed length");
            Some(BlockRecord::decode(bytes, *array, row, layout.stored_cell(cell)))
        };
        let records: Vec<Option<RecordSlot>> = (0..layout.slots).map(record).collect();
        RowState::new(code, &records)
    }
}

impl ZoneWrite {
    /// Returns the zone of the rows.
    pub fn zone(&self) -> u64 {
        self.rows[0] / ZONE_ROWS
    }

    /// Returns the rows that are written, in ascending order.
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Returns the index of the buffer that contains a row, and the range of the row in this buffer. They do not
    /// depend on the slot.
    fn row_position(&self, row: u64) -> (usize, Range<usize>) {
        let block = block_in_zone(row);
        let run = self.runs.iter().position(|run| run.contains(&block)).expect("each row is in a run");
        let at = (block - self.runs[run].start) * BLOCK;
        (run, at..at + BLOCK)
    }

    /// Copies the data of the rows into the buffers, and computes parity and records. `rows` must be the rows of this
    /// write.
    pub fn fill(&mut self, coding: &RowEncoder, rows: &[FreeRowWrite]) {
        let generations = self.generations(coding);
        for ((row, columns), generation) in rows.iter().zip(generations) {
            let mut checksums = self.copy_row(coding, *row, columns);
            checksums.extend(self.encode_row(coding, *row));
            self.put_row_records(coding, *row, generation, &checksums);
        }
    }

    /// Returns the generation of each row.
    fn generations(&mut self, coding: &RowEncoder) -> Vec<u64> {
        if let Some(generation) = self.generation {
            return vec![generation; self.rows.len()];
        }
        let records: Vec<&[u8]> = self.buffers.iter().map(|of_slot| &of_slot[0][..BLOCK]).collect();
        let states: Vec<RowState> = self.rows.iter().map(|row| coding.row_state(*row, &records)).collect();
        if is_whole(&self.rows) {
            self.generation = RowState::common_generation(&states);
        }
        let of_row = |state: &RowState| self.generation.unwrap_or_else(|| state.next_generation());
        states.iter().map(of_row).collect()
    }

    /// Returns the blocks of a row by cell.
    fn cells(&mut self, layout: &ArrayLayout, row: u64) -> Vec<&mut [u8]> {
        let (run, bytes) = self.row_position(row);
        let of_slot = self.buffers.iter_mut().map(|of_slot| &mut of_slot[run][bytes.clone()]);
        let mut by_slot: Vec<Option<&mut [u8]>> = of_slot.map(Some).collect();
        let block = |cell| by_slot[layout.slot(row, cell)].take().expect("each cell has a slot of its own");
        (0..layout.slots).map(block).collect()
    }

    /// Copies the data of a row. Returns the checksums of the blocks.
    fn copy_row(&mut self, coding: &RowEncoder, row: u64, columns: &[SharedBlock]) -> Vec<u64> {
        // All blocks are dereferenced first, so the cache misses for their headers overlap.
        let columns: Vec<&[u8]> = columns.iter().map(|content| &content[..]).collect();
        let copy = |(block, content): (&mut [u8], &[u8])| {
            block.copy_from_slice(content);
            // The checksum is computed on the copy, which is in the processor's cache.
            BlockRecord::checksum_of(block)
        };
        self.cells(&coding.layout, row).into_iter().zip(columns).map(copy).collect()
    }

    /// Computes the parity of a row from its data. Returns the checksums of the parity.
    fn encode_row(&mut self, coding: &RowEncoder, row: u64) -> Vec<u64> {
        let mut data = self.cells(&coding.layout, row);
        let mut parity = data.split_off(coding.layout.data_columns());
        let data: Vec<&[u8]> = data.into_iter().map(|block| &*block).collect();
        coding.code.encode(&coding.kernel, &data, &mut parity);
        parity.iter().map(|block| BlockRecord::checksum_of(block)).collect()
    }

    /// Stores a row's records, which contain the given block checksums, among the records of its zone.
    fn put_row_records(&mut self, coding: &RowEncoder, row: u64, generation: u64, checksums: &[u64]) {
        let RowEncoder { array, layout, .. } = coding;
        let columns = layout.data_columns();
        let mut tags_of_parity = [0; MAX_DATA_COLUMNS];
        tags_of_parity[..columns].fill(generation as u8);
        for (cell, checksum) in checksums.iter().enumerate() {
            let tags = if cell < columns { Default::default() } else { tags_of_parity };
            let stored = layout.stored_cell(cell);
            let record = BlockRecord::with_checksum(*array, row, stored, generation, tags, *checksum);
            let of_zone = &mut self.buffers[layout.slot(row, cell)][0];
            of_zone[MemberDevice::record_range(row)].copy_from_slice(record.as_bytes());
        }
    }
}

/// Fills the buffers of several zone writes with their rows, using `threads` threads.
pub(crate) fn fill_all(writes: &mut [(ZoneWrite, &[FreeRowWrite])], coding: &RowEncoder, threads: usize) {
    let fill = &|writes: &mut [(ZoneWrite, &[FreeRowWrite])]| {
        writes.iter_mut().for_each(|(write, rows)| write.fill(coding, rows));
    };
    let share = writes.len().div_ceil(threads.max(1)).max(1);
    let (own, others) = writes.split_at_mut(share.min(writes.len()));
    thread::scope(|scope| {
        for other in others.chunks_mut(share) {
            scope.spawn(move || fill(other));
        }
        fill(own);
    });
}

impl RowStore {
    pub fn row_encoder(&self) -> RowEncoder {
        RowEncoder {
            array: self.members.config.array,
            layout: self.members.config.layout,
            code: self.members.code,
            kernel: self.kernel,
        }
    }

    /// Returns the device of each slot. Returns `None` if a slot has no device or several devices, or if cells have
    /// copies.
    pub fn device_per_slot(&self) -> Option<Vec<usize>> {
        let sole = |slot| {
            let mut devices = self.members.targets(slot);
            devices.next().filter(|_| devices.next().is_none())
        };
        (0..self.members.layout().slots)
            .map(sole)
            .collect::<Option<_>>()
            .filter(|_| self.members.code.copies() == 1)
    }

    /// Returns a write for rows of one zone. The rows must be in ascending order. The content of its buffers is
    /// arbitrary.
    pub fn zone_write(&mut self, rows: Vec<u64>) -> ZoneWrite {
        let runs = runs(&rows);
        let slots = self.members.layout().slots;
        let pool = &mut self.members.buffers;
        let mut of_slot = |_| runs.iter().map(|run| pool.take(run.len() * BLOCK)).collect();
        let buffers = (0..slots).map(&mut of_slot).collect();
        let known = rows.first().and_then(|row| self.members.records.next_generation(row / ZONE_ROWS));
        let generation = known.filter(|_| is_whole(&rows));
        ZoneWrite { rows, runs, buffers, generation }
    }

    /// Copies the current records of the zone into a write to these devices, unless the write replaces all of them.
    /// Returns `None` if they cannot be read.
    pub fn put_records(&mut self, devices: &[usize], write: &mut ZoneWrite) -> Option<()> {
        if write.generation.is_some() {
            return Some(());
        }
        let zone = write.zone();
        for (device, of_slot) in devices.iter().zip(&mut write.buffers) {
            of_slot[0][..BLOCK].copy_from_slice(self.members.record_block(*device, zone).ok()?);
        }
        Some(())
    }

    /// Returns the transfers of a filled write. The write's records become the current records of the zone.
    pub fn zone_segments(&mut self, devices: &[usize], write: ZoneWrite) -> Vec<TransferSegment> {
        let zone = write.zone();
        let (mut pieces, generation) = (vec![], write.generation);
        for (&device, of_slot) in devices.iter().zip(write.buffers) {
            self.members.records.replace((device, zone), &of_slot[0][..BLOCK]);
            let start = self.members.devices[device].layout.records(zone);
            for (run, buffer) in write.runs.iter().zip(of_slot) {
                pieces.push(TransferSegment { device, offset: start + (run.start * BLOCK) as u64, buffer });
            }
        }
        if let Some(generation) = generation {
            self.members.records.set_generation(zone, generation);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_records_and_rows_form_runs() {
        let run_bounds =
            |rows: &[u64]| runs(rows).into_iter().map(|run| (run.start, run.end)).collect::<Vec<_>>();
        assert_eq!(run_bounds(&[128, 129, 130]), [(0, 4)]);
        assert_eq!(run_bounds(&[129, 130, 191]), [(0, 1), (2, 4), (64, 65)]);
        assert_eq!(run_bounds(&(64..128).collect::<Vec<_>>()), [(0, 65)]);
    }
}
