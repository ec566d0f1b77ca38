//! Named files of any length, stored in the blocks of an array or LUN.
//!
//! ```text
//! blocks 0 to 255      table of files, written when its number is even
//! blocks 256 to 511    table of files, written when its number is odd
//! other blocks         extents of files
//! ```
//!
//! As on any file system, content is durable after a sync of the file, and a name is durable after a sync of its
//! directory. Both syncs commit the blocks first, and then the table if it changed. Therefore, no table refers to
//! content that is not durable. Blocks to which a durable table refers are not reused before a newer table is
//! durable.
//!
//! Newly allocated space must read as zeros. Blocks past the *reserve* were never written, so they read as zeros.
//! Before any of them is used, the reserve is raised durably in the table. Other blocks are overwritten with zeros,
//! or deallocated on a LUN.

mod file;
mod file_table;
mod free_blocks;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jetcell_array::{Array, ArrayError, ArrayRefusal, BLOCK, LoadMeter};
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, Mutex, MutexGuard};
use jetcell_vfs::{Clock, DirectoryLock, File, OpenMode, Vfs};

use self::file::VolumeFile;
use self::file_table::{FileNodeId, FileTable, TABLE_AREA_BLOCKS};
use self::free_blocks::FreeBlocks;
use self::storage::VolumeStorage;
use crate::luns::SharedLunVolume;

/// Number of blocks by which the reserve is raised, unless more are needed.
const RESERVE_STEP: u64 = (64 << 20) / BLOCK as u64;

/// A file system stored on an array or on a LUN. Clones share it.
///
/// The lock of `state` protects the file table, the free blocks and, if the files are on an array, the array. It is
/// acquired before the lock of a [`SharedLunVolume`], and held for the duration of an operation on a file. `written`
/// and `load` can be read without it.
#[derive(Clone)]
pub struct Volume {
    state: Arc<Mutex<VolumeState>>,
    written: Arc<AtomicWriteCounters>,
    load: LoadMeter,
    clock: Arc<dyn Clock>,
    /// Path prefix of all files.
    root: PathBuf,
}

struct VolumeState {
    /// Storage of the files. `None` after the volume has been closed.
    storage: Option<VolumeStorage>,
    table: FileTable,
    free_blocks: FreeBlocks,
    /// Whether the table has changed since it was last written.
    is_changed: bool,
    /// Number of open handles for each node.
    handles: BTreeMap<FileNodeId, usize>,
    locks: BTreeSet<PathBuf>,
    written: Arc<AtomicWriteCounters>,
}

/// Counters for writes to a volume's files, since the volume was mounted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostWriteCounters {
    /// Number of writes.
    pub writes: u64,
    /// Number of blocks in these writes.
    pub blocks: u64,
}

/// Counters for callers' writes. They can be read without waiting for commits.
#[derive(Default)]
struct AtomicWriteCounters {
    writes: AtomicU64,
    blocks: AtomicU64,
}

fn io_error(error: ArrayError) -> io::Error {
    match error {
        ArrayError::Io { source, .. } if jetcell_vfs::is_power_off(&source) => source,
        error => error.into_io_error(),
    }
}

impl VolumeState {
    fn storage(&mut self) -> io::Result<&mut VolumeStorage> {
        self.storage.as_mut().ok_or_else(|| io::Error::other("the volume was closed"))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.storage()?.flush().map_err(io_error)
    }

    /// Makes all content and names durable.
    fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        if !self.is_changed {
            return Ok(());
        }
        let is_open = |node: &FileNodeId| self.handles.contains_key(node);
        let unused = self.table.remove_unnamed(is_open);
        self.free_blocks.release(unused);
        self.write_table()?;
        self.free_blocks.free_released();
        Ok(())
    }

    fn write_table(&mut self) -> io::Result<()> {
        self.table.sequence += 1;
        let bytes = self.table.encode()?;
        let place = self.table.sequence % 2 * TABLE_AREA_BLOCKS;
        self.storage()?.write(place, &bytes).map_err(io_error)?;
        self.flush()?;
        self.is_changed = false;
        Ok(())
    }

    /// Extends a file to this many blocks. The new blocks read as zeros.
    fn extend(&mut self, node: FileNodeId, blocks: u64) -> io::Result<()> {
        let mut missing = blocks.saturating_sub(self.table.blocks_of(node));
        if missing > self.free_blocks.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        while missing > 0 {
            if let Some(reserve) = self.free_blocks.reserve_for(missing, RESERVE_STEP) {
                self.table.reserve = reserve;
                // The content is flushed first, because the table may refer to content that is not durable yet.
                self.flush()?;
                self.write_table()?;
                self.free_blocks.raise_reserve(reserve);
            }
            let (extent, is_fresh) = self.free_blocks.take(missing).ok_or(io::ErrorKind::StorageFull)?;
            if !is_fresh {
                self.storage()?.clear(extent.clone()).map_err(io_error)?;
            }
            missing -= extent.end - extent.start;
            self.table.add_extent(node, extent);
            self.is_changed = true;
        }
        Ok(())
    }

    fn set_len(&mut self, node: FileNodeId, len: u64) -> io::Result<()> {
        let blocks = len.div_ceil(BLOCK as u64);
        self.extend(node, blocks)?;
        let cut = self.table.truncate(node, blocks);
        self.free_blocks.release(cut);
        self.table.set_len(node, len);
        self.is_changed = true;
        Ok(())
    }
}

/// Returns the current table of files, and whether the areas of both tables read as zeros.
fn newest_table(
    read: &mut impl FnMut(u64, &mut [u8]) -> jetcell_array::Result<()>,
    blocks: u64,
) -> jetcell_array::Result<(Option<FileTable>, bool)> {
    let mut newest: Option<FileTable> = None;
    let mut is_empty = true;
    for area in 0..2 {
        let mut bytes = vec![0; TABLE_AREA_BLOCKS as usize * BLOCK];
        read(area * TABLE_AREA_BLOCKS, &mut bytes)?;
        is_empty &= bytes.iter().all(|byte| *byte == 0);
        let found = FileTable::decode(&bytes, blocks).filter(|table| table.sequence % 2 == area);
        let is_newer =
            |table: &FileTable| newest.as_ref().is_none_or(|other| table.sequence > other.sequence);
        newest = found.filter(is_newer).or(newest);
    }
    Ok((newest, is_empty))
}

/// Returns the current table of files on an array, if it has one.
fn table_on(array: &mut Array) -> jetcell_array::Result<Option<FileTable>> {
    let blocks = array.layout().blocks();
    if blocks <= 2 * TABLE_AREA_BLOCKS {
        return Ok(None);
    }
    Ok(newest_table(&mut |first, buffer| array.read(first, buffer), blocks)?.0)
}

impl Volume {
    /// Returns true if an array contains files.
    ///
    /// # Errors
    /// Returns an error if the array cannot be read.
    pub fn exists_on(array: &mut Array) -> jetcell_array::Result<bool> {
        Ok(table_on(array)?.is_some())
    }

    /// Returns the files that are stored in these byte ranges of the array, with the affected byte ranges of each file.
    /// The array may be read-only.
    ///
    /// # Errors
    /// Returns an error if the array cannot be read.
    pub fn files_at(
        array: &mut Array,
        bytes: &[Range<u64>],
    ) -> jetcell_array::Result<Vec<(PathBuf, Range<u64>)>> {
        let Some(table) = table_on(array)? else { return Ok(vec![]) };
        let block = BLOCK as u64;
        let wanted: Vec<Range<u64>> =
            bytes.iter().map(|range| range.start / block..range.end.div_ceil(block)).collect();
        let found = table.files_at(&wanted);
        Ok(found.into_iter().map(|(file, part)| (file, part.start * block..part.end * block)).collect())
    }

    /// Mounts the files of an array at the path `root`. An array that was just created has no files.
    ///
    /// # Errors
    /// Returns an error if the array is too small, or if its blocks contain something other than a volume.
    pub fn mount(array: Array, clock: Arc<dyn Clock>, root: &Path) -> jetcell_array::Result<Volume> {
        Volume::mount_on(VolumeStorage::Array(Box::new(array)), clock, root)
    }

    /// Mounts the files of a LUN at the path `root`. A LUN that was just created has no files. The owner of the LUNs
    /// is responsible for consistency points, and must close the file volumes before the LUNs.
    ///
    /// # Errors
    /// Returns an error if there is no such LUN, or if it is too small or contains something other than a volume.
    pub fn mount_lun(
        luns: SharedLunVolume,
        lun: &str,
        clock: Arc<dyn Clock>,
        root: &Path,
    ) -> jetcell_array::Result<Volume> {
        Volume::mount_on(VolumeStorage::Lun(luns, lun.to_string()), clock, root)
    }

    fn mount_on(
        mut base: VolumeStorage,
        clock: Arc<dyn Clock>,
        root: &Path,
    ) -> jetcell_array::Result<Volume> {
        let blocks = base.blocks()?;
        // Without a shutdown, the next start would assume that the array crashed.
        let refuse = |base: VolumeStorage, refusal: ArrayRefusal| base.close().and(Err(refusal.into()));
        if blocks <= 2 * TABLE_AREA_BLOCKS {
            return refuse(base, ArrayRefusal::TooSmallForFiles { blocks, needed: 2 * TABLE_AREA_BLOCKS });
        }
        let (newest, is_empty) = newest_table(&mut |first, buffer| base.read(first, buffer), blocks)?;
        let table = match newest {
            Some(table) => table,
            // Space may have content from before the volume was created, so it cannot be assumed to read as zeros.
            None if is_empty && base.was_written()? => FileTable::with_reserve(blocks),
            None if is_empty => FileTable::default(),
            None => return refuse(base, ArrayRefusal::NoFileTable),
        };
        let load = base.with_array(|array| array.load_meter());
        let space = FreeBlocks::new(2 * TABLE_AREA_BLOCKS..blocks, table.reserve, table.extents());
        let (handles, locks) = (BTreeMap::new(), BTreeSet::new());
        let written = Arc::<AtomicWriteCounters>::default();
        let of_state = written.clone();
        let state = VolumeState {
            storage: Some(base),
            table,
            free_blocks: space,
            is_changed: false,
            handles,
            locks,
            written: of_state,
        };
        Ok(Volume { state: Arc::new(Mutex::new(state)), written, load, clock, root: root.to_path_buf() })
    }

    /// Calls a function with the underlying array. Returns `None` after the volume has been closed.
    pub fn with_array<T>(&self, call: impl FnOnce(&mut Array) -> T) -> Option<T> {
        self.state.lock().storage.as_mut().map(|base| base.with_array(call))
    }

    /// Returns the meter for reads and syncs of files. Their latency includes the wait for other users of the array.
    pub fn load_meter(&self) -> LoadMeter {
        self.load.clone()
    }

    /// Returns the counters for callers' writes.
    pub fn host_writes(&self) -> HostWriteCounters {
        let AtomicWriteCounters { writes, blocks } = &*self.written;
        HostWriteCounters { writes: writes.load(Ordering::Relaxed), blocks: blocks.load(Ordering::Relaxed) }
    }

    /// Makes all content durable and shuts the array down. LUNs remain available. From then on, operations on files
    /// that are still open fail.
    pub fn close(&self) -> jetcell_array::Result<()> {
        let mut state = self.state.lock();
        let synced = state.sync();
        let Some(base) = state.storage.take() else { return Ok(()) };
        synced.map_err(|error| ArrayError::io(&self.root, "syncing the file table", 0, error))?;
        base.close()
    }

    fn is_same(&self, other: &Volume) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    fn state(&self) -> MutexGuard<'_, VolumeState> {
        self.state.lock()
    }

    /// Returns the name under which the table lists the file at a path.
    fn name<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        path.strip_prefix(&self.root).map_err(|_| io::ErrorKind::NotFound.into())
    }
}

struct VolumeLock(Volume, PathBuf);

impl DirectoryLock for VolumeLock {}

impl Drop for VolumeLock {
    fn drop(&mut self) {
        self.0.state().locks.remove(&self.1);
    }
}

impl Vfs for Volume {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let name = self.name(path)?;
        let mut state = self.state();
        state.storage()?;
        let node = match (state.table.find(name), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) => node,
            (None, OpenMode::CreateNew) => {
                state.is_changed = true;
                state.table.create(name)
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        *state.handles.entry(node).or_default() += 1;
        drop(state);
        Ok(Arc::new(VolumeFile::new(self.clone(), node, path, mode)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let name = self.name(path)?;
        Ok(self.state().table.names().any(|other| other.starts_with(name)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = self.name(path)?;
        let mut state = self.state();
        state.table.unlink(name).ok_or(io::ErrorKind::NotFound)?;
        state.is_changed = true;
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        let mut state = self.state();
        state.table.rename(from, to).ok_or(io::ErrorKind::NotFound)?;
        state.is_changed = true;
        Ok(())
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        self.load.measure_latency(|| self.state().sync())
    }

    /// Does nothing: directories exist only as parts of names.
    fn create_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let name = self.name(directory)?;
        let state = self.state();
        let names = state.table.names().filter(|other| other.parent() == Some(name));
        Ok(names.map(|name| self.root.join(name)).collect())
    }

    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state().free_blocks.free() * BLOCK as u64)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let name = self.name(path)?;
        let mut state = self.state();
        if !state.locks.insert(name.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if state.table.find(name).is_none() {
            state.table.create(name);
            state.is_changed = true;
        }
        drop(state);
        Ok(Box::new(VolumeLock(self.clone(), name.to_path_buf())))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

#[cfg(test)]
mod tests;
