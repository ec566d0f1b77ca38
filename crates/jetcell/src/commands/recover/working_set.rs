//! The files that a recovery modifies: copies in a separate directory, or the originals.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{DatabasePaths, RecoveryPlan, RecoverySet, SET_ASIDE};
use ese_format::{Generation, LogPosition};
use jetcell_vfs::{
    DirectoryLock, FileStem, Vfs, clone_or_copy, create_private_directory, parent_directory, sync_directory,
};
use jetcell_workload::EventFile;

use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::files::log_directory;

/// Everything that a recovery works on: the log directory, the logs to replay, and the database paths.
pub struct WorkingSet {
    pub directory: PathBuf,
    pub logs: Vec<(Generation, PathBuf)>,
    pub paths: DatabasePaths,
    /// Copies of the files. The copies are removed if the recovery fails.
    copies: Option<WorkingCopies>,
    /// Reserve logs that existed before the recovery.
    reserves: Vec<PathBuf>,
    /// Recovery events, in the directory of the copies. `None` if the recovery works on the originals, because no
    /// file is added to their directory.
    pub events: Option<EventFile>,
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
    fn begin(vfs: &dyn Vfs, directory: &Path) -> CommandResult<WorkingCopies> {
        let (existed, shown) = (directory.exists(), directory.display());
        create_private_directory(directory).context(&shown)?;
        let lock = vfs.lock_directory(directory).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CommandError::new("another process is using the directory")
                .advise("use --into to specify a different directory"),
            _ => error.into(),
        });
        let lock = lock.context(&shown)?;
        // Another recovery may have filled the directory before it was locked.
        if fs::read_dir(directory).context(&shown)?.next().is_some() {
            return Err(CommandError::new("the directory is not empty")
                .context(directory.display())
                .advise("use --into to specify a different directory"));
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

impl WorkingSet {
    /// Copies databases and logs into `directory`, which must be empty or not exist. The copies share blocks with the
    /// originals if the file system supports that. If `cut` is given, the newest log is truncated at this position.
    pub fn copied(
        vfs: &Arc<dyn Vfs>,
        set: &RecoverySet,
        plan: &RecoveryPlan,
        directory: &Path,
        renamed: &[(String, PathBuf)],
        cut: Option<LogPosition>,
    ) -> CommandResult<WorkingSet> {
        let copies = WorkingCopies::begin(&**vfs, directory)?;
        let mut paths = DatabasePaths::default();
        let others = renamed.iter().map(|(_, new)| new).filter(|new| new.is_file());
        let found = set.databases.iter().map(|database| &database.path);
        let mut names = Vec::new();
        for path in found.chain(others) {
            let name = path.file_name().unwrap_or_default().to_owned();
            let copy = directory.join(&name);
            if names.contains(&name) {
                if set.databases.iter().filter(|one| one.path.file_name() == Some(&name)).count() > 1 {
                    return Err(CommandError::new(format_args!(
                        "{}: several databases have this name",
                        path.display()
                    ))
                    .advise("specify only one of them"));
                }
                continue;
            }
            clone_or_copy(path, &copy, &mut |_| true).context(copy.display())?;
            names.push(name);
        }
        for (old, new) in renamed {
            paths.rename(old, directory.join(new.file_name().unwrap_or_default()));
        }
        paths.search(directory);
        let newest = plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
        let mut logs = Vec::new();
        for (generation, path) in &plan.logs {
            let copy = directory.join(set.name_of(*generation, newest));
            clone_or_copy(path, &copy, &mut |_| true).context(copy.display())?;
            logs.push((*generation, copy));
        }
        if let (Some(cut), Some((generation, path))) = (cut, logs.last())
            && cut.generation == *generation
        {
            RecoverySet::cut_log(vfs, path, cut)?;
        }
        Ok(WorkingSet {
            directory: directory.to_path_buf(),
            logs,
            paths,
            copies: Some(copies),
            reserves: Vec::new(),
            events: Some(EventFile::open(directory, false).context(directory.display())?),
        })
    }

    /// Uses the originals, or an overlay on them. If `own` is true, the engine continues the log stream, so logs
    /// after the planned ones are renamed first.
    pub fn in_place(
        vfs: &dyn Vfs,
        set: &RecoverySet,
        plan: &RecoveryPlan,
        renamed: &[(String, PathBuf)],
        own: bool,
    ) -> CommandResult<WorkingSet> {
        let directory = log_directory(plan)?;
        let mut paths = DatabasePaths::default();
        renamed.iter().for_each(|(old, new)| paths.rename(old, new.clone()));
        set.databases.iter().for_each(|database| paths.search(parent_directory(&database.path)));
        paths.search(&directory);
        let mut logs = plan.logs.clone();
        if own {
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
            vfs.sync_directory(&directory).context(directory.display())?;
        }
        let reserves = find_reserve_logs(&directory);
        Ok(WorkingSet { directory, logs, paths, copies: None, reserves, events: None })
    }

    /// Keeps the copies, and makes their names durable. Removes the engine's reserve logs.
    pub fn keep(&mut self, base_name: FileStem) -> CommandResult<()> {
        for reserve in find_reserve_logs(&self.directory) {
            if !self.reserves.contains(&reserve) {
                let _ = fs::remove_file(reserve);
            }
        }
        if let Some(copies) = &mut self.copies {
            copies.is_kept = true;
            let _ = fs::remove_file(self.directory.join(format!("{base_name}.lock")));
            sync_directory(&self.directory).context(self.directory.display())?;
        }
        Ok(())
    }

    /// Returns true if the recovery works on copies.
    pub fn is_copy(&self) -> bool {
        self.copies.is_some()
    }
}

/// Renames a file. Fails if that would replace another file.
fn rename_new(vfs: &dyn Vfs, from: &Path, to: &Path) -> CommandResult<()> {
    if vfs.exists(to).context(from.display())? {
        return Err(CommandError::new(format_args!(
            "{}: the log must be renamed to {}, but another file has this name",
            from.display(),
            to.display()
        ))
        .advise("move that file, or use --into to recover into a copy"));
    }
    vfs.rename(from, to).context(from.display())
}

/// Returns the reserve logs in a directory.
fn find_reserve_logs(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "jrs")).collect()
}
