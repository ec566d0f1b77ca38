//! Memory that the kernel can transfer into directly.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owned, zero-initialised bytes aligned to 4096, as O_DIRECT demands.
pub struct IoBuffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its allocation exclusively, as Box<[u8]> does.
unsafe impl Send for IoBuffer {}
// SAFETY: shared access only ever reads, as with Box<[u8]>.
unsafe impl Sync for IoBuffer {}

impl IoBuffer {
    /// Alignment of every buffer.
    pub const ALIGNMENT: usize = 4096;

    /// A zeroed buffer. Large allocations come from the kernel untouched, so memory is used only when written.
    pub fn zeroed(len: usize) -> IoBuffer {
        if len == 0 {
            return IoBuffer { start: NonNull::dangling(), len };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout has a non-zero size.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => IoBuffer { start, len },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, Self::ALIGNMENT).expect("buffer length fits the address space")
    }
}

impl Deref for IoBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes owned by self (dangling only for len 0).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), Self::layout(self.len)) }
        }
    }
}

impl std::fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuffer({} bytes)", self.len)
    }
}
