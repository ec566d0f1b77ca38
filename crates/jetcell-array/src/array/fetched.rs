//! Blocks that an operation needs, read ahead in one batch: all members at the same time, blocks that follow each other in one transfer.
//!
//! What is here proves nothing. A caller that uses a block compares it with its record, as it is then, and reads it by itself if it does not
//! match: so a failed transfer, or a block that changed since, is found and counted where single blocks are read.

use jetcell_vfs::{IoReason, TransferKind};

use super::Array;
use super::transfers::{LONGEST, Piece, UnderWay};
use crate::geometry::BLOCK;
use crate::integrity::{CellState, RowState};

/// A block of a member: device and offset.
pub(crate) type Place = (usize, u64);

/// Blocks in memory.
#[derive(Default)]
pub(super) struct Fetched {
    /// In order of device and offset.
    pieces: Vec<Piece>,
}

impl Fetched {
    /// A block, if it was read.
    pub fn block(&self, (device, offset): Place) -> Option<&[u8]> {
        let after = self.pieces.partition_point(|piece| (piece.device, piece.offset) <= (device, offset));
        self.pieces[after.checked_sub(1)?].block((device, offset))
    }
}

impl Piece {
    /// A block of it.
    pub(super) fn block(&self, (device, offset): Place) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.buffer.get(start..start + BLOCK).filter(|_| self.device == device)
    }
}

/// Runs of places that follow each other, as device, offset and bytes.
fn runs(mut places: Vec<Place>) -> Vec<(usize, u64, usize)> {
    places.sort_unstable();
    places.dedup();
    let mut runs: Vec<(usize, u64, usize)> = vec![];
    for (device, offset) in places {
        match runs.last_mut() {
            Some((last, start, bytes))
                if *last == device && *start + *bytes as u64 == offset && *bytes < LONGEST =>
            {
                *bytes += BLOCK;
            }
            _ => runs.push((device, offset, BLOCK)),
        }
    }
    runs
}

impl Array {
    /// Starts reads of blocks. The array may be used before they have ended.
    pub(crate) fn start_fetch(&mut self, places: Vec<Place>) -> UnderWay {
        let piece = |(device, offset, bytes)| Piece {
            device,
            offset,
            // A read that fails leaves other bytes in it, which nothing uses.
            buffer: self.buffers.take(bytes),
        };
        let pieces = runs(places).into_iter().map(piece).collect();
        self.start_transfers(TransferKind::Read, pieces, IoReason::Other)
    }

    /// Waits for the reads. The blocks replace those that were fetched before.
    pub(crate) fn finish_fetch(&mut self, reads: UnderWay) {
        self.release_fetched();
        self.finish_fetch_with(reads, |_| {});
    }

    /// Waits for the reads, and adds the blocks to those that were fetched before. Shows each piece when it has arrived, while others
    /// are being read.
    pub(super) fn finish_fetch_with(&mut self, mut reads: UnderWay, mut arrived: impl FnMut(&Piece)) {
        while let Some((piece, result)) = reads.next() {
            match result {
                Ok(()) => {
                    arrived(&piece);
                    self.fetched.pieces.push(piece);
                }
                Err(_) => self.buffers.keep(piece.buffer),
            }
        }
        self.fetched.pieces.sort_unstable_by_key(|piece| (piece.device, piece.offset));
    }

    /// Reads blocks.
    pub(crate) fn fetch(&mut self, places: Vec<Place>) {
        let reads = self.start_fetch(places);
        self.finish_fetch(reads);
    }

    /// Forgets the blocks: the operation that needed them has ended.
    pub(crate) fn release_fetched(&mut self) {
        for piece in std::mem::take(&mut self.fetched.pieces) {
            self.buffers.keep(piece.buffer);
        }
    }

    /// Where the written ones of these cells of a row are.
    pub(crate) fn places(&mut self, row: u64, state: &RowState, cells: &[usize]) -> Vec<Place> {
        cells.iter().filter_map(|cell| self.place(row, *cell, state)).collect()
    }

    /// Whether a member has the content of a cell.
    pub(crate) fn has_source(&mut self, row: u64, cell: usize, state: &RowState) -> bool {
        self.place(row, cell, state).is_some()
    }

    /// Where the content of a cell is, if a member has it.
    pub(super) fn place(&mut self, row: u64, cell: usize, state: &RowState) -> Option<Place> {
        let CellState::Written(record) = state.cells[cell] else { return None };
        let mut sources = self.sources(self.config.layout.slot(row, cell), row);
        let device = match (sources.next(), sources.next()) {
            // The state has the record of its only device.
            (Some(only), None) => only,
            _ => self.source_with(row, cell, record)?,
        };
        Some((device, self.devices[device].layout.block(row)))
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::IoBuffer;

    use super::*;

    #[test]
    fn blocks_that_follow_each_other_are_one_transfer_and_are_found_in_it() {
        let at = |device, block: u64| (device, block * BLOCK as u64);
        assert_eq!(
            runs(vec![at(1, 4), at(0, 9), at(0, 8), at(1, 5), at(1, 7), at(0, 8)]),
            [(0, 8 * 4096, 2 * BLOCK), (1, 4 * 4096, 2 * BLOCK), (1, 7 * 4096, BLOCK)]
        );
        let long = runs((0..300).map(|block| at(0, block)).collect());
        assert_eq!(long.iter().map(|(.., bytes)| bytes / BLOCK).collect::<Vec<_>>(), [256, 44]);
        let mut fetched = Fetched::default();
        assert!(fetched.block(at(0, 0)).is_none());
        for (device, offset, bytes) in [(0, 8 * 4096, 2 * BLOCK), (1, 4 * 4096, BLOCK)] {
            let mut buffer = IoBuffer::zeroed(bytes);
            buffer.chunks_mut(BLOCK).enumerate().for_each(|(at, block)| block.fill(at as u8 + 1));
            fetched.pieces.push(Piece { device, offset, buffer });
        }
        let found = |place| fetched.block(place).map(|block| block[7]);
        assert_eq!(
            [at(0, 8), at(0, 9), at(0, 10), at(1, 3), at(1, 4), at(2, 4)].map(found),
            [Some(1), Some(2), None, None, Some(1), None]
        );
    }
}
