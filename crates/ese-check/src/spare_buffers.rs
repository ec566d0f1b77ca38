//! Buffers of reads that have ended, for further reads. Fresh memory costs more processor time than the checksums of what is
//! read into it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jetcell_vfs::IoBuffer;

/// Buffers shorter than [`SpareBuffers::WHOLE`] that are kept at most, in 4 MiB.
const KEPT: usize = 16;

/// The buffers of one check.
#[derive(Default)]
pub(crate) struct SpareBuffers(Mutex<Buffers>);

#[derive(Default)]
struct Buffers {
    /// Parts of huge pages: a disk takes a limited number of pieces of memory in one transfer, and 256 KiB in pages of 4 KiB are 64. All are
    /// kept, so that there are at most seven more than were in use at a time.
    whole: Vec<IoBuffer>,
    /// Shorter ones, the oldest first.
    parts: Vec<IoBuffer>,
}

impl SpareBuffers {
    /// Length of the longest transfers.
    pub(crate) const WHOLE: usize = 256 * 1024;

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of this length with arbitrary content.
    pub(crate) fn take(&self, len: usize) -> IoBuffer {
        let mut buffers = self.buffers();
        let spare = if len == Self::WHOLE {
            if buffers.whole.is_empty() {
                buffers.whole = IoBuffer::huge_slab(len).unwrap_or_default();
            }
            buffers.whole.pop()
        } else {
            let found = buffers.parts.iter().rposition(|buffer| buffer.len() == len);
            found.map(|at| buffers.parts.swap_remove(at))
        };
        drop(buffers);
        spare.unwrap_or_else(|| IoBuffer::zeroed(len))
    }

    /// Keeps buffers, short ones in place of the oldest.
    pub(crate) fn put_back(&self, returned: Vec<IoBuffer>) {
        let mut buffers = self.buffers();
        let (whole, parts): (Vec<_>, Vec<_>) =
            returned.into_iter().partition(|buffer| buffer.len() == Self::WHOLE);
        buffers.whole.extend(whole);
        buffers.parts.extend(parts);
        let surplus = buffers.parts.len().saturating_sub(KEPT);
        let surplus: Vec<IoBuffer> = buffers.parts.drain(..surplus).collect();
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
        assert_eq!(spare.buffers().parts.len(), KEPT);
        let whole: Vec<IoBuffer> = (0..9).map(|_| spare.take(SpareBuffers::WHOLE)).collect();
        assert_eq!(spare.buffers().whole.len(), 7, "two huge pages have eight each");
        spare.put_back(whole);
        assert_eq!(spare.buffers().whole.len(), 16);
    }
}
