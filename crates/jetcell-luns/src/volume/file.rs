//! An open file of a volume.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jetcell_array::{BLOCK, BlockReadAhead};
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Transfer, TransferKind};

use super::file_table::FileNodeId;
use super::{Volume, VolumeState, io_error};

pub(super) struct VolumeFile {
    volume: Volume,
    node: FileNodeId,
    path: PathBuf,
    mode: OpenMode,
}

/// A transfer that has not been started, with its file.
type QueuedFileTransfer = (VolumeFile, Transfer);

/// Maximum total length of reads that are joined into a batch, in bytes. Further reads are started as separate
/// batches.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Maximum number of batches of reads in flight.
const MAX_BATCHES_IN_FLIGHT: usize = 4;

thread_local! {
    /// Transfers submitted by completions on this thread. `None` if no transfer is being completed on this thread.
    static WAITING: RefCell<Option<VecDeque<QueuedFileTransfer>>> = const { RefCell::new(None) };
}

impl Clone for VolumeFile {
    fn clone(&self) -> VolumeFile {
        *self.volume.state().handles.entry(self.node).or_default() += 1;
        VolumeFile::new(self.volume.clone(), self.node, &self.path, self.mode)
    }
}

impl VolumeFile {
    /// Creates a file handle. The caller must already have added it to the number of open handles.
    pub fn new(volume: Volume, node: FileNodeId, path: &Path, mode: OpenMode) -> VolumeFile {
        VolumeFile { volume, node, path: path.to_path_buf(), mode }
    }

    fn transfer(&self, transfer: Transfer) {
        let Transfer { kind, offset, mut buffer, reason, done } = transfer;
        let result = match kind {
            TransferKind::Read => self.read_at(offset, &mut buffer, reason),
            TransferKind::Write => self.write_buffer(offset, &mut buffer),
        };
        done(result, buffer);
    }

    /// Completes a batch of reads on one volume. `ahead` is set if the reads have already been started.
    fn complete(mut batch: Vec<QueuedFileTransfer>, ahead: Option<BlockReadAhead>) {
        let [(file, _), ..] = &batch[..] else { return };
        let volume = file.volume.clone();
        let mut reads: Vec<VolumeRead<'_>> = batch
            .iter_mut()
            .map(|(file, transfer)| (file.node, transfer.offset, &mut transfer.buffer[..]))
            .collect();
        let mut result = volume.load.measure_latency(|| volume.state().read(&mut reads, ahead));
        let is_alone = batch.len() == 1;
        for (file, transfer) in batch {
            match result {
                // Each transfer is repeated individually to get its own result.
                Err(_) if !is_alone => file.transfer(transfer),
                _ => (transfer.done)(std::mem::replace(&mut result, Ok(())), transfer.buffer),
            }
        }
    }

    /// Writes all of a buffer, which may be replaced by another one of the same length and capacity, with arbitrary
    /// content.
    fn write_buffer(&self, offset: u64, buffer: &mut IoBuffer) -> io::Result<()> {
        self.require_writable()?;
        self.volume.load.count_in_progress(|| self.volume.state().write_buffer(self.node, offset, buffer))
    }

    fn require_writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::Read { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

/// Returns the first block and the number of blocks in a range of a file.
fn blocks_of(offset: u64, len: usize) -> io::Result<(u64, u64)> {
    let block = BLOCK as u64;
    if !offset.is_multiple_of(block) || !len.is_multiple_of(BLOCK) {
        let text = format!("offset {offset} and length {len} must be multiples of {BLOCK} on an array");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok((offset / block, len as u64 / block))
}

/// A read from a file: the file's node, the offset, and the buffer to fill.
type VolumeRead<'b> = (FileNodeId, u64, &'b mut [u8]);

impl VolumeState {
    /// Returns the blocks that store a range of a file.
    fn blocks_in_range(
        &self,
        node: FileNodeId,
        offset: u64,
        len: usize,
    ) -> io::Result<impl Iterator<Item = u64> + use<>> {
        let (first, count) = blocks_of(offset, len)?;
        if offset.checked_add(len as u64).is_none_or(|end| end > self.table.len(node)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.table.map(node, first, count).into_iter().flatten())
    }

    /// Starts to read ranges of files.
    fn start_read(&mut self, batch: &[QueuedFileTransfer]) -> io::Result<BlockReadAhead> {
        let mut blocks = vec![];
        for (file, transfer) in batch {
            blocks.extend(self.blocks_in_range(file.node, transfer.offset, transfer.buffer.len())?);
        }
        self.storage()?.start_read(&blocks).map_err(io_error)
    }

    /// Reads ranges of files as one batch, on which the members work concurrently. After an error, buffers may be
    /// partially filled.
    fn read(&mut self, reads: &mut [VolumeRead<'_>], ahead: Option<BlockReadAhead>) -> io::Result<()> {
        let (mut blocks, mut buffers) = (vec![], vec![]);
        for (node, offset, buffer) in reads {
            blocks.extend(self.blocks_in_range(*node, *offset, buffer.len())?);
            buffers.extend(buffer.chunks_exact_mut(BLOCK));
        }
        self.storage()?.read_blocks(&blocks, &mut buffers, ahead).map_err(io_error)
    }

    /// Returns the blocks that store a range of a file that is about to be written. The file is extended if
    /// necessary.
    fn blocks_to_write(&mut self, node: FileNodeId, offset: u64, len: usize) -> io::Result<Vec<Range<u64>>> {
        let (first, count) = blocks_of(offset, len)?;
        let end = offset.checked_add(len as u64).ok_or(io::ErrorKind::InvalidInput)?;
        self.written.writes.fetch_add(1, Ordering::Relaxed);
        self.written.blocks.fetch_add(count, Ordering::Relaxed);
        if end > self.table.len(node) {
            self.set_len(node, end)?;
        }
        Ok(self.table.map(node, first, count))
    }

    fn write_buffer(&mut self, node: FileNodeId, offset: u64, buffer: &mut IoBuffer) -> io::Result<()> {
        match &self.blocks_to_write(node, offset, buffer.len())?[..] {
            [extent] => self.storage()?.write_buffer(extent.start, buffer).map_err(io_error),
            extents => self.write_extents(extents, buffer),
        }
    }

    fn write(&mut self, node: FileNodeId, offset: u64, data: &[u8]) -> io::Result<()> {
        let extents = self.blocks_to_write(node, offset, data.len())?;
        self.write_extents(&extents, data)
    }

    fn write_extents(&mut self, extents: &[Range<u64>], data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        for extent in extents {
            let (part, behind) = rest.split_at((extent.end - extent.start) as usize * BLOCK);
            self.storage()?.write(extent.start, part).map_err(io_error)?;
            rest = behind;
        }
        Ok(())
    }
}

/// A thread's transfers, which are completed in order. While a read is being completed, the next ones are in flight.
#[derive(Default)]
struct TransferQueue {
    waiting: VecDeque<QueuedFileTransfer>,
    /// Batches of reads that were started.
    started: VecDeque<(Vec<QueuedFileTransfer>, Option<BlockReadAhead>)>,
}

impl TransferQueue {
    /// Removes consecutive reads, with a total length of up to one long read. Returns no reads if the next transfer
    /// is not a read.
    fn next_reads(&mut self) -> Vec<QueuedFileTransfer> {
        let (mut batch, mut bytes): (Vec<QueuedFileTransfer>, usize) = (vec![], 0);
        while let Some((file, transfer)) = self.waiting.front() {
            let is_joined = batch.first().is_none_or(|(first, _)| {
                first.volume.is_same(&file.volume) && bytes + transfer.buffer.len() <= MAX_BATCH_BYTES
            });
            if transfer.kind != TransferKind::Read || !is_joined {
                break;
            }
            bytes += transfer.buffer.len();
            batch.extend(self.waiting.pop_front());
        }
        batch
    }

    /// Starts reads, and completes the transfers at the front of the queue. Returns false if there were none.
    fn complete_next(&mut self) -> bool {
        while self.started.len() < MAX_BATCHES_IN_FLIGHT {
            let batch = self.next_reads();
            let Some((file, _)) = batch.first() else { break };
            let is_alone = self.started.is_empty() && self.waiting.is_empty();
            // If a read cannot be started, its completion reports the error.
            let start = || file.volume.load.count_in_progress(|| file.volume.state().start_read(&batch)).ok();
            let ahead = if is_alone { None } else { start() };
            self.started.push_back((batch, ahead));
        }
        if let Some((batch, ahead)) = self.started.pop_front() {
            VolumeFile::complete(batch, ahead);
            return true;
        }
        let Some((file, transfer)) = self.waiting.pop_front() else { return false };
        file.transfer(transfer);
        true
    }
}

/// Resets the state when the outermost submission of a thread ends, even by a panic.
struct TransferQueueReset;

impl Drop for TransferQueueReset {
    fn drop(&mut self) {
        // Waiting transfers are dropped outside of the borrow, because dropping them closes files.
        drop(WAITING.with_borrow_mut(Option::take));
    }
}

impl File for VolumeFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        self.volume
            .load
            .measure_latency(|| self.volume.state().read(&mut [(self.node, offset, buffer)], None))
    }

    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        self.require_writable()?;
        self.volume.load.count_in_progress(|| self.volume.state().write(self.node, offset, data))
    }

    fn submit(&self, batch: Vec<Transfer>) {
        // Completions may submit more transfers. These are queued, so the stack does not grow.
        let is_nested = WAITING.with_borrow(Option::is_some);
        if is_nested {
            let batch = batch.into_iter().map(|transfer| (self.clone(), transfer));
            return WAITING.with_borrow_mut(|waiting| waiting.get_or_insert_default().extend(batch));
        }
        WAITING.set(Some(VecDeque::new()));
        let _end = TransferQueueReset;
        let mut turns = TransferQueue {
            waiting: batch.into_iter().map(|transfer| (self.clone(), transfer)).collect(),
            ..TransferQueue::default()
        };
        while turns.complete_next() {
            let submitted = WAITING.with_borrow_mut(|waiting| waiting.as_mut().map(std::mem::take));
            turns.waiting.extend(submitted.unwrap_or_default());
        }
    }

    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        self.volume.load.measure_latency(|| self.volume.state().sync())
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.volume.state();
        state.storage()?;
        Ok(state.table.len(self.node))
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.require_writable()?;
        let mut state = self.volume.state();
        if len < state.table.len(self.node) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        state.set_len(self.node, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.require_writable()?;
        let mut state = self.volume.state();
        if len > state.table.len(self.node) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        state.set_len(self.node, len)
    }
}

impl Drop for VolumeFile {
    fn drop(&mut self) {
        let mut state = self.volume.state();
        if let Some(count) = state.handles.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                state.handles.remove(&self.node);
            }
        }
    }
}
