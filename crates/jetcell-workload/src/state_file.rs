//! A small JSON file in the first database's directory that allows a later run to resume interrupted work.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jetcell_vfs::{open_trusted_input, replace_output, sync_directory};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::profile::Profile;
use crate::start_error::StartError;

/// A type of state file.
pub(crate) struct StateFile {
    /// Name of the file.
    pub(crate) name: &'static str,
    /// Maximum file size in bytes. A larger file is rejected as invalid.
    pub(crate) max_bytes: u64,
    /// Advice to the user if the file is damaged.
    pub(crate) advice: &'static str,
}

impl StateFile {
    /// Reads the file from a directory. Returns `None` if it does not exist.
    pub(crate) fn read<T: DeserializeOwned>(&self, dir: &Path) -> Result<Option<T>, StartError> {
        let path = dir.join(self.name);
        let mut bytes = Vec::new();
        match open_trusted_input(&path).and_then(|file| file.take(self.max_bytes).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StartError::StateFile { path, error }),
        }
        let damaged = |error| StartError::DamagedStateFile { path, error, advice: self.advice };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// Writes the file atomically, and syncs it and its directory.
    pub(crate) fn write(&self, dir: &Path, content: &impl Serialize) -> io::Result<()> {
        replace_output(&dir.join(self.name), jetcell_input::json_pretty(content)?)
    }

    /// Removes the file because there is no work left to resume.
    pub(crate) fn remove(&self, dir: &Path) -> io::Result<()> {
        fs::remove_file(dir.join(self.name))?;
        sync_directory(dir)
    }
}

/// Returns the absolute path, which remains valid if the working directory changes.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Returns the profile with absolute paths.
pub(crate) fn with_absolute_paths(profile: &Profile) -> Profile {
    let all = |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect();
    Profile { dirs: all(&profile.dirs), log_dirs: all(&profile.log_dirs), ..profile.clone() }
}
