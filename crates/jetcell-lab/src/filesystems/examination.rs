//! State of tested directories: their storage, and the space used by their files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jetcell_host::machine::DirectoryStorage;

use super::{FilesystemComparison, TestedDirectory, remarks};
use crate::System;

impl TestedDirectory {
    /// Returns the current state of a directory: its storage, and the space used by its databases.
    pub fn examine(name: &str, path: &Path, system: &dyn System) -> TestedDirectory {
        let (file_bytes, allocated_bytes) = space_used(path);
        let storage = DirectoryStorage::examine(path);
        TestedDirectory {
            name: name.into(),
            directory: path.into(),
            remarks: remarks(&storage, system),
            storage,
            file_bytes,
            allocated_bytes,
            made: None,
        }
    }
}

impl FilesystemComparison {
    /// Updates the state of the directories, because the first turn may have created them.
    pub fn refresh_directories(&mut self, system: &dyn System) {
        for one in &mut self.directories {
            *one = TestedDirectory::examine(&one.name, &one.directory, system);
        }
    }
}

/// Returns the total length of the files below a directory and the space allocated for them, both in bytes.
/// Unreadable files and directories are ignored.
fn space_used(directory: &Path) -> (u64, u64) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.fold((0, 0), |(bytes, allocated), entry| {
        let (more, used) = match entry.metadata() {
            Ok(found) if found.is_dir() => space_used(&entry.path()),
            Ok(found) => (found.len(), found.blocks() * 512),
            Err(_) => (0, 0),
        };
        (bytes + more, allocated + used)
    })
}
