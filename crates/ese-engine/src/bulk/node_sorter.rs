//! Sorts the nodes of an index within a bound of memory: in memory, or in runs in a temporary file that are merged.
//!
//! ```text
//!  run      node ... node                    sorted; begins at a multiple of 4096
//!  node     u16 length | u16 key length | key, then data
//! ```
//!
//! The file has no name while it is used, so a crash leaves nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use crate::{Error, Result};

/// Lengths in front of each node.
const PREFIX: usize = 4;
/// Length of a block of the file.
const BLOCK: usize = 4096;
/// Least bytes of a read of a run.
const SMALLEST_READ: usize = 16 * BLOCK;

/// A node whose order is that of its bytes: key, then data.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct SortedNode {
    bytes: Vec<u8>,
    key_len: usize,
}

impl SortedNode {
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len]
    }

    pub fn data(&self) -> &[u8] {
        &self.bytes[self.key_len..]
    }
}

/// Collects nodes in any order.
pub(crate) struct NodeSorter {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// Bytes of `nodes` and `places` together; while they grow, they take up to twice as much.
    memory: usize,
    nodes: Vec<u8>,
    /// The first bytes of each node as a number, and where the node begins.
    places: Vec<(u64, u32)>,
    file: Option<RunFile>,
    runs: Vec<Run>,
    /// Bytes of all keys and data.
    pub bytes: u64,
}

struct RunFile {
    file: Arc<dyn File>,
    end: u64,
}

#[derive(Clone, Copy)]
struct Run {
    start: u64,
    bytes: u64,
}

impl NodeSorter {
    /// A sorter that takes at most `memory` bytes, and at least two megabytes. `path` is where its file is created.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf, memory: usize) -> NodeSorter {
        let memory = (memory / 2).clamp(1 << 20, 1 << 30);
        let (nodes, places, runs) = (Vec::new(), Vec::new(), Vec::new());
        NodeSorter { vfs, path, memory, nodes, places, file: None, runs, bytes: 0 }
    }

    fn used(&self) -> usize {
        self.nodes.len() + self.places.len() * size_of::<(u64, u32)>()
    }

    /// Adds a node. Key and data together have at most 65,535 bytes.
    pub fn add(&mut self, key: &[u8], data: &[u8]) -> Result<()> {
        let len = key.len() + data.len();
        let lens = u16::try_from(len).ok().zip(u16::try_from(key.len()).ok());
        let (len, key_len) = lens.ok_or_else(|| Error::Internal("an index entry is too long".to_string()))?;
        if self.used() + PREFIX + usize::from(len) + size_of::<(u64, u32)>() > self.memory {
            self.spill()?;
        }
        let at = self.nodes.len() as u32;
        self.nodes.extend_from_slice(&len.to_le_bytes());
        self.nodes.extend_from_slice(&key_len.to_le_bytes());
        self.nodes.extend_from_slice(key);
        self.nodes.extend_from_slice(data);
        let mut first = [0; 8];
        let order = &self.nodes[at as usize + PREFIX..];
        let known = order.len().min(8);
        first[..known].copy_from_slice(&order[..known]);
        self.places.push((u64::from_be_bytes(first), at));
        self.bytes += u64::from(len);
        Ok(())
    }

    fn sort(&mut self) {
        let nodes = &self.nodes;
        self.places.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| order_of(nodes, a.1).cmp(order_of(nodes, b.1)))
        });
    }

    /// Writes the nodes in memory as a run.
    fn spill(&mut self) -> Result<()> {
        self.sort();
        let places = std::mem::take(&mut self.places);
        let nodes = std::mem::take(&mut self.nodes);
        let mut writer = self.begin_run()?;
        for (_, at) in &places {
            writer.put(stored(&nodes, *at))?;
        }
        let run = writer.end()?;
        self.runs.push(run);
        (self.places, self.nodes) = (places, nodes);
        self.places.clear();
        self.nodes.clear();
        if self.runs.len() >= self.most_runs() {
            self.merge_runs()?;
        }
        Ok(())
    }

    /// Runs that can be merged at once, each with a buffer of its own.
    fn most_runs(&self) -> usize {
        (self.memory / SMALLEST_READ).max(3) - 1
    }

    /// Merges all runs into one.
    fn merge_runs(&mut self) -> Result<()> {
        let (runs, memory) = (std::mem::take(&mut self.runs), self.memory);
        // The memory is for the buffers now.
        (self.nodes, self.places) = Default::default();
        let mut writer = self.begin_run()?;
        let mut merge = Merge::new(&writer.file, &runs, memory)?;
        let mut node = SortedNode::default();
        let mut bytes = Vec::new();
        while merge.next(&mut node)? {
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
            let failed = |error: std::io::Error| Error::io(&self.path, &error);
            if self.vfs.exists(&self.path).map_err(failed)? {
                // A crash came between the two calls below.
                self.vfs.remove(&self.path).map_err(failed)?;
            }
            let file = self.vfs.open(&self.path, OpenMode::CreateNew).map_err(failed)?;
            self.vfs.remove(&self.path).map_err(failed)?;
            self.file = Some(RunFile { file, end: 0 });
        }
        let run_file = self.file.as_mut().ok_or_else(|| Error::Internal("no file of runs".to_string()))?;
        let (start, file) = (run_file.end, run_file.file.clone());
        let buffer = IoBuffer::zeroed(SMALLEST_READ);
        Ok(RunWriter { run_file, file, start, bytes: 0, buffer, filled: 0 })
    }

    /// The nodes in order.
    pub fn finish(mut self) -> Result<SortedNodes> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(SortedNodes(Source::Memory { nodes: self.nodes, places: self.places, next: 0 }));
        }
        self.spill()?;
        (self.nodes, self.places) = Default::default();
        let file = self.file.as_ref().ok_or_else(|| Error::Internal("no file of runs".to_string()))?;
        Ok(SortedNodes(Source::Runs(Merge::new(&file.file, &self.runs, self.memory)?)))
    }
}

fn len_of(nodes: &[u8], at: u32) -> usize {
    let at = at as usize;
    usize::from(u16::from_le_bytes([nodes[at], nodes[at + 1]]))
}

fn order_of(nodes: &[u8], at: u32) -> &[u8] {
    &nodes[at as usize + PREFIX..][..len_of(nodes, at)]
}

fn stored(nodes: &[u8], at: u32) -> &[u8] {
    &nodes[at as usize..][..PREFIX + len_of(nodes, at)]
}

/// Nodes in order.
pub(crate) struct SortedNodes(Source);

enum Source {
    Memory { nodes: Vec<u8>, places: Vec<(u64, u32)>, next: usize },
    Runs(Merge),
}

impl SortedNodes {
    /// Passes on the next node. `false`: there is none.
    pub fn next(&mut self, node: &mut SortedNode) -> Result<bool> {
        match &mut self.0 {
            Source::Memory { nodes, places, next } => {
                let Some((_, at)) = places.get(*next) else { return Ok(false) };
                let key_at = *at as usize + 2;
                node.key_len = usize::from(u16::from_le_bytes([nodes[key_at], nodes[key_at + 1]]));
                node.bytes.clear();
                node.bytes.extend_from_slice(order_of(nodes, *at));
                *next += 1;
                Ok(true)
            }
            Source::Runs(merge) => merge.next(node),
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
        let failed = |error: std::io::Error| Error::io(self.file.path(), &error);
        self.file.grow(self.run_file.end + len as u64).map_err(failed)?;
        self.file
            .write_at(self.run_file.end, &self.buffer[..len], IoReason::BulkLoad)
            .map_err(|error| Error::io(self.file.path(), &error))?;
        self.run_file.end += len as u64;
        self.filled = 0;
        Ok(())
    }

    fn end(mut self) -> Result<Run> {
        if self.filled > 0 {
            self.write()?;
        }
        Ok(Run { start: self.start, bytes: self.bytes })
    }
}

/// Merges runs.
struct Merge {
    runs: Vec<RunReader>,
    /// The next node of each run.
    heads: BinaryHeap<Reverse<(SortedNode, usize)>>,
}

impl Merge {
    fn new(file: &Arc<dyn File>, runs: &[Run], memory: usize) -> Result<Merge> {
        let read = (memory / runs.len().max(1) / BLOCK * BLOCK).clamp(SMALLEST_READ, 1 << 20);
        let mut merge = Merge { runs: Vec::new(), heads: BinaryHeap::new() };
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

    fn next(&mut self, node: &mut SortedNode) -> Result<bool> {
        let Some(Reverse((mut smallest, number))) = self.heads.pop() else { return Ok(false) };
        std::mem::swap(node, &mut smallest);
        // The memory of the node before is used for the next one of the run.
        if self.runs[number].next(&mut smallest)? {
            self.heads.push(Reverse((smallest, number)));
        }
        Ok(true)
    }
}

/// Reads one run.
struct RunReader {
    file: Arc<dyn File>,
    at: u64,
    /// Bytes of the run that were not passed on.
    left: u64,
    buffer: IoBuffer,
    /// The part of the buffer that was not passed on.
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
        let failed = |error: &std::io::Error| Error::io(self.file.path(), error);
        let end = self.file.len().map_err(|error| failed(&error))?;
        let len = (self.buffer.len() as u64).min(end.saturating_sub(self.at)) as usize;
        if len == 0 {
            return Err(Error::Corrupt {
                path: self.file.path().to_path_buf(),
                page: None,
                what: "a run of a sort is cut off".to_string(),
            });
        }
        self.file
            .read_at(self.at, &mut self.buffer[..len], IoReason::BulkLoad)
            .map_err(|error| failed(&error))?;
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

    /// 1 MiB of memory holds about 16,000 nodes, so the largest case has 20 runs, which need a second merge.
    #[test]
    fn nodes_are_sorted_in_memory_and_in_runs() {
        for count in [0, 1, 1000, 40_000, 330_000] {
            let disk = SimVfs::new();
            disk.create_directory(Path::new("/db")).unwrap();
            let mut sorter = NodeSorter::new(Arc::new(disk.clone()), "/db/a.sort".into(), 2 << 20);
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
            let (mut sorted, mut node) = (sorter.finish().unwrap(), SortedNode::default());
            for (bytes, _) in &expected {
                assert!(sorted.next(&mut node).unwrap());
                assert_eq!([node.key(), node.data()].concat(), *bytes);
            }
            assert!(!sorted.next(&mut node).unwrap());
        }
    }
}
