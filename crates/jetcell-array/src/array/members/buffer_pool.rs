//! A pool of transfer buffers. Buffers are reused because newly allocated memory causes a page fault for each of its
//! pages.

use jetcell_vfs::IoBuffer;

use crate::geometry::BLOCK;
use crate::shared_block::SharedBlock;

/// Minimum length of a pooled buffer, in bytes. Shorter buffers come from the allocator, which has its own pools for
/// them.
pub(crate) const MIN_POOLED_BYTES: usize = 32 << 10;
/// Maximum number of bytes in the pool.
const MAX_POOLED_BYTES: usize = 64 << 20;

/// Maximum number of pooled buffers for single blocks.
const MAX_POOLED_BLOCKS: usize = 16384;

/// Pool of buffers that are not in use by any transfer.
#[derive(Default)]
pub(crate) struct BufferPool {
    /// Pooled buffers in ascending order of capacity. Each comes with the value of `return_count` at the time when it
    /// was last returned.
    pooled: Vec<(IoBuffer, u64)>,
    bytes: usize,
    /// Number of buffers returned to the pool so far.
    return_count: u64,
    /// Pooled buffers for single blocks.
    blocks: Vec<IoBuffer>,
}

impl BufferPool {
    /// Returns a buffer of this length. Its content is arbitrary, so the caller must overwrite all of it.
    pub fn take(&mut self, len: usize) -> IoBuffer {
        if len < MIN_POOLED_BYTES {
            return IoBuffer::zeroed(len);
        }
        // Capacities are rounded up to one of a few sizes, so a buffer can be reused for many later transfers. A huge
        // page has room for seven whole-zone transfers.
        let capacity = len.next_multiple_of(len.next_power_of_two() / 16);
        self.take_up_to(len, capacity, 2 * capacity)
    }

    /// Returns a buffer whose length and capacity are `len`, with arbitrary content.
    pub fn take_exact(&mut self, len: usize) -> IoBuffer {
        self.take_up_to(len, len, len)
    }

    /// Returns a pooled buffer of this length with a capacity of at most `most`, or a new buffer of capacity `new`.
    fn take_up_to(&mut self, len: usize, new: usize, most: usize) -> IoBuffer {
        let place = self.pooled.partition_point(|(buffer, _)| buffer.capacity() < len);
        let found = self.pooled.get(place).is_some_and(|(buffer, _)| buffer.capacity() <= most);
        let mut buffer = if found { self.remove(place) } else { self.new_buffer(new) };
        buffer.resize(len);
        buffer
    }

    /// Returns a buffer for one block, with arbitrary content. If `are_many` is set, new buffers are allocated in
    /// huge pages, where copies are faster.
    pub fn take_block(&mut self, are_many: bool) -> IoBuffer {
        if self.blocks.is_empty() && are_many {
            self.blocks = IoBuffer::huge_slab(BLOCK).unwrap_or_default();
        }
        self.blocks.pop().unwrap_or_else(|| IoBuffer::zeroed(BLOCK))
    }

    /// Puts a block's buffer back into the pool, unless the block is still shared.
    pub fn recycle_block(&mut self, block: SharedBlock) {
        let Some(buffer) = block.into_buffer() else { return };
        if buffer.capacity() != BLOCK {
            self.recycle(buffer);
        } else if self.blocks.len() < MAX_POOLED_BLOCKS {
            self.blocks.push(buffer);
        }
    }

    /// Puts the buffers of blocks back into the pool, unless they are still shared.
    pub fn recycle_blocks(&mut self, blocks: impl IntoIterator<Item = SharedBlock>) {
        blocks.into_iter().for_each(|block| self.recycle_block(block));
    }

    /// Returns a copy of the content of a block. If `are_many` is set, new buffers are allocated in huge pages.
    pub fn copy_to_block(&mut self, content: &[u8], are_many: bool) -> SharedBlock {
        let mut buffer = self.take_block(are_many);
        buffer.copy_from_slice(content);
        buffer.into()
    }

    /// Allocates a buffer of one of a few sizes, so it can be reused for later transfers. Within a huge page, a
    /// transfer is a single segment. A device accepts only a limited number of segments at a time, and 4 KiB segments
    /// would exhaust that limit.
    fn new_buffer(&mut self, capacity: usize) -> IoBuffer {
        let mut new = if capacity <= IoBuffer::HUGE / 2 { IoBuffer::huge_slab(capacity) } else { None }
            .unwrap_or_default();
        let buffer = new.pop().unwrap_or_else(|| IoBuffer::zeroed(capacity));
        new.into_iter().for_each(|buffer| self.recycle(buffer));
        buffer
    }

    fn remove(&mut self, place: usize) -> IoBuffer {
        let (buffer, _) = self.pooled.remove(place);
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Puts a buffer into the pool. To make room, the least recently returned buffers are freed.
    pub fn recycle(&mut self, buffer: IoBuffer) {
        let capacity = buffer.capacity();
        if !(MIN_POOLED_BYTES..=MAX_POOLED_BYTES).contains(&capacity) {
            return;
        }
        while self.bytes + capacity > MAX_POOLED_BYTES
            && let Some((oldest, _)) = self.pooled.iter().enumerate().min_by_key(|(_, (_, number))| *number)
        {
            self.remove(oldest);
        }
        self.bytes += capacity;
        self.return_count += 1;
        let place = self.pooled.partition_point(|(other, _)| other.capacity() < capacity);
        self.pooled.insert(place, (buffer, self.return_count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused_only_for_same_size_transfers() {
        let mut buffers = BufferPool::default();
        let mut first = buffers.take(100 << 10);
        first.fill(1);
        let start = first.as_ptr();
        buffers.recycle(first);
        assert!(buffers.take(600 << 10).as_ptr() != start, "it is too short");
        let again = buffers.take(104 << 10);
        assert_eq!((again.as_ptr(), again.len()), (start, 104 << 10));
        assert!(buffers.take(100 << 10).as_ptr() != start, "it is in use");
        buffers.recycle(IoBuffer::zeroed(1 << 20));
        assert!(buffers.take(40 << 10).capacity() < 1 << 20, "it would be wasted");
    }

    #[test]
    fn the_pool_retains_at_most_the_limit() {
        let mut buffers = BufferPool::default();
        for _ in 0..3 * MAX_POOLED_BYTES / (1 << 20) {
            buffers.recycle(IoBuffer::zeroed(1 << 20));
        }
        assert_eq!((buffers.bytes, buffers.pooled.len()), (MAX_POOLED_BYTES, MAX_POOLED_BYTES >> 20));
        buffers.recycle(IoBuffer::zeroed(4096));
        assert_eq!(buffers.pooled.len(), MAX_POOLED_BYTES >> 20);
    }

    #[test]
    fn unused_buffers_are_replaced_by_buffers_of_another_size() {
        let mut buffers = BufferPool::default();
        (0..300).for_each(|_| buffers.recycle(IoBuffer::zeroed(256 << 10)));
        for round in 0..3 {
            let taken: Vec<IoBuffer> = (0..16).map(|_| buffers.take(600 << 10)).collect();
            let mut starts: Vec<_> =
                taken.iter().map(|buffer| (buffer.as_ptr(), buffer.capacity())).collect();
            taken.into_iter().for_each(|buffer| buffers.recycle(buffer));
            let again: Vec<_> =
                (0..16).map(|_| buffers.take(600 << 10)).map(|buffer| (buffer.as_ptr(), buffer)).collect();
            starts.retain(|(start, _)| !again.iter().any(|(other, _)| other == start));
            assert!(starts.is_empty(), "round {round}: {starts:?}");
            again.into_iter().for_each(|(_, buffer)| buffers.recycle(buffer));
        }
    }
}
