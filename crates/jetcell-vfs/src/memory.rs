//! Checks before large allocations.

use std::io;

/// Checks that the process may allocate `bytes` bytes of additional address space under its limits (`ulimit -v`,
/// `ulimit -d`) and the kernel's overcommit policy. The check itself does not use any memory.
///
/// # Errors
/// Returns an error if the kernel refuses a mapping of this size.
pub fn try_reserve(bytes: usize) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    if bytes == 0 {
        return Ok(());
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address that the kernel chooses changes no existing memory. It is removed
    // immediately, with its own address and length, and nothing refers to it.
    unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)?;
        munmap(start, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_address_space_cannot_be_reserved() {
        try_reserve(0).unwrap();
        try_reserve(1 << 20).unwrap();
        assert_eq!(try_reserve(1 << 60).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }
}
