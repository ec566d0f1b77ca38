//! Buffers for the transfers and sorts of bulk loads.

use jetcell_sync::Mutex;
use jetcell_vfs::IoBuffer;

/// Buffers that the trees of a bulk load use one after another. Several loads can share them
/// ([`BulkLoadOptions::buffers`](crate::BulkLoadOptions::buffers)).
///
/// Buffers are reused because touching fresh memory for the first time takes more processor time than copying data into
/// it.
#[derive(Default)]
pub struct LoadBuffers {
    free: Mutex<Vec<IoBuffer>>,
    free_sorts: Mutex<Vec<SortMemory>>,
}

/// Memory for sorting an index.
#[derive(Default)]
pub(crate) struct SortMemory {
    /// Concatenated nodes.
    pub nodes: Vec<u8>,
    /// The first bytes of each node, as a number, and the node's offset in `nodes`.
    pub places: Vec<(u64, u32)>,
}

impl SortMemory {
    /// Removes all nodes.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.places.clear();
    }
}

impl LoadBuffers {
    /// Takes a buffer of `len` bytes with arbitrary content. The buffer may grow to `capacity`.
    pub(crate) fn take(&self, len: usize, capacity: usize) -> IoBuffer {
        let mut free = self.free.lock();
        // The most recently used buffer may still be in the processor caches.
        if let Some(at) = free.iter().rposition(|buffer| buffer.capacity() == capacity) {
            let mut buffer = free.remove(at);
            buffer.resize(len);
            return buffer;
        }
        // Small buffers are allocated together in huge pages. The kernel clears and maps a huge page about as fast as
        // a few small pages.
        let is_together = capacity <= IoBuffer::HUGE / 2 && IoBuffer::HUGE.is_multiple_of(capacity);
        let new = if is_together { IoBuffer::huge_slab(capacity) } else { None };
        let mut new = new.unwrap_or_default();
        let mut buffer = new.pop().unwrap_or_else(|| IoBuffer::zeroed(capacity));
        free.append(&mut new);
        drop(free);
        buffer.resize(len);
        buffer
    }

    /// Returns a buffer to the pool.
    pub(crate) fn put_back(&self, buffer: IoBuffer) {
        self.free.lock().push(buffer);
    }

    /// Takes memory for a sort. It contains no nodes.
    pub(crate) fn take_sort(&self) -> SortMemory {
        self.free_sorts.lock().pop().unwrap_or_default()
    }

    /// Returns the memory of a sort to the pool.
    pub(crate) fn put_back_sort(&self, mut memory: SortMemory) {
        if memory.nodes.capacity() > 0 {
            memory.clear();
            self.free_sorts.lock().push(memory);
        }
    }
}

impl std::fmt::Debug for LoadBuffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadBuffers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_buffer_gets_the_requested_length() {
        let buffers = LoadBuffers::default();
        let (mut first, second) = (buffers.take(1 << 20, 1 << 20), buffers.take(8192, 1 << 20));
        assert_eq!((first.len(), second.len(), second.capacity()), (1 << 20, 8192, 1 << 20));
        first[0] = 7;
        let place = first.as_ptr();
        buffers.put_back(first);
        let other = buffers.take(4096, 4096);
        assert_ne!(other.as_ptr(), place, "a buffer of another length");
        let again = buffers.take(4096, 1 << 20);
        assert_eq!((again.as_ptr(), again.len(), again[0]), (place, 4096, 7));
        // A huge page cannot be divided evenly into buffers of this capacity.
        assert_eq!(buffers.take(12 << 10, 12 << 10).len(), 12 << 10);
    }
}
