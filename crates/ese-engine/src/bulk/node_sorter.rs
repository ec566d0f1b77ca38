//! Sorts the nodes of an index with bounded memory. The nodes are sorted in memory, or as runs in a temporary file
//! that are then merged.
//!
//! ```text
//!  run      node ... node      sorted, each as in memory (nodes_in_memory.rs); begins at a multiple of 4096
//! ```
//!
//! The file is unlinked while it is in use, so a crash leaves no file behind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use super::nodes_in_memory::{NodesInMemory, PREFIX, SortedNodeBatches};
use crate::cache::LoadBuffers;
use crate::{Corruption, Error, InternalError, Result};

/// Block size of the temporary file in bytes.
const BLOCK: usize = 4096;
/// Minimum number of bytes per read of a run.
const MIN_READ: usize = 16 * BLOCK;

/// A node, ordered by its bytes: key, then data.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct SortedNode {
    bytes: Vec<u8>,
    key_len: usize,
}

/// Collects nodes in any order and returns them sorted.
pub(crate) struct NodeSorter {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// Maximum number of bytes for the nodes and their places together. While growing, the vectors that hold them can
    /// temporarily use up to twice as much.
    memory: usize,
    nodes: NodesInMemory,
    file: Option<RunFile>,
    runs: Vec<SortedRun>,
    /// Total number of bytes of all keys and data.
    pub bytes: u64,
}

struct RunFile {
    file: Arc<dyn File>,
    end: u64,
}

#[derive(Clone, Copy)]
struct SortedRun {
    start: u64,
    bytes: u64,
}

impl NodeSorter {
    /// Creates a sorter that uses at most `memory` bytes from `buffers`, or two megabytes if `memory` is less. The
    /// temporary file is created at `path`.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf, memory: usize, buffers: Arc<LoadBuffers>) -> NodeSorter {
        let memory = (memory / 2).clamp(1 << 20, 1 << 30);
        let nodes = NodesInMemory::new(buffers);
        NodeSorter { vfs, path, memory, nodes, file: None, runs: Vec::new(), bytes: 0 }
    }

    /// Adds a node. The key and data together must not exceed 65,535 bytes.
    pub fn add(&mut self, key: &[u8], data: &[u8]) -> Result<()> {
        let len = key.len() + data.len();
        let lens = u16::try_from(len).ok().zip(u16::try_from(key.len()).ok());
        let (len, key_len) = lens.ok_or(InternalError::IndexEntry)?;
        if self.nodes.used() + NodesInMemory::node_size(usize::from(len)) > self.memory {
            self.spill()?;
        }
        self.nodes.add(len, key_len, key, data);
        self.bytes += u64::from(len);
        Ok(())
    }

    /// Writes the nodes in memory to the file as a run.
    fn spill(&mut self) -> Result<()> {
        self.nodes.sort();
        let memory = self.nodes.take_memory();
        let mut writer = self.begin_run()?;
        memory.in_order(0).try_for_each(|node| writer.put(node))?;
        let run = writer.end()?;
        self.runs.push(run);
        self.nodes.supply_memory(memory);
        if self.runs.len() >= self.max_runs() {
            self.merge_runs()?;
        }
        Ok(())
    }

    /// Returns the number of runs that can be merged at once, each with its own buffer.
    fn max_runs(&self) -> usize {
        (self.memory / MIN_READ).max(3) - 1
    }

    /// Merges all runs into one.
    fn merge_runs(&mut self) -> Result<()> {
        let (runs, memory) = (std::mem::take(&mut self.runs), self.memory);
        // Frees the nodes' memory for use by the merge buffers.
        drop(self.nodes.take_memory());
        let mut writer = self.begin_run()?;
        let mut merge = RunMerger::new(&writer.file, &runs, memory)?;
        let mut bytes = Vec::new();
        while let Some(node) = merge.next()? {
            bytes.clear();
            bytes.extend_from_slice(&(node.bytes.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&(node.key_len as u16).to_le_bytes());
            bytes.extend_from_slice(&node.bytes);
            writer.put(&bytes)?;
        }
        let run = writer.end()?;
        self.runs.push(run);
        Ok(())
    }

    fn begin_run(&mut self) -> Result<RunWriter<'_>> {
        if self.file.is_none() {
            let io_error = |error: std::io::Error| Error::io(&self.path, &error);
            if self.vfs.exists(&self.path).map_err(io_error)? {
                // The file still exists if an earlier process crashed between `open` and `remove` below.
                self.vfs.remove(&self.path).map_err(io_error)?;
            }
            let file = self.vfs.open(&self.path, OpenMode::CreateNew).map_err(io_error)?;
            self.vfs.remove(&self.path).map_err(io_error)?;
            self.file = Some(RunFile { file, end: 0 });
        }
        let run_file = self.file.as_mut().ok_or(InternalError::NoRunFile)?;
        let (start, file) = (run_file.end, run_file.file.clone());
        let buffer = IoBuffer::zeroed(MIN_READ);
        Ok(RunWriter { run_file, file, start, bytes: 0, buffer, filled: 0 })
    }

    /// Returns all nodes in order.
    pub fn finish(mut self) -> Result<SortedNodes> {
        if self.runs.is_empty() {
            self.nodes.sort();
            return Ok(SortedNodes(NodeSource::Memory(SortedNodeBatches::new(self.nodes))));
        }
        self.spill()?;
        drop(self.nodes.take_memory());
        let file = self.file.as_ref().ok_or(InternalError::NoRunFile)?;
        Ok(SortedNodes(NodeSource::Runs(RunMerger::new(&file.file, &self.runs, self.memory)?)))
    }
}

/// Iterator over the nodes in order.
pub(crate) struct SortedNodes(NodeSource);

enum NodeSource {
    Memory(SortedNodeBatches),
    Runs(RunMerger),
}

impl SortedNodes {
    /// Returns the key and the data of the next node.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.0 {
            NodeSource::Memory(gathered) => Ok(gathered.next()),
            NodeSource::Runs(merge) => Ok(merge.next()?.map(|node| node.bytes.split_at(node.key_len))),
        }
    }
}

/// Writes one run.
struct RunWriter<'a> {
    run_file: &'a mut RunFile,
    file: Arc<dyn File>,
    start: u64,
    bytes: u64,
    buffer: IoBuffer,
    filled: usize,
}

impl RunWriter<'_> {
    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let count = bytes.len().min(self.buffer.len() - self.filled);
            let (now, later) = bytes.split_at(count);
            self.buffer[self.filled..self.filled + count].copy_from_slice(now);
            self.filled += count;
            bytes = later;
            if self.filled == self.buffer.len() {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let len = self.filled.next_multiple_of(BLOCK);
        let io_error = |error: std::io::Error| Error::io(self.file.path(), &error);
        self.file.grow(self.run_file.end + len as u64).map_err(io_error)?;
        self.file
            .write_at(self.run_file.end, &self.buffer[..len], IoReason::BulkLoad)
            .map_err(|error| Error::io(self.file.path(), &error))?;
        self.run_file.end += len as u64;
        self.filled = 0;
        Ok(())
    }

    fn end(mut self) -> Result<SortedRun> {
        if self.filled > 0 {
            self.write()?;
        }
        Ok(SortedRun { start: self.start, bytes: self.bytes })
    }
}

/// Merges sorted runs.
struct RunMerger {
    runs: Vec<RunReader>,
    /// The next node of each run.
    heads: BinaryHeap<Reverse<(SortedNode, usize)>>,
    /// The most recently returned node.
    node: SortedNode,
}

impl RunMerger {
    fn new(file: &Arc<dyn File>, runs: &[SortedRun], memory: usize) -> Result<RunMerger> {
        let read = (memory / runs.len().max(1) / BLOCK * BLOCK).clamp(MIN_READ, 1 << 20);
        let mut merge = RunMerger { runs: Vec::new(), heads: BinaryHeap::new(), node: SortedNode::default() };
        for (number, run) in runs.iter().enumerate() {
            let (buffer, file) = (IoBuffer::zeroed(read), file.clone());
            let (at, left) = (run.start, run.bytes);
            let mut reader = RunReader { file, at, left, buffer, begin: 0, end: 0 };
            let mut node = SortedNode::default();
            if reader.next(&mut node)? {
                merge.heads.push(Reverse((node, number)));
            }
            merge.runs.push(reader);
        }
        Ok(merge)
    }

    fn next(&mut self) -> Result<Option<&SortedNode>> {
        let Some(Reverse((mut smallest, number))) = self.heads.pop() else { return Ok(None) };
        std::mem::swap(&mut self.node, &mut smallest);
        // The run's next node reuses the memory of its previous one.
        if self.runs[number].next(&mut smallest)? {
            self.heads.push(Reverse((smallest, number)));
        }
        Ok(Some(&self.node))
    }
}

/// Reads one run.
struct RunReader {
    file: Arc<dyn File>,
    at: u64,
    /// Number of bytes of the run that have not been returned yet.
    left: u64,
    buffer: IoBuffer,
    /// Start of the part of the buffer that has not been returned yet.
    begin: usize,
    end: usize,
}

impl RunReader {
    fn next(&mut self, node: &mut SortedNode) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let mut lens = [0; PREFIX];
        self.take(&mut lens)?;
        let len = usize::from(u16::from_le_bytes([lens[0], lens[1]]));
        node.key_len = usize::from(u16::from_le_bytes([lens[2], lens[3]])).min(len);
        node.bytes.resize(len, 0);
        let mut bytes = std::mem::take(&mut node.bytes);
        self.take(&mut bytes)?;
        node.bytes = bytes;
        self.left = self.left.saturating_sub((PREFIX + len) as u64);
        Ok(true)
    }

    fn take(&mut self, mut to: &mut [u8]) -> Result<()> {
        while !to.is_empty() {
            if self.begin == self.end {
                self.fill()?;
            }
            let count = to.len().min(self.end - self.begin);
            let (now, later) = to.split_at_mut(count);
            now.copy_from_slice(&self.buffer[self.begin..self.begin + count]);
            self.begin += count;
            to = later;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        let io_error = |error: &std::io::Error| Error::io(self.file.path(), error);
        let end = self.file.len().map_err(|error| io_error(&error))?;
        let len = (self.buffer.len() as u64).min(end.saturating_sub(self.at)) as usize;
        if len == 0 {
            return Err(Error::Corrupt {
                path: self.file.path().to_path_buf(),
                page: None,
                fault: Corruption::TruncatedRun,
            });
        }
        self.file
            .read_at(self.at, &mut self.buffer[..len], IoReason::BulkLoad)
            .map_err(|error| io_error(&error))?;
        self.at += len as u64;
        (self.begin, self.end) = (0, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jetcell_vfs::SimVfs;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// 1 MiB of memory stores about 16,000 nodes. The largest case therefore has 20 runs, which need a second merge.
    #[test]
    fn nodes_are_sorted_in_memory_and_in_spilled_runs() {
        // Each sort reuses the memory of the previous one.
        let buffers = Arc::new(LoadBuffers::default());
        for count in [0, 1, 1000, 300, 40_000, 330_000] {
            let disk = SimVfs::new();
            disk.create_directory(Path::new("/db")).unwrap();
            let (vfs, buffers) = (Arc::new(disk.clone()), buffers.clone());
            let mut sorter = NodeSorter::new(vfs, "/db/a.sort".into(), 2 << 20, buffers);
            let mut random = ChaCha8Rng::seed_from_u64(count);
            let mut expected = Vec::new();
            for _ in 0..count {
                let mut bytes = vec![0; random.random_range(1..60)];
                random.fill(&mut bytes[..]);
                let key_len = random.random_range(0..=bytes.len());
                sorter.add(&bytes[..key_len], &bytes[key_len..]).unwrap();
                expected.push((bytes, key_len));
            }
            assert!(disk.list(Path::new("/db")).unwrap().is_empty(), "the file has no name");
            expected.sort();
            let mut sorted = sorter.finish().unwrap();
            for (bytes, _) in &expected {
                let (key, data) = sorted.next().unwrap().unwrap();
                assert_eq!([key, data].concat(), *bytes);
            }
            assert_eq!(sorted.next().unwrap(), None);
        }
    }
}
