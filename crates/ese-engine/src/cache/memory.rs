//! Memory for frames: taken from the system in slabs as frames are used for the first time.
//!
//! Invariant: never more than one page per frame.

use jetcell_sync::Mutex;
use jetcell_vfs::IoBuffer;

/// A compromise between allocator overhead per page and memory taken too early.
const SLAB_BYTES: usize = 1 << 20;

/// Where frames get their memory.
pub(super) struct Memory {
    page_bytes: usize,
    state: Mutex<State>,
}

struct State {
    ready: Vec<IoBuffer>,
    /// Pages that may still be asked from the system.
    left: usize,
    taken: usize,
}

impl Memory {
    pub fn new(page_bytes: usize, pages: usize) -> Memory {
        Memory { page_bytes, state: Mutex::new(State { ready: Vec::new(), left: pages, taken: 0 }) }
    }

    /// The page of a frame that had none.
    pub fn take(&self) -> IoBuffer {
        let mut state = self.state.lock();
        state.taken += 1;
        if let Some(page) = state.ready.pop() {
            return page;
        }
        let count = (SLAB_BYTES / self.page_bytes).min(state.left).max(1);
        state.left = state.left.saturating_sub(count);
        // Pages of 2 KiB cannot lie side by side at the alignment that transfers need.
        if self.page_bytes.is_multiple_of(IoBuffer::ALIGNMENT) {
            state.ready = IoBuffer::slab(count, self.page_bytes);
            state.ready.reverse();
        }
        state.ready.pop().unwrap_or_else(|| IoBuffer::zeroed(self.page_bytes))
    }

    /// Takes back the page of a frame, and gives its memory to the system until it is taken again.
    pub fn give_up(&self, mut page: IoBuffer) {
        if page.is_empty() {
            return;
        }
        page.discard();
        let mut state = self.state.lock();
        state.taken -= 1;
        state.ready.push(page);
    }

    /// Pages that frames have.
    pub fn taken(&self) -> usize {
        self.state.lock().taken
    }
}
