//! The directory of an array, which lists the array's members.
//!
//! ```text
//! DIR/array.toml      identity of the array, paths of its members and of the write log, model of simulated drives
//! DIR/events.jsonl    events of the array
//! DIR/write-log       the write log, unless it is elsewhere
//! ```
//!
//! The superblocks of the members define the array. `array.toml` only lists paths to scan for superblocks, so it may
//! contain files that are not members, or no longer are. A crash between a change to the array and the update of this
//! file is therefore harmless.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jetcell_vfs::{
    DirectoryLock, Vfs, is_locked, parent_directory, read_input, replace_output, sync_directory,
};
use serde::{Deserialize, Serialize};

use super::simulated_drive::SimulatedDriveOptions;
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Name of the file that lists the members.
const STATE_FILE: &str = "array.toml";
/// Maximum size of the file in bytes. An array has at most 32 slots with two members each, and 8 spares, so this
/// program never writes a larger file.
const MAX_STATE_BYTES: u64 = 1 << 20;

/// An array, identified by its directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayDirectory {
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

/// A directory in which an array is being created. A newly created directory is removed on drop unless the array was
/// created.
pub struct ClaimedDirectory {
    /// Path of the directory if it was newly created.
    created: Option<PathBuf>,
    _lock: Option<Box<dyn DirectoryLock>>,
}

impl ClaimedDirectory {
    /// Keeps the directory, because the array was created.
    pub fn keep(mut self) {
        self.created = None;
    }
}

impl Drop for ClaimedDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.created {
            // The caller reports the original error, so a failure of the removal is ignored.
            let _ = std::fs::remove_dir(path);
        }
    }
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
    /// Fails if the directory belongs to an array or cannot be used for one.
    pub fn refuse_used(path: &Path) -> CommandResult<()> {
        let shown = path.display();
        if path.join(STATE_FILE).symlink_metadata().is_ok() {
            return Err(CommandError::new(format_args!("{shown} is the directory of an array"))
                .advise("choose another directory, or destroy the array"));
        }
        if path.exists() && !path.is_dir() {
            return Err(CommandError::new(format_args!("{shown} is not a directory"))
                .advise("specify a new or existing directory for the array"));
        }
        let parent = parent_directory(path);
        if !parent.is_dir() {
            return Err(CommandError::new(format_args!("{} does not exist", parent.display()))
                .advise("create it first"));
        }
        Ok(())
    }

    /// Creates the directory if it does not exist. Until the returned guard is dropped, no other process can create
    /// an array in the directory.
    pub fn claim(vfs: &dyn Vfs, path: &Path) -> CommandResult<ClaimedDirectory> {
        ArrayDirectory::refuse_used(path)?;
        let create_error = |error: io::Error| {
            CommandError::from(error).context(format_args!("{}: cannot be created", path.display()))
        };
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Some(path.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(create_error(error)),
        };
        vfs.sync_directory(parent_directory(path)).map_err(create_error)?;
        let mut claimed = ClaimedDirectory { created: made, _lock: None };
        let lock = vfs.lock(path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CommandError::new(format_args!(
                "{}: another process is creating an array in this directory",
                path.display()
            ))
            .advise("choose another directory"),
            _ => create_error(error),
        })?;
        claimed._lock = Some(lock);
        // Another process may have created an array before the lock was acquired.
        ArrayDirectory::refuse_used(path)?;
        Ok(claimed)
    }

    /// Reads the `array.toml` file of an array.
    pub fn open(path: &Path) -> CommandResult<ArrayDirectory> {
        let file = path.join(STATE_FILE);
        let shown = file.display();
        let text = read_input(&file, MAX_STATE_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => CommandError::new(format_args!(
                "{} is not the directory of an array ({STATE_FILE} does not exist)",
                path.display()
            ))
            .advise("create an array with jetcell raid create"),
            _ => CommandError::from(error).context(&shown),
        })?;
        let damaged = |what: &str| {
            CommandError::new(format_args!("{shown} is damaged ({what})")).advise("restore it from a copy")
        };
        let stored: StoredMembers = jetcell_input::toml::parse(&shown.to_string(), &text)
            .advise("the file is damaged, so restore it from a copy")?;
        let id = u128::from_str_radix(&stored.id, 16)
            .map_err(|_| damaged("the array ID is not a valid number"))?;
        let StoredMembers { members, write_log, simulated_drive, .. } = stored;
        if let Some(what) = simulated_drive.as_ref().and_then(SimulatedDriveOptions::invalid_reason) {
            return Err(damaged(&what));
        }
        Ok(ArrayDirectory { path: path.to_path_buf(), id, members, write_log, simulated_drive })
    }

    /// Writes the file atomically.
    pub fn save(&self) -> CommandResult<()> {
        let (members, write_log) = (self.members.clone(), self.write_log.clone());
        let simulated_drive = self.simulated_drive.clone();
        let stored = StoredMembers { id: format!("{:032x}", self.id), members, write_log, simulated_drive };
        let shown = self.path.join(STATE_FILE);
        let context = format!("{}: cannot be written", shown.display());
        let text = toml::to_string(&stored).context(&context)?;
        let head = "# Members of an array; see jetcell raid status. Paths may be changed while no process uses the array.\n";
        replace_output(&shown, format!("{head}{text}")).context(context)
    }

    /// Removes the file, so that the directory no longer belongs to an array. The events remain.
    pub fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(self.path.join(STATE_FILE))?;
        sync_directory(&self.path)
    }
}

/// Returns a member that is locked by a process, which means that this process has the array open.
pub fn find_locked_member(members: &[PathBuf]) -> Option<&PathBuf> {
    members.iter().find(|path| is_locked(path).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use jetcell_vfs::{RealOptions, RealVfs};

    use super::*;

    #[test]
    fn array_creation_in_a_directory_is_exclusive() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("array");
        let vfs = RealVfs::new(RealOptions::default()).unwrap();
        let claimed = ArrayDirectory::claim(&vfs, &path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let second = ArrayDirectory::claim(&vfs, &path).err().unwrap().full_text();
        assert!(second.contains("another process is creating an array"), "{second}");
        drop(claimed);
        assert!(!path.exists(), "a new directory without an array is removed");
        let claimed = ArrayDirectory::claim(&vfs, &path).unwrap();
        std::fs::write(path.join(STATE_FILE), "").unwrap();
        claimed.keep();
        let used = ArrayDirectory::claim(&vfs, &path).err().unwrap().full_text();
        assert!(used.contains("is the directory of an array") && path.join(STATE_FILE).exists(), "{used}");
        // An existing directory is not removed.
        let existing = parent.path().join("existing");
        std::fs::create_dir(&existing).unwrap();
        drop(ArrayDirectory::claim(&vfs, &existing).unwrap());
        assert!(existing.exists());
    }

    #[test]
    fn the_array_file_round_trips_and_damage_gives_one_line() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ArrayDirectory::open(dir.path()).unwrap_err().full_text().contains("raid create"));
        let members = vec!["/disks/a \"b\"".into(), "/disks/c".into()];
        let mut array = ArrayDirectory {
            path: dir.path().into(),
            id: 0xABC,
            members,
            write_log: None,
            simulated_drive: None,
        };
        let drives =
            ["15k-146", "10k-300", "ssd"].map(|name| SimulatedDriveOptions::new(name, 20.0).unwrap());
        let drives = std::iter::once(None).chain(drives.map(Some));
        for (write_log, simulated_drive) in [None, Some("/fast/log".into())].into_iter().cycle().zip(drives) {
            (array.write_log, array.simulated_drive) = (write_log, simulated_drive);
            array.save().unwrap();
            assert_eq!(ArrayDirectory::open(dir.path()).unwrap(), array);
        }
        assert!(ArrayDirectory::refuse_used(dir.path()).is_err());
        for text in [
            "",
            "id = 3",
            "id = \"x\"\nmembers = []",
            "id = \"1\"\nmembers = []\nmore = 1",
            "[[[",
            "id = \"1\"\nmembers = []\n[simulated_drive]\ntime_scale = 0",
        ] {
            std::fs::write(dir.path().join(STATE_FILE), text).unwrap();
            let complaint = ArrayDirectory::open(dir.path()).unwrap_err().full_text();
            assert!(complaint.contains("is damaged") && complaint.lines().count() == 1, "{complaint}");
            assert!(complaint.contains("line 3") || !text.ends_with("more = 1"), "{complaint}");
        }
        array.remove().unwrap();
        ArrayDirectory::refuse_used(dir.path()).unwrap();
    }
}
