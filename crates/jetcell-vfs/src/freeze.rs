//! A decorator that can be frozen. While the file system is frozen, changes to its files and names are blocked.
//!
//! The gate counts the changes that are in progress. A freeze first blocks new changes and then waits for those in
//! progress, so no write is split by the freeze. A freeze expires after a time limit: the first blocked change that
//! finds the limit exceeded reopens the gate. Only files that were opened through the decorator are affected. The
//! underlying file system is not frozen, and other files on it can be written.

use std::io;
use std::path::Path;
use std::time::Duration;

use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, Mutex, Weak};

use crate::{Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs, VfsLayer};

/// Maximum interval between two checks of the gate.
const GATE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A file system whose changes can be blocked temporarily.
pub struct FreezableVfs {
    inner: Arc<dyn Vfs>,
    gate: Arc<FreezeGate>,
}

struct FreezeGate {
    clock: Arc<dyn Clock>,
    /// Time at which the freeze expires, in nanoseconds of the clock, or 0 if the file system is not frozen.
    until: AtomicU64,
    /// Number of changes in progress.
    changes: AtomicU64,
    /// Files that are currently open for writing.
    written: Mutex<Vec<Weak<dyn File>>>,
}

/// A change in progress.
struct ActiveChange(Arc<FreezeGate>);

impl Drop for ActiveChange {
    fn drop(&mut self) {
        self.0.changes.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FreezeGate {
    fn now(&self) -> u64 {
        self.clock.monotonic().as_nanos() as u64
    }

    /// Waits until changes are allowed.
    fn enter(self: &Arc<FreezeGate>) -> ActiveChange {
        loop {
            // The change is counted before `until` is read, and `freeze` sets `until` before it reads the count.
            // Therefore at least one side sees the other.
            let change = ActiveChange(self.clone());
            self.changes.fetch_add(1, Ordering::SeqCst);
            let until = self.until.load(Ordering::SeqCst);
            if until == 0 {
                return change;
            }
            drop(change);
            match until.checked_sub(self.now()) {
                None | Some(0) => drop(self.open(until)),
                Some(left) => self.clock.sleep(GATE_POLL_INTERVAL.min(Duration::from_nanos(left))),
            }
        }
    }

    /// Ends the freeze that expires at `until`. Returns `false` if that freeze has already ended.
    fn open(&self, until: u64) -> bool {
        self.until.compare_exchange(until, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl FreezableVfs {
    /// Creates a file system on top of `inner`.
    pub fn new(inner: Arc<dyn Vfs>) -> FreezableVfs {
        let (until, changes) = (AtomicU64::new(0), AtomicU64::new(0));
        let gate = FreezeGate { clock: inner.clock(), until, changes, written: Mutex::default() };
        FreezableVfs { inner, gate: Arc::new(gate) }
    }

    /// Blocks all changes until the returned guard is dropped, but for at most `limit`. Returns when no change is in
    /// progress. Reads are not blocked.
    ///
    /// Fails with `WouldBlock` if the file system is already frozen, and with `TimedOut` if changes in progress did
    /// not complete in time.
    pub fn freeze(&self, limit: Duration) -> io::Result<FrozenVfs> {
        let gate = &self.gate;
        let until = gate.now().saturating_add(limit.as_nanos().min(u128::from(u64::MAX)) as u64).max(1);
        let before = gate.until.load(Ordering::SeqCst);
        let over = before > 0 && gate.now() >= before;
        let free = if over { before } else { 0 };
        if gate.until.compare_exchange(free, until, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let frozen = FrozenVfs { gate: gate.clone(), until };
        while gate.changes.load(Ordering::SeqCst) > 0 {
            if frozen.remaining().is_none() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            gate.clock.sleep(GATE_POLL_INTERVAL / 10);
        }
        Ok(frozen)
    }
}

/// Guard for a frozen file system. Dropping it ends the freeze.
pub struct FrozenVfs {
    gate: Arc<FreezeGate>,
    until: u64,
}

impl FrozenVfs {
    /// Returns the remaining time of the freeze, or `None` if the freeze has expired.
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.until.checked_sub(self.gate.now()).filter(|left| *left > 0)?;
        (self.gate.until.load(Ordering::SeqCst) == self.until).then(|| Duration::from_nanos(left))
    }

    /// Makes all previous writes to open files durable. After an error, it is unknown which writes are durable, and
    /// later syncs of those files may not report the error.
    pub fn sync_files(&self) -> io::Result<()> {
        let files: Vec<Arc<dyn File>> = self.gate.written.lock().iter().filter_map(Weak::upgrade).collect();
        files.iter().try_for_each(|file| file.sync(IoReason::Other))
    }

    /// Ends the freeze. Returns `false` if the freeze had already expired, in which case files may have changed since
    /// then.
    pub fn thaw(self) -> bool {
        self.remaining().is_some()
    }
}

impl Drop for FrozenVfs {
    fn drop(&mut self) {
        self.gate.open(self.until);
    }
}

impl VfsLayer for FreezableVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if mode == OpenMode::Read {
            return self.inner.open(path, mode);
        }
        let _change = self.gate.enter();
        let inner = self.inner.open(path, mode)?;
        let mut written = self.gate.written.lock();
        written.retain(|file| file.strong_count() > 0);
        written.push(Arc::downgrade(&inner));
        Ok(Arc::new(FreezableFile { inner, gate: self.gate.clone() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.rename(from, to)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.sync_directory(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.create_directory(directory)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        // Opening may create the file.
        let _change = self.gate.enter();
        self.inner.lock(path)
    }

    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.clone_file(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.link(from, to)
    }
}

struct FreezableFile {
    inner: Arc<dyn File>,
    gate: Arc<FreezeGate>,
}

impl File for FreezableFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.inner.read_at(offset, buffer, reason)
    }

    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.write_at(offset, data, reason)
    }

    fn write_durable(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.write_durable(offset, data, reason)
    }

    fn write_parts_durable(&self, offset: u64, parts: &[&[u8]], reason: IoReason) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.write_parts_durable(offset, parts, reason)
    }

    fn submit(&self, batch: Vec<Transfer>) {
        if batch.iter().all(|transfer| transfer.kind == TransferKind::Read) {
            return self.inner.submit(batch);
        }
        // One change covers the whole batch. Otherwise, a freeze that began in the middle of the batch would wait for
        // transfers that are not submitted.
        let change = Arc::new(self.gate.enter());
        let counted = batch.into_iter().map(|transfer| {
            let (change, done) = (change.clone(), transfer.done);
            let done = move |result, buffer| {
                drop(change);
                done(result, buffer);
            };
            Transfer { done: Box::new(done), ..transfer }
        });
        self.inner.submit(counted.collect());
    }

    fn sync(&self, reason: IoReason) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.sync(reason)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.grow(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.truncate(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.punch_hole(offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let _change = self.gate.enter();
        self.inner.reserve(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{IoBuffer, RealOptions, RealVfs, SimVfs};

    const A: &str = "/a";

    fn file_on(vfs: &FreezableVfs) -> Arc<dyn File> {
        let file = Vfs::open(vfs, Path::new(A), OpenMode::CreateNew).unwrap();
        file.write_at(0, &[1; 4096], IoReason::Other).unwrap();
        file
    }

    #[test]
    fn changes_block_during_a_freeze_and_thaw_at_the_timeout() {
        let disk = SimVfs::new();
        let vfs = FreezableVfs::new(Arc::new(disk.clone()));
        let file = file_on(&vfs);
        let frozen = vfs.freeze(Duration::from_secs(5)).unwrap();
        assert_eq!(vfs.freeze(Duration::from_secs(5)).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        let operations = disk.operations();
        file.read_at(0, &mut [0; 4096], IoReason::Other).unwrap();
        assert_eq!((disk.operations(), frozen.remaining()), (operations, Some(Duration::from_secs(5))));
        frozen.sync_files().unwrap();
        // The simulated clock advances while the write waits.
        let clock = disk.clock();
        let began = clock.monotonic();
        file.write_at(0, &[2; 4096], IoReason::Other).unwrap();
        assert_eq!(clock.monotonic() - began, Duration::from_secs(5));
        assert!(frozen.remaining().is_none() && !frozen.thaw());
        let again = vfs.freeze(Duration::from_secs(5)).unwrap();
        assert!(again.thaw());
        file.sync(IoReason::Other).unwrap();
    }

    #[test]
    fn each_kind_of_change_blocks_during_a_freeze() {
        let disk = SimVfs::new();
        let vfs = FreezableVfs::new(Arc::new(disk.clone()));
        let file = file_on(&vfs);
        let write = |file: &Arc<dyn File>| {
            let (kind, done) = (TransferKind::Write, Box::new(|_, _| {}));
            let buffer = IoBuffer::zeroed(4096);
            file.submit(vec![Transfer { kind, offset: 0, buffer, reason: IoReason::Other, done }]);
        };
        let (a, b) = (Path::new(A), Path::new("/b"));
        let changes: [&dyn Fn(); 14] = [
            &|| file.write_at(0, &[3; 4096], IoReason::Other).unwrap(),
            &|| file.write_durable(0, &[3; 4096], IoReason::Other).unwrap(),
            &|| file.write_parts_durable(0, &[&[3; 4096]], IoReason::Other).unwrap(),
            &|| write(&file),
            &|| file.sync(IoReason::Other).unwrap(),
            &|| file.grow(8192).unwrap(),
            &|| file.punch_hole(4096, 4096).unwrap(),
            &|| file.reserve(4096, 4096).unwrap(),
            &|| file.truncate(4096).unwrap(),
            &|| Vfs::clone_file(&vfs, a, b).unwrap(),
            &|| Vfs::rename(&vfs, b, Path::new("/c")).unwrap(),
            &|| Vfs::remove(&vfs, Path::new("/c")).unwrap(),
            &|| drop(Vfs::open(&vfs, Path::new("/d"), OpenMode::CreateNew).unwrap()),
            &|| Vfs::sync_directory(&vfs, Path::new("/")).unwrap(),
        ];
        for (number, change) in changes.iter().enumerate() {
            let frozen = vfs.freeze(Duration::from_millis(20)).unwrap();
            let began = disk.clock().monotonic();
            change();
            let waited = disk.clock().monotonic() - began;
            assert!(waited >= Duration::from_millis(20) && !frozen.thaw(), "change {number}");
        }
    }

    #[test]
    fn a_real_freeze_starts_between_writes_and_then_resumes_writes() {
        let directory = tempfile::tempdir().unwrap();
        let real: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
        let vfs = FreezableVfs::new(real.clone());
        let path = directory.path().join("a");
        let file = Vfs::open(&vfs, &path, OpenMode::CreateNew).unwrap();
        file.grow(1 << 20).unwrap();
        let end = Instant::now() + Duration::from_millis(300);
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0u8.. {
                        if Instant::now() > end {
                            return;
                        }
                        let (sender, done) = std::sync::mpsc::channel();
                        let mut buffer = IoBuffer::zeroed(256 << 10);
                        buffer.fill(round.wrapping_mul(3).wrapping_add(thread) | 1);
                        file.submit(vec![Transfer {
                            kind: TransferKind::Write,
                            offset: u64::from(thread) * (256 << 10),
                            buffer,
                            reason: IoReason::Other,
                            done: Box::new(move |result, _| sender.send(result).unwrap()),
                        }]);
                        done.recv().unwrap().unwrap();
                    }
                });
            }
            while Instant::now() < end {
                let frozen = vfs.freeze(Duration::from_secs(10)).unwrap();
                let read = |_| std::fs::read(&path).unwrap();
                let copies: Vec<Vec<u8>> = (0..2).map(read).collect();
                assert!(copies[0] == copies[1], "a write went through");
                for part in copies[0].chunks(256 << 10) {
                    assert!(part.iter().all(|byte| *byte == part[0]), "the freeze began within a write");
                }
                assert!(frozen.thaw());
                std::thread::yield_now();
            }
        });
    }
}
