//! `array.toml`: the file that lists the members of an array.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_vfs::{is_locked, read_input, replace_output, sync_directory};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, StateFileFault};
use crate::members::SimulatedDriveOptions;

/// Name of the file that lists the members.
pub(super) const STATE_FILE: &str = "array.toml";
/// Maximum size of the file in bytes. An array has at most 32 slots with two members each, and 8 spares, so this
/// program never writes a larger file.
const MAX_STATE_BYTES: u64 = 1 << 20;

/// An array, identified by its directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayDirectory {
    /// Path as the user gave it.
    pub path: PathBuf,
    /// Identity of the array, which is stored in the superblocks of its members.
    pub id: u128,
    /// Absolute paths of the members.
    pub members: Vec<PathBuf>,
    /// Write log of the LUNs, if it is not in the directory.
    pub write_log: Option<PathBuf>,
    /// Drive model whose timing the members simulate, or `None` if the members are real drives.
    pub simulated_drive: Option<SimulatedDriveOptions>,
}

/// Returns true if the directory belongs to an array.
pub fn is_array(directory: &Path) -> bool {
    directory.join(STATE_FILE).is_file()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMembers {
    id: String,
    members: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_log: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_drive: Option<SimulatedDriveOptions>,
}

impl ArrayDirectory {
    /// Reads the `array.toml` file of an array.
    ///
    /// # Errors
    /// The directory does not belong to an array, or the file is damaged.
    pub fn open(path: &Path) -> Result<ArrayDirectory> {
        let file = path.join(STATE_FILE);
        let text = read_input(&file, MAX_STATE_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotAnArray(path.to_path_buf()),
            _ => Error::Path { path: file.clone(), source },
        })?;
        let damaged = |fault| Error::DamagedStateFile { path: file.clone(), fault };
        let stored: StoredMembers = jetcell_input::toml::parse(&file.display().to_string(), &text)?;
        let id = u128::from_str_radix(&stored.id, 16).map_err(|_| damaged(StateFileFault::Id))?;
        let StoredMembers { members, write_log, simulated_drive, .. } = stored;
        let checked = simulated_drive.as_ref().map_or(Ok(()), SimulatedDriveOptions::check);
        checked.map_err(|fault| damaged(fault.into()))?;
        Ok(ArrayDirectory { path: path.to_path_buf(), id, members, write_log, simulated_drive })
    }

    /// Writes the file atomically.
    pub(crate) fn save(&self) -> Result<()> {
        let (members, write_log) = (self.members.clone(), self.write_log.clone());
        let simulated_drive = self.simulated_drive.clone();
        let stored = StoredMembers { id: format!("{:032x}", self.id), members, write_log, simulated_drive };
        let path = self.path.join(STATE_FILE);
        let write_error = |source| Error::Write { path: path.clone(), source };
        let text = toml::to_string(&stored).map_err(|error| write_error(io::Error::other(error)))?;
        let head = "# Members of an array; see jetcell raid status. Paths may be changed while no process uses the array.\n";
        replace_output(&path, format!("{head}{text}")).map_err(write_error)
    }

    /// Removes the file, so that the directory no longer belongs to an array. The events remain.
    pub(crate) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(self.path.join(STATE_FILE))?;
        sync_directory(&self.path)
    }
}

/// Returns a member that is locked by a process, which means that this process has the array open.
pub fn find_locked_member(members: &[PathBuf]) -> Option<&PathBuf> {
    members.iter().find(|path| is_locked(path).unwrap_or(false))
}

/// Converts a path to an absolute path, which remains valid for commands that are run in other directories.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|source| Error::Path { path: path.to_path_buf(), source })
}
