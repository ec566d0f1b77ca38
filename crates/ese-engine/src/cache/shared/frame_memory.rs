//! Frame memory, allocated from the system in slabs when frames are first used.
//!
//! Invariant: at most one page of memory per frame.

use jetcell_sync::Mutex;
use jetcell_vfs::IoBuffer;

/// Size of a slab in bytes. A compromise between per-page allocator overhead and allocating memory too early.
const SLAB_BYTES: usize = 1 << 20;

/// Allocates memory for cache frames.
pub(in crate::cache) struct FrameMemory {
    page_bytes: usize,
    state: Mutex<State>,
}

struct State {
    ready: Vec<IoBuffer>,
    /// Number of pages that may still be requested from the system.
    left: usize,
    taken: usize,
}

impl FrameMemory {
    pub fn new(page_bytes: usize, pages: usize) -> FrameMemory {
        FrameMemory { page_bytes, state: Mutex::new(State { ready: Vec::new(), left: pages, taken: 0 }) }
    }

    /// Allocates memory for a frame. Returns `None` if the system does not provide more memory.
    pub fn take(&self) -> Option<IoBuffer> {
        let mut state = self.state.lock();
        if state.ready.is_empty() {
            let count = (SLAB_BYTES / self.page_bytes).min(state.left).max(1);
            // In a slab, 2 KiB pages would not have the alignment that transfers need.
            if self.page_bytes.is_multiple_of(IoBuffer::ALIGNMENT) {
                state.ready = IoBuffer::slab(count, self.page_bytes)?;
                state.ready.reverse();
            } else {
                state.ready.push(IoBuffer::try_zeroed(self.page_bytes)?);
            }
            state.left = state.left.saturating_sub(count);
        }
        let page = state.ready.pop()?;
        state.taken += 1;
        Some(page)
    }

    /// Takes back the memory of a frame. Until it is allocated again, the system can use the memory for other
    /// purposes.
    pub fn release(&self, mut page: IoBuffer) {
        if page.is_empty() {
            return;
        }
        page.discard();
        let mut state = self.state.lock();
        state.taken -= 1;
        state.ready.push(page);
    }

    /// Returns the number of pages of memory that frames own.
    pub fn taken(&self) -> usize {
        self.state.lock().taken
    }
}
