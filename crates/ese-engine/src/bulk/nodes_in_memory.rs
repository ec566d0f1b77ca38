//! The in-memory part of a sort.
//!
//! ```text
//!  node     u16 length | u16 key length | key, then data
//! ```

use jetcell_sync::Arc;

use crate::cache::{LoadBuffers, SortMemory};

/// Size in bytes of the length fields before each node.
pub(super) const PREFIX: usize = 4;

/// Number of nodes that [`SortedNodeBatches`] copies at a time.
const BATCH_NODES: usize = 64;

/// Nodes of a bulk load that are held in memory. On drop, the memory is returned to the load's buffers.
pub(super) struct NodesInMemory {
    memory: SortMemory,
    from: Arc<LoadBuffers>,
}

impl NodesInMemory {
    pub fn new(from: Arc<LoadBuffers>) -> NodesInMemory {
        NodesInMemory { memory: from.take_sort(), from }
    }

    /// Returns the number of bytes that a node of this length uses.
    pub fn node_size(len: usize) -> usize {
        PREFIX + len + size_of::<(u64, u32)>()
    }

    /// Returns the number of bytes that all nodes and their places use.
    pub fn used(&self) -> usize {
        self.memory.nodes.len() + self.memory.places.len() * size_of::<(u64, u32)>()
    }

    /// Adds a node. `len` is the combined length of the key and data.
    pub fn add(&mut self, len: u16, key_len: u16, key: &[u8], data: &[u8]) {
        let SortMemory { nodes, places } = &mut self.memory;
        let at = nodes.len() as u32;
        nodes.extend_from_slice(&len.to_le_bytes());
        nodes.extend_from_slice(&key_len.to_le_bytes());
        nodes.extend_from_slice(key);
        nodes.extend_from_slice(data);
        let mut first = [0; 8];
        let order = &nodes[at as usize + PREFIX..];
        let known = order.len().min(8);
        first[..known].copy_from_slice(&order[..known]);
        places.push((u64::from_be_bytes(first), at));
    }

    pub fn sort(&mut self) {
        let SortMemory { nodes, places } = &mut self.memory;
        let order = |at| &stored(nodes, at)[PREFIX..];
        places.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| order(a.1).cmp(order(b.1))));
    }

    /// Takes the memory and leaves this value empty.
    pub fn take_memory(&mut self) -> SortMemory {
        std::mem::take(&mut self.memory)
    }

    /// Clears `memory` and uses it for further nodes.
    pub fn supply_memory(&mut self, mut memory: SortMemory) {
        memory.clear();
        self.memory = memory;
    }
}

impl Drop for NodesInMemory {
    fn drop(&mut self) {
        let memory = self.take_memory();
        self.from.put_back_sort(memory);
    }
}

impl SortMemory {
    /// Returns the nodes in their stored form, in the order of their places, starting at index `from`.
    pub(super) fn in_order(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        let places = self.places.get(from..).unwrap_or_default();
        places.iter().map(|(_, at)| stored(&self.nodes, *at))
    }
}

/// Returns the node that starts at offset `at`.
fn stored(nodes: &[u8], at: u32) -> &[u8] {
    let node = &nodes[at as usize..];
    &node[..PREFIX + usize::from(u16::from_le_bytes([node[0], node[1]]))]
}

/// Returns sorted nodes one at a time, from a small buffer that is filled in batches.
///
/// Nodes that are adjacent in sort order are far apart in memory, so each access is a cache miss. Copying several
/// nodes in one loop lets the processor overlap these misses.
pub(super) struct SortedNodeBatches {
    sorted: NodesInMemory,
    /// Index of the next node that is not in `nodes`.
    next: usize,
    /// The current batch of nodes, in order.
    nodes: Vec<u8>,
    /// Offset in `nodes` of the next node to return.
    at: usize,
}

impl SortedNodeBatches {
    pub fn new(sorted: NodesInMemory) -> SortedNodeBatches {
        SortedNodeBatches { sorted, next: 0, nodes: Vec::new(), at: 0 }
    }

    /// Returns the key and the data of the next node.
    pub fn next(&mut self) -> Option<(&[u8], &[u8])> {
        if self.at == self.nodes.len() {
            self.nodes.clear();
            self.at = 0;
            let some = self.sorted.memory.in_order(self.next).take(BATCH_NODES);
            some.for_each(|node| self.nodes.extend_from_slice(node));
            self.next += BATCH_NODES;
            if self.nodes.is_empty() {
                return None;
            }
        }
        let node = stored(&self.nodes, self.at as u32);
        self.at += node.len();
        let key_len = usize::from(u16::from_le_bytes([node[2], node[3]]));
        Some(node[PREFIX..].split_at(key_len))
    }
}
