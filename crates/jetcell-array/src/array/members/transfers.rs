//! Concurrent transfers to and from several members, in as few segments as possible.

use std::collections::BTreeMap;
use std::io;

use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_vfs::{IoBuffer, IoReason, TransferKind};

use super::MemberSet;
use super::buffer_pool::BufferPool;
use crate::error::Result;
use crate::member::{JournalImage, MemberId};

/// Maximum length of a segment in bytes.
pub(crate) const MAX_SEGMENT_BYTES: usize = 1 << 20;

/// A contiguous range of a member, with a buffer for its content.
pub(crate) struct TransferSegment {
    pub device: usize,
    pub offset: u64,
    pub buffer: IoBuffer,
}

/// Transfers in flight. Until they complete, the array must not be used for anything that depends on their results.
pub(crate) struct InFlightTransfers {
    /// Total length of all segments in bytes.
    pub(crate) bytes: usize,
    /// Device, offset and length in bytes of each segment.
    locations: Vec<(usize, u64, usize)>,
    finished: Receiver<(usize, io::Result<()>, IoBuffer)>,
}

impl InFlightTransfers {
    /// Waits for the next transfer to complete. Returns `None` if all transfers have completed.
    pub(crate) fn next(&mut self) -> Option<(TransferSegment, io::Result<()>)> {
        let (index, result, buffer) = self.finished.recv().ok()?;
        let (device, offset, _) = self.locations[index];
        Some((TransferSegment { device, offset, buffer }, result))
    }

    /// Returns true if one of the segments contains the block at this location. The segments must be sorted by device
    /// and offset.
    pub(crate) fn covers(&self, place: (usize, u64)) -> bool {
        let after = self.locations.partition_point(|(device, offset, _)| (*device, *offset) <= place);
        let before = after.checked_sub(1).map(|at| self.locations[at]);
        before.is_some_and(|(device, offset, bytes)| device == place.0 && place.1 < offset + bytes as u64)
    }

    /// Waits for all transfers. The results are in the order of the segments.
    pub(crate) fn wait(self) -> Vec<(TransferSegment, io::Result<()>)> {
        let mut results: Vec<Option<(TransferSegment, io::Result<()>)>> =
            self.locations.iter().map(|_| None).collect();
        for (index, result, buffer) in self.finished {
            let (device, offset, _) = self.locations[index];
            results[index] = Some((TransferSegment { device, offset, buffer }, result));
        }
        results.into_iter().map(|result| result.expect("each transfer completes once")).collect()
    }
}

/// Joins writes that are adjacent on a device into single segments.
pub(crate) fn join_writes(
    buffers: &mut BufferPool,
    device: usize,
    mut writes: Vec<(u64, &[u8])>,
) -> Vec<TransferSegment> {
    writes.sort_by_key(|(offset, _)| *offset);
    let mut pieces = vec![];
    let mut rest = &writes[..];
    while let Some((offset, first)) = rest.first() {
        let (mut count, mut len) = (1, first.len());
        while let Some((next, data)) = rest.get(count)
            && *next == offset + len as u64
            && len + data.len() <= MAX_SEGMENT_BYTES
        {
            (count, len) = (count + 1, len + data.len());
        }
        let mut buffer = buffers.take(len);
        let mut at = 0;
        for (_, data) in &rest[..count] {
            buffer[at..at + data.len()].copy_from_slice(data);
            at += data.len();
        }
        pieces.push(TransferSegment { device, offset: *offset, buffer });
        rest = &rest[count..];
    }
    pieces
}

impl MemberSet {
    /// Counts a transfer to or from a member.
    pub fn count_transfer(&mut self, kind: TransferKind, device: usize, offset: u64, bytes: usize) {
        let layout = self.devices[device].layout;
        layout.count(&mut self.counters.members, kind, offset, bytes, self.is_maintenance);
    }

    /// Reads from a member.
    pub fn read_member(&mut self, device: usize, offset: u64, to: &mut [u8]) -> Result<()> {
        self.count_transfer(TransferKind::Read, device, offset, to.len());
        self.devices[device].read(offset, to, IoReason::Other)
    }

    /// Writes to a member. [`MemberSet::handle_write_result`] must process the result.
    pub fn write_member(&mut self, device: usize, offset: u64, from: &[u8]) -> Result<()> {
        self.count_transfer(TransferKind::Write, device, offset, from.len());
        self.devices[device].write(offset, from, IoReason::Other)
    }

    /// Returns the bytes that a commit stores in a device's journal slot, and the offset of that slot.
    pub fn encode_journal(
        &mut self,
        device: usize,
        sequence: u64,
        participants: &[MemberId],
        images: &[JournalImage<'_>],
    ) -> (u64, IoBuffer) {
        let take = |len| self.buffers.take(len);
        self.devices[device].encode_journal(self.config.array, sequence, participants, images, take)
    }

    /// Writes a commit to the journal slot of a device. If the device fails, it is removed from the array.
    pub fn write_journal(
        &mut self,
        device: usize,
        sequence: u64,
        participants: &[MemberId],
        images: &[JournalImage<'_>],
    ) -> Result<()> {
        let (offset, buffer) = self.encode_journal(device, sequence, participants, images);
        let result = self.devices[device].write(offset, &buffer, IoReason::LogWrite);
        self.handle_write_result(device, result)
    }

    /// Starts transfers on all devices concurrently.
    pub fn start_transfers(
        &mut self,
        kind: TransferKind,
        pieces: Vec<TransferSegment>,
        reason: IoReason,
    ) -> InFlightTransfers {
        for piece in &pieces {
            self.count_transfer(kind, piece.device, piece.offset, piece.buffer.len());
        }
        let bytes = pieces.iter().map(|piece| piece.buffer.len()).sum();
        let (sender, finished) = channel();
        let mut places = vec![];
        let mut by_device: BTreeMap<usize, Vec<jetcell_vfs::Transfer>> = BTreeMap::new();
        for (index, TransferSegment { device, offset, buffer }) in pieces.into_iter().enumerate() {
            places.push((device, offset, buffer.len()));
            let sender = sender.clone();
            let done = move |result, buffer| {
                // If the receiver was dropped, the result is not needed.
                let _ = sender.send((index, result, buffer));
            };
            let transfer = jetcell_vfs::Transfer { kind, offset, buffer, reason, done: Box::new(done) };
            by_device.entry(device).or_default().push(transfer);
        }
        drop(sender);
        for (device, batch) in by_device {
            self.devices[device].submit(batch);
        }
        InFlightTransfers { bytes, locations: places, finished }
    }

    /// Starts segment writes. The caller must pass the result to [`MemberSet::finish_writes`].
    pub fn start_writes(&mut self, pieces: Vec<TransferSegment>, reason: IoReason) -> InFlightTransfers {
        self.start_transfers(TransferKind::Write, pieces, reason)
    }

    /// Waits for writes. Devices whose writes failed are removed from the array.
    pub fn finish_writes(&mut self, writes: InFlightTransfers) -> Result<()> {
        for (piece, result) in writes.wait() {
            self.buffers.recycle(piece.buffer);
            let result = self.devices[piece.device].finish_write(piece.offset, result);
            self.handle_write_result(piece.device, result)?;
        }
        Ok(())
    }

    /// Writes segments to their devices. Devices whose writes failed are removed from the array.
    pub fn write_segments(&mut self, pieces: Vec<TransferSegment>, reason: IoReason) -> Result<()> {
        let writes = self.start_writes(pieces, reason);
        self.finish_writes(writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::BLOCK;

    #[test]
    fn adjacent_writes_are_merged_up_to_the_maximum_length() {
        let data = vec![1; BLOCK];
        let place = |index: u64| (index * BLOCK as u64, &data[..]);
        let pieces = join_writes(
            &mut BufferPool::default(),
            3,
            vec![place(5), place(1), place(2), place(7), place(6)],
        );
        let found: Vec<(u64, usize)> =
            pieces.iter().map(|piece| (piece.offset / BLOCK as u64, piece.buffer.len() / BLOCK)).collect();
        assert_eq!(found, [(1, 2), (5, 3)]);
        let many = join_writes(&mut BufferPool::default(), 3, (0..300).map(place).collect());
        assert_eq!(many.iter().map(|piece| piece.buffer.len() / BLOCK).collect::<Vec<_>>(), [256, 44]);
    }
}
