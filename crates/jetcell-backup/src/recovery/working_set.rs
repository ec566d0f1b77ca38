//! The files that a recovery modifies: copies in a separate directory, or the originals.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ese_engine::{DatabasePaths, EventSink, RecoverySet, SET_ASIDE};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{
    DirectoryLock, FileStem, Vfs, clone_or_copy, create_private_directory, parent_directory, sync_directory,
    with_path,
};

use super::error::{RecoveryError, Result};
use super::request::{OpenEventsFn, PreparedRecovery, RecoveryRequest, log_directory};
use crate::file_names::lock_file;

/// Everything that a recovery works on: the log directory, the logs to replay, and the database paths.
pub struct WorkingSet {
    pub directory: PathBuf,
    pub logs: Vec<(Generation, PathBuf)>,
    pub paths: DatabasePaths,
    /// Copies of the files. The copies are removed if the recovery fails.
    copies: Option<WorkingCopies>,
    /// Reserve logs that existed before the recovery.
    reserves: Vec<PathBuf>,
    /// Whether the lock file existed before the recovery.
    had_lock_file: bool,
    /// Recovery events, in the directory of the copies. `None` if the recovery works on the originals, because it adds
    /// no files to their directory.
    pub events: Option<Arc<dyn EventSink>>,
}

/// A directory of copies, which is removed on drop unless the caller keeps it.
struct WorkingCopies {
    directory: PathBuf,
    existed_before: bool,
    is_kept: bool,
    /// Prevents another recovery from using the directory until this one has finished.
    _lock: Box<dyn DirectoryLock>,
}

impl WorkingCopies {
    /// Creates the directory, or accepts an empty one, and locks it.
    fn begin(vfs: &dyn Vfs, directory: &Path) -> Result<WorkingCopies> {
        refuse_dangling_link(directory)?;
        let existed = directory.exists();
        let at_directory = |error| with_path(directory, error);
        create_private_directory(directory).map_err(at_directory)?;
        let lock = vfs.lock_directory(directory).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => RecoveryError::DirectoryInUse(directory.to_path_buf()),
            _ => at_directory(error).into(),
        })?;
        // Another recovery may have filled the directory before it was locked.
        if fs::read_dir(directory).map_err(at_directory)?.next().is_some() {
            return Err(RecoveryError::NotEmpty(directory.to_path_buf()));
        }
        Ok(WorkingCopies {
            directory: directory.to_path_buf(),
            existed_before: existed,
            is_kept: false,
            _lock: lock,
        })
    }
}

impl Drop for WorkingCopies {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // The directory was empty before, so everything in it was created by this recovery.
        if self.existed_before {
            let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
            entries.for_each(|entry| drop(fs::remove_file(entry.path())));
        } else {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

/// Returns an error if the path is a link whose target does not exist. No directory can be created at such a path.
fn refuse_dangling_link(path: &Path) -> Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    match fs::metadata(path) {
        Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
            Err(RecoveryError::DanglingLink(path.to_path_buf()))
        }
        _ => Ok(()),
    }
}

/// Returns an error if several databases have the same name.
fn check_names(set: &RecoverySet) -> Result<()> {
    let mut names = HashSet::new();
    match set.databases.iter().find(|database| !names.insert(database.path.file_name())) {
        Some(database) => Err(RecoveryError::SameName(database.path.clone())),
        None => Ok(()),
    }
}

impl WorkingSet {
    /// Returns the error that [`WorkingSet::copied`] would return for this directory. Nothing is created.
    pub fn check_copied(prepared: &PreparedRecovery, directory: &Path) -> Result<()> {
        let at_directory = |error| with_path(directory, error);
        match fs::read_dir(directory).map(|mut entries| entries.next().is_some()) {
            Ok(true) => Err(RecoveryError::NotEmpty(directory.to_path_buf())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // The path exists, so this call fails with the same error as the recovery would.
                create_private_directory(directory).map_err(at_directory)?;
                Err(at_directory(error).into())
            }
            Ok(false) => check_names(&prepared.set),
            Err(_) => refuse_dangling_link(directory).and_then(|()| check_names(&prepared.set)),
        }
    }

    /// Copies databases and logs into `directory`, which must be empty or not exist. The copies share blocks with the
    /// originals if the file system supports that. The newest log is truncated at the end of the replay, unless the
    /// databases stay dirty.
    pub fn copied(
        vfs: &Arc<dyn Vfs>,
        prepared: &PreparedRecovery,
        request: &RecoveryRequest,
        directory: &Path,
        open_events: &OpenEventsFn,
    ) -> Result<WorkingSet> {
        let PreparedRecovery { set, plan, until, .. } = prepared;
        let copy_file = |from: &Path, to: &Path| {
            clone_or_copy(from, to, &mut |_| true).map_err(|error| with_path(to, error))
        };
        let copies = WorkingCopies::begin(&**vfs, directory)?;
        check_names(set)?;
        let mut paths = DatabasePaths::default();
        let others = request.map.iter().map(|(_, new)| new).filter(|new| new.is_file());
        let found = set.databases.iter().map(|database| &database.path);
        let mut names = Vec::new();
        for path in found.chain(others) {
            let name = path.file_name().unwrap_or_default().to_owned();
            let copy = directory.join(&name);
            if names.contains(&name) {
                continue;
            }
            copy_file(path, &copy)?;
            names.push(name);
        }
        for (old, new) in &request.map {
            paths.rename(old, directory.join(new.file_name().unwrap_or_default()));
        }
        paths.search(directory);
        let newest = plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
        let mut logs = Vec::new();
        for (generation, path) in &plan.logs {
            let copy = directory.join(set.name_of(*generation, newest));
            copy_file(path, &copy)?;
            logs.push((*generation, copy));
        }
        if let Some((generation, path)) = logs.last()
            && until.generation == *generation
            && !request.keep_dirty
        {
            RecoverySet::cut_log(vfs, path, *until)?;
        }
        Ok(WorkingSet {
            directory: directory.to_path_buf(),
            logs,
            paths,
            copies: Some(copies),
            reserves: Vec::new(),
            had_lock_file: false,
            events: Some(open_events(directory).map_err(|error| with_path(directory, error))?),
        })
    }

    /// Uses the originals, or an overlay on them. Unless the databases stay dirty, the engine continues the log
    /// stream, so logs after the planned ones are renamed first.
    pub fn in_place(
        vfs: &dyn Vfs,
        prepared: &PreparedRecovery,
        request: &RecoveryRequest,
    ) -> Result<WorkingSet> {
        let PreparedRecovery { set, plan, .. } = prepared;
        let directory = log_directory(plan)?;
        let mut paths = DatabasePaths::default();
        request.map.iter().for_each(|(old, new)| paths.rename(old, new.clone()));
        set.databases.iter().for_each(|database| paths.search(parent_directory(&database.path)));
        paths.search(&directory);
        let mut logs = plan.logs.clone();
        if !request.keep_dirty {
            let planned = |path: &PathBuf| plan.logs.iter().any(|(_, of_plan)| of_plan == path);
            let newest = logs.last().map_or(Generation(0), |(newest, _)| *newest);
            let behind = set.logs.range(newest.next()..).map(|(_, path)| path).filter(|path| !planned(path));
            for path in behind {
                let mut lost = path.as_os_str().to_owned();
                lost.push(SET_ASIDE);
                rename_new(vfs, path, Path::new(&lost))?;
            }
            for (generation, path) in &mut logs {
                let wanted = directory.join(set.name_of(*generation, newest));
                if *path != wanted {
                    rename_new(vfs, path, &wanted)?;
                    *path = wanted;
                }
            }
            vfs.sync_directory(&directory).map_err(|error| with_path(&directory, error))?;
        }
        let reserves = find_reserve_logs(&directory)?;
        let had_lock_file = directory.join(lock_file(set.base_name)).exists();
        Ok(WorkingSet { directory, logs, paths, copies: None, reserves, had_lock_file, events: None })
    }

    /// Keeps the copies, and makes their names durable. Removes the engine's reserve logs and its lock file.
    pub fn keep(&mut self, base_name: FileStem) -> Result<()> {
        for reserve in find_reserve_logs(&self.directory)? {
            if !self.reserves.contains(&reserve) {
                let _ = fs::remove_file(reserve);
            }
        }
        if !self.had_lock_file {
            let _ = fs::remove_file(self.directory.join(lock_file(base_name)));
        }
        if let Some(copies) = &mut self.copies {
            copies.is_kept = true;
            sync_directory(&self.directory).map_err(|error| with_path(&self.directory, error))?;
        }
        Ok(())
    }

    /// Returns true if the recovery works on copies.
    pub fn is_copy(&self) -> bool {
        self.copies.is_some()
    }
}

/// Renames a file. Fails if that would replace another file.
fn rename_new(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<()> {
    let at_log = |error| with_path(from, error);
    if vfs.exists(to).map_err(at_log)? {
        return Err(RecoveryError::NameTaken { from: from.to_path_buf(), to: to.to_path_buf() });
    }
    Ok(vfs.rename(from, to).map_err(at_log)?)
}

/// Returns the reserve logs in a directory. A directory that does not exist has none.
fn find_reserve_logs(directory: &Path) -> Result<Vec<PathBuf>> {
    let at_directory = |error| with_path(directory, error);
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at_directory)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(at_directory)?.path();
        found.extend(path.extension().is_some_and(|extension| extension == "jrs").then_some(path));
    }
    Ok(found)
}

#[cfg(test)]
#[path = "working_set_tests.rs"]
mod tests;
