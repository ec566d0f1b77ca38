//! Seeding: creates a new copy from a backup of the active side.
//!
//! ```text
//!  copy.json: seeding ──> backup in incoming/ ──> its files move to their places ──> copy.json: following
//! ```
//!
//! A call with the same arguments continues an interrupted seed: first the backup, then the moves. The directory is a
//! valid copy only once `copy.json` contains the phase "following", which is written last. If the backup fails, a
//! directory that did not exist before contains only empty files. If the failure is only that the active side is
//! unreachable, the copied files are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{Error, Instance, RecoverySet};
use ese_format::header::DatabaseState;
use ese_format::{Generation, LogTime, Signature};
use jetcell_backup::{
    BackupError, BackupManifest, BackupOptions, BackupType, StoredLog, back_up, back_up_stopped, text_file,
};
use jetcell_host::Cancellation;
use jetcell_sync::Arc;
use jetcell_vfs::{Vfs, is_unfinished, remove_if_exists};

use crate::copy_state::{COPY_FILE, CopiedDatabase, CopyPhase, CopyState, database_header, first_required};
use crate::directory_source::DirectorySource;
use crate::error::{CopyError, Refusal, Result};
use crate::file_names::RESEED_FILE;
use crate::incoming::{INCOMING, part_path};
use crate::log_end::ClosedLogId;
use crate::log_source::LogSource;
use crate::replay_pause::PAUSE_FILE;
use crate::replicator::{LOCK_FILE, lock};
use crate::reseed::DIVERGED_DIRECTORY;
use crate::stream_directory::StreamDirectory;
use crate::streamed_log::streamed_path;
use crate::unfit_reason::UnfitReason;

/// Minimum pause between seeding attempts while the active side is unreachable.
const MIN_PAUSE: Duration = Duration::from_millis(200);
/// Maximum pause between seeding attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Options for seeding a copy.
#[derive(Clone, Default)]
pub struct SeedOptions {
    /// Backup options. The kind is always `Copy`, which does not affect other backups.
    pub backup: BackupOptions,
    /// Whether to seed over an existing copy of the same stream. That copy's databases and logs are removed first.
    pub replace_existing: bool,
}

/// Result of seeding a copy.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// State of the copy, before it has replayed any logs.
    pub state: CopyState,
    /// Number of bytes that this call copied.
    pub copied_bytes: u64,
}

/// Seeds a copy in `to` from the files of an active side that is stopped or has crashed. `source` receives the copy's
/// registration.
///
/// # Errors
///
/// Returns an error in these cases:
/// - A file of the active side is in use.
/// - `to` contains other files or another history.
/// - Pages are bad.
/// - The volume is full.
///
/// After an error, `to` is not a copy, or is the same copy as before. Its databases can have been removed only if
/// [`SeedOptions::replace_existing`] is set.
pub fn seed_stopped(
    vfs: &Arc<dyn Vfs>,
    files: &[PathBuf],
    to: &Path,
    source: &dyn LogSource,
    options: &SeedOptions,
) -> Result<SeedResult> {
    let set = RecoverySet::find(vfs, files)?;
    let active = StreamDirectory::from_set(vfs, &set)?;
    let seed = SeedOperation {
        vfs,
        to,
        source,
        active,
        stream: set.signature,
        replace_existing: options.replace_existing,
    };
    seed.run(|incoming, backup| Ok(back_up_stopped(vfs, files, incoming, backup)?.copied_bytes), options)
}

/// Seeds a copy like [`seed_stopped`], and registers it with the active side that the files belong to.
pub fn seed_from_files(
    vfs: &Arc<dyn Vfs>,
    files: &[PathBuf],
    to: &Path,
    options: &SeedOptions,
) -> Result<(DirectorySource, SeedResult)> {
    let set = RecoverySet::find(vfs, files)?;
    // A copy has the databases of only one log stream.
    set.require_complete()?;
    let source = DirectorySource::new(StreamDirectory::from_set(vfs, &set)?);
    let seeded = seed_stopped(vfs, files, to, &source, options)?;
    Ok((source, seeded))
}

/// Seeds a copy in `to`. While the active side is unreachable, tries again until `cancel` is cancelled. The data that
/// has already been copied is retained. Without `cancel`, `seed` is called only once. `report` receives each error
/// before the pause that follows it.
///
/// # Errors
///
/// Returns the last error of `seed`. If `to` did not exist before, it is removed, unless it contains copied data.
pub fn seed_with_retries<T>(
    vfs: &Arc<dyn Vfs>,
    to: &Path,
    cancel: Option<&Cancellation>,
    mut seed: impl FnMut() -> Result<T>,
    report: impl Fn(CopyError),
) -> Result<T> {
    let existed = to.exists();
    let mut pause = MIN_PAUSE;
    loop {
        match (seed(), cancel) {
            (Err(error), Some(cancel)) if error.is_disconnected() && !cancel.is_cancelled() => {
                report(error);
                cancel.wait(&*vfs.clock(), pause);
                pause = (pause * 2).min(MAX_PAUSE);
            }
            (seeded, _) => {
                if seeded.is_err() && !existed && to.is_dir() {
                    remove_seed_markers(vfs, to);
                }
                return seeded;
            }
        }
    }
}

/// Removes the marker files left by a failed seed from a directory that it created, if the directory contains nothing
/// else. Nothing is removed if another process holds the lock, because it may have started to seed the same
/// directory.
fn remove_seed_markers(vfs: &Arc<dyn Vfs>, to: &Path) {
    let Ok(_lock) = lock(vfs, to) else { return };
    if fs::remove_dir(to.join(INCOMING)).is_ok() {
        let _ = fs::remove_file(to.join(COPY_FILE));
    }
    if fs::read_dir(to).is_ok_and(|entries| entries.count() == 1) {
        let _ = fs::remove_file(to.join(LOCK_FILE));
    }
    let _ = fs::remove_dir(to);
}

/// Seeds a copy from a running instance while its sessions continue.
pub fn seed_running(
    vfs: &Arc<dyn Vfs>,
    instance: &Arc<Instance>,
    to: &Path,
    source: &dyn LogSource,
    options: &SeedOptions,
) -> Result<SeedResult> {
    let log = instance.core().log().clone();
    let names = log.names();
    let active = StreamDirectory::new(vfs, names.directory(), names.base(), names.format());
    // Holds the logs until the copy is registered.
    let _hold = instance.hold_logs(Generation(0));
    let seed = SeedOperation {
        vfs,
        to,
        source,
        active,
        stream: log.signature(),
        replace_existing: options.replace_existing,
    };
    seed.run(|incoming, backup| Ok(back_up(instance, vfs, incoming, backup)?.copied_bytes), options)
}

struct SeedOperation<'s> {
    vfs: &'s Arc<dyn Vfs>,
    to: &'s Path,
    source: &'s dyn LogSource,
    active: StreamDirectory,
    stream: Signature,
    replace_existing: bool,
}

impl SeedOperation<'_> {
    fn run(
        &self,
        back_up: impl FnOnce(&Path, &BackupOptions) -> std::result::Result<u64, BackupError>,
        options: &SeedOptions,
    ) -> Result<SeedResult> {
        let (vfs, to) = (self.vfs, self.to);
        if vfs.same_file(to, self.active.path()) {
            return Err(Refusal::SeedIntoSource.at(to));
        }
        let known = self.examine()?;
        let created = |directory: &Path| {
            vfs.create_directory(directory).map_err(|error| CopyError::io(directory, &error))
        };
        created(to)?;
        let _lock = lock(vfs, to)?;
        let incoming = to.join(INCOMING);
        created(&incoming)?;
        let is_new = known.is_none();
        let mut state = match known {
            Some(state) => state,
            None => {
                let id = unique_id(to, vfs.clock().unix_ms());
                CopyState::new_seeding(id, self.source.address(), &self.active, self.stream)
            }
        };
        let diverged =
            is_new || matches!(state.phase, CopyPhase::Unfit { reason: UnfitReason::Diverged, .. });
        let old = self.existing_databases(&state)?;
        if is_new || state.phase != CopyPhase::Seeding {
            // A manifest left over from an interrupted process belongs to an earlier seed.
            remove_manifest(&**vfs, &incoming)?;
        }
        if state.phase != CopyPhase::Seeding {
            let databases = std::mem::take(&mut state.databases);
            state = CopyState::new_seeding(state.id, self.source.address(), &self.active, self.stream);
            state.databases = databases;
        }
        state.store(&**vfs, to)?;
        let mut copied_bytes = 0;
        if BackupManifest::read(&**vfs, &incoming).is_err() {
            self.remove_logs_in(&incoming)?;
            self.remove_existing(&old, diverged)?;
            let backup = BackupOptions { kind: BackupType::Copy, ..options.backup.clone() };
            copied_bytes = back_up(&incoming, &backup).inspect_err(|error| {
                if is_new && !self.replace_existing && !error.can_be_continued() {
                    // Without the state file, the directory is again not a copy, as before the call.
                    let _ = text_file::remove(&**vfs, &to.join(COPY_FILE));
                }
            })?;
        }
        let manifest = BackupManifest::read(&**vfs, &incoming)?;
        self.install_files(&manifest, &incoming)?;
        self.describe(&mut state, &manifest)?;
        self.source.register(&state.registration(to, vfs.clock().unix_ms()))?;
        state.store(&**vfs, to)?;
        remove_manifest(&**vfs, &incoming)?;
        Ok(SeedResult { state, copied_bytes })
    }

    /// Returns the existing copy in the directory. Changes nothing.
    fn examine(&self) -> Result<Option<CopyState>> {
        let (vfs, to) = (&**self.vfs, self.to);
        let state = CopyState::read(vfs, to)?;
        match &state {
            Some(state) if state.stream() != self.stream && !self.replace_existing => {
                Err(Refusal::OtherStream.at(to))
            }
            Some(state) if state.phase == CopyPhase::Seeding || self.replace_existing => {
                Ok(Some(state.clone()))
            }
            Some(_) => Err(Refusal::AlreadyACopy.at(to)),
            None if self.replace_existing => self.examine_instance().map(|()| None),
            None => {
                let files = match vfs.list(to) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                    listed => listed.map_err(|error| CopyError::io(to, &error))?,
                };
                let other = files.iter().find(|path| {
                    let name = path.file_name().unwrap_or_default();
                    !is_unfinished(path)
                        && name != "copy.lock"
                        && name != PAUSE_FILE
                        && name != "events.jsonl"
                });
                other.map_or(Ok(None), |path| Err(Refusal::OtherFiles(path.clone()).at(to)))
            }
        }
    }

    /// Checks a directory that is not a copy: it must contain a stopped instance of the stream. Changes nothing.
    fn examine_instance(&self) -> Result<()> {
        let files = self.vfs.list(self.to).map_err(|error| CopyError::io(self.to, &error))?;
        let set = RecoverySet::find(self.vfs, &files)?;
        if set.signature != self.stream {
            return Err(Refusal::OtherStream.at(self.to));
        }
        let lock_file = self.to.join(format!("{}.lock", set.base_name));
        for path in set.databases.iter().map(|database| &database.path).chain([&lock_file]) {
            if self.vfs.exists(path).map_err(|error| CopyError::io(path, &error))? {
                self.vfs.lock(path).map_err(|error| match error.kind() {
                    std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() }.into(),
                    _ => CopyError::io(path, &error),
                })?;
            }
        }
        Ok(())
    }

    /// Returns the existing databases of the stream.
    fn existing_databases(&self, state: &CopyState) -> Result<Vec<PathBuf>> {
        let mut found: Vec<PathBuf> =
            state.databases.iter().map(|database| self.to.join(&database.file)).collect();
        let files = self.vfs.list(self.to).map_err(|error| CopyError::io(self.to, &error))?;
        if let Ok(set) = RecoverySet::find(self.vfs, &files) {
            found.extend(set.databases.into_iter().map(|database| database.path));
        }
        Ok(found)
    }

    /// Removes the existing databases and logs. Logs from a diverged history are moved to a separate directory,
    /// because they contain commits that exist nowhere else.
    fn remove_existing(&self, databases: &[PathBuf], diverged: bool) -> Result<()> {
        let io_error = |error: std::io::Error| CopyError::io(self.to, &error);
        // These files belong to the previous databases.
        for path in [self.to.join(RESEED_FILE), part_path(self.to), streamed_path(self.to)] {
            text_file::remove(&**self.vfs, &path)?;
        }
        let aside = self.to.join(DIVERGED_DIRECTORY);
        for path in self.vfs.list(self.to).map_err(io_error)? {
            let name = path.file_name().unwrap_or_default();
            let ending = path.extension().unwrap_or_default().to_string_lossy();
            let of_stream = name.to_string_lossy().starts_with(self.active.names.base().as_str());
            let is_log = of_stream && matches!(&*ending, "log" | "jtx");
            if is_log && diverged {
                self.vfs.create_directory(&aside).map_err(io_error)?;
                match self.vfs.rename(&path, &aside.join(name)) {
                    // Another process has removed the file since the directory was listed.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    moved => moved.map_err(io_error)?,
                }
            } else if is_log
                || of_stream && matches!(&*ending, "chk" | "jcp" | "jrs")
                || matches!(&*ending, "jdw" | "jfm")
                || databases.contains(&path)
            {
                remove_if_exists(&**self.vfs, &path).map_err(io_error)?;
            }
        }
        self.vfs.sync_directory(self.to).map_err(io_error)
    }

    /// Removes logs whose inspection was interrupted, so that a backup can start in the directory.
    fn remove_logs_in(&self, incoming: &Path) -> Result<()> {
        let files = self.vfs.list(incoming).map_err(|error| CopyError::io(incoming, &error))?;
        let is_partial =
            |path: &PathBuf| path.file_name().is_some_and(|name| name == "manifest.partial.json");
        if files.iter().any(is_partial) {
            return Ok(());
        }
        for path in files {
            remove_if_exists(&**self.vfs, &path).map_err(|error| CopyError::io(&path, &error))?;
        }
        Ok(())
    }

    /// Moves databases and closed logs to their final places.
    ///
    /// A stopped instance's last log is not closed, so the complete log arrives later. The databases may contain
    /// changes from it, so the part that is already available is kept.
    fn install_files(&self, manifest: &BackupManifest, incoming: &Path) -> Result<()> {
        let bad = manifest.databases.iter().find(|database| !database.usable);
        if let Some(bad) = bad {
            return Err(Refusal::BadPages.at(&bad.source));
        }
        let open = |log: &&StoredLog| is_open(manifest, log);
        let names = manifest.databases.iter().map(|database| &database.file);
        let logs = manifest.logs.iter().filter(|log| !open(log)).map(|log| &log.file);
        for name in names.chain(logs) {
            let (from, to) = (incoming.join(name), self.to.join(name));
            match self.vfs.rename(&from, &to) {
                // The file was moved by an earlier, interrupted call.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let there = self.vfs.exists(&to).map_err(|error| CopyError::io(&to, &error))?;
                    if !there {
                        return Err(CopyError::io(&from, &error));
                    }
                }
                moved => moved.map_err(|error| CopyError::io(&to, &error))?,
            }
        }
        for log in manifest.logs.iter().filter(open) {
            let from = incoming.join(&log.file);
            if self.vfs.exists(&from).map_err(|error| CopyError::io(&from, &error))? {
                let renamed = self.vfs.rename(&from, &part_path(self.to));
                renamed.map_err(|error| CopyError::io(&from, &error))?;
            }
        }
        for directory in [self.to, incoming] {
            self.vfs.sync_directory(directory).map_err(|error| CopyError::io(directory, &error))?;
        }
        Ok(())
    }

    /// Records the databases and logs of the copy in its state.
    fn describe(&self, state: &mut CopyState, manifest: &BackupManifest) -> Result<()> {
        let mut first = u32::MAX;
        state.databases.clear();
        for database in &manifest.databases {
            let path = self.to.join(&database.file);
            let header = database_header(&**self.vfs, &path)?;
            if !matches!(header.state, DatabaseState::CleanShutdown | DatabaseState::DirtyShutdown) {
                return Err(Refusal::DatabaseState(header.state).at(&path));
            }
            first = first.min(first_required(&header).0);
            state.databases.push(CopiedDatabase {
                file: database.file.to_string(),
                signature: database.signature.clone(),
                source: database.source.clone(),
            });
        }
        let closed = manifest.logs.iter().rev().find(|log| !is_open(manifest, log));
        state.end = closed.map(|log| ClosedLogId {
            generation: log.generation,
            created: parse_hex(&log.created),
            checksum: parse_hex(&log.checksum),
        });
        state.next = closed.map_or(manifest.generations.first, |log| log.generation + 1);
        state.replayed = first.min(state.next).saturating_sub(1);
        state.log_bytes = manifest.logs.first().map_or(0, |log| log.bytes);
        state.record_contact(manifest.generations.first, self.vfs.clock().unix_ms());
        state.phase = CopyPhase::Following;
        Ok(())
    }
}

fn is_open(manifest: &BackupManifest, log: &StoredLog) -> bool {
    manifest.generations.last_is_open && log.generation == manifest.generations.last
}

/// Parses a time or checksum from a manifest, written as sixteen hexadecimal digits.
fn parse_hex(text: &str) -> u64 {
    jetcell_input::hex::parse_hex64(text).unwrap_or_default()
}

fn remove_manifest(vfs: &dyn Vfs, incoming: &Path) -> Result<()> {
    for name in ["verified.json", "manifest.json"] {
        text_file::remove(vfs, &incoming.join(name))?;
    }
    Ok(())
}

/// Returns an identifier that no other copy of the stream has.
fn unique_id(to: &Path, now: i64) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (to, now, LogTime::from_unix_ms(now).0, std::process::id()).hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}
