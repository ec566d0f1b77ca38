//! Advice about errors of the operating system.

use std::error::Error;

use jetcell_vfs::system_error_number;

/// Returns what the user can do about the first operating system error in the chain of sources, by its Linux error
/// number. Returns `None` if the advice would depend on more than the error.
pub fn os_advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    Some(match system_error_number(error)? {
        2 => "specify an existing path",
        1 | 13 => "use a path that this user can access, or change its permissions",
        4 | 11 | 110 => "try again",
        5 => "the device failed: check the kernel log (dmesg) before using it again",
        6 | 19 => "the device is missing: check the kernel log (dmesg)",
        12 => "raise the memory limit of the process, or reduce its workload",
        16 | 26 => "stop the process that uses it",
        17 => "use a different name",
        18 => "use directories on the same file system",
        20 => "part of the path is a file; specify a different path",
        21 => "specify a file",
        22 | 95 => "the file system or device does not support this; use another file system or device",
        23 | 24 => "raise the limit on open files (ulimit -n)",
        27 => "raise the limit on the file size (ulimit -f), or use another file system",
        28 => "free some space, or use a different volume",
        30 => "make the volume writable, or use another volume",
        36 => "use a shorter path",
        39 => "use an empty directory",
        40 => "the symbolic links form a loop; specify a different path",
        98 | 99 => "use a different address or port",
        101 | 111 | 113 => "start the other side first, or use a different address",
        116 => "mount the file system again",
        122 => "free some space, or raise the quota",
        _ => return None,
    })
}
