//! A disk in memory that can lose power at any operation.
//!
//! The model:
//! - A write is visible immediately and durable after `sync` of its file. When the power fails, each unsynced write
//!   is kept, lost, or torn: some of its 512-byte sectors are new, the others old. Any subset of the writes may
//!   survive, in any combination across files. Surviving writes that overlap are applied in the order in which they
//!   were issued.
//! - Length changes are metadata and durable after `sync`. Of the unsynced length changes of a file, only a prefix may
//!   survive. A surviving write beyond the surviving length is lost.
//! - Creations, removals and renames are durable after `sync_directory`. Of the unsynced changes to a directory, only a
//!   prefix may survive. A rename between directories survives either in both or in neither. Syncing a file does not
//!   make its name durable. Creating a directory is durable immediately.
//! - Synced data always survives, unless damage is injected: flipped bits, or writes that are acknowledged but lost.
//! - Killing the process loses nothing: the kernel keeps every completed write, but the writes remain unsynced.
//! - After [`SimVfs::cut_power_after`] has cut the power, all operations fail. The first operation that fails may
//!   have partly reached the disk, like an unsynced change.
//!
//! Transfers complete inside `submit`, in order. Time advances only through the [`SimClock`]. The same calls with the
//! same seeds produce the same bytes. Not simulated: latency, errors (see `FaultVfs`), permissions, links to
//! directories.

mod content;
mod crash;
mod file;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use jetcell_sync::{Arc, Mutex};

use self::file::SimFile;
use self::state::DiskState;
use crate::{Clock, DirectoryLock, File, OpenMode, SimClock, Vfs};

pub use self::crash::CrashOptions;

/// Free space in bytes that is reported for a disk without a capacity limit.
const PLENTY: u64 = 1 << 50;

/// A simulated disk. Clones are handles to the same disk.
#[derive(Clone, Default)]
pub struct SimVfs {
    state: Arc<Mutex<DiskState>>,
    clock: Arc<SimClock>,
}

impl SimVfs {
    /// Creates an empty disk. Files can be created in any directory, even if the directory has not been created.
    pub fn new() -> SimVfs {
        SimVfs::default()
    }

    fn with_state(&self, state: DiskState) -> SimVfs {
        let clock = SimClock::starting_at(self.clock.monotonic());
        SimVfs { state: Arc::new(Mutex::new(state)), clock: Arc::new(clock) }
    }

    /// Returns the disk as it would be after a power failure now: a new, independent disk without open files. `self`
    /// does not change.
    #[must_use]
    pub fn crash(&self, seed: u64, options: CrashOptions) -> SimVfs {
        self.with_state(crash::crash(&self.state.lock(), seed, options))
    }

    /// Returns the disk as it would be if the process were killed now: a new, independent disk. It contains every
    /// completed operation, but the kill does not make any of them durable. `self` does not change.
    #[must_use]
    pub fn process_kill(&self) -> SimVfs {
        self.clone_disk()
    }

    /// Returns a complete copy of the disk without open files and locks, with its power on.
    #[must_use]
    pub fn clone_disk(&self) -> SimVfs {
        let state = self.state.lock().clone();
        self.with_state(state.restarted())
    }

    /// Cuts the power when [`SimVfs::operations`] reaches this number. From then on, every operation fails with an
    /// error for which [`is_power_off`] returns true. Once an operation has failed, the power stays off. Only the
    /// disks that [`SimVfs::crash`] and [`SimVfs::process_kill`] return have power again.
    pub fn cut_power_after(&self, operations: u64) {
        self.state.lock().stop_at = Some(operations);
    }

    /// Makes the mutating operation with this number (counted from 1) fail without effect.
    pub fn fail_at(&self, operation: u64, kind: io::ErrorKind) {
        self.state.lock().faults.insert(operation, kind);
    }

    /// Returns the number of mutating operations so far: writes, syncs, length changes, creations, removals, renames.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Limits the sum of all file lengths. Growth past the limit fails with `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = Some(bytes);
    }

    /// Returns the sum of the lengths of all files.
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Flips one bit of a file durably: bit `bit % 8` of byte `bit / 8`.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> io::Result<()> {
        self.modify_durably(path, bit / 8, 1, |bytes| bytes[0] ^= 1 << (bit % 8))
    }

    /// Overwrites bytes of a file durably, bypassing its open handles.
    pub fn corrupt(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.modify_durably(path, offset, bytes.len(), |target| target.copy_from_slice(bytes))
    }

    fn modify_durably(
        &self,
        path: &Path,
        offset: u64,
        len: usize,
        change: impl Fn(&mut [u8]),
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let end = state.node(state.lookup(path)?).current.len();
        if offset.checked_add(len as u64).is_none_or(|reach| reach > end) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        state.tamper(path, |content| {
            let mut bytes = vec![0; len];
            content.read(offset, &mut bytes);
            change(&mut bytes);
            content.write(offset, &bytes);
        })
    }

    /// Makes the next `count` writes to files whose path contains `part` report success without storing data.
    pub fn lose_writes(&self, part: &str, count: u64) {
        self.state.lock().lost_writes.push((part.to_owned(), count));
    }

    /// Returns the contents of a file for comparisons, or `None` if it does not exist.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let content = &state.node(state.lookup(path).ok()?).current;
        let mut bytes = vec![0; content.len() as usize];
        content.read(0, &mut bytes);
        Some(bytes)
    }

    /// Creates or replaces a file durably, for tests that need existing files.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        self.state.lock().put(path, bytes);
    }

    /// Returns the clock of this disk. Tests use it to advance time.
    pub fn sim_clock(&self) -> Arc<SimClock> {
        self.clock.clone()
    }

    fn call<T>(&self, call: impl FnOnce(&mut DiskState) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        let result = call(&mut state);
        state.call_ended();
        result
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.call(|state| {
            let node = match mode {
                OpenMode::Read | OpenMode::Write => {
                    state.check_power()?;
                    state.lookup(path)?
                }
                OpenMode::WriteOwn => {
                    state.check_power()?;
                    let node = state.lookup(path)?;
                    match state.names.values().filter(|named| **named == node).count() {
                        1 => node,
                        _ => return Err(io::ErrorKind::InvalidInput.into()),
                    }
                }
                OpenMode::CreateNew => state.create(path)?,
            };
            state.open_node(node);
            let file = SimFile { state: self.state.clone(), node, path: path.to_owned(), mode };
            Ok(Arc::new(file) as Arc<dyn File>)
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state.lock();
        Ok(state.names.contains_key(path) || state.is_directory(path))
    }

    fn is_confined(&self, _directory: &Path) -> bool {
        // The simulated disk does not support symbolic links.
        true
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|state| state.remove(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|state| state.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|state| state.link(from, to))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.call(|state| state.sync_directory(directory))
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.call(|state| state.create_directory(directory))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state.lock();
        state.check_power()?;
        Ok(state.names.keys().filter(|path| state::parent(path) == directory).cloned().collect())
    }

    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.check_power()?;
        Ok(state.capacity.unwrap_or(PLENTY).saturating_sub(state.used()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.call(|state| {
            state.check_power()?;
            if state.locks.contains(path) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if !state.names.contains_key(path) {
                state.create(path)?;
            }
            state.locks.insert(path.to_owned());
            let lock = SimLock { state: self.state.clone(), path: path.to_owned() };
            Ok(Box::new(lock) as Box<dyn DirectoryLock>)
        })
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.call(|state| {
            state.check_power()?;
            if !state.locks.insert(directory.to_owned()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let lock = SimLock { state: self.state.clone(), path: directory.to_owned() };
            Ok(Box::new(lock) as Box<dyn DirectoryLock>)
        })
    }

    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|state| {
            state.check_power()?;
            let content = state.node(state.lookup(from)?).current.clone();
            let mut bytes = vec![0; content.len() as usize];
            content.read(0, &mut bytes);
            let node = state.create(to)?;
            state.write(node, to, 0, &bytes).inspect_err(|_| drop(state.remove(to)))
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

struct SimLock {
    state: Arc<Mutex<DiskState>>,
    path: PathBuf,
}

impl DirectoryLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.state.lock().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct PowerOff;

impl std::fmt::Display for PowerOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("power is off")
    }
}

impl std::error::Error for PowerOff {}

fn power_off() -> io::Error {
    io::Error::other(PowerOff)
}

/// Returns true if an operation failed because [`SimVfs::cut_power_after`] cut the power.
pub fn is_power_off(error: &io::Error) -> bool {
    error.get_ref().is_some_and(
        <dyn std::error::Error + std::marker::Send + std::marker::Sync + 'static>::is::<PowerOff>,
    )
}
