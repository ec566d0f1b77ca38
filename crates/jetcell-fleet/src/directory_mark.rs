//! Marks in directories: how two hosts notice that they share one by mistake.
//!
//! Every host writes its mark before the first gate opens, and looks for its mark behind that gate. Of two hosts that share a directory,
//! the last writer replaced the mark of the other, which notices it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use jetcell_vfs::{open_input, parent_directory};
use serde::{Deserialize, Serialize};

/// Name of the file.
pub const FILE: &str = "jetcell-fleet.json";

/// No mark is longer.
const LONGEST: u64 = 4 << 10;

/// The mark of a host in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryMark {
    /// The run.
    pub run: String,
    /// Rank of the host.
    pub rank: u32,
    /// Its name.
    pub host: String,
    /// Random number of its process.
    pub token: String,
}

/// The marks of one host; they are removed when this is dropped.
#[derive(Debug, Default)]
pub struct DirectoryMarks {
    own: Option<DirectoryMark>,
    /// Marked directories.
    marked: Vec<PathBuf>,
    /// Directories that were made for the marks, the outer ones first.
    made: Vec<PathBuf>,
}

impl DirectoryMarks {
    /// Marks these directories, and creates those that do not exist.
    pub fn write(mark: &DirectoryMark, directories: &[PathBuf]) -> Result<DirectoryMarks, String> {
        let mut marks = DirectoryMarks { own: Some(mark.clone()), marked: Vec::new(), made: Vec::new() };
        for directory in directories {
            if !marks.marked.contains(directory) {
                marks.put(mark, directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            }
        }
        Ok(marks)
    }

    fn put(&mut self, mark: &DirectoryMark, directory: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
        missing.reverse();
        for path in missing {
            fs::create_dir(path)?;
            self.made.push(path.into());
        }
        let aside = directory.join(format!(".{FILE}.{}", mark.token));
        let written = || -> io::Result<()> {
            let mut file = File::create(&aside)?;
            file.write_all(&serde_json::to_vec(mark)?)?;
            file.sync_all()?;
            fs::rename(&aside, directory.join(FILE))?;
            File::open(directory)?.sync_all()
        };
        written().inspect_err(|_| {
            let _ = fs::remove_file(&aside);
        })?;
        self.marked.push(directory.into());
        Ok(())
    }

    /// Checks that no other host has marked a directory since.
    pub fn confirm(&self) -> Result<(), String> {
        let Some(own) = &self.own else { return Ok(()) };
        for directory in &self.marked {
            let shown = directory.display();
            let found = read(&directory.join(FILE)).map_err(|error| format!("{shown}/{FILE}: {error}"))?;
            if found != *own {
                let (rank, host) = (found.rank, crate::message::shown(&found.host));
                return Err(format!(
                    "{shown} is also the directory of the host with rank {rank} ({host}); give each host a directory of its own"
                ));
            }
        }
        Ok(())
    }
}

impl Drop for DirectoryMarks {
    /// Removes what was written, unless another host has replaced it.
    fn drop(&mut self) {
        for directory in &self.marked {
            let path = directory.join(FILE);
            if read(&path).ok() == self.own {
                let _ = fs::remove_file(path);
            }
        }
        for directory in self.made.iter().rev() {
            // A directory with something in it stays.
            if fs::remove_dir(directory).is_ok() {
                let _ = File::open(parent_directory(directory)).and_then(|parent| parent.sync_all());
            }
        }
    }
}

fn read(path: &Path) -> io::Result<DirectoryMark> {
    let mut bytes = Vec::new();
    open_input(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(rank: u32) -> DirectoryMark {
        DirectoryMark { run: "r".into(), rank, host: format!("host{rank}"), token: format!("t{rank}") }
    }

    #[test]
    fn one_of_two_hosts_in_a_directory_notices_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, own) = (dir.path().join("a/b"), dir.path().join("c"));
        let first = DirectoryMarks::write(&mark(0), &[shared.clone(), own.clone(), own.clone()]).unwrap();
        let second = DirectoryMarks::write(&mark(1), std::slice::from_ref(&shared)).unwrap();
        let noticed = first.confirm().unwrap_err();
        assert!(noticed.contains("rank 1 (host1)"), "{noticed}");
        assert_eq!(second.confirm(), Ok(()));
        drop(first);
        assert!(shared.join(FILE).exists() && !own.exists(), "only own marks and directories are removed");
        fs::write(shared.join("kept"), "").unwrap();
        drop(second);
        assert!(!shared.join(FILE).exists() && shared.join("kept").exists());
    }

    #[test]
    fn an_old_or_garbled_mark_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_path_buf();
        fs::write(path.join(FILE), "{").unwrap();
        let marks = DirectoryMarks::write(&mark(0), std::slice::from_ref(&path)).unwrap();
        assert_eq!(marks.confirm(), Ok(()));
        fs::write(path.join(FILE), "{").unwrap();
        assert!(marks.confirm().is_err());
        drop(marks);
        assert!(path.join(FILE).exists());
    }
}
