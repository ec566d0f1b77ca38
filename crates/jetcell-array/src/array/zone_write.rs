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

/// A write of rows of a zone, in ascending order. The buffers of a slot have the blocks of its member, each of them copied once.
pub(super) struct ZoneWrite<'rows> {
    rows: &'rows [FreeRow],
    /// Blocks of the zone that are written, as runs: the records are block 0, the first row is block 1.
    runs: Vec<Range<usize>>,
    /// By slot, a buffer for each run. The first buffer begins with the records.
    buffers: Vec<Vec<IoBuffer>>,
}

fn zone_of(rows: &[FreeRow]) -> u64 {
    rows[0].0 / ZONE_ROWS
}

/// The block of a row in its zone.
fn block_in_zone(row: u64) -> usize {
    1 + (row % ZONE_ROWS) as usize
}

/// Runs of the blocks that are written with these rows.
fn runs(rows: &[FreeRow]) -> Vec<Range<usize>> {
    let records = 0..1;
    let mut runs = vec![records];
    for block in rows.iter().map(|(row, _)| block_in_zone(*row)) {
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

impl ZoneWrite<'_> {
    /// The generation of each row.
    fn generations(&self, coding: &Coding) -> Vec<u64> {
        let records: Vec<&[u8]> = self.buffers.iter().map(|of_slot| &of_slot[0][..BLOCK]).collect();
        self.rows.iter().map(|(row, _)| coding.row_state(*row, &records).next_generation()).collect()
    }

    /// Copies data, and computes parity and records.
    fn fill(&mut self, coding: &Coding) {
        let Coding { array, layout, code, kernel } = coding;
        let parities = code.parities();
        for ((row, columns), generation) in self.rows.iter().zip(&self.generations(coding)) {
            let (block, count) = (block_in_zone(*row), columns.len());
            let run = self.runs.iter().position(|run| run.contains(&block)).expect("each row is in a run");
            let at = (block - self.runs[run].start) * BLOCK;
            let mut blocks: Vec<Option<&mut [u8]>> =
                self.buffers.iter_mut().map(|of_slot| Some(&mut of_slot[run][at..at + BLOCK])).collect();
            let mut block_of =
                |cell| blocks[layout.slot(*row, cell)].take().expect("each cell has a slot of its own");
            let record = |cell, tags, block: &[u8]| {
                BlockRecord::new(*array, *row, layout.stored_cell(cell), *generation, tags, block)
            };
            let mut records = Vec::with_capacity(count + parities);
            let mut data: Vec<&[u8]> = Vec::with_capacity(count);
            // Looked up at once: then the cache misses of their headers overlap.
            let contents: Vec<&[u8]> = columns.iter().map(|content| &content[..]).collect();
            for (column, content) in contents.into_iter().enumerate() {
                let block = block_of(column);
                block.copy_from_slice(content);
                // Of the copy, which the processor's cache has.
                records.push(record(column, Default::default(), block));
                data.push(block);
            }
            let mut parity: Vec<&mut [u8]> = (count..count + parities).map(block_of).collect();
            code.encode(kernel, &data, &mut parity);
            let mut tags = [0; MAX_DATA_COLUMNS];
            tags[..count].fill(*generation as u8);
            records
                .extend(parity.iter().enumerate().map(|(index, block)| record(count + index, tags, block)));
            for (cell, record) in records.iter().enumerate() {
                let of_zone = &mut self.buffers[layout.slot(*row, cell)][0];
                of_zone[Device::record_range(*row)].copy_from_slice(record.as_bytes());
            }
        }
    }
}

/// Fills writes of zones with so many threads.
pub(super) fn fill_all(writes: &mut [ZoneWrite<'_>], coding: &Coding, threads: usize) {
    let fill = &|writes: &mut [ZoneWrite<'_>]| writes.iter_mut().for_each(|write| write.fill(coding));
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

    /// A write of rows of one zone by these devices, to be filled. `None`: records of the zone cannot be read.
    pub(super) fn zone_write<'rows>(
        &mut self,
        devices: &[usize],
        rows: &'rows [FreeRow],
    ) -> Option<ZoneWrite<'rows>> {
        let zone = zone_of(rows);
        let runs = runs(rows);
        let mut buffers = vec![];
        for device in devices {
            let mut of_slot: Vec<IoBuffer> =
                runs.iter().map(|run| self.buffers.take(run.len() * BLOCK)).collect();
            of_slot[0][..BLOCK].copy_from_slice(self.record_block(*device, zone).ok()?);
            buffers.push(of_slot);
        }
        Some(ZoneWrite { rows, runs, buffers })
    }

    /// The transfers of a write that was filled. Its records are those of the array from now on.
    pub(super) fn pieces_of_zone(&mut self, devices: &[usize], write: ZoneWrite<'_>) -> Vec<Piece> {
        let zone = zone_of(write.rows);
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
        let of = |rows: &[u64]| {
            let rows: Vec<FreeRow> = rows.iter().map(|row| (*row, vec![])).collect();
            runs(&rows).into_iter().map(|run| (run.start, run.end)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[128, 129, 130]), [(0, 4)]);
        assert_eq!(of(&[129, 130, 191]), [(0, 1), (2, 4), (64, 65)]);
        assert_eq!(of(&(64..128).collect::<Vec<_>>()), [(0, 65)]);
    }
}
