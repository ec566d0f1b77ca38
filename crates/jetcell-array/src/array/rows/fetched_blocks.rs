//! Blocks that an operation needs, read in one batch. All members work concurrently, and adjacent blocks are read in
//! one transfer.
//!
//! Fetched blocks are not verified. Before a caller uses a block, it checks the block against its current record, and
//! reads the block individually if they do not match. This way, failed transfers and blocks that changed after the
//! fetch are found and counted in the code that reads single blocks.

use jetcell_vfs::{IoReason, TransferKind};

use super::RowStore;
use crate::array::members::{InFlightTransfers, MAX_SEGMENT_BYTES, TransferSegment};
use crate::geometry::BLOCK;
use crate::integrity::{CellState, RowState};

/// Location of a block on a member: device and offset.
pub(crate) type BlockLocation = (usize, u64);

/// Blocks that have been fetched but not yet released.
#[derive(Default)]
pub(super) struct FetchedBlocks {
    /// Segments, sorted by device and offset.
    segments: Vec<TransferSegment>,
}

impl FetchedBlocks {
    /// Returns a block if it was fetched.
    pub fn block(&self, (device, offset): BlockLocation) -> Option<&[u8]> {
        let after = self.segments.partition_point(|piece| (piece.device, piece.offset) <= (device, offset));
        self.segments[after.checked_sub(1)?].block((device, offset))
    }
}

impl TransferSegment {
    /// Returns a block if it is in the segment.
    pub fn block(&self, (device, offset): BlockLocation) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.buffer.get(start..start + BLOCK).filter(|_| self.device == device)
    }
}

/// Joins adjacent locations into runs. Each run has a device, an offset and a length in bytes.
fn runs(mut places: Vec<BlockLocation>) -> Vec<(usize, u64, usize)> {
    places.sort_unstable();
    places.dedup();
    let mut runs: Vec<(usize, u64, usize)> = vec![];
    for (device, offset) in places {
        match runs.last_mut() {
            Some((last, start, bytes))
                if *last == device && *start + *bytes as u64 == offset && *bytes < MAX_SEGMENT_BYTES =>
            {
                *bytes += BLOCK;
            }
            _ => runs.push((device, offset, BLOCK)),
        }
    }
    runs
}

impl RowStore {
    /// Starts to read blocks. The array may be used before these reads complete.
    pub fn start_fetch(&mut self, places: Vec<BlockLocation>) -> InFlightTransfers {
        let piece = |(device, offset, bytes)| TransferSegment {
            device,
            offset,
            // If the read fails, the content of the buffer is arbitrary, but it is not used.
            buffer: self.members.buffers.take(bytes),
        };
        let pieces = runs(places).into_iter().map(piece).collect();
        self.members.start_transfers(TransferKind::Read, pieces, IoReason::Other)
    }

    /// Waits for the reads. Their blocks replace all previously fetched blocks.
    pub fn finish_fetch(&mut self, reads: InFlightTransfers) {
        self.release_fetched();
        self.finish_fetch_with(reads, |_| {});
    }

    /// Waits for the reads, and adds the blocks to those that were already fetched. Calls `arrived` for each segment
    /// as soon as it has been read, while other reads are in flight.
    pub fn finish_fetch_with(
        &mut self,
        mut reads: InFlightTransfers,
        mut arrived: impl FnMut(&TransferSegment),
    ) {
        while let Some((piece, result)) = reads.next() {
            match result {
                Ok(()) => {
                    arrived(&piece);
                    self.fetched.segments.push(piece);
                }
                Err(_) => self.members.buffers.recycle(piece.buffer),
            }
        }
        self.fetched.segments.sort_unstable_by_key(|piece| (piece.device, piece.offset));
    }

    /// Reads blocks, which replace all previously fetched blocks.
    pub fn fetch(&mut self, places: Vec<BlockLocation>) {
        let reads = self.start_fetch(places);
        self.finish_fetch(reads);
    }

    /// Releases the fetched blocks after the operation that needed them.
    pub fn release_fetched(&mut self) {
        for piece in std::mem::take(&mut self.fetched.segments) {
            self.members.buffers.recycle(piece.buffer);
        }
    }

    /// Returns the locations of these cells of a row. Cells that were never written, or that no member has, are
    /// omitted.
    pub fn block_locations(&mut self, row: u64, state: &RowState, cells: &[usize]) -> Vec<BlockLocation> {
        cells.iter().filter_map(|cell| self.block_location(row, *cell, state)).collect()
    }

    /// Returns true if a member has the content of a cell.
    pub fn has_source(&mut self, row: u64, cell: usize, state: &RowState) -> bool {
        self.block_location(row, cell, state).is_some()
    }

    /// Returns the location of a cell's content if a member has it.
    pub fn block_location(&mut self, row: u64, cell: usize, state: &RowState) -> Option<BlockLocation> {
        let CellState::Written(record) = state.cells[cell] else { return None };
        let mut sources = self.members.sources(row, cell);
        let device = match (sources.next(), sources.next()) {
            // With a single device, the record in `state` comes from that device.
            (Some(only), None) => only,
            _ => self.device_with_record(row, cell, record)?,
        };
        Some((device, self.members.devices[device].layout.block(row)))
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::IoBuffer;

    use super::*;

    #[test]
    fn consecutive_blocks_are_fetched_and_found_in_one_transfer() {
        let block_position = |device, block: u64| (device, block * BLOCK as u64);
        assert_eq!(
            runs(vec![
                block_position(1, 4),
                block_position(0, 9),
                block_position(0, 8),
                block_position(1, 5),
                block_position(1, 7),
                block_position(0, 8)
            ]),
            [(0, 8 * 4096, 2 * BLOCK), (1, 4 * 4096, 2 * BLOCK), (1, 7 * 4096, BLOCK)]
        );
        let long = runs((0..300).map(|block| block_position(0, block)).collect());
        assert_eq!(long.iter().map(|(.., bytes)| bytes / BLOCK).collect::<Vec<_>>(), [256, 44]);
        let mut fetched = FetchedBlocks::default();
        assert!(fetched.block(block_position(0, 0)).is_none());
        for (device, offset, bytes) in [(0, 8 * 4096, 2 * BLOCK), (1, 4 * 4096, BLOCK)] {
            let mut buffer = IoBuffer::zeroed(bytes);
            buffer.chunks_mut(BLOCK).enumerate().for_each(|(at, block)| block.fill(at as u8 + 1));
            fetched.segments.push(TransferSegment { device, offset, buffer });
        }
        let found = |place| fetched.block(place).map(|block| block[7]);
        assert_eq!(
            [
                block_position(0, 8),
                block_position(0, 9),
                block_position(0, 10),
                block_position(1, 3),
                block_position(1, 4),
                block_position(2, 4)
            ]
            .map(found),
            [Some(1), Some(2), None, None, Some(1), None]
        );
    }
}
