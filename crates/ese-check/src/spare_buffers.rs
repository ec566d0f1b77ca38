//! Buffers of reads that have ended, for further reads. Fresh memory costs more processor time than the checksums of what is
//! read into it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jetcell_vfs::IoBuffer;

/// Buffers that are kept at most: 12 MiB of the largest, most of those of a walk with two threads.
const KEPT: usize = 48;

/// The buffers of one check.
#[derive(Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<IoBuffer>>);

impl SpareBuffers {
    fn buffers(&self) -> MutexGuard<'_, Vec<IoBuffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of this length with arbitrary content.
    pub(crate) fn take(&self, len: usize) -> IoBuffer {
        let mut buffers = self.buffers();
        let found = buffers.iter().rposition(|buffer| buffer.len() == len);
        let spare = found.map(|at| buffers.swap_remove(at));
        drop(buffers);
        spare.unwrap_or_else(|| IoBuffer::zeroed(len))
    }

    /// Keeps buffers, in place of the oldest ones.
    pub(crate) fn put_back(&self, returned: Vec<IoBuffer>) {
        let mut buffers = self.buffers();
        buffers.extend(returned);
        let surplus = buffers.len().saturating_sub(KEPT);
        let surplus: Vec<IoBuffer> = buffers.drain(..surplus).collect();
        drop(buffers);
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_the_same_length_are_used_again_and_few_are_kept() {
        let spare = SpareBuffers::default();
        let mut large = spare.take(8192);
        large[0] = 7;
        spare.put_back(vec![large, IoBuffer::zeroed(4096)]);
        assert_eq!((spare.take(8192)[0], spare.take(8192)[0]), (7, 0));
        spare.put_back((0..2 * KEPT).map(|_| IoBuffer::zeroed(4096)).collect());
        assert_eq!(spare.buffers().len(), KEPT);
    }
}
