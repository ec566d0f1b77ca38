//! A simulated file system in memory, with power cuts.
//!
//! Each file has content that reads see, and the content that would survive a power cut now: the *durable* bytes
//! plus any subset of the writes since the last sync, each of them whole, absent, or torn at 512-byte sectors.
//! Writes that were not synced may thus be lost, kept, torn and reordered in every way. Length changes survive
//! with a sync of the file (or by chance). Creations, renames and removals survive with a sync of their directory
//! in the order they were made; without one, some prefix of them may have survived, as on a journaling file system.
//!
//! Invariant: what was synced survives every crash. Everything is deterministic: the same calls and the same seed
//! give the same world. Asynchronous transfers complete inside `submit`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs};

/// Smallest unit that is written as a whole.
const SECTOR: usize = 512;

/// A small deterministic generator (splitmix64), so that worlds repeat from their seed.
#[derive(Clone, Debug)]
pub struct SimRandom(u64);

impl SimRandom {
    /// Starts from a seed.
    pub fn new(seed: u64) -> SimRandom {
        SimRandom(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 for a bound of 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }
}

/// What happened to a file since its last sync.
#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Default, Debug)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

type Shared = Arc<Mutex<Contents>>;

/// A change of the names in one directory.
#[derive(Clone, Debug)]
enum NameChange {
    Add(PathBuf, Shared),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Default)]
struct World {
    directories: BTreeSet<PathBuf>,
    seen: BTreeMap<PathBuf, Shared>,
    durable: BTreeMap<PathBuf, Shared>,
    unsynced: BTreeMap<PathBuf, Vec<NameChange>>,
    locks: BTreeSet<PathBuf>,
    /// Bytes all files together may have.
    capacity: u64,
    operations: u64,
    stop_after: u64,
    /// Operations at which a fault was asked for.
    faults: BTreeMap<u64, io::ErrorKind>,
}

impl World {
    fn used(&self) -> u64 {
        self.seen.values().map(|file| file.lock().seen.len() as u64).sum()
    }

    /// Counts one changing operation; fails when the power is off or a fault is due.
    fn operate(&mut self) -> io::Result<()> {
        if self.operations >= self.stop_after {
            return Err(io::Error::other("power is off"));
        }
        self.operations += 1;
        match self.faults.get(&self.operations) {
            Some(&kind) => Err(io::Error::new(kind, "injected fault")),
            None => Ok(()),
        }
    }
}

/// The simulated file system.
#[derive(Clone)]
pub struct SimVfs {
    world: Arc<Mutex<World>>,
    clock: Arc<SimClock>,
}

impl Default for SimVfs {
    fn default() -> Self {
        SimVfs::new()
    }
}

impl SimVfs {
    /// An empty world that knows every directory.
    pub fn new() -> SimVfs {
        let world = World { capacity: u64::MAX, stop_after: u64::MAX, ..World::default() };
        SimVfs { world: Arc::new(Mutex::new(world)), clock: Arc::new(SimClock::default()) }
    }

    /// Limits the bytes of all files together; growing beyond is `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        self.world.lock().capacity = bytes;
    }

    /// Bytes of all files together.
    pub fn used(&self) -> u64 {
        self.world.lock().used()
    }

    /// Changing operations so far: writes, syncs, growth, creations, renames, removals.
    pub fn operations(&self) -> u64 {
        self.world.lock().operations
    }

    /// After this many operations every further one fails: the power is off.
    pub fn stop_after(&self, operations: u64) {
        self.world.lock().stop_after = operations;
    }

    /// Makes the operation with this number (counted from 1) fail.
    pub fn fail_at(&self, operation: u64, kind: io::ErrorKind) {
        self.world.lock().faults.insert(operation, kind);
    }

    /// The world as a killed process leaves it: everything that was written is there.
    pub fn after_kill(&self) -> SimVfs {
        self.successor(|contents, _| contents.seen.clone(), |world| world.seen.clone(), 0)
    }

    /// The world after a power cut, one of the many possible ones, chosen by the seed.
    pub fn after_power_cut(&self, seed: u64) -> SimVfs {
        let mut names_random = SimRandom::new(seed ^ 0x6e61_6d65);
        self.successor(
            surviving,
            |world| {
                let mut names = world.durable.clone();
                for changes in world.unsynced.values() {
                    let kept = names_random.below(changes.len() as u64 + 1) as usize;
                    changes[..kept].iter().for_each(|change| apply_name(&mut names, change));
                }
                names
            },
            seed,
        )
    }

    fn successor(
        &self,
        content: impl Fn(&Contents, &mut SimRandom) -> Vec<u8>,
        names: impl FnOnce(&World) -> BTreeMap<PathBuf, Shared>,
        seed: u64,
    ) -> SimVfs {
        let mut random = SimRandom::new(seed);
        let world = self.world.lock();
        let files: BTreeMap<PathBuf, Shared> = names(&world)
            .into_iter()
            .map(|(path, file)| {
                let bytes = content(&file.lock(), &mut random);
                let contents = Contents { durable: bytes.clone(), seen: bytes, unsynced: Vec::new() };
                (path, Arc::new(Mutex::new(contents)))
            })
            .collect();
        let next = World {
            directories: world.directories.clone(),
            seen: files.clone(),
            durable: files,
            capacity: world.capacity,
            stop_after: u64::MAX,
            ..World::default()
        };
        let clock = SimClock(AtomicI64::new(self.clock.0.load(Ordering::Relaxed)), AtomicU64::new(0));
        SimVfs { world: Arc::new(Mutex::new(next)), clock: Arc::new(clock) }
    }

    /// The bytes of a file as reads see them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.world.lock().seen.get(path).map(|file| file.lock().seen.clone())
    }

    /// Puts a file there, durably; for tests that prepare or damage files.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut world = self.world.lock();
        let contents = Contents { durable: bytes.clone(), seen: bytes, unsynced: Vec::new() };
        let file = Arc::new(Mutex::new(contents));
        world.seen.insert(path.to_path_buf(), file.clone());
        world.durable.insert(path.to_path_buf(), file);
    }
}

/// One possible content after a power cut.
fn surviving(contents: &Contents, random: &mut SimRandom) -> Vec<u8> {
    let mut bytes = contents.durable.clone();
    for change in &contents.unsynced {
        match change {
            Change::Length(len) => {
                if random.below(2) == 0 {
                    bytes.resize(*len as usize, 0);
                }
            }
            Change::Write(offset, data) => {
                let fate = random.below(3);
                for (i, sector) in data.chunks(SECTOR).enumerate() {
                    let kept = match fate {
                        0 => false,
                        1 => true,
                        _ => random.below(2) == 0,
                    };
                    let at = *offset as usize + i * SECTOR;
                    if kept {
                        // A write beyond the surviving length brings the length with it.
                        if bytes.len() < at + sector.len() {
                            bytes.resize(at + sector.len(), 0);
                        }
                        bytes[at..at + sector.len()].copy_from_slice(sector);
                    }
                }
            }
        }
    }
    bytes
}

fn apply_name(names: &mut BTreeMap<PathBuf, Shared>, change: &NameChange) {
    match change {
        NameChange::Add(path, file) => {
            names.insert(path.clone(), file.clone());
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_path_buf()
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{}: not found", path.display()))
}

struct SimFile {
    path: PathBuf,
    contents: Shared,
    world: Arc<Mutex<World>>,
    writable: bool,
}

impl SimFile {
    fn change(&self) -> io::Result<()> {
        if !self.writable {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "file is open for reading"));
        }
        self.world.lock().operate()
    }

    /// Growth must fit the capacity.
    fn reserve(&self, len: u64) -> io::Result<()> {
        let now = self.contents.lock().seen.len() as u64;
        let world = self.world.lock();
        if len > now && world.used() + (len - now) > world.capacity {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "simulated volume is full"));
        }
        Ok(())
    }
}

impl File for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        let contents = self.contents.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = from.checked_add(buffer.len()).and_then(|to| contents.seen.get(from..to));
        let bytes = bytes.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "read beyond the end"))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        self.change()?;
        self.reserve(offset + data.len() as u64)?;
        let mut contents = self.contents.lock();
        let (from, to) = (offset as usize, offset as usize + data.len());
        if contents.seen.len() < to {
            contents.seen.resize(to, 0);
        }
        contents.seen[from..to].copy_from_slice(data);
        contents.unsynced.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }

    fn submit(&self, batch: Vec<Transfer>) {
        for mut transfer in batch {
            let result = match transfer.kind {
                TransferKind::Read => self.read_at(transfer.offset, &mut transfer.buffer, transfer.reason),
                TransferKind::Write => self.write_at(transfer.offset, &transfer.buffer, transfer.reason),
            };
            (transfer.done)(result, transfer.buffer);
        }
    }

    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        self.change()?;
        let mut contents = self.contents.lock();
        contents.durable = contents.seen.clone();
        contents.unsynced.clear();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.contents.lock().seen.len() as u64)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.change()?;
        self.reserve(len)?;
        let mut contents = self.contents.lock();
        if len > contents.seen.len() as u64 {
            contents.seen.resize(len as usize, 0);
            contents.unsynced.push(Change::Length(len));
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.change()?;
        let mut contents = self.contents.lock();
        contents.seen.truncate(len as usize);
        contents.unsynced.push(Change::Length(len));
        Ok(())
    }
}

struct SimLock {
    path: PathBuf,
    world: Arc<Mutex<World>>,
}

impl DirectoryLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.world.lock().locks.remove(&self.path);
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut world = self.world.lock();
        let contents = match (world.seen.get(path).cloned(), mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "file exists"));
            }
            (Some(contents), _) => contents,
            (None, OpenMode::CreateNew) => {
                world.operate()?;
                let contents = Shared::default();
                world.seen.insert(path.to_path_buf(), contents.clone());
                let change = NameChange::Add(path.to_path_buf(), contents.clone());
                world.unsynced.entry(directory_of(path)).or_default().push(change);
                contents
            }
            (None, _) => return Err(not_found(path)),
        };
        let writable = mode != OpenMode::Read;
        Ok(Arc::new(SimFile { path: path.to_path_buf(), contents, world: self.world.clone(), writable }))
    }

    fn exists(&self, path: &Path) -> bool {
        let world = self.world.lock();
        world.seen.contains_key(path) || world.directories.contains(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.operate()?;
        world.seen.remove(path).ok_or_else(|| not_found(path))?;
        world.unsynced.entry(directory_of(path)).or_default().push(NameChange::Remove(path.to_path_buf()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.operate()?;
        let contents = world.seen.remove(from).ok_or_else(|| not_found(from))?;
        world.seen.insert(to.to_path_buf(), contents);
        let change = NameChange::Rename(from.to_path_buf(), to.to_path_buf());
        world.unsynced.entry(directory_of(to)).or_default().push(change);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.operate()?;
        for change in world.unsynced.remove(directory).unwrap_or_default() {
            apply_name(&mut world.durable, &change);
        }
        Ok(())
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.world.lock().directories.insert(directory.to_path_buf());
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let world = self.world.lock();
        Ok(world.seen.keys().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }

    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        let world = self.world.lock();
        Ok(world.capacity.saturating_sub(world.used()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let mut world = self.world.lock();
        if !world.locks.insert(path.to_path_buf()) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "locked"));
        }
        Ok(Box::new(SimLock { path: path.to_path_buf(), world: self.world.clone() }))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

/// Time that moves only when asked: by a millisecond per question, and by sleeping.
#[derive(Debug)]
pub struct SimClock(AtomicI64, AtomicU64);

impl Default for SimClock {
    fn default() -> SimClock {
        // 2026-01-01, so that times look like times.
        SimClock(AtomicI64::new(1_767_225_600_000), AtomicU64::new(0))
    }
}

impl Clock for SimClock {
    fn unix_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.1.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn sleep(&self, duration: Duration) {
        let ms = duration.as_millis().max(1) as u64;
        self.1.fetch_add(ms, Ordering::Relaxed);
        self.0.fetch_add(ms as i64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(world: &SimVfs, name: &str) -> Arc<dyn File> {
        world.open(Path::new(name), OpenMode::CreateNew).unwrap()
    }

    #[test]
    fn what_was_synced_survives_every_power_cut() {
        let world = SimVfs::new();
        let a = file(&world, "/d/a");
        a.write_at(0, &[1; 4096], IoReason::Other).unwrap();
        a.sync(IoReason::Other).unwrap();
        world.sync_directory(Path::new("/d")).unwrap();
        a.write_at(0, &[2; 4096], IoReason::Other).unwrap();
        let (mut old, mut new, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let after = world.after_power_cut(seed).contents(Path::new("/d/a")).unwrap();
            assert!(after.chunks(512).all(|sector| sector.iter().all(|&b| b == sector[0])));
            match (after.contains(&1), after.contains(&2)) {
                (true, false) => old += 1,
                (false, true) => new += 1,
                _ => torn += 1,
            }
        }
        assert!(old > 20 && new > 20 && torn > 20, "{old} {new} {torn}");
    }

    #[test]
    fn names_survive_as_a_prefix_unless_their_directory_was_synced() {
        let world = SimVfs::new();
        file(&world, "/d/a").sync(IoReason::Other).unwrap();
        world.rename(Path::new("/d/a"), Path::new("/d/b")).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            let after = world.after_power_cut(seed);
            seen.insert((after.exists(Path::new("/d/a")), after.exists(Path::new("/d/b"))));
        }
        assert_eq!(seen, BTreeSet::from([(false, false), (true, false), (false, true)]));
        world.sync_directory(Path::new("/d")).unwrap();
        assert!((0..50).all(|seed| world.after_power_cut(seed).exists(Path::new("/d/b"))));
    }

    #[test]
    fn power_off_stops_everything_and_a_full_volume_refuses_growth() {
        let world = SimVfs::new();
        let a = file(&world, "/a");
        world.set_capacity(8192);
        a.write_at(0, &[1; 8192], IoReason::Other).unwrap();
        assert_eq!(a.write_at(8192, &[1; 512], IoReason::Other).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(a.grow(9000).unwrap_err().kind(), io::ErrorKind::StorageFull);
        world.stop_after(world.operations());
        assert!(a.sync(IoReason::Other).is_err() && world.remove(Path::new("/a")).is_err());
        assert_eq!(world.after_kill().contents(Path::new("/a")).unwrap(), vec![1; 8192]);
    }

    #[test]
    fn a_lock_is_held_once() {
        let world = SimVfs::new();
        let lock = world.lock(Path::new("/l")).unwrap();
        assert_eq!(world.lock(Path::new("/l")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        assert!(world.lock(Path::new("/l")).is_ok());
    }
}
