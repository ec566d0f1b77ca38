//! `array.toml`: the file that lists the members of an array.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_array::{ArrayExamination, ArrayState, MemberState};
use jetcell_vfs::{Vfs, is_locked, read_input, replace_output, sync_directory};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, StateFileFault};
use crate::members::SimulatedDriveOptions;

/// Name of the file that lists the members.
pub(super) const STATE_FILE: &str = "array.toml";
/// Maximum size of the file in bytes. An array has at most 32 slots with two members each, and 8 spares, so this
/// program never writes a larger file.
const MAX_STATE_BYTES: u64 = 1 << 20;
/// Maximum number of former members that are remembered.
const MAX_FORMER_MEMBERS: usize = 32;

/// An array, identified by its directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayDirectory {
    /// Path as the user gave it.
    pub path: PathBuf,
    /// Identity of the array, which is stored in the superblocks of its members.
    pub id: u128,
    /// Absolute paths of the members.
    pub members: Vec<PathBuf>,
    /// Absolute paths of former members: they failed, were not found, or were replaced. If a member is missing, its
    /// superblock is searched for under these paths too.
    pub former: Vec<PathBuf>,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_log: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_drive: Option<SimulatedDriveOptions>,
}

impl ArrayDirectory {
    /// Reads the `array.toml` file of an array.
    ///
    /// # Errors
    /// Returns an error if the directory does not belong to an array, or if the file is damaged.
    pub fn open(path: &Path) -> Result<ArrayDirectory> {
        let file = path.join(STATE_FILE);
        let text = read_input(&file, MAX_STATE_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotAnArray(path.to_path_buf()),
            _ => Error::Path { path: file.clone(), source },
        })?;
        let damaged = |fault| Error::DamagedStateFile { path: file.clone(), fault };
        let stored: StoredMembers = jetcell_input::toml::parse(&file.display().to_string(), &text)?;
        let id = u128::from_str_radix(&stored.id, 16).map_err(|_| damaged(StateFileFault::Id))?;
        let StoredMembers { members, former, write_log, simulated_drive, .. } = stored;
        let checked = simulated_drive.as_ref().map_or(Ok(()), SimulatedDriveOptions::check);
        checked.map_err(|fault| damaged(fault.into()))?;
        Ok(ArrayDirectory { path: path.to_path_buf(), id, members, former, write_log, simulated_drive })
    }

    /// Examines the members. If a member is missing, former members are examined too. A member that failed only briefly
    /// may still be current, because nothing is written to an array after it has stopped.
    ///
    /// # Errors
    /// Returns an error if none of the files is a member of the array.
    pub fn examine(&self, vfs: &dyn Vfs) -> jetcell_array::Result<ArrayExamination> {
        let found = ArrayExamination::new(vfs, self.id, &self.members);
        let is_optimal = found.as_ref().is_ok_and(|found| found.state == ArrayState::Optimal);
        if is_optimal || self.former.is_empty() {
            return found;
        }
        let unlisted = self.former.iter().filter(|path| !self.members.contains(path)).cloned();
        let all: Vec<_> = self.members.iter().cloned().chain(unlisted).collect();
        let mut with_former = ArrayExamination::new(vfs, self.id, &all)?;
        let (mut listed, former): (Vec<_>, Vec<_>) =
            with_former.members.into_iter().partition(|(path, _)| self.members.contains(path));
        for (path, state) in former {
            // A former member may be a copy of a listed one, or another path to it.
            if matches!(state, MemberState::Slot(_) | MemberState::Replacement(_))
                && listed.iter().all(|(_, other)| *other != state)
            {
                listed.push((path, state));
            }
        }
        with_former.members = listed;
        Ok(with_former)
    }

    /// Replaces the list of members. Paths that are no longer used become former members; the most recent ones are
    /// kept.
    pub(super) fn set_members(&mut self, members: Vec<PathBuf>) {
        let old = std::mem::replace(&mut self.members, members);
        let former = std::mem::take(&mut self.former).into_iter().chain(old);
        for path in former.filter(|path| !self.members.contains(path)) {
            self.former.retain(|known| *known != path);
            self.former.push(path);
        }
        let excess = self.former.len().saturating_sub(MAX_FORMER_MEMBERS);
        self.former.drain(..excess);
    }

    /// Writes the file atomically.
    pub(crate) fn save(&self) -> Result<()> {
        let ArrayDirectory { members, former, write_log, simulated_drive, .. } = self.clone();
        let id = format!("{:032x}", self.id);
        let stored = StoredMembers { id, members, former, write_log, simulated_drive };
        let path = self.path.join(STATE_FILE);
        let write_error = |source| Error::Write { path: path.clone(), source };
        let text = toml::to_string(&stored).map_err(|error| write_error(io::Error::other(error)))?;
        let head = "# Members of an array; see jetcell raid status. Paths may be changed while no process uses the array.\n";
        replace_output(&path, format!("{head}{text}")).map_err(write_error)
    }

    /// Removes the file. The directory then no longer belongs to an array. The events remain.
    pub(crate) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(self.path.join(STATE_FILE))?;
        sync_directory(&self.path)
    }
}

/// Returns a member that is locked by a process, if any. That process then has the array open.
pub fn find_locked_member(members: &[PathBuf]) -> Option<&PathBuf> {
    members.iter().find(|path| is_locked(path).unwrap_or(false))
}

/// Converts a path to an absolute path, which remains valid for commands that are run in other directories.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|source| Error::Path { path: path.to_path_buf(), source })
}
