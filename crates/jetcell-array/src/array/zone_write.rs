//! Whole rows of a zone, put straight into the transfers of the members.

use std::ops::Range;

use jetcell_sync::{Arc, thread};
use jetcell_vfs::IoBuffer;
use zerocopy::IntoBytes;

use super::Array;
use super::transfers::Piece;
use crate::geometry::{BLOCK, Code, Layout, MAX_DATA_COLUMNS, ZONE_ROWS};
use crate::integrity::{BlockRecord, RecordSlot, RowState};
use crate::kernels::Kernel;
use crate::member::Device;

/// A row that nothing refers to, and its new content by column.
pub(crate) type FreeRow = (u64, Vec<Arc<IoBuffer>>);

/// What records and parity follow from, besides the rows.
pub(super) struct Coding {
    array: u128,
    layout: Layout,
    code: Code,
    kernel: Kernel,
}

/// Where the data of a write is.
pub(super) enum Content<'rows> {
    /// In these rows, in the same order.
    Rows(&'rows [FreeRow]),
    /// In the buffers. By row and column, the checksums of the blocks.
    Buffers(Vec<u64>),
}

/// A write of rows of a zone. The buffers of a slot have the blocks of its member.
pub(super) struct ZoneWrite {
    /// In ascending order.
    rows: Vec<u64>,
    /// Blocks of the zone that are written, as runs: the records are block 0, the first row is block 1.
    runs: Vec<Range<usize>>,
    /// By slot, a buffer for each run. The first buffer begins with the records.
    buffers: Vec<Vec<IoBuffer>>,
}

/// The block of a row in its zone.
fn block_in_zone(row: u64) -> usize {
    1 + (row % ZONE_ROWS) as usize
}

/// Runs of the blocks that are written with these rows.
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

impl Coding {
    /// The state of a row, from the records of its zone by slot.
    pub(super) fn row_state(&self, row: u64, records: &[&[u8]]) -> RowState {
        let Coding { array, layout, code, .. } = self;
        let record = |cell| {
            let bytes = &records[layout.slot(row, cell)][Device::record_range(row)];
            let bytes = bytes.try_into().expect("a record has its fixed length");
            Some(BlockRecord::decode(bytes, *array, row, layout.stored_cell(cell)))
        };
        let records: Vec<Option<RecordSlot>> = (0..layout.slots).map(record).collect();
        RowState::new(code, &records)
    }
}

impl ZoneWrite {
    /// The zone of the rows.
    pub(super) fn zone(&self) -> u64 {
        self.rows[0] / ZONE_ROWS
    }

    /// Rows that are written, in ascending order.
    pub(super) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// The buffer of each slot that has a row, and where it has it.
    fn place(&self, row: u64) -> (usize, Range<usize>) {
        let block = block_in_zone(row);
        let run = self.runs.iter().position(|run| run.contains(&block)).expect("each row is in a run");
        let at = (block - self.runs[run].start) * BLOCK;
        (run, at..at + BLOCK)
    }

    /// A block of the write.
    pub(super) fn block(&self, slot: usize, row: u64) -> &[u8] {
        let (run, bytes) = self.place(row);
        &self.buffers[slot][run][bytes]
    }

    /// The same, to put content there.
    pub(super) fn block_mut(&mut self, slot: usize, row: u64) -> &mut [u8] {
        let (run, bytes) = self.place(row);
        &mut self.buffers[slot][run][bytes]
    }

    /// The buffers, for other transfers.
    pub(super) fn into_buffers(self) -> impl Iterator<Item = IoBuffer> {
        self.buffers.into_iter().flatten()
    }

    /// Brings the data to the buffers, and computes parity and records.
    fn fill(&mut self, coding: &Coding, content: &Content<'_>) {
        let records: Vec<&[u8]> = self.buffers.iter().map(|of_slot| &of_slot[0][..BLOCK]).collect();
        let generation = |row: &u64| coding.row_state(*row, &records).next_generation();
        let generations: Vec<u64> = self.rows.iter().map(generation).collect();
        let columns = coding.layout.data_columns();
        for (index, generation) in generations.into_iter().enumerate() {
            let row = self.rows[index];
            match content {
                Content::Rows(rows) => self.fill_row(coding, row, generation, Some(&rows[index].1), &[]),
                Content::Buffers(checksums) => {
                    let checksums = &checksums[index * columns..(index + 1) * columns];
                    self.fill_row(coding, row, generation, None, checksums);
                }
            }
        }
    }

    fn fill_row(
        &mut self,
        coding: &Coding,
        row: u64,
        generation: u64,
        columns: Option<&[Arc<IoBuffer>]>,
        checksums: &[u64],
    ) {
        let Coding { array, layout, code, kernel } = coding;
        let (parities, count) = (code.parities(), layout.data_columns());
        let (run, bytes) = self.place(row);
        let mut blocks: Vec<Option<&mut [u8]>> =
            self.buffers.iter_mut().map(|of_slot| Some(&mut of_slot[run][bytes.clone()])).collect();
        let mut block_of =
            |cell| blocks[layout.slot(row, cell)].take().expect("each cell has a slot of its own");
        let record = |cell, tags, checksum| {
            BlockRecord::with_checksum(*array, row, layout.stored_cell(cell), generation, tags, checksum)
        };
        // Looked up at once: then the cache misses of their headers overlap.
        let contents: Option<Vec<&[u8]>> =
            columns.map(|columns| columns.iter().map(|content| &content[..]).collect());
        let mut records = Vec::with_capacity(count + parities);
        let mut data: Vec<&[u8]> = Vec::with_capacity(count);
        for column in 0..count {
            let block = block_of(column);
            let checksum = match &contents {
                Some(contents) => {
                    block.copy_from_slice(contents[column]);
                    // Of the copy, which the processor's cache has.
                    BlockRecord::checksum_of(block)
                }
                None => checksums[column],
            };
            records.push(record(column, Default::default(), checksum));
            data.push(block);
        }
        let mut parity: Vec<&mut [u8]> = (count..count + parities).map(block_of).collect();
        code.encode(kernel, &data, &mut parity);
        let mut tags = [0; MAX_DATA_COLUMNS];
        tags[..count].fill(generation as u8);
        let of_parity = |(index, block): (usize, &&mut [u8])| {
            record(count + index, tags, BlockRecord::checksum_of(block))
        };
        records.extend(parity.iter().enumerate().map(of_parity));
        for (cell, record) in records.iter().enumerate() {
            let of_zone = &mut self.buffers[layout.slot(row, cell)][0];
            of_zone[Device::record_range(row)].copy_from_slice(record.as_bytes());
        }
    }
}

/// Fills writes of zones, each with its content, with so many threads.
pub(super) fn fill_all(writes: &mut [(ZoneWrite, Content<'_>)], coding: &Coding, threads: usize) {
    let fill = &|writes: &mut [(ZoneWrite, Content<'_>)]| {
        writes.iter_mut().for_each(|(write, content)| write.fill(coding, content));
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

impl Array {
    pub(super) fn coding(&self) -> Coding {
        Coding { array: self.config.array, layout: self.config.layout, code: self.code, kernel: self.kernel }
    }

    /// The device of each slot. `None`: one has no device, or several, or cells have copies.
    pub(super) fn sole_devices(&self) -> Option<Vec<usize>> {
        let sole = |slot| {
            let mut devices = self.targets(slot);
            devices.next().filter(|_| devices.next().is_none())
        };
        (0..self.config.layout.slots).map(sole).collect::<Option<_>>().filter(|_| self.code.copies() == 1)
    }

    /// A write of rows of one zone, in ascending order, with buffers that may hold anything.
    pub(super) fn zone_write(&mut self, rows: Vec<u64>) -> ZoneWrite {
        let runs = runs(&rows);
        let mut of_slot = |_| runs.iter().map(|run| self.buffers.take(run.len() * BLOCK)).collect();
        let buffers = (0..self.config.layout.slots).map(&mut of_slot).collect();
        ZoneWrite { rows, runs, buffers }
    }

    /// Puts the records of the zone, as they are, into a write by these devices. `None`: they cannot be read.
    pub(super) fn put_records(&mut self, devices: &[usize], write: &mut ZoneWrite) -> Option<()> {
        let zone = write.zone();
        for (device, of_slot) in devices.iter().zip(&mut write.buffers) {
            of_slot[0][..BLOCK].copy_from_slice(self.record_block(*device, zone).ok()?);
        }
        Some(())
    }

    /// The transfers of a write that was filled. Its records are those of the array from now on.
    pub(super) fn pieces_of_zone(&mut self, devices: &[usize], write: ZoneWrite) -> Vec<Piece> {
        let zone = write.zone();
        let mut pieces = vec![];
        for (&device, of_slot) in devices.iter().zip(write.buffers) {
            self.records.replace((device, zone), &of_slot[0][..BLOCK]);
            let start = self.devices[device].layout.records(zone);
            for (run, buffer) in write.runs.iter().zip(of_slot) {
                pieces.push(Piece { device, offset: start + (run.start * BLOCK) as u64, buffer });
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_rows_that_follow_each_other_are_runs() {
        let of = |rows: &[u64]| runs(rows).into_iter().map(|run| (run.start, run.end)).collect::<Vec<_>>();
        assert_eq!(of(&[128, 129, 130]), [(0, 4)]);
        assert_eq!(of(&[129, 130, 191]), [(0, 1), (2, 4), (64, 65)]);
        assert_eq!(of(&(64..128).collect::<Vec<_>>()), [(0, 65)]);
    }
}
