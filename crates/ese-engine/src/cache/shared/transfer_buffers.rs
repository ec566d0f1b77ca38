//! Buffers for transfers of pages to and from disk. They are limited in number, reused, and included in the cache's
//! memory limit.
//!
//! Invariant: `reserved + idle <= limit`, in pages. The entire length of every buffer in use is reserved, even if it
//! is longer than requested.

use std::collections::BTreeMap;

use jetcell_sync::{Condvar, Mutex, MutexGuard};
use jetcell_vfs::IoBuffer;

/// The pool of transfer buffers.
pub(in crate::cache) struct TransferBuffers {
    page_bytes: usize,
    limit: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    reserved: usize,
    idle: usize,
    /// Idle buffers, indexed by their length in pages.
    buffers: BTreeMap<usize, Vec<IoBuffer>>,
}

impl TransferBuffers {
    pub fn new(page_bytes: usize, limit: usize) -> TransferBuffers {
        TransferBuffers { page_bytes, limit, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Reserves between 1 and `want` pages. While no page is available, waits for transfers to complete.
    pub fn reserve(&self, want: usize) -> usize {
        let mut state = self.state.lock();
        while state.reserved >= self.limit {
            self.freed.wait(&mut state);
        }
        state.reserve(want, self.limit)
    }

    /// Reserves up to `want` pages without waiting. Returns 0 if no page is available.
    pub fn try_reserve(&self, want: usize) -> usize {
        self.state.lock().reserve(want, self.limit)
    }

    /// Cancels a reservation for which no buffer was taken.
    pub fn cancel(&self, pages: usize) {
        if pages > 0 {
            self.state.lock().reserved -= pages;
            self.freed.notify_all();
        }
    }

    /// Takes a buffer for reserved pages. Its content is arbitrary.
    pub fn take(&self, pages: usize) -> IoBuffer {
        let mut state = self.state.lock();
        // Runs have arbitrary lengths, so a longer buffer may be used as long as its extra pages are not reserved.
        let longest = (2 * pages).min(pages + self.limit.saturating_sub(state.reserved));
        let idle = state.buffers.range_mut(pages..=longest).find(|(_, buffers)| !buffers.is_empty());
        if let Some((size, mut buffer)) = idle.and_then(|(size, buffers)| Some((*size, buffers.pop()?))) {
            buffer.resize(pages * self.page_bytes);
            state.idle -= size;
            state.reserved += size - pages;
            return buffer;
        }
        self.fresh(state, pages)
    }

    /// Takes a buffer of exactly the reserved size. The caller may keep it for a long time.
    pub fn take_exact(&self, pages: usize) -> IoBuffer {
        self.fresh(self.state.lock(), pages)
    }

    fn fresh(&self, mut state: MutexGuard<'_, State>, pages: usize) -> IoBuffer {
        let mut surplus = Vec::new();
        while state.reserved + state.idle > self.limit {
            let Some((&size, buffers)) = state.buffers.iter_mut().rev().find(|(_, list)| !list.is_empty())
            else {
                break;
            };
            surplus.extend(buffers.pop());
            state.idle -= size;
        }
        drop(state);
        drop(surplus);
        IoBuffer::zeroed(pages * self.page_bytes)
    }

    /// Returns a buffer and ends its reservation.
    pub fn return_buffer(&self, buffer: IoBuffer) {
        let pages = buffer.capacity() / self.page_bytes;
        let mut state = self.state.lock();
        state.reserved -= pages;
        state.idle += pages;
        state.buffers.entry(pages).or_default().push(buffer);
        drop(state);
        self.freed.notify_all();
    }

    /// Returns the number of pages of memory that are in use or idle.
    pub fn pages(&self) -> usize {
        let state = self.state.lock();
        state.reserved + state.idle
    }
}

impl State {
    fn reserve(&mut self, want: usize, limit: usize) -> usize {
        let granted = want.min(limit.saturating_sub(self.reserved));
        self.reserved += granted;
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_buffers_are_freed_when_other_sizes_need_their_memory() {
        let buffers = TransferBuffers::new(4096, 4);
        assert_eq!(buffers.reserve(9), 4);
        assert_eq!(buffers.try_reserve(1), 0);
        let small: Vec<_> = (0..4).map(|_| buffers.take(1)).collect();
        small.into_iter().for_each(|buffer| buffers.return_buffer(buffer));
        assert_eq!(buffers.pages(), 4);
        assert_eq!(buffers.reserve(3), 3);
        let large = buffers.take(3);
        assert_eq!(buffers.pages(), 4, "three small buffers were freed");
        buffers.return_buffer(large);
        assert_eq!(buffers.try_reserve(2), 2);
        let part = buffers.take(2);
        assert_eq!(
            (part.len(), buffers.pages(), buffers.try_reserve(9)),
            (2 * 4096, 4, 1),
            "the buffer of three pages is used"
        );
        buffers.cancel(1);
        buffers.return_buffer(part);
        assert_eq!(buffers.try_reserve(9), 4);
    }
}
