//! Finds the disks on which a directory is stored.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jetcell_host::machine::Mount;

use crate::erasable::{disks_below, node_of_mount};
use crate::system::System;

/// Returns the name of a disk on which both paths are stored. Partitions, md arrays, and device mapper devices are
/// resolved to the underlying disks. Returns `None` if the kernel reports no shared disk. A loop device counts as a
/// disk; the disk that stores its image file is ignored.
pub fn shared_disk(one: &Path, other: &Path, system: &dyn System) -> Option<String> {
    let others = disks(other, system);
    let shared = disks(one, system).into_iter().find(|disk| others.contains(disk))?;
    Some(shared.file_name()?.to_string_lossy().into_owned())
}

fn disks(path: &Path, system: &dyn System) -> Vec<PathBuf> {
    let Ok(found) = fs::metadata(path) else { return Vec::new() };
    let point = Mount::containing(path).map(|mount| mount.point.display().to_string()).unwrap_or_default();
    node_of_mount(found.dev(), &point, system).map_or_else(Vec::new, |node| disks_below(&node, system, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::LocalSystem;

    #[test]
    fn a_path_has_a_disk_unless_on_a_virtual_filesystem() {
        let root = Path::new("/");
        // A root file system without a block device, as in a container, has no disk.
        if let Some(disk) = shared_disk(root, root, &LocalSystem) {
            assert!(Path::new("/sys/block").join(disk).exists());
        }
        assert_eq!(shared_disk(Path::new("/proc"), Path::new("/proc"), &LocalSystem), None);
        assert_eq!(shared_disk(Path::new("/none"), root, &LocalSystem), None);
    }
}
