//! Transfers of several members at the same time, in as few and as long pieces as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_vfs::{IoBuffer, IoReason, TransferKind};

use super::Array;
use super::buffers::Buffers;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::{BlockRecord, CellState, RecordSlot, RowState};

/// Longest piece in bytes.
const LONGEST: usize = 1 << 20;
/// Blocks that are read for a caller at once.
const BATCH: usize = 2048;

/// A piece of a member.
pub(super) struct Piece {
    pub device: usize,
    pub offset: u64,
    pub buffer: IoBuffer,
}

/// Transfers that were started. The array must not be used before they have ended for anything that they change.
pub(super) struct UnderWay {
    /// Device and offset of each piece.
    places: Vec<(usize, u64)>,
    finished: Receiver<(usize, io::Result<()>, IoBuffer)>,
}

impl UnderWay {
    /// Waits for all of them. Results are in the order of the pieces.
    fn wait(self) -> Vec<(Piece, io::Result<()>)> {
        let mut results: Vec<Option<(Piece, io::Result<()>)>> = self.places.iter().map(|_| None).collect();
        for (index, result, buffer) in self.finished {
            let (device, offset) = self.places[index];
            results[index] = Some((Piece { device, offset, buffer }, result));
        }
        results.into_iter().map(|result| result.expect("each transfer completes once")).collect()
    }
}

/// A block to be read for a caller.
struct Wanted {
    device: usize,
    offset: u64,
    record: BlockRecord,
    /// Its place in the caller's list.
    index: usize,
}

/// Joins writes of a device that touch each other.
pub(super) fn joined(buffers: &mut Buffers, device: usize, mut writes: Vec<(u64, &[u8])>) -> Vec<Piece> {
    writes.sort_by_key(|(offset, _)| *offset);
    let mut pieces = vec![];
    let mut rest = &writes[..];
    while let Some((offset, first)) = rest.first() {
        let (mut count, mut len) = (1, first.len());
        while let Some((next, data)) = rest.get(count)
            && *next == offset + len as u64
            && len + data.len() <= LONGEST
        {
            (count, len) = (count + 1, len + data.len());
        }
        let mut buffer = buffers.take(len);
        let mut at = 0;
        for (_, data) in &rest[..count] {
            buffer[at..at + data.len()].copy_from_slice(data);
            at += data.len();
        }
        pieces.push(Piece { device, offset: *offset, buffer });
        rest = &rest[count..];
    }
    pieces
}

impl Array {
    /// Starts transfers of all devices at the same time.
    fn start_transfers(&mut self, kind: TransferKind, pieces: Vec<Piece>, reason: IoReason) -> UnderWay {
        if kind == TransferKind::Read {
            pieces.iter().for_each(|piece| self.note_member_read(piece.buffer.len() / BLOCK));
        }
        let (sender, finished) = channel();
        let mut places = vec![];
        let mut by_device: BTreeMap<usize, Vec<jetcell_vfs::Transfer>> = BTreeMap::new();
        for (index, Piece { device, offset, buffer }) in pieces.into_iter().enumerate() {
            places.push((device, offset));
            let sender = sender.clone();
            let done = move |result, buffer| {
                // The receiver waits for all of them.
                let _ = sender.send((index, result, buffer));
            };
            let transfer = jetcell_vfs::Transfer { kind, offset, buffer, reason, done: Box::new(done) };
            by_device.entry(device).or_default().push(transfer);
        }
        drop(sender);
        for (device, batch) in by_device {
            self.devices[device].submit(batch);
        }
        UnderWay { places, finished }
    }

    /// Starts writes of pieces, which [`Array::finish_writes`] must end.
    pub(super) fn start_writes(&mut self, pieces: Vec<Piece>, reason: IoReason) -> UnderWay {
        self.counters.member_writes += pieces.len() as u64;
        self.counters.member_blocks_written +=
            pieces.iter().map(|piece| (piece.buffer.len() / BLOCK) as u64).sum::<u64>();
        self.start_transfers(TransferKind::Write, pieces, reason)
    }

    /// Waits for writes. Devices that fail are taken out.
    pub(super) fn finish_writes(&mut self, writes: UnderWay) -> Result<()> {
        for (piece, result) in writes.wait() {
            self.buffers.keep(piece.buffer);
            let result = result.map_err(|error| self.devices[piece.device].write_error(piece.offset, error));
            self.note_write(piece.device, result)?;
        }
        Ok(())
    }

    /// Writes pieces to their devices. Devices that fail are taken out.
    pub(super) fn write_pieces(&mut self, pieces: Vec<Piece>, reason: IoReason) -> Result<()> {
        let writes = self.start_writes(pieces, reason);
        self.finish_writes(writes)
    }

    /// Reads the records of all slots for these rows, as far as they are not in memory. What cannot be read is found later.
    pub(super) fn load_records_of_rows(&mut self, rows: impl Iterator<Item = u64>) {
        let zones: BTreeSet<u64> = rows.map(|row| row / ZONE_ROWS).collect();
        let mut pieces = vec![];
        for zone in zones {
            let row = zone * ZONE_ROWS;
            let devices: BTreeSet<usize> =
                (0..self.config.slots.len()).flat_map(|slot| self.sources(slot, row)).collect();
            for device in devices.into_iter().filter(|device| !self.records.has(*device, zone)) {
                let offset = self.devices[device].layout.records(zone);
                pieces.push(Piece { device, offset, buffer: IoBuffer::zeroed(BLOCK) });
            }
        }
        let zone_of = |array: &Array, piece: &Piece| array.devices[piece.device].layout.zone_of(piece.offset);
        for (piece, result) in self.start_transfers(TransferKind::Read, pieces, IoReason::Other).wait() {
            if result.is_ok() {
                let zone = zone_of(self, &piece);
                self.records.insert((piece.device, zone), piece.buffer);
            }
        }
    }

    /// Reads blocks of the array, each into a buffer of its own.
    pub(super) fn read_blocks(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        for (blocks, buffers) in blocks.chunks(BATCH).zip(buffers.chunks_mut(BATCH)) {
            self.read_batch(blocks, buffers)?;
        }
        Ok(())
    }

    fn read_batch(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.records.trim();
        let layout = self.config.layout;
        self.load_records_of_rows(blocks.iter().map(|block| layout.locate(*block).0));
        let mut states: BTreeMap<u64, RowState> = BTreeMap::new();
        let (mut wanted, mut doubtful) = (vec![], vec![]);
        for (index, block) in blocks.iter().enumerate() {
            if let Some(staged) = self.staged.get(block) {
                buffers[index].copy_from_slice(staged);
                continue;
            }
            let (row, column) = layout.locate(*block);
            let cell = self.preferred_cell(row, column);
            let state = states.entry(row).or_insert_with(|| self.row_state(row));
            match state.cells[cell] {
                CellState::Empty => buffers[index].fill(0),
                CellState::Written(record) => match self.source_with(row, cell, record) {
                    Some(device) => {
                        let offset = self.devices[device].layout.block(row);
                        wanted.push(Wanted { device, offset, record, index });
                    }
                    None => doubtful.push(index),
                },
                CellState::Stale | CellState::Missing => doubtful.push(index),
            }
        }
        doubtful.extend(self.read_wanted(wanted, buffers));
        for index in doubtful {
            self.read_block(blocks[index], buffers[index])?;
        }
        Ok(())
    }

    /// A device that has the block of this record.
    fn source_with(&mut self, row: u64, cell: usize, record: BlockRecord) -> Option<usize> {
        let slot = self.config.layout.slot(row, cell);
        let devices: Vec<usize> = self.sources(slot, row).collect();
        devices.into_iter().find(|device| self.record(*device, row, cell) == RecordSlot::Written(record))
    }

    /// Reads blocks into their buffers. Returns the places of those that could not be read or are not what was written.
    fn read_wanted(&mut self, mut wanted: Vec<Wanted>, buffers: &mut [&mut [u8]]) -> Vec<usize> {
        wanted.sort_by_key(|wanted| (wanted.device, wanted.offset));
        let mut groups: Vec<&[Wanted]> = vec![];
        let mut rest = &wanted[..];
        while let Some(first) = rest.first() {
            let touches = |(place, other): (usize, &Wanted)| {
                other.device == first.device
                    && other.offset == first.offset + (place * BLOCK) as u64
                    && place < LONGEST / BLOCK
            };
            let count = rest.iter().enumerate().take_while(|(place, other)| touches((*place, other))).count();
            groups.push(&rest[..count]);
            rest = &rest[count..];
        }
        let piece = |group: &&[Wanted]| Piece {
            device: group[0].device,
            offset: group[0].offset,
            // A read that fails leaves other bytes in it, which nothing uses.
            buffer: self.buffers.take(group.len() * BLOCK),
        };
        let pieces = groups.iter().map(piece).collect();
        let reads = self.start_transfers(TransferKind::Read, pieces, IoReason::Other);
        let mut doubtful = vec![];
        for (group, (piece, result)) in groups.iter().zip(reads.wait()) {
            for (wanted, block) in group.iter().zip(piece.buffer.chunks_exact(BLOCK)) {
                // The error, if it is one, is counted and handled when the block is read by itself.
                if result.is_ok() && wanted.record.matches(block) {
                    buffers[wanted.index].copy_from_slice(block);
                } else {
                    doubtful.push(wanted.index);
                }
            }
            self.buffers.keep(piece.buffer);
        }
        doubtful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_touch_are_joined_up_to_the_longest_piece() {
        let data = vec![1; BLOCK];
        let place = |index: u64| (index * BLOCK as u64, &data[..]);
        let pieces =
            joined(&mut Buffers::default(), 3, vec![place(5), place(1), place(2), place(7), place(6)]);
        let found: Vec<(u64, usize)> =
            pieces.iter().map(|piece| (piece.offset / BLOCK as u64, piece.buffer.len() / BLOCK)).collect();
        assert_eq!(found, [(1, 2), (5, 3)]);
        let many = joined(&mut Buffers::default(), 3, (0..300).map(place).collect());
        assert_eq!(many.iter().map(|piece| piece.buffer.len() / BLOCK).collect::<Vec<_>>(), [256, 44]);
    }
}
