//! A decorator that makes selected operations fail, tears writes, and corrupts reads.

use std::io;
use std::path::Path;

use jetcell_sync::{Arc, Mutex};
use rustix::io::Errno;

use crate::{File, IoReason, OpenMode, Transfer, TransferKind, Vfs, VfsLayer};

/// Kind of file operation that a fault can affect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultTarget {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Operations that need space: writes, file growth, and file creation if the volume is completely full.
    Space,
    /// File growth.
    Grow,
    /// File syncs.
    Sync,
    /// Opening a file.
    Open,
    /// Creating a file.
    Create,
    /// Renames, matched by the old name.
    Rename,
    /// Removals.
    Remove,
    /// Directory syncs.
    SyncDirectory,
}

/// Effect of an injected fault on a file operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultEffect {
    /// The operation fails without effect: EIO.
    IoError,
    /// The operation fails without effect: ENOSPC.
    NoSpace,
    /// The operation fails without effect: EROFS, as if the kernel had made the file system read-only.
    ReadOnlyVolume,
    /// The operation fails without effect: EINTR, as if a signal had interrupted it.
    Interrupted,
    /// A write that stores only this number of bytes and then fails with EIO.
    Torn(usize),
    /// A write that stores only this number of bytes and reports success.
    TornUnnoticed(usize),
    /// A write or sync that reports success without effect.
    Lost,
    /// A read that succeeds with this bit inverted.
    FlipBit(usize),
}

/// A fault armed to fire on matching file operations. By default it matches every path and reason and fires once, at
/// the first match.
#[derive(Clone, Debug)]
pub struct InjectedFault {
    target: FaultTarget,
    effect: FaultEffect,
    path: String,
    reason: Option<IoReason>,
    skip_operations: u64,
    skip_bytes: u64,
    times: u64,
}

impl InjectedFault {
    /// Creates a fault for the next operation of this kind.
    pub fn new(target: FaultTarget, effect: FaultEffect) -> InjectedFault {
        let path = String::new();
        InjectedFault { target, effect, path, reason: None, skip_operations: 0, skip_bytes: 0, times: 1 }
    }

    /// Restricts the fault to paths that contain `part`.
    #[must_use]
    pub fn on_path(mut self, part: &str) -> InjectedFault {
        self.path = part.to_owned();
        self
    }

    /// Restricts the fault to this reason. File growth has the reason [`IoReason::DatabaseExtend`]; operations on
    /// names have the reason `Other`.
    #[must_use]
    pub fn for_reason(mut self, reason: IoReason) -> InjectedFault {
        self.reason = Some(reason);
        self
    }

    /// Lets the first `count` matching operations succeed.
    #[must_use]
    pub fn after_operations(mut self, count: u64) -> InjectedFault {
        self.skip_operations = count;
        self
    }

    /// Lets matching operations succeed until they have transferred more than `bytes` in total.
    #[must_use]
    pub fn after_bytes(mut self, bytes: u64) -> InjectedFault {
        self.skip_bytes = bytes;
        self
    }

    /// Sets how many times the fault fires.
    #[must_use]
    pub fn times(mut self, times: u64) -> InjectedFault {
        self.times = times;
        self
    }

    /// Makes the fault fire until [`FaultVfs::clear`] is called.
    #[must_use]
    pub fn repeating(self) -> InjectedFault {
        self.times(u64::MAX)
    }

    fn matches(&self, target: FaultTarget, path: &Path, reason: IoReason) -> bool {
        let needs_space = matches!(target, FaultTarget::Write | FaultTarget::Grow | FaultTarget::Create);
        let space = self.target == FaultTarget::Space && needs_space;
        let reason_fits = self.reason.is_none_or(|wanted| wanted == reason);
        (self.target == target || space) && reason_fits && path.to_string_lossy().contains(&self.path)
    }

    /// Counts a matching operation. Returns true if the fault fires.
    fn fires(&mut self, bytes: u64) -> bool {
        if self.skip_operations > 0 {
            self.skip_operations -= 1;
            return false;
        }
        if self.skip_bytes > 0 && bytes <= self.skip_bytes {
            self.skip_bytes -= bytes;
            return false;
        }
        self.times = self.times.saturating_sub(1);
        true
    }
}

#[derive(Default)]
struct ArmedFaults {
    armed: Vec<InjectedFault>,
    fired: u64,
}

impl ArmedFaults {
    fn next_effect(
        &mut self,
        target: FaultTarget,
        path: &Path,
        reason: IoReason,
        bytes: u64,
    ) -> Option<FaultEffect> {
        let mut matching = self.armed.iter_mut().filter(|fault| fault.matches(target, path, reason));
        let effect = matching.find_map(|fault| fault.fires(bytes).then_some(fault.effect))?;
        self.armed.retain(|fault| fault.times > 0);
        self.fired += 1;
        Some(effect)
    }
}

/// A file system that passes all operations to `inner`, except those that trigger an injected fault.
pub struct FaultVfs {
    inner: Arc<dyn Vfs>,
    faults: Arc<Mutex<ArmedFaults>>,
}

impl FaultVfs {
    /// Creates a file system without faults.
    pub fn new(inner: Arc<dyn Vfs>) -> FaultVfs {
        FaultVfs { inner, faults: Arc::default() }
    }

    /// Arms a fault. If an operation matches several faults, the one that was injected first fires.
    pub fn inject(&self, fault: InjectedFault) {
        self.faults.lock().armed.push(fault);
    }

    /// Disarms every fault.
    pub fn clear(&self) {
        self.faults.lock().armed.clear();
    }

    /// Returns the number of times that faults have fired.
    pub fn fired_count(&self) -> u64 {
        self.faults.lock().fired
    }

    fn next_effect(&self, target: FaultTarget, path: &Path) -> Option<FaultEffect> {
        self.faults.lock().next_effect(target, path, IoReason::Other, 0)
    }

    fn check(&self, target: FaultTarget, path: &Path) -> io::Result<()> {
        fail_if(self.next_effect(target, path))
    }
}

fn error_of(effect: FaultEffect) -> io::Error {
    match effect {
        FaultEffect::NoSpace => Errno::NOSPC.into(),
        FaultEffect::ReadOnlyVolume => Errno::ROFS.into(),
        FaultEffect::Interrupted => Errno::INTR.into(),
        _ => Errno::IO.into(),
    }
}

fn fail_if(effect: Option<FaultEffect>) -> io::Result<()> {
    effect.map_or(Ok(()), |effect| Err(error_of(effect)))
}

impl VfsLayer for FaultVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let target = if mode == OpenMode::CreateNew { FaultTarget::Create } else { FaultTarget::Open };
        self.check(target, path)?;
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(FaultFile { inner, faults: self.faults.clone() }))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(FaultTarget::Remove, path)?;
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(FaultTarget::Rename, from)?;
        self.inner.rename(from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        match self.next_effect(FaultTarget::SyncDirectory, directory) {
            Some(FaultEffect::Lost) => Ok(()),
            Some(effect) => Err(error_of(effect)),
            None => self.inner.sync_directory(directory),
        }
    }
}

struct FaultFile {
    inner: Arc<dyn File>,
    faults: Arc<Mutex<ArmedFaults>>,
}

impl FaultFile {
    fn next_effect(&self, target: FaultTarget, reason: IoReason, bytes: u64) -> Option<FaultEffect> {
        self.faults.lock().next_effect(target, self.inner.path(), reason, bytes)
    }

    fn read(&self, effect: FaultEffect, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        let FaultEffect::FlipBit(bit) = effect else { return Err(error_of(effect)) };
        self.inner.read_at(offset, buffer, reason)?;
        if let Some(byte) = buffer.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        Ok(())
    }

    fn write(&self, effect: FaultEffect, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let first = |bytes: usize| self.inner.write_at(offset, &data[..bytes.min(data.len())], reason);
        match effect {
            FaultEffect::Lost => return Ok(()),
            FaultEffect::TornUnnoticed(bytes) => return first(bytes),
            FaultEffect::Torn(bytes) => first(bytes)?,
            _ => {}
        }
        Err(error_of(effect))
    }
}

impl File for FaultFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        match self.next_effect(FaultTarget::Read, reason, buffer.len() as u64) {
            Some(effect) => self.read(effect, offset, buffer, reason),
            None => self.inner.read_at(offset, buffer, reason),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        match self.next_effect(FaultTarget::Write, reason, data.len() as u64) {
            Some(effect) => self.write(effect, offset, data, reason),
            None => self.inner.write_at(offset, data, reason),
        }
    }

    fn submit(&self, batch: Vec<Transfer>) {
        let mut passed = Vec::with_capacity(batch.len());
        let mut hit = Vec::new();
        for transfer in batch {
            let target = match transfer.kind {
                TransferKind::Read => FaultTarget::Read,
                TransferKind::Write => FaultTarget::Write,
            };
            match self.next_effect(target, transfer.reason, transfer.buffer.len() as u64) {
                Some(effect) => hit.push((effect, transfer)),
                None => passed.push(transfer),
            }
        }
        self.inner.submit(passed);
        for (effect, Transfer { kind, offset, mut buffer, reason, done }) in hit {
            let result = match kind {
                TransferKind::Read => self.read(effect, offset, &mut buffer, reason),
                TransferKind::Write => self.write(effect, offset, &buffer, reason),
            };
            done(result, buffer);
        }
    }

    fn sync(&self, reason: IoReason) -> io::Result<()> {
        match self.next_effect(FaultTarget::Sync, reason, 0) {
            Some(FaultEffect::Lost) => Ok(()),
            Some(effect) => Err(error_of(effect)),
            None => self.inner.sync(reason),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.inner.next_data(offset)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let growth = len.saturating_sub(self.inner.len()?);
        fail_if(self.next_effect(FaultTarget::Grow, IoReason::DatabaseExtend, growth))?;
        self.inner.grow(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.punch_hole(offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        // Like growth, this allocates blocks, which can fail.
        fail_if(self.next_effect(FaultTarget::Grow, IoReason::DatabaseExtend, 0))?;
        self.inner.reserve(offset, len)
    }
}

#[cfg(test)]
mod tests;
