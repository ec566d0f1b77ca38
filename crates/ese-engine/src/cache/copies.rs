//! Memory for copies of pages on their way to or from the disk: bounded, reused, counted in the cache's limit.
//!
//! Invariant: `reserved + idle <= limit`, in pages; every buffer taken is covered by a reservation, in its whole length
//! if it is longer than what was asked for.

use std::collections::BTreeMap;

use jetcell_sync::{Condvar, Mutex};
use jetcell_vfs::IoBuffer;

/// The pool of copies.
pub(super) struct Copies {
    page_bytes: usize,
    limit: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    reserved: usize,
    idle: usize,
    /// Idle buffers by their length in pages.
    buffers: BTreeMap<usize, Vec<IoBuffer>>,
}

impl Copies {
    pub fn new(page_bytes: usize, limit: usize) -> Copies {
        Copies { page_bytes, limit, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Reserves between 1 and `want` pages; waits for transfers to end while there is none.
    pub fn reserve(&self, want: usize) -> usize {
        let mut state = self.state.lock();
        while state.reserved >= self.limit {
            self.freed.wait(&mut state);
        }
        state.reserve(want, self.limit)
    }

    /// Reserves up to `want` pages, perhaps none.
    pub fn try_reserve(&self, want: usize) -> usize {
        self.state.lock().reserve(want, self.limit)
    }

    /// Gives back a reservation that no buffer was taken for.
    pub fn cancel(&self, pages: usize) {
        if pages > 0 {
            self.state.lock().reserved -= pages;
            self.freed.notify_all();
        }
    }

    /// A buffer of reserved pages with arbitrary content.
    pub fn take(&self, pages: usize) -> IoBuffer {
        let mut state = self.state.lock();
        // A buffer that is somewhat longer does as well, if nobody was promised the rest: runs of all lengths come in turn.
        let longest = (2 * pages).min(pages + self.limit.saturating_sub(state.reserved));
        let idle = state.buffers.range_mut(pages..=longest).find(|(_, buffers)| !buffers.is_empty());
        if let Some((size, mut buffer)) = idle.and_then(|(size, buffers)| Some((*size, buffers.pop()?))) {
            buffer.resize(pages * self.page_bytes);
            state.idle -= size;
            state.reserved += size - pages;
            return buffer;
        }
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

    /// Ends the use of a buffer and its reservation.
    pub fn give(&self, buffer: IoBuffer) {
        let pages = buffer.capacity() / self.page_bytes;
        let mut state = self.state.lock();
        state.reserved -= pages;
        state.idle += pages;
        state.buffers.entry(pages).or_default().push(buffer);
        drop(state);
        self.freed.notify_all();
    }

    /// Pages of memory held now.
    pub fn held(&self) -> usize {
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
    fn idle_buffers_make_room_for_other_sizes() {
        let copies = Copies::new(4096, 4);
        assert_eq!(copies.reserve(9), 4);
        assert_eq!(copies.try_reserve(1), 0);
        let small: Vec<_> = (0..4).map(|_| copies.take(1)).collect();
        small.into_iter().for_each(|buffer| copies.give(buffer));
        assert_eq!(copies.held(), 4);
        assert_eq!(copies.reserve(3), 3);
        let large = copies.take(3);
        assert_eq!(copies.held(), 4, "three small buffers went");
        copies.give(large);
        assert_eq!(copies.try_reserve(2), 2);
        let part = copies.take(2);
        assert_eq!(
            (part.len(), copies.held(), copies.try_reserve(9)),
            (2 * 4096, 4, 1),
            "the buffer of three"
        );
        copies.cancel(1);
        copies.give(part);
        assert_eq!(copies.try_reserve(9), 4);
    }
}
