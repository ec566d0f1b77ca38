//! Files that a command line names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::RecoveryPlan;
use jetcell_vfs::{RealOptions, RealVfs, Vfs, is_unfinished, parent_directory};
use jetcell_workload::{EVENT_FILE, EventFile};

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Opens the machine's file system.
pub fn vfs() -> CommandResult<Arc<dyn Vfs>> {
    Ok(Arc::new(RealVfs::new(RealOptions::default()).context("cannot read files")?))
}

/// Converts a path to an absolute path, which remains valid for commands that are run in other directories.
pub fn absolute(path: &Path) -> CommandResult<PathBuf> {
    std::path::absolute(path).context(path.display())
}

/// Fails if `inner` is in the directory `outer`, or is that directory.
pub fn refuse_inside(outer: &Path, inner: &Path) -> CommandResult<()> {
    let outer_place = std::fs::canonicalize(outer).context(outer.display())?;
    let absolute = absolute(inner)?;
    // The path does not need to exist yet.
    let existing =
        absolute.ancestors().find_map(|path| std::fs::canonicalize(path).ok().map(|place| (path, place)));
    let Some((path, place)) = existing else { return Ok(()) };
    let place = place.join(absolute.strip_prefix(path).unwrap_or(Path::new("")));
    if outer_place.is_dir() && place.starts_with(&outer_place) {
        return Err(CommandError::new(format_args!("{} is inside {}", inner.display(), outer.display()))
            .advise("use a directory outside it"));
    }
    Ok(())
}

/// Returns the files at the given paths. A directory is replaced by the files in it.
pub fn files(paths: &[PathBuf]) -> CommandResult<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !std::fs::metadata(path).context(path.display())?.is_dir() {
            files.push(path.clone());
            continue;
        }
        for entry in std::fs::read_dir(path).context(path.display())? {
            let entry = entry.context(path.display())?;
            let path = entry.path();
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() && !is_unfinished(&path) => files.push(path),
                // The file was removed or renamed after the directory was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => {
                    other.context(path.display())?;
                }
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Opens the event file in a directory, to append to it.
pub fn open_events(directory: &Path) -> CommandResult<EventFile> {
    EventFile::open(directory, true).context(directory.join(EVENT_FILE).display())
}

/// Returns the directory that contains the planned logs.
pub fn log_directory(plan: &RecoveryPlan) -> CommandResult<PathBuf> {
    let directories: Vec<&Path> = plan.logs.iter().map(|(_, path)| parent_directory(path)).collect();
    let Some(directory) = directories.first() else { return Err(CommandError::new("there are no logs")) };
    if directories.iter().any(|other| other != directory) {
        return Err(CommandError::new("the logs are in several directories")
            .advise("to recover into a copy, use --into"));
    }
    Ok(directory.to_path_buf())
}
