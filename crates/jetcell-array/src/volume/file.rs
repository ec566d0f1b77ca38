//! An open file of a volume.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_sync::atomic::Ordering;
use jetcell_vfs::{File, IoReason, OpenMode, Transfer, TransferKind};

use super::table::NodeId;
use super::{State, Volume, io_error};
use crate::geometry::BLOCK;

pub(super) struct VolumeFile {
    volume: Volume,
    node: NodeId,
    path: PathBuf,
    mode: OpenMode,
}

thread_local! {
    /// Transfers that a completion on this thread has submitted. `None`: no transfer of this thread is being completed.
    static WAITING: RefCell<Option<VecDeque<(VolumeFile, Transfer)>>> = const { RefCell::new(None) };
}

impl Clone for VolumeFile {
    fn clone(&self) -> VolumeFile {
        *self.volume.state().handles.entry(self.node).or_default() += 1;
        VolumeFile::new(self.volume.clone(), self.node, &self.path, self.mode)
    }
}

impl VolumeFile {
    /// The caller has counted the handle.
    pub fn new(volume: Volume, node: NodeId, path: &Path, mode: OpenMode) -> VolumeFile {
        VolumeFile { volume, node, path: path.to_path_buf(), mode }
    }

    fn transfer(&self, transfer: Transfer) {
        let Transfer { kind, offset, mut buffer, reason, done } = transfer;
        let result = match kind {
            TransferKind::Read => self.read_at(offset, &mut buffer, reason),
            TransferKind::Write => self.write_at(offset, &buffer, reason),
        };
        done(result, buffer);
    }

    /// Makes transfers in their order, and completes them. Reads that follow each other are one batch.
    fn transfer_all<'f>(transfers: impl Iterator<Item = (&'f VolumeFile, Transfer)>) {
        let mut transfers = transfers.peekable();
        while let Some((file, first)) = transfers.next() {
            let is_read = first.kind == TransferKind::Read;
            let mut batch = vec![(file, first)];
            while let Some(joined) = transfers.next_if(|(other, transfer)| {
                is_read && transfer.kind == TransferKind::Read && other.volume.is_same(&file.volume)
            }) {
                batch.push(joined);
            }
            let mut reads: Vec<Read<'_>> = batch
                .iter_mut()
                .map(|(file, transfer)| (file.node, transfer.offset, &mut transfer.buffer[..]))
                .collect();
            let is_done =
                reads.len() > 1 && file.volume.load.timed(|| file.volume.state().read(&mut reads)).is_ok();
            for (file, transfer) in batch {
                match is_done {
                    true => (transfer.done)(Ok(()), transfer.buffer),
                    // Each has a result of its own.
                    false => file.transfer(transfer),
                }
            }
        }
    }

    fn require_writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::Read { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

/// First block and number of blocks of a range of a file.
fn blocks_of(offset: u64, len: usize) -> io::Result<(u64, u64)> {
    let block = BLOCK as u64;
    if !offset.is_multiple_of(block) || !len.is_multiple_of(BLOCK) {
        let text = format!("offset {offset} and length {len} must be multiples of {BLOCK} on an array");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok((offset / block, len as u64 / block))
}

/// A read of a file: its node, offset, and buffer.
type Read<'b> = (NodeId, u64, &'b mut [u8]);

impl State {
    /// Reads ranges of files as one batch: members work on it at the same time. On an error, buffers may have been filled in part.
    fn read(&mut self, reads: &mut [Read<'_>]) -> io::Result<()> {
        let (mut blocks, mut buffers) = (vec![], vec![]);
        for (node, offset, buffer) in reads {
            let (first, count) = blocks_of(*offset, buffer.len())?;
            if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.table.len(*node)) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            blocks.extend(self.table.map(*node, first, count).into_iter().flatten());
            buffers.extend(buffer.chunks_exact_mut(BLOCK));
        }
        self.base()?.read_blocks(&blocks, &mut buffers).map_err(io_error)
    }

    fn write(&mut self, node: NodeId, offset: u64, data: &[u8]) -> io::Result<()> {
        let (first, count) = blocks_of(offset, data.len())?;
        let end = offset.checked_add(data.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        self.written.writes.fetch_add(1, Ordering::Relaxed);
        self.written.blocks.fetch_add(count, Ordering::Relaxed);
        if end > self.table.len(node) {
            self.set_len(node, end)?;
        }
        let mut rest = data;
        for extent in self.table.map(node, first, count) {
            let (part, behind) = rest.split_at((extent.end - extent.start) as usize * BLOCK);
            self.base()?.write(extent.start, part).map_err(io_error)?;
            rest = behind;
        }
        Ok(())
    }
}

/// The outermost submission of a thread has ended, also by a panic.
struct EndOfWaiting;

impl Drop for EndOfWaiting {
    fn drop(&mut self) {
        // What still waits is dropped outside of the borrow, because it closes files.
        drop(WAITING.with_borrow_mut(Option::take));
    }
}

impl File for VolumeFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        self.volume.load.timed(|| self.volume.state().read(&mut [(self.node, offset, buffer)]))
    }

    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        self.require_writable()?;
        self.volume.load.waiting(|| self.volume.state().write(self.node, offset, data))
    }

    fn submit(&self, batch: Vec<Transfer>) {
        // Completions may submit the next transfers. These wait for their turn, so that the stack does not grow.
        let is_nested = WAITING.with_borrow(Option::is_some);
        if is_nested {
            let batch = batch.into_iter().map(|transfer| (self.clone(), transfer));
            return WAITING.with_borrow_mut(|waiting| waiting.get_or_insert_default().extend(batch));
        }
        WAITING.set(Some(VecDeque::new()));
        let _end = EndOfWaiting;
        VolumeFile::transfer_all(batch.into_iter().map(|transfer| (self, transfer)));
        loop {
            let waiting = WAITING.with_borrow_mut(|waiting| waiting.as_mut().map(std::mem::take));
            let (files, transfers): (Vec<VolumeFile>, Vec<Transfer>) =
                waiting.unwrap_or_default().into_iter().unzip();
            if files.is_empty() {
                break;
            }
            VolumeFile::transfer_all(files.iter().zip(transfers));
        }
    }

    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        self.volume.load.timed(|| self.volume.state().sync())
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.volume.state();
        state.base()?;
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
