//! I/O buffers that the kernel can transfer to and from directly.
//!
//! Large buffers do not come from the allocator: each has its own mapping. The memory of a mapping is allocated page
//! by page on first access and freed when the buffer is dropped.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use jetcell_sync::Arc;

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// An owned, zero-initialised buffer aligned to 4096 bytes, as `O_DIRECT` requires.
pub struct IoBuffer {
    start: NonNull<u8>,
    len: usize,
    /// Allocated size in bytes. The bytes after `len` are not in use.
    capacity: usize,
    /// Slab that contains this buffer, or `None` if the buffer has its own allocation.
    slab: Option<Arc<IoBuffer>>,
}

// SAFETY: the buffer owns its bytes exclusively, as Box<[u8]> does; parts of a slab do not overlap, and the slab's
// own handle is never dereferenced.
unsafe impl Send for IoBuffer {}
// SAFETY: shared access only reads, as with Box<[u8]>.
unsafe impl Sync for IoBuffer {}

impl IoBuffer {
    /// Alignment of every buffer in bytes.
    pub const ALIGNMENT: usize = 4096;
    /// Size of a huge page in bytes.
    ///
    /// Buffers whose size is a multiple of this constant use huge pages. A device receives a transfer as physically
    /// contiguous segments, and a limit on the total number of segments limits the transfers in flight. A transfer of
    /// 256 KiB may need 64 segments without huge pages, but only one with them. The kernel reclaims discarded parts
    /// of a huge page only under memory pressure.
    pub const HUGE: usize = 2 << 20;

    /// Minimum size in bytes of a buffer that has its own mapping. In release builds, this is the largest database
    /// page size. An allocator would cache such memory per thread.
    ///
    /// Simulations, which are debug builds, create medium-sized buffers at a high rate. For them, the page faults of
    /// a mapping cost more than zeroing memory from the allocator.
    const MAPPED: usize = if cfg!(debug_assertions) { 512 << 10 } else { 32 << 10 };

    /// Creates a zeroed buffer. The memory of a large buffer is allocated when it is first written.
    pub fn zeroed(len: usize) -> IoBuffer {
        IoBuffer::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(Self::layout(len)))
    }

    /// Creates a buffer like [`IoBuffer::zeroed`], or returns `None` if the system does not have enough memory.
    pub fn try_zeroed(len: usize) -> Option<IoBuffer> {
        if len == 0 {
            return Some(IoBuffer { start: NonNull::dangling(), len, capacity: len, slab: None });
        }
        let start = if len >= Self::MAPPED {
            map(len, Self::layout(len).align())?
        } else {
            // SAFETY: the layout has a non-zero size.
            NonNull::new(unsafe { alloc_zeroed(Self::layout(len)) })?
        };
        if len.is_multiple_of(Self::HUGE) {
            // This is only advice, so an error is ignored. SAFETY: the range was just allocated with this alignment
            // and length, and the advice changes no byte.
            let _ =
                unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, rustix::mm::Advice::LinuxHugepage) };
        }
        Some(IoBuffer { start, len, capacity: len, slab: None })
    }

    /// Creates `count` adjacent zeroed buffers of `len` bytes each in one allocation. `len` must be a multiple of the
    /// alignment.
    ///
    /// Separate aligned allocations would waste up to a page each. The memory is freed when the last of the buffers
    /// is dropped. Returns `None` if the system does not have enough memory.
    pub fn slab(count: usize, len: usize) -> Option<Vec<IoBuffer>> {
        Some(IoBuffer::try_zeroed(count.checked_mul(len)?)?.into_parts(len))
    }

    /// Creates a slab of `len`-byte buffers that fills one huge page.
    pub fn huge_slab(len: usize) -> Option<Vec<IoBuffer>> {
        Some(IoBuffer::try_zeroed(Self::HUGE)?.into_parts(len))
    }

    /// Divides the buffer into parts of `len` bytes. A remainder that is shorter than `len` is not used.
    fn into_parts(self, len: usize) -> Vec<IoBuffer> {
        assert!(len > 0 && len.is_multiple_of(Self::ALIGNMENT), "buffers of a slab stay aligned");
        let slab = Arc::new(self);
        let part = |index: usize| {
            // SAFETY: `index` is below `slab.len / len`, so the part lies within the slab's allocation.
            let start = unsafe { slab.start.add(index * len) };
            IoBuffer { start, len, capacity: len, slab: Some(slab.clone()) }
        };
        (0..slab.len / len).map(part).collect()
    }

    /// Returns the original length of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the length in bytes, up to the capacity. The bytes after the new length stay allocated.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.capacity, "a buffer does not grow");
        self.len = len;
    }

    /// Returns the buffer's memory to the kernel until the buffer is used again. Afterwards the buffer reads as
    /// zeros. Only whole memory pages are returned.
    pub fn discard(&mut self) {
        let whole = self.capacity / Self::ALIGNMENT * Self::ALIGNMENT;
        if whole == 0 {
            return;
        }
        // This is only advice, so an error is ignored. SAFETY: the range is private anonymous memory that belongs
        // only to this buffer, is aligned, and is `whole <= capacity` bytes long; `&mut self` excludes other
        // accesses, and any bytes are valid afterwards.
        let _ = unsafe {
            rustix::mm::madvise(self.start.as_ptr().cast(), whole, rustix::mm::Advice::LinuxDontNeed)
        };
    }

    /// Prefetches `range` for writing, limited to the length of the buffer.
    ///
    /// Memory that was last written by another processor is slow to access. The content of the buffer does not
    /// change.
    pub fn prefetch_for_write(&self, range: std::ops::Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let lines = self.get(range.start..range.end.min(self.len)).unwrap_or_default().chunks(CACHE_LINE);
            // SAFETY: a prefetch has no observable effect on the program, regardless of the address.
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

/// Creates a private zero-filled mapping of `len` bytes whose start is a multiple of `align`, a power of two. Returns
/// `None` if the system does not have enough memory.
fn map(len: usize, align: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let whole = len.checked_next_multiple_of(IoBuffer::ALIGNMENT)?;
    // The system aligns mappings only to memory pages.
    let spare = align - IoBuffer::ALIGNMENT;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address that the kernel chooses changes no existing memory.
    let mapped = unsafe {
        mmap_anonymous(std::ptr::null_mut(), whole.checked_add(spare)?, protection, MapFlags::PRIVATE)
    };
    let mapped: *mut u8 = mapped.ok()?.cast();
    let before = mapped.align_offset(align);
    // SAFETY: the parts before and after the aligned range are within the new mapping, and nothing refers to them.
    unsafe {
        let start = mapped.add(before);
        unmap(mapped, before);
        unmap(start.add(whole), spare - before);
        NonNull::new(start)
    }
}

/// Removes all or part of a mapping.
///
/// # Safety
/// The range must be part of a mapping that was created by this module, and nothing may refer to it.
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // The call fails only if the kernel cannot split a mapping. The memory then stays mapped. SAFETY: guaranteed
        // by the caller.
        let _ = unsafe { rustix::mm::munmap(start.cast(), len.next_multiple_of(IoBuffer::ALIGNMENT)) };
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
        match self.capacity {
            _ if self.slab.is_some() => {}
            0 => {}
            // SAFETY: mapped in `try_zeroed` with exactly this length, and nothing else refers to the mapping.
            capacity if capacity >= Self::MAPPED => unsafe { unmap(self.start.as_ptr(), capacity) },
            // SAFETY: allocated in `try_zeroed` with exactly this layout.
            capacity => unsafe { std::alloc::dealloc(self.start.as_ptr(), Self::layout(capacity)) },
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
    fn huge_page_buffers_are_aligned_and_zeroed_on_reuse() {
        for _ in 0..3 {
            let mut buffers = IoBuffer::slab(8, IoBuffer::HUGE / 4).unwrap();
            assert!(buffers[0].as_ptr().addr().is_multiple_of(IoBuffer::HUGE));
            assert!(buffers.iter().all(|buffer| buffer.iter().all(|byte| *byte == 0)));
            buffers.iter_mut().for_each(|buffer| buffer.fill(7));
        }
    }

    /// Returns the resident memory of this process in memory pages.
    #[cfg(target_os = "linux")]
    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_large_buffer_takes_memory_only_while_it_exists() {
        const PAGES: u64 = 16 << 10;
        let before = resident();
        let mut buffer = IoBuffer::zeroed((PAGES * 4096) as usize + 4096);
        let untouched = resident();
        buffer.fill(1);
        let filled = resident();
        drop(buffer);
        // Other tests that run concurrently in this process allocate some memory.
        assert!(untouched < before + PAGES / 2, "{before} {untouched}");
        assert!(filled >= untouched + PAGES * 3 / 4, "{untouched} {filled}");
        assert!(resident() < filled - PAGES / 2, "{filled} {}", resident());
    }

    #[test]
    fn mappings_of_any_length_are_aligned() {
        for len in
            [64 << 10, (64 << 10) + 1, 1 << 20, IoBuffer::HUGE, IoBuffer::HUGE + 4096, 3 * IoBuffer::HUGE]
        {
            let mut buffer = IoBuffer::zeroed(len);
            let align = if len.is_multiple_of(IoBuffer::HUGE) { IoBuffer::HUGE } else { IoBuffer::ALIGNMENT };
            assert!(buffer.as_ptr().addr().is_multiple_of(align) && buffer.len() == len);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(9);
            buffer.discard();
            assert!(buffer[..len / 4096 * 4096].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn an_oversized_allocation_does_not_panic() {
        let more_than_addresses = 1 << 50;
        assert!(IoBuffer::try_zeroed(more_than_addresses).is_none());
        assert!(IoBuffer::slab(more_than_addresses / 4096, 4096).is_none());
        assert!(IoBuffer::slab(usize::MAX / 4096, 8192).is_none());
        assert_eq!(IoBuffer::try_zeroed(4096).unwrap().len(), 4096);
    }

    #[test]
    fn slab_parts_are_aligned_disjoint_and_independently_freed() {
        let mut parts = IoBuffer::slab(3, 4096).unwrap();
        for (index, part) in parts.iter_mut().enumerate() {
            assert!(
                part.as_ptr().addr().is_multiple_of(IoBuffer::ALIGNMENT)
                    && part.iter().all(|byte| *byte == 0)
            );
            part.fill(index as u8 + 1);
        }
        let mut huge = IoBuffer::huge_slab(640 << 10).unwrap();
        huge.iter_mut().for_each(|part| part.fill(1));
        assert_eq!(huge.iter().map(|part| part.len()).collect::<Vec<_>>(), [640 << 10; 3]);
        assert!(huge[0].as_ptr().addr().is_multiple_of(IoBuffer::HUGE));
        drop(parts.remove(1));
        assert!(parts[0].iter().all(|byte| *byte == 1) && parts[1].iter().all(|byte| *byte == 3));
    }
}
