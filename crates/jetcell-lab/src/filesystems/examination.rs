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
    /// Updates the state of the directories, which the first turn may have created. The last directories are on file
    /// systems that the test made. `made` contains their state at the end of the last turn, if there was one. Also
    /// records the storage as evidence.
    pub fn complete_directories(&mut self, made: Vec<Option<TestedDirectory>>, system: &dyn System) {
        let existing = self.directories.len().saturating_sub(made.len());
        for one in self.directories.iter_mut().take(existing) {
            *one = TestedDirectory::examine(&one.name, &one.directory, system);
        }
        for (one, made) in self.directories.iter_mut().skip(existing).zip(made) {
            if let Some(made) = made {
                *one = made;
            }
        }
        let storage = self.directories.iter().map(|one| one.storage.clone());
        self.evidence.machine.storage =
            storage.filter(|storage| !storage.directory.as_os_str().is_empty()).collect();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{ROWS, TurnLimits, compare};
    use super::*;
    use crate::LocalSystem;

    #[test]
    fn the_storage_of_made_file_systems_is_evidence_once_they_were_mounted() {
        let directory = tempfile::tempdir().unwrap();
        let examine = |name: &str, path: &Path| TestedDirectory::examine(name, path, &LocalSystem);
        let empty = Path::new("");
        let tested = vec![examine("a", directory.path()), examine("ext4", empty), examine("xfs", empty)];
        let limits =
            TurnLimits { fewest: 1, most: 1, precision_percent: 2.0, longest: Duration::from_secs(1) };
        let measure = &mut |_, _| Ok::<_, ()>(vec![1.0; ROWS.len()]);
        let mut found = compare(("Title", &ROWS), tested, limits, measure, &|| Duration::ZERO).unwrap();
        assert_eq!(found.evidence.machine.storage, []);
        // The second file system was never made.
        let made = directory.path().join("mounted");
        found.complete_directories(vec![Some(examine("ext4", &made)), None], &LocalSystem);
        let storage = found.evidence.machine.storage.iter().map(|storage| storage.directory.clone());
        assert_eq!(storage.collect::<Vec<_>>(), [directory.path().to_path_buf(), made]);
    }
}
