//! Pool of reusable read buffers. Allocating new memory takes more processor time than computing the checksums of the
//! data read into it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jetcell_vfs::IoBuffer;

/// Maximum number of pooled buffers shorter than [`SpareBuffers::MAX_LEN`]. They use up to 4 MiB.
const MAX_POOLED: usize = 16;

/// A pool of spare buffers for one check.
#[derive(Default)]
pub(crate) struct SpareBuffers(Mutex<PooledBuffers>);

#[derive(Default)]
struct PooledBuffers {
    /// Full-length buffers, which are parts of huge pages. A disk accepts a limited number of memory segments per
    /// transfer, and 256 KiB in 4 KiB pages would take 64 segments. All of these buffers are pooled, so there are at
    /// most seven more than were in use at one time.
    full_size: Vec<IoBuffer>,
    /// Shorter buffers, oldest first.
    shorter: Vec<IoBuffer>,
}

impl SpareBuffers {
    /// Length in bytes of the longest transfers.
    pub(crate) const MAX_LEN: usize = 256 * 1024;

    fn buffers(&self) -> MutexGuard<'_, PooledBuffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a buffer of this length with arbitrary contents.
    pub(crate) fn take(&self, len: usize) -> IoBuffer {
        let mut buffers = self.buffers();
        let spare = if len == Self::MAX_LEN {
            if buffers.full_size.is_empty() {
                buffers.full_size = IoBuffer::huge_slab(len).unwrap_or_default();
            }
            buffers.full_size.pop()
        } else {
            let found = buffers.shorter.iter().rposition(|buffer| buffer.len() == len);
            found.map(|at| buffers.shorter.swap_remove(at))
        };
        drop(buffers);
        spare.unwrap_or_else(|| IoBuffer::zeroed(len))
    }

    /// Returns buffers to the pool. If the pool is full of short buffers, new ones replace the oldest.
    pub(crate) fn give_back(&self, returned: Vec<IoBuffer>) {
        let mut buffers = self.buffers();
        let (whole, parts): (Vec<_>, Vec<_>) =
            returned.into_iter().partition(|buffer| buffer.len() == Self::MAX_LEN);
        buffers.full_size.extend(whole);
        buffers.shorter.extend(parts);
        let surplus = buffers.shorter.len().saturating_sub(MAX_POOLED);
        let surplus: Vec<IoBuffer> = buffers.shorter.drain(..surplus).collect();
        drop(buffers);
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_length_buffers_are_reused_and_few_are_pooled() {
        let spare = SpareBuffers::default();
        let mut large = spare.take(8192);
        large[0] = 7;
        spare.give_back(vec![large, IoBuffer::zeroed(4096)]);
        assert_eq!((spare.take(8192)[0], spare.take(8192)[0]), (7, 0));
        spare.give_back((0..2 * MAX_POOLED).map(|_| IoBuffer::zeroed(4096)).collect());
        assert_eq!(spare.buffers().shorter.len(), MAX_POOLED);
        let whole: Vec<IoBuffer> = (0..9).map(|_| spare.take(SpareBuffers::MAX_LEN)).collect();
        assert_eq!(spare.buffers().full_size.len(), 7, "two huge pages have eight each");
        spare.give_back(whole);
        assert_eq!(spare.buffers().full_size.len(), 16);
    }
}
