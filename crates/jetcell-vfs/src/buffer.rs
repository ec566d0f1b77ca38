//! Memory that the kernel can transfer into directly.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use jetcell_sync::Arc;

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Owned, zero-initialised bytes aligned to 4096, as O_DIRECT demands.
pub struct IoBuffer {
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the allocation; those behind `len` are not in use.
    capacity: usize,
    /// The slab that this buffer is a part of, unless it has an allocation of its own.
    slab: Option<Arc<IoBuffer>>,
}

// SAFETY: the buffer owns its bytes exclusively, as Box<[u8]> does; parts of a slab do not overlap, and the slab's own
// handle is never dereferenced.
unsafe impl Send for IoBuffer {}
// SAFETY: shared access only ever reads, as with Box<[u8]>.
unsafe impl Sync for IoBuffer {}

impl IoBuffer {
    /// Alignment of every buffer.
    pub const ALIGNMENT: usize = 4096;
    /// Buffers of a multiple of this size use huge pages. A device receives a transfer as physically contiguous
    /// segments, and the number of segments that it accepts limits the transfers in flight: 256 KiB may be 64 segments,
    /// or one. The kernel takes discarded parts of a huge page back only when it needs memory.
    pub const HUGE: usize = 2 << 20;

    /// A zeroed buffer. Memory that the allocator has just obtained from the kernel is not touched, so it is taken only
    /// when it is written.
    pub fn zeroed(len: usize) -> IoBuffer {
        IoBuffer::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(Self::layout(len)))
    }

    /// Like [`IoBuffer::zeroed`], or `None` if the system has no memory for it.
    pub fn try_zeroed(len: usize) -> Option<IoBuffer> {
        if len == 0 {
            return Some(IoBuffer { start: NonNull::dangling(), len, capacity: len, slab: None });
        }
        let layout = Self::layout(len);
        // SAFETY: the layout has a non-zero size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        if layout.align() == Self::HUGE {
            // Advice only: an error changes nothing.
            // SAFETY: the range was just allocated with this alignment and length, and the advice changes no byte.
            let _ =
                unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, rustix::mm::Advice::LinuxHugepage) };
        }
        Some(IoBuffer { start, len, capacity: len, slab: None })
    }

    /// `count` zeroed buffers of `len` bytes, a multiple of the alignment, side by side in one allocation. Single
    /// aligned allocations waste up to a page each. The memory is freed with the last of them. `None` if the system has no
    /// memory for them.
    pub fn slab(count: usize, len: usize) -> Option<Vec<IoBuffer>> {
        assert!(len > 0 && len.is_multiple_of(Self::ALIGNMENT), "buffers of a slab stay aligned");
        let slab = Arc::new(IoBuffer::try_zeroed(count.checked_mul(len)?)?);
        let part = |index: usize| {
            // SAFETY: `index < count`, so the part lies within the slab's allocation.
            let start = unsafe { slab.start.add(index * len) };
            IoBuffer { start, len, capacity: len, slab: Some(slab.clone()) }
        };
        Some((0..count).map(part).collect())
    }

    /// The length in bytes with which the buffer was created.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the length in bytes, up to the capacity. The bytes behind it stay allocated.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.capacity, "a buffer does not grow");
        self.len = len;
    }

    /// Returns the memory to the kernel until its next use; then it reads as zeros. Only whole pages of memory are
    /// returned.
    pub fn discard(&mut self) {
        let whole = self.capacity / Self::ALIGNMENT * Self::ALIGNMENT;
        if whole == 0 {
            return;
        }
        // Advice only: an error changes nothing.
        // SAFETY: the range is private anonymous memory of this buffer alone, aligned and `whole <= capacity` bytes long;
        // `&mut self` excludes other accesses, and any bytes are valid afterwards.
        let _ = unsafe {
            rustix::mm::madvise(self.start.as_ptr().cast(), whole, rustix::mm::Advice::LinuxDontNeed)
        };
    }

    /// Prefetches the part of this range that lies in the buffer for writing, because memory that another processor wrote
    /// last is slow to reach. Changes nothing.
    pub fn about_to_write(&self, range: std::ops::Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let lines = self.get(range.start..range.end.min(self.len)).unwrap_or_default().chunks(CACHE_LINE);
            // SAFETY: a prefetch reads and writes nothing that a program could see, whatever the address.
            lines.for_each(|line| unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast()) });
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = range;
    }

    fn layout(len: usize) -> Layout {
        let align = if len.is_multiple_of(Self::HUGE) { Self::HUGE } else { Self::ALIGNMENT };
        Layout::from_size_align(len, align).expect("buffer length fits the address space")
    }
}

impl Deref for IoBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `capacity >= len` initialised bytes owned by self (dangling only for 0).
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
        if self.capacity != 0 && self.slab.is_none() {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
        }
    }
}

impl std::fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_in_huge_pages_is_aligned_to_them_and_zeroed_though_used_before() {
        for _ in 0..3 {
            let mut buffers = IoBuffer::slab(8, IoBuffer::HUGE / 4).unwrap();
            assert!(buffers[0].as_ptr().addr().is_multiple_of(IoBuffer::HUGE));
            assert!(buffers.iter().all(|buffer| buffer.iter().all(|byte| *byte == 0)));
            buffers.iter_mut().for_each(|buffer| buffer.fill(7));
        }
    }

    #[test]
    fn memory_that_the_system_does_not_have_is_no_panic() {
        let more_than_addresses = 1 << 50;
        assert!(IoBuffer::try_zeroed(more_than_addresses).is_none());
        assert!(IoBuffer::slab(more_than_addresses / 4096, 4096).is_none());
        assert!(IoBuffer::slab(usize::MAX / 4096, 8192).is_none());
        assert_eq!(IoBuffer::try_zeroed(4096).unwrap().len(), 4096);
    }

    #[test]
    fn parts_of_a_slab_are_aligned_distinct_and_outlive_each_other() {
        let mut parts = IoBuffer::slab(3, 4096).unwrap();
        for (index, part) in parts.iter_mut().enumerate() {
            assert!(
                part.as_ptr().addr().is_multiple_of(IoBuffer::ALIGNMENT)
                    && part.iter().all(|byte| *byte == 0)
            );
            part.fill(index as u8 + 1);
        }
        drop(parts.remove(1));
        assert!(parts[0].iter().all(|byte| *byte == 1) && parts[1].iter().all(|byte| *byte == 3));
    }
}
