//! Memory limits of this process, and checks before large allocations.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The lowest of the memory limits set by the machine and by the control groups of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// File from which the limit was read.
    pub source: PathBuf,
}

/// Checks that the process may allocate `bytes` more of address space under its limits (`ulimit -v`, `ulimit -d`) and
/// the kernel's overcommit policy. The check itself does not use any memory.
///
/// # Errors
/// The kernel refuses a mapping of this size.
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

/// Returns the machine's memory or the lowest limit of this process's control groups, whichever is lower. Returns
/// `None` if neither can be determined.
pub fn memory_limit() -> Option<MemoryLimit> {
    smallest(Path::new("/"))
}

fn smallest(root: &Path) -> Option<MemoryLimit> {
    let meminfo = root.join("proc/meminfo");
    let total = fs::read_to_string(&meminfo).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let machine = total.map(|bytes| MemoryLimit { bytes, source: meminfo });
    machine.into_iter().chain(group_limits(root)).min_by_key(|limit| limit.bytes)
}

/// Returns the memory limits of this process's control groups, for both versions of the cgroup interface.
fn group_limits(root: &Path) -> Vec<MemoryLimit> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (hierarchy, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // The limit of a parent group also applies to its children.
        for group in Path::new(group.trim_start_matches('/')).ancestors() {
            let source = root.join(hierarchy).join(group).join(file);
            // The limit of an unlimited group is `max`.
            let bytes = fs::read_to_string(&source).ok().and_then(|text| text.trim().parse::<u64>().ok());
            limits.extend(bytes.map(|bytes| MemoryLimit { bytes, source }));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_machine_or_control_group_limit_applies() {
        let root = tempfile::tempdir().unwrap();
        let write_file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(smallest(root.path()), None);
        write_file("proc/meminfo", "MemFree: 5 kB\nMemTotal:       4096 kB\n");
        let limit = || smallest(root.path()).unwrap().bytes;
        assert_eq!(limit(), 4096 << 10);
        write_file("proc/self/cgroup", "0::/outer/inner\n");
        write_file("sys/fs/cgroup/outer/inner/memory.max", "max\n");
        assert_eq!(limit(), 4096 << 10);
        write_file("sys/fs/cgroup/outer/memory.max", "1048576\n");
        assert_eq!(limit(), 1 << 20);
        write_file("proc/self/cgroup", "7:cpu,cpuacct:/a\n5:memory:/b\n0::/\n");
        write_file("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "65536\n");
        assert_eq!(limit(), 64 << 10);
        assert!(smallest(root.path()).unwrap().source.ends_with("memory/b/memory.limit_in_bytes"));
    }

    #[test]
    fn more_than_the_address_space_cannot_be_reserved() {
        try_reserve(0).unwrap();
        try_reserve(1 << 20).unwrap();
        assert_eq!(try_reserve(1 << 60).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert!(memory_limit().is_some_and(|limit| limit.bytes > 1 << 20));
    }
}
