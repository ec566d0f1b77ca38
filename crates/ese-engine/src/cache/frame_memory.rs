//! Memory of frames, taken from the system in slabs when frames are used for the first time.
//!
//! Invariant: never more than one page per frame.

use jetcell_sync::Mutex;
use jetcell_vfs::IoBuffer;

/// A compromise between allocator overhead per page and memory taken too early.
const SLAB_BYTES: usize = 1 << 20;

/// Allocates the memory of frames.
pub(super) struct FrameMemory {
    page_bytes: usize,
    state: Mutex<State>,
}

struct State {
    ready: Vec<IoBuffer>,
    /// Pages that may still be requested from the system.
    left: usize,
    taken: usize,
}

impl FrameMemory {
    pub fn new(page_bytes: usize, pages: usize) -> FrameMemory {
        FrameMemory { page_bytes, state: Mutex::new(State { ready: Vec::new(), left: pages, taken: 0 }) }
    }

    /// Memory for a frame that has none; `None` if the system refuses more memory.
    pub fn take(&self) -> Option<IoBuffer> {
        let mut state = self.state.lock();
        if state.ready.is_empty() {
            let count = (SLAB_BYTES / self.page_bytes).min(state.left).max(1);
            // Adjacent pages of 2 KiB would not have the alignment that transfers need.
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

    /// Takes the memory of a frame back. The system can use it until it is taken again.
    pub fn release(&self, mut page: IoBuffer) {
        if page.is_empty() {
            return;
        }
        page.discard();
        let mut state = self.state.lock();
        state.taken -= 1;
        state.ready.push(page);
    }

    /// Pages of memory that frames have.
    pub fn taken(&self) -> usize {
        self.state.lock().taken
    }
}
