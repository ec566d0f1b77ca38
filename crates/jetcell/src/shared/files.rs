//! Files that a command line names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::RecoveryPlan;
use jetcell_vfs::{RealOptions, RealVfs, Vfs, is_unfinished, parent_directory};

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Opens the machine's file system.
pub fn vfs() -> CommandResult<Arc<dyn Vfs>> {
    Ok(Arc::new(RealVfs::new(RealOptions::default()).context("cannot read files")?))
}

/// Fails if `inner` is in the directory `outer`, or is that directory.
pub fn refuse_inside(outer: &Path, inner: &Path) -> Result<(), CommandError> {
    let error_with_path = |error: std::io::Error| CommandError::from(format!("{}: {error}", outer.display()));
    let outer_place = std::fs::canonicalize(outer).map_err(error_with_path)?;
    let absolute = std::path::absolute(inner).map_err(error_with_path)?;
    // The path does not need to exist yet.
    let existing =
        absolute.ancestors().find_map(|path| std::fs::canonicalize(path).ok().map(|place| (path, place)));
    let Some((path, place)) = existing else { return Ok(()) };
    let place = place.join(absolute.strip_prefix(path).unwrap_or(Path::new("")));
    if outer_place.is_dir() && place.starts_with(&outer_place) {
        return Err(
            format!("{} is inside {}; use a directory outside it", inner.display(), outer.display()).into()
        );
    }
    Ok(())
}

/// Returns the files at the given paths. A directory is replaced by the files in it.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        let error_with_path = |error: std::io::Error| format!("{}: {error}", path.display());
        if !std::fs::metadata(path).map_err(error_with_path)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        for entry in std::fs::read_dir(path).map_err(error_with_path)? {
            let entry = entry.map_err(error_with_path)?;
            let path = entry.path();
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() && !is_unfinished(&path) => files.push(path),
                // The file was removed or renamed after the directory was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{}: {error}", path.display()).into()),
                Ok(_) => {}
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Returns the directory that contains the planned logs.
pub fn log_directory(plan: &RecoveryPlan) -> Result<PathBuf, CommandError> {
    let directories: Vec<&Path> = plan.logs.iter().map(|(_, path)| parent_directory(path)).collect();
    let Some(directory) = directories.first() else { return Err("there are no logs".into()) };
    if directories.iter().any(|other| other != directory) {
        return Err("the logs are in several directories; to recover into a copy, use --into".into());
    }
    Ok(directory.to_path_buf())
}
