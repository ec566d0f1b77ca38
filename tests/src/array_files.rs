//! A file system of files on a RAID array, for tests that run on arrays what they run on files.
//!
//! The array begins with two areas for the table of files, written in turn; files follow as lists of extents. As on any file
//! system, writes and names are durable after their syncs, and may be earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use jetcell_array::{Array, ArrayError, BLOCK};
use jetcell_vfs::{Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs};
use serde::{Deserialize, Serialize};

/// Blocks of one of the two areas.
const AREA: u64 = 64;

#[derive(Clone, Default, Serialize, Deserialize)]
struct Node {
    len: u64,
    /// Blocks of the array, in the order of the file.
    blocks: Vec<u64>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Table {
    sequence: u64,
    next_node: u64,
    names: BTreeMap<PathBuf, u64>,
    nodes: BTreeMap<u64, Node>,
}

struct State {
    array: Array,
    table: Table,
    /// The table changed since it was written.
    is_changed: bool,
    /// Blocks that neither the table nor the one on the array uses.
    free: BTreeSet<u64>,
    /// Blocks that the table on the array still uses.
    freed: BTreeSet<u64>,
    handles: BTreeMap<u64, usize>,
    locks: BTreeSet<PathBuf>,
}

/// Files on an array.
#[derive(Clone)]
pub struct ArrayFiles {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

fn io_error(error: ArrayError) -> io::Error {
    io::Error::other(error.to_string())
}

impl State {
    /// Writes the table to the area whose turn it is.
    fn write_table(&mut self) -> io::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let named: BTreeSet<u64> = self.table.names.values().copied().collect();
        let handles = &self.handles;
        let is_used = |node: &u64| named.contains(node) || handles.contains_key(node);
        let unused: Vec<u64> = self.table.nodes.keys().copied().filter(|node| !is_used(node)).collect();
        for node in unused {
            self.freed.extend(self.table.nodes.remove(&node).expect("just found").blocks);
        }
        self.table.sequence += 1;
        let bytes = serde_json::to_vec(&self.table)?;
        let mut area = vec![0; AREA as usize * BLOCK];
        area[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        area[8..16].copy_from_slice(&sum(&bytes).to_le_bytes());
        area[16..16 + bytes.len()].copy_from_slice(&bytes);
        let used = (16 + bytes.len()).next_multiple_of(BLOCK);
        self.array.write(self.table.sequence % 2 * AREA, &area[..used]).map_err(io_error)?;
        self.array.flush().map_err(io_error)?;
        self.is_changed = false;
        self.free.append(&mut self.freed);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.array.flush().map_err(io_error)?;
        self.write_table()
    }

    fn set_len(&mut self, node: u64, len: u64) -> io::Result<()> {
        let needed = len.div_ceil(BLOCK as u64) as usize;
        let node = self.table.nodes.get_mut(&node).expect("open files have nodes");
        while node.blocks.len() < needed {
            let block = self.free.pop_first().ok_or(io::ErrorKind::StorageFull)?;
            self.array.write(block, &[0; BLOCK]).map_err(io_error)?;
            node.blocks.push(block);
        }
        if node.blocks.len() > needed {
            self.freed.extend(node.blocks.drain(needed..));
        }
        node.len = len;
        self.is_changed = true;
        Ok(())
    }

    fn read(&mut self, node: u64, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let node = &self.table.nodes[&node];
        if offset + buffer.len() as u64 > node.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let first = offset as usize / BLOCK;
        for (index, part) in buffer.chunks_mut(BLOCK).enumerate() {
            self.array.read(node.blocks[first + index], part).map_err(io_error)?;
        }
        Ok(())
    }

    fn write(&mut self, node: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        if end > self.table.nodes[&node].len {
            self.set_len(node, end)?;
        }
        let first = offset as usize / BLOCK;
        for (index, part) in data.chunks(BLOCK).enumerate() {
            let block = self.table.nodes[&node].blocks[first + index];
            self.array.write(block, part).map_err(io_error)?;
        }
        Ok(())
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

fn decode(area: &[u8]) -> Option<Table> {
    let number = |at: usize| u64::from_le_bytes(area[at..at + 8].try_into().expect("eight bytes"));
    let bytes = area.get(16..16usize.checked_add(usize::try_from(number(0)).ok()?)?)?;
    if sum(bytes) == number(8) { serde_json::from_slice(bytes).ok() } else { None }
}

impl ArrayFiles {
    /// The files of an array; none on an array that was just created.
    pub fn mount(mut array: Array, clock: Arc<dyn Clock>) -> Result<ArrayFiles, ArrayError> {
        let mut table = Table::default();
        for start in [0, AREA] {
            let mut area = vec![0; AREA as usize * BLOCK];
            array.read(start, &mut area)?;
            match decode(&area) {
                Some(found) if found.sequence > table.sequence => table = found,
                _ => {}
            }
        }
        let used: BTreeSet<u64> = table.nodes.values().flat_map(|node| node.blocks.iter().copied()).collect();
        let free = (2 * AREA..array.layout().blocks()).filter(|block| !used.contains(block)).collect();
        let state = State {
            array,
            table,
            is_changed: false,
            free,
            freed: BTreeSet::new(),
            handles: BTreeMap::new(),
            locks: BTreeSet::new(),
        };
        Ok(ArrayFiles { state: Arc::new(Mutex::new(state)), clock })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with the lock")
    }

    /// Runs something on the array below the files.
    pub fn with_array<T>(&self, call: impl FnOnce(&mut Array) -> T) -> T {
        call(&mut self.state().array)
    }
}

struct OpenFile {
    files: ArrayFiles,
    node: u64,
    path: PathBuf,
}

impl File for OpenFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        self.files.state().read(self.node, offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        self.files.state().write(self.node, offset, data)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for Transfer { kind, offset, mut buffer, reason, done } in batch {
            let result = match kind {
                TransferKind::Read => self.read_at(offset, &mut buffer, reason),
                TransferKind::Write => self.write_at(offset, &buffer, reason),
            };
            done(result, buffer);
        }
    }
    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        self.files.state().sync()
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.files.state().table.nodes[&self.node].len)
    }
    fn grow(&self, len: u64) -> io::Result<()> {
        self.files.state().set_len(self.node, len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.files.state().set_len(self.node, len)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.files.state();
        let count = state.handles.get_mut(&self.node).expect("open files are counted");
        *count -= 1;
        if *count == 0 {
            state.handles.remove(&self.node);
        }
    }
}

struct Lock(ArrayFiles, PathBuf);

impl DirectoryLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.state().locks.remove(&self.1);
    }
}

impl Vfs for ArrayFiles {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let found = state.table.names.get(path).copied();
        let node = match (found, mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) => node,
            (None, OpenMode::CreateNew) => {
                let node = state.table.next_node;
                state.table.next_node += 1;
                state.table.names.insert(path.to_owned(), node);
                state.table.nodes.insert(node, Node::default());
                state.is_changed = true;
                node
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        *state.handles.entry(node).or_default() += 1;
        Ok(Arc::new(OpenFile { files: self.clone(), node, path: path.to_owned() }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state();
        Ok(state.table.names.keys().any(|name| name == path || name.parent() == Some(path)))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.is_changed = true;
        state.table.names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let node = state.table.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.table.names.insert(to.to_owned(), node);
        state.is_changed = true;
        Ok(())
    }
    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        self.state().sync()
    }
    fn create_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        Ok(state.table.names.keys().filter(|name| name.parent() == Some(directory)).cloned().collect())
    }
    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state().free.len() as u64 * BLOCK as u64)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        if !self.state().locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !self.exists(path)? {
            self.open(path, OpenMode::CreateNew)?;
        }
        Ok(Box::new(Lock(self.clone(), path.to_owned())))
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}
