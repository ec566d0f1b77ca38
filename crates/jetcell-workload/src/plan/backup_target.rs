//! Checks the directory to which the backup test writes. The checks leave no traces on disk.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use crate::profile::Profile;
use crate::start_error::StartError;

/// Returns an error if the directory cannot receive a new backup. The directory need not exist.
pub(crate) fn check(profile: &Profile) -> Result<(), StartError> {
    let Some(to) = &profile.to else { return Ok(()) };
    match fs::read_dir(to).map(|mut entries| entries.next().is_none()) {
        Ok(false) => return Err(StartError::BackupNotEmpty(to.clone())),
        Ok(true) => {}
        Err(_) if to.symlink_metadata().is_ok() => {
            return Err(StartError::BackupNotReadable(to.clone()));
        }
        Err(_) => {}
    }
    let there = to.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    if !there.is_dir() || rustix::fs::accessat(CWD, there, Access::WRITE_OK, AtFlags::empty()).is_err() {
        let (path, directory) = (to.clone(), there.into());
        return Err(StartError::NotWritableDirectory { option: "--to", path, directory });
    }
    let target = place(to);
    match profile.dirs.iter().chain(&profile.log_dirs).find(|dir| target.starts_with(place(dir))) {
        Some(source) => Err(StartError::BackupInside { to: to.clone(), source_dir: source.clone() }),
        None => Ok(()),
    }
}

/// Returns the absolute path, with symbolic links resolved in the part of the path that exists.
fn place(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let there = absolute.ancestors().find_map(|path| Some((path, fs::canonicalize(path).ok()?)));
    match there {
        Some((there, real)) => real.join(absolute.strip_prefix(there).unwrap_or(Path::new(""))),
        None => absolute,
    }
}
