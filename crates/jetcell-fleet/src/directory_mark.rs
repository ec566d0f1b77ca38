//! Marks in directories that let hosts detect when they share a directory by mistake.
//!
//! Every host writes its mark before the first barrier and checks it afterwards. If two hosts share a directory, the
//! later mark has replaced the earlier one, and the host that wrote the earlier mark detects this.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jetcell_vfs::{open_input, parent_directory, replace_output, sync_directory};
use serde::{Deserialize, Serialize};

use crate::host_error::HostRefusal;

/// Name of the mark file.
pub const MARK_FILE: &str = "jetcell-fleet.json";

/// Maximum size of a mark in bytes.
const MAX_BYTES: u64 = 4 << 10;

/// Maximum number of attempts to mark a directory that other hosts are creating and removing at the same time.
const MAX_ATTEMPTS: usize = 10;

/// A mark that a fleet host leaves in a directory to claim it for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryMark {
    /// Run identifier.
    pub run: String,
    /// Rank of the host.
    pub rank: u32,
    /// Name of the host.
    pub host: String,
    /// Random identifier of the process.
    pub token: String,
}

/// The marks that a fleet host has left in directories. They are removed when this value is dropped.
#[derive(Debug, Default)]
pub struct DirectoryMarks {
    own: Option<DirectoryMark>,
    /// Marked directories.
    marked: Vec<PathBuf>,
    /// Directories created for the marks, from outermost to innermost.
    made: Vec<PathBuf>,
}

impl DirectoryMarks {
    /// Marks these directories, creating any that do not exist.
    pub fn write(mark: &DirectoryMark, directories: &[PathBuf]) -> Result<DirectoryMarks, HostRefusal> {
        let mut marks = DirectoryMarks { own: Some(mark.clone()), marked: Vec::new(), made: Vec::new() };
        for directory in directories {
            if !marks.marked.contains(directory) {
                marks
                    .put(mark, directory)
                    .map_err(|error| HostRefusal::Io { path: directory.clone(), error })?;
            }
        }
        Ok(marks)
    }

    fn put(&mut self, mark: &DirectoryMark, directory: &Path) -> io::Result<()> {
        for _ in 1..MAX_ATTEMPTS {
            self.create_all(missing_directories(directory))?;
            match write(mark, directory) {
                // Another host had created the directory. It left and removed the directory before this mark was
                // written.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                written => return written.map(|()| self.marked.push(directory.into())),
            }
        }
        self.create_all(missing_directories(directory))?;
        write(mark, directory).map(|()| self.marked.push(directory.into()))
    }

    /// Creates directories from outermost to innermost. Another host may create or remove them concurrently.
    fn create_all(&mut self, missing: Vec<PathBuf>) -> io::Result<()> {
        for path in missing {
            match fs::create_dir(&path) {
                Ok(()) => self.made.push(path),
                // If the path is not a directory, the next write fails.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The outer directory was removed concurrently, so the caller tries again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks that no other host has marked one of the directories since this host did.
    pub fn confirm(&self) -> Result<(), HostRefusal> {
        let Some(own) = &self.own else { return Ok(()) };
        for directory in &self.marked {
            let path = directory.join(MARK_FILE);
            let found = read(&path).map_err(|error| match error.kind() {
                // Another host replaced the mark, then removed its own mark when it left.
                io::ErrorKind::NotFound => HostRefusal::SharedDirectory(directory.clone()),
                _ => HostRefusal::Io { path, error },
            })?;
            if found != *own {
                let DirectoryMark { rank, host, .. } = found;
                return Err(HostRefusal::SharedWith { path: directory.clone(), rank, host });
            }
        }
        Ok(())
    }
}

impl Drop for DirectoryMarks {
    /// Removes the marks and directories, except for marks that another host has replaced.
    fn drop(&mut self) {
        for directory in &self.marked {
            let path = directory.join(MARK_FILE);
            if read(&path).ok() == self.own {
                let _ = fs::remove_file(path);
            }
        }
        for directory in self.made.iter().rev() {
            // A directory that is not empty is kept.
            if fs::remove_dir(directory).is_ok() {
                let _ = sync_directory(parent_directory(directory));
            }
        }
    }
}

/// Returns the directories that must be created to make `directory` exist, from outermost to innermost.
fn missing_directories(directory: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        directory.ancestors().take_while(|path| !path.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

/// Replaces the mark in a directory atomically and makes it durable.
fn write(mark: &DirectoryMark, directory: &Path) -> io::Result<()> {
    replace_output(&directory.join(MARK_FILE), serde_json::to_vec(mark)?)
}

fn read(path: &Path) -> io::Result<DirectoryMark> {
    let mut bytes = Vec::new();
    open_input(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(rank: u32) -> DirectoryMark {
        DirectoryMark { run: "r".into(), rank, host: format!("host{rank}"), token: format!("t{rank}") }
    }

    #[test]
    fn two_hosts_sharing_a_directory_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, own) = (dir.path().join("a/b"), dir.path().join("c"));
        let first = DirectoryMarks::write(&mark(0), &[shared.clone(), own.clone(), own.clone()]).unwrap();
        let second = DirectoryMarks::write(&mark(1), std::slice::from_ref(&shared)).unwrap();
        let noticed = first.confirm().unwrap_err().reason();
        assert!(noticed.contains("rank 1 (host1)"), "{noticed}");
        second.confirm().unwrap();
        drop(first);
        assert!(
            shared.join(MARK_FILE).exists() && !own.exists(),
            "only own marks and directories are removed"
        );
        fs::write(shared.join("kept"), "").unwrap();
        drop(second);
        assert!(!shared.join(MARK_FILE).exists() && shared.join("kept").exists());
    }

    #[test]
    fn a_directory_that_another_host_creates_first_is_not_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host0/db");
        let missing = missing_directories(&path);
        fs::create_dir_all(&path).unwrap();
        let mut marks = DirectoryMarks::default();
        marks.create_all(missing).unwrap();
        marks.put(&mark(0), &path).unwrap();
        assert_eq!(marks.made, Vec::<PathBuf>::new(), "the other host removes what it created");

        let removed = dir.path().join("host1/db");
        let missing = missing_directories(&removed);
        marks.create_all(missing[1..].to_vec()).unwrap();
        marks.put(&mark(0), &removed).unwrap();
        assert_eq!(marks.made, missing);
    }

    #[test]
    fn hosts_joining_and_leaving_concurrently_do_not_fail() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("host0/db");
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let shared = &shared;
                scope.spawn(move || {
                    for _ in 0..200 {
                        DirectoryMarks::write(&mark(rank), std::slice::from_ref(shared)).unwrap();
                    }
                });
            }
        });
        // The directories may remain if the last host to leave did not create them, but no mark remains.
        assert!(!shared.join(MARK_FILE).exists());
    }

    #[test]
    fn an_old_or_malformed_mark_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_path_buf();
        fs::write(path.join(MARK_FILE), "{").unwrap();
        let marks = DirectoryMarks::write(&mark(0), std::slice::from_ref(&path)).unwrap();
        marks.confirm().unwrap();
        fs::write(path.join(MARK_FILE), "{").unwrap();
        assert!(marks.confirm().is_err());
        drop(marks);
        assert!(path.join(MARK_FILE).exists());
    }
}
