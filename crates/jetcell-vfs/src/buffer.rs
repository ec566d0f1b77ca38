//! Memory that the kernel can transfer into directly.
//!
//! Large buffers are mappings of their own and not a part of the allocator's memory: the process has them from the first use of
//! each page of memory until they are dropped, and no longer.

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

    /// Buffers from this size on, the largest page, are mappings. An allocator keeps such memory for the thread that had it.
    const MAPPED: usize = 32 << 10;

    /// A zeroed buffer. The memory of a large one is taken only when it is written.
    pub fn zeroed(len: usize) -> IoBuffer {
        IoBuffer::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(Self::layout(len)))
    }

    /// Like [`IoBuffer::zeroed`], or `None` if the system has no memory for it.
    pub fn try_zeroed(len: usize) -> Option<IoBuffer> {
        if len == 0 {
            return Some(IoBuffer { start: NonNull::dangling(), len, capacity: len, slab: None });
        }
        let start = match len >= Self::MAPPED {
            true => map(len, Self::layout(len).align())?,
            // SAFETY: the layout has a non-zero size.
            false => NonNull::new(unsafe { alloc_zeroed(Self::layout(len)) })?,
        };
        if len.is_multiple_of(Self::HUGE) {
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
        Some(IoBuffer::try_zeroed(count.checked_mul(len)?)?.into_parts(len))
    }

    /// A slab of as many buffers of `len` bytes as a huge page has room for.
    pub fn huge_slab(len: usize) -> Option<Vec<IoBuffer>> {
        Some(IoBuffer::try_zeroed(Self::HUGE)?.into_parts(len))
    }

    /// Divides the buffer. What is left behind the last part is not used.
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

/// A private mapping of `len` zeros whose start is a multiple of `align`, a power of two; `None` if the system has no memory
/// for it.
fn map(len: usize, align: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let whole = len.checked_next_multiple_of(IoBuffer::ALIGNMENT)?;
    // The system aligns mappings to pages of memory only.
    let spare = align - IoBuffer::ALIGNMENT;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address that the kernel chooses changes no existing memory.
    let mapped = unsafe {
        mmap_anonymous(std::ptr::null_mut(), whole.checked_add(spare)?, protection, MapFlags::PRIVATE)
    };
    let mapped: *mut u8 = mapped.ok()?.cast();
    let before = mapped.align_offset(align);
    // SAFETY: the parts before and behind the aligned range are within the new mapping, and nothing refers to them.
    unsafe {
        let start = mapped.add(before);
        unmap(mapped, before);
        unmap(start.add(whole), spare - before);
        NonNull::new(start)
    }
}

/// Removes a mapping or a part of it.
///
/// # Safety
/// The range is a part of a mapping of this module, and nothing refers to it.
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // It fails only if the kernel cannot split a mapping. Then the memory stays.
        // SAFETY: as the caller promises.
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
            // SAFETY: mapped in `try_zeroed` with this very length, and nothing else refers to the mapping.
            capacity if capacity >= Self::MAPPED => unsafe { unmap(self.start.as_ptr(), capacity) },
            // SAFETY: allocated in `try_zeroed` with this very layout.
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
    fn what_may_be_in_huge_pages_is_aligned_to_them_and_zeroed_though_used_before() {
        for _ in 0..3 {
            let mut buffers = IoBuffer::slab(8, IoBuffer::HUGE / 4).unwrap();
            assert!(buffers[0].as_ptr().addr().is_multiple_of(IoBuffer::HUGE));
            assert!(buffers.iter().all(|buffer| buffer.iter().all(|byte| *byte == 0)));
            buffers.iter_mut().for_each(|buffer| buffer.fill(7));
        }
    }

    /// Of the process, in pages of memory.
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
        // Other tests of the process take some memory meanwhile.
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
        let mut huge = IoBuffer::huge_slab(640 << 10).unwrap();
        huge.iter_mut().for_each(|part| part.fill(1));
        assert_eq!(huge.iter().map(|part| part.len()).collect::<Vec<_>>(), [640 << 10; 3]);
        assert!(huge[0].as_ptr().addr().is_multiple_of(IoBuffer::HUGE));
        drop(parts.remove(1));
        assert!(parts[0].iter().all(|byte| *byte == 1) && parts[1].iter().all(|byte| *byte == 3));
    }
}
