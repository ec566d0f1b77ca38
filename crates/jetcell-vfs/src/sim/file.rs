//! Open files on the simulated disk.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_sync::{Arc, Mutex};

use super::state::{DiskState, InodeNumber};
use crate::{File, IoReason, OpenMode, Transfer, TransferKind};

pub(super) struct SimFile {
    pub state: Arc<Mutex<DiskState>>,
    pub node: InodeNumber,
    pub path: PathBuf,
    pub mode: OpenMode,
}

impl SimFile {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.check_power()?;
        let content = &state.node(self.node).current;
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > content.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        content.read(offset, buffer);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.require_writable()?;
        self.state.lock().write(self.node, &self.path, offset, data)
    }

    fn require_writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::Read { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    fn set_len(&self, len: u64, allowed: impl FnOnce(u64) -> bool) -> io::Result<()> {
        self.require_writable()?;
        let mut state = self.state.lock();
        if !allowed(state.node(self.node).current.len()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let result = state.set_len(self.node, len);
        state.call_ended();
        result
    }
}

impl File for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        self.read(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        let result = self.write(offset, data);
        self.state.lock().call_ended();
        result
    }

    fn submit(&self, mut batch: Vec<Transfer>) {
        let transfer = |transfer: &mut Transfer| match transfer.kind {
            TransferKind::Read => self.read(transfer.offset, &mut transfer.buffer),
            TransferKind::Write => self.write(transfer.offset, &transfer.buffer),
        };
        let results: Vec<_> = batch.iter_mut().map(transfer).collect();
        self.state.lock().call_ended();
        for (transfer, result) in batch.into_iter().zip(results) {
            (transfer.done)(result, transfer.buffer);
        }
    }

    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        self.state.lock().sync(self.node)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.check_power()?;
        Ok(state.node(self.node).current.len())
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.set_len(len, |old| len >= old)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len, |old| len <= old)
    }

    /// Writes zeros, which a power failure can tear. The resulting content is the same as that of a hole.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.saturating_add(len).min(self.len()?);
        match end.checked_sub(offset).filter(|len| *len > 0) {
            Some(len) => self.write_at(offset, &vec![0; len as usize], IoReason::Other),
            None => self.require_writable(),
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state.lock().close_node(self.node);
    }
}
