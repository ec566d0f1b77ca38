//! Preserved states of prepared databases. The databases are restored to this state before each run (`--reset`), so
//! repeated or compared runs all start from the same state.
//!
//! The preserved files are in directories named `prepared`, one next to each database and one next to its log
//! directory. A file in the first database's directory marks the preserved state as complete. This file is written
//! last and lists all databases.
//!
//! A restore overwrites the existing database files and takes time proportional to their size. It is recorded in the
//! marker file before it starts. Until it is complete, runs without `--reset` are refused. A run with `--reset`
//! restarts it, which is possible because the preserved files do not change. A crash at any point therefore costs
//! only time.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use jetcell_vfs::{create_private_directory, open_or_create, parent_directory, sync_directory, sync_file};
use serde::{Deserialize, Serialize};

use crate::layout::InstancePlan;
use crate::preserved_state_error::PreservedStateError;
use crate::profile::ResetMethod;
use crate::start_error::StartError;
use crate::state_file::{StateFile, absolute};

/// Name of the marker file, in the first database's directory.
pub(crate) const MARKER_FILE: &str = "jetcell-prepared.json";

/// Name of the directories that contain the preserved files.
pub(crate) const PRESERVED_DIRECTORY: &str = "prepared";

const VERSION: u32 = 1;

const STATE_FILE: StateFile = StateFile {
    name: MARKER_FILE,
    max_bytes: 4 << 20,
    advice: "remove it and the directories named prepared, and create the databases again with --force",
};

/// Buffer size for copying a file, in bytes.
const COPY_BUFFER_BYTES: usize = 4 << 20;

/// Interval between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

fn io_error_at(path: &Path) -> impl Fn(io::Error) -> PreservedStateError {
    move |error| PreservedStateError::Io { path: path.into(), error }
}

/// Outcome of copying files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileCopyOutcome {
    /// The copy is complete and durable.
    Done,
    /// The copy was stopped on request.
    Stopped,
}

/// The preserved state of a run's databases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PreparedState {
    version: u32,
    instances: Vec<InstancePlan>,
    /// Whether a restore is in progress or was interrupted.
    putting_back: bool,
}

impl PreparedState {
    /// Reads the preserved state of the databases in a directory. Returns `None` if no state is preserved.
    pub(crate) fn read(dir: &Path) -> Result<Option<PreparedState>, StartError> {
        let Some(prepared) = STATE_FILE.read::<PreparedState>(dir)? else { return Ok(None) };
        match prepared.version {
            VERSION => Ok(Some(prepared)),
            _ => {
                let path = dir.join(MARKER_FILE);
                Err(StartError::OtherVersion { path, advice: STATE_FILE.advice })
            }
        }
    }

    /// Returns true if a restore was interrupted. The databases are then in neither their preserved state nor the
    /// state in which the last run left them.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.putting_back
    }

    /// Returns the preserved files as instances. Returns an error if they belong to other databases.
    pub(crate) fn preserved_instances(
        &self,
        instances: &[InstancePlan],
    ) -> Result<Vec<InstancePlan>, StartError> {
        let places = |all: &[InstancePlan]| -> Vec<(PathBuf, PathBuf)> {
            all.iter().map(|one| (absolute(&one.database), absolute(&one.log_dir))).collect()
        };
        if places(&self.instances) != places(instances) {
            let (preserved, databases) = (self.instances.len(), instances.len());
            return Err(StartError::OtherDatabases { preserved, databases });
        }
        Ok(instances.iter().map(preserved_paths).collect())
    }
}

/// Returns the paths of a database's preserved files.
pub(crate) fn preserved_paths(instance: &InstancePlan) -> InstancePlan {
    let beside = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        path.parent().unwrap_or(Path::new("")).join(PRESERVED_DIRECTORY).join(name)
    };
    InstancePlan {
        database: beside(&instance.database),
        log_dir: beside(&instance.log_dir),
        ..instance.clone()
    }
}

/// Preserves the current state of closed databases, replacing any previously preserved state.
pub(crate) fn preserve(
    dir: &Path,
    instances: &[InstancePlan],
    method: ResetMethod,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<FileCopyOutcome, PreservedStateError> {
    remove(dir, instances).map_err(io_error_at(dir))?;
    let pairs: Vec<_> =
        instances.iter().map(|instance| (instance.clone(), preserved_paths(instance))).collect();
    if copy_all(&pairs, method, progress)? == FileCopyOutcome::Stopped {
        return Ok(FileCopyOutcome::Stopped);
    }
    let prepared =
        PreparedState { version: VERSION, instances: all_absolute(instances), putting_back: false };
    STATE_FILE.write(dir, &prepared).map_err(io_error_at(&dir.join(MARKER_FILE)))?;
    Ok(FileCopyOutcome::Done)
}

/// Restores closed databases to their preserved state. If the restore is stopped, it must be repeated before the
/// databases can be used.
pub(crate) fn restore(
    dir: &Path,
    instances: &[InstancePlan],
    method: ResetMethod,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<FileCopyOutcome, PreservedStateError> {
    let note = |putting_back: bool| {
        let prepared = PreparedState { version: VERSION, instances: all_absolute(instances), putting_back };
        STATE_FILE.write(dir, &prepared).map_err(io_error_at(&dir.join(MARKER_FILE)))
    };
    note(true)?;
    let pairs: Vec<_> =
        instances.iter().map(|instance| (preserved_paths(instance), instance.clone())).collect();
    if copy_all(&pairs, method, progress)? == FileCopyOutcome::Stopped {
        return Ok(FileCopyOutcome::Stopped);
    }
    note(false)?;
    Ok(FileCopyOutcome::Done)
}

/// Removes the preserved state, if it exists.
pub(crate) fn remove(dir: &Path, instances: &[InstancePlan]) -> io::Result<()> {
    if dir.join(MARKER_FILE).exists() {
        // Once this file is removed, no run uses the preserved files.
        STATE_FILE.remove(dir)?;
    }
    for kept in instances.iter().map(preserved_paths) {
        for file in files_of(&kept)? {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

fn all_absolute(instances: &[InstancePlan]) -> Vec<InstancePlan> {
    let place = |one: &InstancePlan| InstancePlan {
        database: absolute(&one.database),
        log_dir: absolute(&one.log_dir),
        ..one.clone()
    };
    instances.iter().map(place).collect()
}

/// Returns the files of a closed database: the database file, and all files in its log directory except lock files.
fn files_of(instance: &InstancePlan) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        Some(instance.database.clone()).filter(|file| file.exists()).into_iter().collect();
    let entries = match fs::read_dir(&instance.log_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_file() && path.extension().is_none_or(|extension| extension != "lock") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Copies databases with their logs, using one thread per volume. `progress` receives the number of bytes completed
/// and the total.
fn copy_all(
    pairs: &[(InstancePlan, InstancePlan)],
    method: ResetMethod,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<FileCopyOutcome, PreservedStateError> {
    let len = |file: &PathBuf| file.metadata().map_or(0, |file| file.len());
    let bytes = |one: &InstancePlan| files_of(one).map_or(0, |files| files.iter().map(len).sum::<u64>());
    let total = pairs.iter().map(|(from, _)| bytes(from)).sum();
    let directory = |one: &InstancePlan| one.database.parent().map(Path::to_path_buf).unwrap_or_default();
    let volumes: BTreeSet<PathBuf> = pairs.iter().map(|(from, _)| directory(from)).collect();
    let (stopped, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let copied = std::thread::scope(|scope| {
        let (sender, ended) = channel();
        for volume in &volumes {
            let (sender, stopped, done) = (sender.clone(), &stopped, &done);
            scope.spawn(move || {
                let mut own = pairs.iter().filter(|(from, _)| directory(from) == *volume);
                let copied = own.try_for_each(|(from, to)| copy_one(from, to, method, stopped, done));
                // Sending cannot fail, because the receiver waits for all senders.
                let _ = sender.send(copied);
            });
        }
        drop(sender);
        let mut outcome = Ok(());
        loop {
            if !progress(done.load(Ordering::Relaxed), total) {
                stopped.store(true, Ordering::Relaxed);
            }
            match ended.recv_timeout(PROGRESS_INTERVAL) {
                Ok(copied) => outcome = outcome.and(copied),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return outcome,
            }
        }
    });
    copied?;
    Ok(if stopped.load(Ordering::Relaxed) { FileCopyOutcome::Stopped } else { FileCopyOutcome::Done })
}

/// Copies the files of `from` to `to`, removes all other files from `to`, and syncs the result.
fn copy_one(
    from: &InstancePlan,
    to: &InstancePlan,
    method: ResetMethod,
    stopped: &AtomicBool,
    done: &AtomicU64,
) -> Result<(), PreservedStateError> {
    let directories = [parent_directory(&to.database), &to.log_dir];
    for directory in directories {
        create_private_directory(directory).map_err(io_error_at(directory))?;
    }
    // Without this check, a missing preserved state would cause the database's own files to be removed below.
    if !from.database.is_file() {
        return Err(PreservedStateError::Missing(from.database.clone()));
    }
    let sources = files_of(from).map_err(io_error_at(&from.log_dir))?;
    let is_database = |file: &Path, one: &InstancePlan| file == one.database;
    let name = |file: &Path, one: &InstancePlan| -> (bool, OsString) {
        (is_database(file, one), file.file_name().unwrap_or_default().to_os_string())
    };
    let wanted: BTreeSet<_> = sources.iter().map(|file| name(file, from)).collect();
    for file in files_of(to).map_err(io_error_at(&to.log_dir))? {
        if !wanted.contains(&name(&file, to)) {
            fs::remove_file(&file).map_err(io_error_at(&file))?;
        }
    }
    for source in sources {
        let target = if is_database(&source, from) {
            to.database.clone()
        } else {
            to.log_dir.join(source.file_name().unwrap_or_default())
        };
        copy_file(&source, &target, method, stopped, done)?;
    }
    for directory in directories {
        sync_directory(directory).map_err(io_error_at(directory))?;
    }
    Ok(())
}

/// Copies a file's content. [`ResetMethod::Copy`] overwrites the existing blocks of the target.
/// [`ResetMethod::Snapshot`] makes the target share the blocks of the source.
fn copy_file(
    source: &Path,
    target: &Path,
    method: ResetMethod,
    stopped: &AtomicBool,
    done: &AtomicU64,
) -> Result<(), PreservedStateError> {
    let (source_error, io_error) = (io_error_at(source), io_error_at(target));
    let mut from = File::open(source).map_err(&source_error)?;
    let len = from.metadata().map_err(&source_error)?.len();
    let mut to = open_or_create(target).map_err(&io_error)?;
    match method {
        ResetMethod::Snapshot => {
            // Otherwise, blocks past the end of the source would remain.
            to.set_len(0).map_err(&io_error)?;
            rustix::fs::ioctl_ficlone(&to, &from).map_err(|error| PreservedStateError::NoSharedBlocks {
                path: target.into(),
                error: error.into(),
            })?;
            done.fetch_add(len, Ordering::Relaxed);
        }
        ResetMethod::Copy => {
            let (mut buffer, mut at) = (vec![0; COPY_BUFFER_BYTES], 0);
            to.set_len(len).map_err(&io_error)?;
            from.seek(SeekFrom::Start(0)).map_err(&source_error)?;
            while !stopped.load(Ordering::Relaxed) {
                let read = from.read(&mut buffer).map_err(&source_error)?;
                if read == 0 {
                    break;
                }
                to.write_all(&buffer[..read]).map_err(&io_error)?;
                at += read as u64;
                done.fetch_add(read as u64, Ordering::Relaxed);
            }
            if at != len && !stopped.load(Ordering::Relaxed) {
                return Err(source_error(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
    sync_file(&to).map_err(&io_error)?;
    // The next run must not find the files in the kernel's page cache.
    for file in [&from, &to] {
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    }
    Ok(())
}

/// Returns true if files in the directory can share blocks. The check leaves no files behind.
pub(crate) fn can_share_blocks(directory: &Path) -> bool {
    let probe = || -> io::Result<()> {
        let [one, other] = [tempfile_in(directory)?, tempfile_in(directory)?];
        (&one).write_all(&[1; 4096])?;
        Ok(rustix::fs::ioctl_ficlone(&other, &one)?)
    };
    probe().is_ok()
}

/// Creates an unnamed file in the directory.
fn tempfile_in(directory: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, directory, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] =
        ["Jetstress001001.edb", "log001/E00.log", "log001/E00.chk", "log001/E0000000001.log"];

    fn instance(dir: &Path) -> InstancePlan {
        let (database, log_dir) = (dir.join(NAMES[0]), dir.join("log001"));
        InstancePlan { number: 1, database, log_dir, initial_bytes: 0 }
    }

    /// Creates a directory with the files of some databases. The files have different lengths.
    fn filled() -> (tempfile::TempDir, Vec<InstancePlan>) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("log001")).unwrap();
        for (number, name) in NAMES.iter().enumerate() {
            fs::write(
                dir.path().join(name),
                vec![number as u8 + 1; COPY_BUFFER_BYTES / 2 * (number + 1) + number],
            )
            .unwrap();
        }
        let instances = vec![instance(dir.path())];
        (dir, instances)
    }

    fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = files_of(&instance(dir)).unwrap();
        files.sort();
        files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
    }

    /// Changes the files as a load would: different content, different lengths, different logs.
    fn change(dir: &Path) {
        fs::write(dir.join(NAMES[0]), vec![9; COPY_BUFFER_BYTES * 3]).unwrap();
        fs::write(dir.join(NAMES[1]), b"short").unwrap();
        fs::remove_file(dir.join(NAMES[3])).unwrap();
        fs::write(dir.join("log001/E0000000002.log"), b"new").unwrap();
        fs::write(dir.join("log001/E00.lock"), b"").unwrap();
    }

    #[test]
    fn a_saved_state_can_be_restored_repeatedly() {
        let (dir, instances) = filled();
        let before = contents(dir.path());
        let method = ResetMethod::Copy;
        let (mut last, mut calls) = ((0, 0), 0);
        let mut progress = |done, total| {
            (last, calls) = ((done, total), calls + 1);
            true
        };
        assert_eq!(preserve(dir.path(), &instances, method, &mut progress).unwrap(), FileCopyOutcome::Done);
        let bytes: usize = before.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(last.1, bytes as u64);
        assert!(calls > 0);
        for _ in 0..3 {
            change(dir.path());
            assert_eq!(
                restore(dir.path(), &instances, method, &mut |_, _| true).unwrap(),
                FileCopyOutcome::Done
            );
            assert_eq!(contents(dir.path()), before);
        }
        let prepared = PreparedState::read(dir.path()).unwrap().unwrap();
        assert!(!prepared.was_interrupted());
        let kept = prepared.preserved_instances(&instances).unwrap();
        assert_eq!(kept[0].database, dir.path().join("prepared").join(NAMES[0]));
        assert_eq!(kept[0].log_dir, dir.path().join("prepared/log001"));
        let elsewhere = [instance(&dir.path().join("other"))];
        assert!(
            prepared.preserved_instances(&elsewhere).unwrap_err().to_string().contains("their paths differ")
        );
        remove(dir.path(), &instances).unwrap();
        assert_eq!(PreparedState::read(dir.path()).unwrap(), None);
        assert!(!kept[0].database.exists());
        assert_eq!(contents(dir.path()), before);
    }

    #[test]
    fn an_error_of_the_source_names_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("source"), dir.path().join("target"));
        let (stopped, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let error = copy_file(&source, &target, ResetMethod::Copy, &stopped, &done).unwrap_err();
        assert!(matches!(&error, PreservedStateError::Io { path, .. } if *path == source), "{error}");
    }

    #[test]
    fn an_incomplete_saved_state_is_ignored() {
        let (dir, instances) = filled();
        assert_eq!(
            preserve(dir.path(), &instances, ResetMethod::Copy, &mut |_, _| false).unwrap(),
            FileCopyOutcome::Stopped
        );
        assert_eq!(PreparedState::read(dir.path()).unwrap(), None);
        // Files left over from an interrupted attempt are replaced.
        let left = dir.path().join("prepared/log001/E0000000009.log");
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, b"old").unwrap();
        assert_eq!(
            preserve(dir.path(), &instances, ResetMethod::Copy, &mut |_, _| true).unwrap(),
            FileCopyOutcome::Done
        );
        assert!(PreparedState::read(dir.path()).unwrap().is_some() && !left.exists());
        fs::write(dir.path().join(MARKER_FILE), "{").unwrap();
        assert!(PreparedState::read(dir.path()).unwrap_err().advice().unwrap().contains("--force"));
    }

    #[test]
    fn partially_restored_databases_are_refused_until_the_restore_completes() {
        let (dir, instances) = filled();
        let before = contents(dir.path());
        preserve(dir.path(), &instances, ResetMethod::Copy, &mut |_, _| true).unwrap();
        change(dir.path());
        let stopped = restore(dir.path(), &instances, ResetMethod::Copy, &mut |_, _| false);
        assert_eq!(stopped.unwrap(), FileCopyOutcome::Stopped);
        assert!(PreparedState::read(dir.path()).unwrap().unwrap().was_interrupted());
        assert_eq!(
            restore(dir.path(), &instances, ResetMethod::Copy, &mut |_, _| true).unwrap(),
            FileCopyOutcome::Done
        );
        assert!(!PreparedState::read(dir.path()).unwrap().unwrap().was_interrupted());
        assert_eq!(contents(dir.path()), before);
        // A missing preserved file must cause an error.
        fs::remove_dir_all(dir.path().join("prepared")).unwrap();
        assert_eq!(
            restore(dir.path(), &instances, ResetMethod::Copy, &mut |_, _| true).unwrap_err().to_string(),
            format!("{} does not exist", dir.path().join("prepared").join(NAMES[0]).display())
        );
        assert!(PreparedState::read(dir.path()).unwrap().unwrap().was_interrupted());
    }

    #[test]
    fn blocks_are_shared_or_the_error_suggests_a_fix() {
        let (dir, instances) = filled();
        let before = contents(dir.path());
        let kept = preserve(dir.path(), &instances, ResetMethod::Snapshot, &mut |_, _| true);
        if can_share_blocks(dir.path()) {
            assert_eq!(kept.unwrap(), FileCopyOutcome::Done);
            change(dir.path());
            restore(dir.path(), &instances, ResetMethod::Snapshot, &mut |_, _| true).unwrap();
            assert_eq!(contents(dir.path()), before);
        } else {
            assert!(kept.unwrap_err().advice().unwrap().contains("--reset copy"));
        }
    }
}
