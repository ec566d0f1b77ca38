//! Buffers of transfers, kept for the next ones: new memory costs a fault for each page of it.

use jetcell_sync::Arc;
use jetcell_vfs::IoBuffer;

use crate::geometry::BLOCK;

/// Shorter ones come from the allocator, which has them at hand.
const SHORTEST: usize = 32 << 10;
/// Bytes that are kept at most.
const MOST_KEPT: usize = 64 << 20;

/// Buffers of blocks that are kept.
const MOST_BLOCKS: usize = 16384;

/// Buffers that no transfer uses.
#[derive(Default)]
pub(super) struct Buffers {
    /// In ascending order of their capacity.
    kept: Vec<IoBuffer>,
    bytes: usize,
    /// For single blocks.
    blocks: Vec<IoBuffer>,
}

impl Buffers {
    /// A buffer of this length, with any content: the caller writes all of it.
    pub fn take(&mut self, len: usize) -> IoBuffer {
        if len < SHORTEST {
            return IoBuffer::zeroed(len);
        }
        // Few sizes, so that buffers fit again. A huge page has room for seven transfers of a whole zone.
        let capacity = len.next_multiple_of(len.next_power_of_two() / 16);
        let place = self.kept.partition_point(|buffer| buffer.capacity() < len);
        let found = self.kept.get(place).is_some_and(|buffer| buffer.capacity() <= 2 * capacity);
        let mut buffer = if found {
            let buffer = self.kept.remove(place);
            self.bytes -= buffer.capacity();
            buffer
        } else {
            self.new_buffer(capacity)
        };
        buffer.resize(len);
        buffer
    }

    /// A buffer for a block, with any content. If many are needed, they come in huge pages, where they are copied faster.
    pub fn take_block(&mut self, are_many: bool) -> IoBuffer {
        if self.blocks.is_empty() && are_many {
            self.blocks = IoBuffer::huge_slab(BLOCK).unwrap_or_default();
        }
        self.blocks.pop().unwrap_or_else(|| IoBuffer::zeroed(BLOCK))
    }

    /// Takes the buffer of a block back, unless others use it.
    pub fn keep_block(&mut self, block: Arc<IoBuffer>) {
        if self.blocks.len() < MOST_BLOCKS {
            self.blocks.extend(Arc::into_inner(block));
        }
    }

    /// A buffer of one of few sizes, so that it fits the next transfer, too. In a huge page, a transfer is one segment: a device takes
    /// a limited number of them at a time, which 4 KiB each would use up.
    fn new_buffer(&mut self, capacity: usize) -> IoBuffer {
        // Those of other sizes make room for the rest of its huge page.
        while self.bytes + IoBuffer::HUGE > MOST_KEPT
            && let Some(at) = self.kept.iter().rposition(|buffer| buffer.capacity() != capacity)
        {
            self.bytes -= self.kept.remove(at).capacity();
        }
        let mut new = if capacity <= IoBuffer::HUGE / 2 { IoBuffer::huge_slab(capacity) } else { None }
            .unwrap_or_default();
        let buffer = new.pop().unwrap_or_else(|| IoBuffer::zeroed(capacity));
        new.into_iter().for_each(|buffer| self.keep(buffer));
        buffer
    }

    /// Takes a buffer back.
    pub fn keep(&mut self, buffer: IoBuffer) {
        let capacity = buffer.capacity();
        if capacity < SHORTEST || self.bytes + capacity > MOST_KEPT {
            return;
        }
        self.bytes += capacity;
        let place = self.kept.partition_point(|other| other.capacity() < capacity);
        self.kept.insert(place, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_for_transfers_of_its_size_only() {
        let mut buffers = Buffers::default();
        let mut first = buffers.take(100 << 10);
        first.fill(1);
        let start = first.as_ptr();
        buffers.keep(first);
        assert!(buffers.take(600 << 10).as_ptr() != start, "it is too short");
        let again = buffers.take(104 << 10);
        assert_eq!((again.as_ptr(), again.len()), (start, 104 << 10));
        assert!(buffers.take(100 << 10).as_ptr() != start, "it is in use");
        buffers.keep(IoBuffer::zeroed(1 << 20));
        assert!(buffers.take(40 << 10).capacity() < 1 << 20, "it would be wasted");
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let mut buffers = Buffers::default();
        for _ in 0..3 * MOST_KEPT / (1 << 20) {
            buffers.keep(IoBuffer::zeroed(1 << 20));
        }
        assert_eq!((buffers.bytes, buffers.kept.len()), (MOST_KEPT, MOST_KEPT >> 20));
        buffers.keep(IoBuffer::zeroed(4096));
        assert_eq!(buffers.kept.len(), MOST_KEPT >> 20);
    }
}
