//! Memory limits of this process.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kibibytes_field;

/// The lowest memory limit set by the machine or by this process's control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// File from which the limit was read.
    pub source: PathBuf,
}

/// Returns the machine's memory or the lowest limit of this process's control groups, whichever is lower. Returns
/// `None` if neither can be determined.
pub fn memory_limit() -> Option<MemoryLimit> {
    smallest(Path::new("/"))
}

fn smallest(root: &Path) -> Option<MemoryLimit> {
    let meminfo = root.join("proc/meminfo");
    let total = fs::read_to_string(&meminfo).ok().and_then(|text| kibibytes_field(&text, "MemTotal"));
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
#[path = "memory_limit_tests.rs"]
mod tests;
