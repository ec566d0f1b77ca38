//! Starts an array from its directory, together with its event file, and shuts it down.

use std::path::{Path, PathBuf};

use jetcell_array::{Array, AssembleOptions};
use jetcell_host::EventLines;
use jetcell_luns::{LunVolume, TornRows};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;
use serde_json::json;

use crate::description::describe_exclusion;
use crate::directory::{ArrayDirectory, ArrayEventSeverity, ArrayFiles, find_locked_member};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};

/// Options for starting an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayStartOptions {
    /// Directory of the array.
    pub array: PathBuf,
    /// Whether the array starts even if it was not shut down cleanly and members are missing. The last writes may be
    /// lost.
    pub start_degraded: bool,
}

/// A started array, with its files.
pub(crate) struct RunningArray {
    pub array: Array,
    /// The machine's file system, for the write log. It does not have the timing of simulated drives.
    pub vfs: Arc<dyn Vfs>,
    pub files: ArrayFiles,
}

impl ArrayStartOptions {
    /// Creates options for starting an array that was shut down cleanly or has all its members.
    pub fn for_array(array: &Path) -> ArrayStartOptions {
        ArrayStartOptions { array: array.to_path_buf(), start_degraded: false }
    }

    /// Starts the array from the members that are listed in its directory and confirmed by their superblocks.
    pub(crate) fn start(&self, environment: &ServiceEnvironment) -> Result<RunningArray> {
        let (array, vfs) = (&self.array, &environment.vfs);
        let directory = ArrayDirectory::open(array)?;
        if let Some(member) = find_locked_member(&directory.members) {
            return Err(Error::InUse { array: array.clone(), member: member.clone() });
        }
        let found = directory.examine(&**vfs).in_array(array.display())?;
        let events = EventLines::open(array, true)
            .map_err(|source| Error::EventFile { array: array.clone(), source })?;
        let (known, left_out): (Vec<_>, Vec<_>) =
            found.members.into_iter().partition(|(_, state)| state.is_used());
        for (path, state) in &left_out {
            let reason = describe_exclusion(state);
            environment.note(format_args!("{}: skipped: {reason}", path.display()));
        }
        let returned: Vec<PathBuf> = known
            .iter()
            .filter(|(path, _)| !directory.members.contains(path))
            .map(|(path, _)| path.clone())
            .collect();
        let members: Vec<PathBuf> = known.into_iter().map(|(path, _)| path).collect();
        let options = AssembleOptions { force: self.start_degraded, ..AssembleOptions::default() };
        let of_members = match &directory.simulated_drive {
            Some(drive) => drive.wrap_vfs(vfs.clone())?,
            None => vfs.clone(),
        };
        let mut assembled = Array::assemble(of_members, &members, options).in_array(array.display())?;
        let torn = LunVolume::clear_torn_rows(&mut assembled).in_array(array.display())?;
        let files = ArrayFiles { directory, events };
        let mut running = RunningArray { array: assembled, vfs: vfs.clone(), files };
        for (path, state) in left_out {
            running.files.event(
                "member_left_out",
                ArrayEventSeverity::Warning,
                &format!("{} was skipped: {}.", path.display(), describe_exclusion(&state)),
                json!({}),
            );
        }
        if let TornRows::Unknown(lost) = torn {
            let text = format!("rows that a crash left inconsistent may remain: {lost}");
            environment.note(format_args!("{}: {text}", array.display()));
            running.files.event("rows_not_cleared", ArrayEventSeverity::Warning, &text, json!({}));
        }
        for path in returned {
            running.files.event(
                "member_returned",
                ArrayEventSeverity::Information,
                &format!("{} is used again: it has missed no writes.", path.display()),
                json!({ "member": jetcell_input::json_path(&path) }),
            );
        }
        match running.save_members() {
            Ok(()) => Ok(running),
            Err(error) => running.refuse(error),
        }
    }
}

impl RunningArray {
    /// Writes the array's current members to `array.toml` in its directory.
    fn save_members(&mut self) -> Result<()> {
        self.files.save_members(&self.array.status())
    }

    /// Shuts the array down.
    pub fn close(mut self) -> Result<()> {
        let saved = self.save_members();
        self.array.close().in_array(self.files.directory.path.display()).and(saved)
    }

    /// Shuts the array down, and returns the error. Without this shutdown, the next start would assume that the array
    /// crashed.
    pub fn refuse<T>(self, error: Error) -> Result<T> {
        // The first error is reported. It may be the reason why the shutdown fails.
        let _ = self.close();
        Err(error)
    }
}
