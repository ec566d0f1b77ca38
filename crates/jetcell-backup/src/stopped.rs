//! Backs up an instance that is not running by reading its files.

use std::path::{Path, PathBuf};

use ese_engine::{
    CopyOptions, CopyRegistration, DatabasePageReader, DiscoveredDatabase, Error, RecoverySet,
    VerifiedLogReader, mark_copy,
};
use ese_format::header::{BackupInfo, DatabaseHeader, DatabaseState};
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_input::hex::hex64;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, FileName, Vfs};

use crate::backup_directory::{BackupDirectory, PartialBackup, already_complete};
use crate::chain::check_continues;
use crate::copying::{CompletedCopy, PendingCopy, copy_pages};
use crate::database_copy::DatabaseCopy;
use crate::error::{BackupError, Result};
use crate::file_names::copy_names;
use crate::manifest::{BackupManifest, BackupState, GenerationRange, StoredDatabase, StoredLog};
use crate::options::{BackupOptions, BackupResult};
use crate::ranges::range_checksum;
use crate::refusal::BackupRefusal;
use crate::set_error::BackupSetError;
use crate::transfer_control::TransferMeter;

/// Backs up an instance that was stopped or has crashed.
///
/// `files` are the instance's logs and databases. The source is not changed unless [`BackupOptions::remove_logs`] is
/// set. If the directory already contains the same backup and the source has not changed, nothing is copied.
///
/// # Errors
///
/// Returns an error in these cases:
/// - A database is in use, or its logs are missing.
/// - An incremental or differential backup has no [`BackupOptions::parent`], or does not continue it.
/// - The directory contains other files (-504).
/// - All databases have bad pages.
///
/// Unless [`BackupError::can_be_continued`] returns true, the backup files are removed.
pub fn back_up_stopped(
    vfs: &Arc<dyn Vfs>,
    files: &[PathBuf],
    to: &Path,
    options: &BackupOptions,
) -> Result<BackupResult> {
    if let BackupState::Complete(manifest) = BackupManifest::state(&**vfs, to)? {
        return handle_complete_backup(vfs, files, to, *manifest, options);
    }
    let earlier = BackupDirectory::read_interrupted(&**vfs, to)?;
    let set = options.find_set(vfs, files)?;
    let _locks = lock(vfs, &set, files)?;
    let parent = parent(vfs, options)?;
    let logs = select_logs(&set, options, parent.as_ref())?;
    let end = verify_logs(vfs, &logs)?;
    let fresh = PartialBackup {
        kind: options.kind,
        log_signature: set.signature.to_hex(),
        source: format!("the process was stopped at {}", hex64(end.to_u64())),
        first_generation: logs.first().map_or(0, |(first, _)| first.0),
        began_unix_ms: vfs.clock().unix_ms(),
        databases: Vec::new(),
    };
    let fits = |earlier: &PartialBackup| {
        PartialBackup { databases: Vec::new(), began_unix_ms: fresh.began_unix_ms, ..earlier.clone() }
            == fresh
    };
    let partial = earlier.filter(fits).unwrap_or(fresh);
    let destination = BackupDirectory::begin(vfs.clone(), to, partial.clone())?;
    let backup =
        StoppedBackup { destination: &destination, options, set: &set, parent, logs, end, earlier: partial };
    let (manifest, copied_bytes, continued_bytes) = backup.run().inspect_err(|error| {
        if !error.can_be_continued() {
            destination.discard();
        }
    })?;
    let removed_logs = if options.remove_logs && options.kind.to_engine_kind().truncates() {
        remove_logs(vfs, &set, &manifest)?
    } else {
        None
    };
    Ok(BackupResult { manifest, removed_logs, copied_bytes, continued_bytes, already_complete: false })
}

/// Handles a repeated call for a backup that is already complete. Removes logs if requested, because the first call
/// may have been interrupted before it removed them.
///
/// # Errors
///
/// Returns an error if the directory contains a different backup, or the source has changed since the backup (-504).
fn handle_complete_backup(
    vfs: &Arc<dyn Vfs>,
    files: &[PathBuf],
    to: &Path,
    manifest: BackupManifest,
    options: &BackupOptions,
) -> Result<BackupResult> {
    let set = options.find_set(vfs, files)?;
    let _locks = lock(vfs, &set, files)?;
    if manifest.kind != options.kind || !is_unchanged(vfs, &set, &manifest)? {
        return Err(already_complete(to, &manifest));
    }
    let removed_logs = if options.remove_logs && options.kind.to_engine_kind().truncates() {
        remove_logs(vfs, &set, &manifest)?
    } else {
        None
    };
    Ok(BackupResult { manifest, removed_logs, copied_bytes: 0, continued_bytes: 0, already_complete: true })
}

/// Returns true if the instance is in the same state as its backup: the log ends at the same position, and the
/// databases need the same logs.
fn is_unchanged(vfs: &Arc<dyn Vfs>, set: &RecoverySet, manifest: &BackupManifest) -> Result<bool> {
    let newest = set.logs.last_key_value().map(|(generation, path)| (*generation, path.clone()));
    let stored = manifest.logs.last();
    let (Some(newest), Some(stored)) = (newest, stored) else { return Ok(false) };
    if manifest.signature() != Some(set.signature)
        || newest.0 != Generation(stored.generation)
        || verify_logs(vfs, &[newest])? != stored.end_position()
    {
        return Ok(false);
    }
    if !manifest.kind.has_pages() {
        return Ok(true);
    }
    let is_stored = |database: &DiscoveredDatabase| {
        let signature = database.header.signature.to_hex();
        let needs = needed_logs(&database.header);
        manifest.databases.iter().any(|stored| stored.signature == signature && stored.needs == needs)
    };
    Ok(set.databases.len() == manifest.databases.len() && set.databases.iter().all(is_stored))
}

/// Returns the first and last generations required to make a database consistent, or `None` if it was shut down
/// cleanly.
fn needed_logs(header: &DatabaseHeader) -> Option<(u32, u32)> {
    let last = header.gen_max_required.max(header.gen_max_committed);
    (header.state != DatabaseState::CleanShutdown).then_some((header.gen_min_required.0, last.0))
}

/// Locks the databases, and the log directory if it contains a lock file. Creates no files.
pub(crate) fn lock(
    vfs: &Arc<dyn Vfs>,
    set: &RecoverySet,
    files: &[PathBuf],
) -> Result<Vec<Box<dyn DirectoryLock>>> {
    let lock_file = format!("{}.lock", set.base_name);
    let locks = files.iter().filter(|path| path.file_name().is_some_and(|name| *name == *lock_file));
    let databases = set.databases.iter().map(|database| &database.path);
    let lock = |path: &PathBuf| {
        vfs.lock(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() }.into(),
            _ => BackupError::io(path, &error),
        })
    };
    locks.chain(databases).map(lock).collect()
}

fn parent(vfs: &Arc<dyn Vfs>, options: &BackupOptions) -> Result<Option<BackupManifest>> {
    match (&options.parent, options.kind.has_pages()) {
        (Some(parent), _) => BackupManifest::read(&**vfs, parent).map(Some),
        (None, true) => Ok(None),
        (None, false) => Err(BackupSetError::NoEarlierBackup.into()),
    }
}

/// Returns the logs that the backup contains.
pub(crate) fn select_logs(
    set: &RecoverySet,
    options: &BackupOptions,
    parent: Option<&BackupManifest>,
) -> Result<Vec<(Generation, PathBuf)>> {
    if options.kind.has_pages() {
        if set.databases.is_empty() {
            return Err(BackupRefusal::NoDatabase.into());
        }
        let plan = set.plan(LogPosition::MAX);
        let missing_in = || set.logs.values().next().cloned().unwrap_or_default();
        if let Some((path, first, last)) = plan.required {
            return Err(Error::LogsMissing { path, required: (first, last) }.into());
        }
        // A passive copy has only closed logs.
        let last = plan.logs.last().map(|(newest, _)| *newest);
        let is_whole = last.is_some() && last == set.logs.last_key_value().map(|(newest, _)| *newest);
        if let Some(generation) = plan.missing.filter(|_| !(options.source_is_copy && is_whole)) {
            return Err(Error::LogMissing { path: missing_in(), generation }.into());
        }
        if let Some(committed) = plan.committed {
            let first = plan.logs.last().map_or(committed, |(newest, _)| newest.next());
            return Err(
                Error::CommittedLogsMissing { path: missing_in(), committed: (first, committed) }.into()
            );
        }
        return Ok(plan.logs);
    }
    let Some(parent) = parent else { return Ok(Vec::new()) };
    if parent.signature() != Some(set.signature) {
        return Err(BackupSetError::OtherEarlierBackup.into());
    }
    let covered =
        |database: &&DiscoveredDatabase| !parent.covers.contains(&database.header.signature.to_hex());
    if let Some(database) = set.databases.iter().find(covered) {
        return Err(BackupSetError::NewDatabase(database.path.clone()).into());
    }
    if let Some(database) = set.databases.iter().find(|database| was_loaded_since(&database.header, parent)) {
        return Err(BackupSetError::BulkLoaded(database.path.clone()).into());
    }
    let GenerationRange { last, last_is_open, .. } = parent.generations;
    let first = Generation(if last_is_open { last } else { last + 1 });
    let logs: Vec<(Generation, PathBuf)> =
        set.logs.range(first..).map(|(generation, path)| (*generation, path.clone())).collect();
    match logs.first() {
        Some((oldest, _)) if *oldest == first => Ok(logs),
        _ => Err(BackupSetError::FirstLogMissing(first.0).into()),
    }
}

/// Returns true if a bulk load began after the end of the parent backup. The header records the start of the load as
/// a full backup without logs.
fn was_loaded_since(header: &DatabaseHeader, parent: &BackupManifest) -> bool {
    let (noted, end) = (header.full_backup, parent.logs.last().map(StoredLog::end_position));
    noted.gen_high == Generation(0) && end.is_some_and(|end| noted.position >= end)
}

/// Verifies the logs. Returns the position at which they end.
pub(crate) fn verify_logs(vfs: &Arc<dyn Vfs>, logs: &[(Generation, PathBuf)]) -> Result<LogPosition> {
    let mut copies = VerifiedLogReader::new(vfs.clone(), logs.to_vec(), true);
    let mut end = LogPosition::MIN;
    while let Some(log) = copies.next_log()? {
        end = log.end;
    }
    Ok(end)
}

/// Removes archived logs that are in the backup and that no passive copy needs, if all databases were shut down
/// cleanly. The logs are removed in ascending order, so the remaining logs never have a gap.
fn remove_logs(
    vfs: &Arc<dyn Vfs>,
    set: &RecoverySet,
    manifest: &BackupManifest,
) -> Result<Option<(Generation, Generation)>> {
    let clean = |database: &DiscoveredDatabase| database.header.state == DatabaseState::CleanShutdown;
    if !set.databases.iter().all(clean) || manifest.databases.iter().any(|database| !database.usable) {
        return Ok(None);
    }
    let mut newest = Generation(manifest.generations.last);
    let directory = set.logs.values().next().and_then(|path| path.parent());
    if let Some(directory) = directory {
        let (base, limit) = (set.base_name, CopyOptions::LAG_LIMIT);
        let stream = set.signature;
        let needed = CopyRegistration::oldest_needed(&**vfs, directory, base, stream, newest, limit)?;
        newest = needed.map_or(newest, |needed| needed.min(newest));
    }
    let mut removed: Option<(Generation, Generation)> = None;
    for (generation, path) in set.logs.range(..newest) {
        vfs.remove(path).map_err(|error| BackupError::io(path, &error))?;
        removed = Some((removed.map_or(*generation, |(first, _)| first), *generation));
    }
    if let Some(directory) = directory {
        vfs.sync_directory(directory).map_err(|error| BackupError::io(directory, &error))?;
    }
    Ok(removed)
}

/// A database, and its header as of the start of the copy.
type OriginalDatabase<'d> = (&'d DiscoveredDatabase, DatabaseHeader);

fn original_path<'o>((database, _): &'o OriginalDatabase<'_>) -> &'o Path {
    &database.path
}

struct StoppedBackup<'a> {
    destination: &'a BackupDirectory,
    options: &'a BackupOptions,
    set: &'a RecoverySet,
    parent: Option<BackupManifest>,
    logs: Vec<(Generation, PathBuf)>,
    end: LogPosition,
    earlier: PartialBackup,
}

impl StoppedBackup<'_> {
    fn run(&self) -> Result<(BackupManifest, u64, u64)> {
        let gauge = TransferMeter::new(self.options.pace.clone(), self.destination.vfs.clock());
        let databases = if self.options.kind.has_pages() { &self.set.databases[..] } else { &[] };
        let total = self.total_bytes(databases)?;
        gauge.add_total(total);
        let names = copy_names(databases.iter().map(|database| &*database.path))?;
        let begin = |(database, name)| self.begin(database, name, &gauge);
        let copies = databases.iter().zip(names).map(begin).collect::<Result<Vec<_>>>()?;
        let continued_bytes = copies.iter().map(|copying| copying.copy.continued_bytes).sum();
        self.destination.require_space(total.saturating_sub(continued_bytes))?;
        let copies = copy_pages(copies, original_path, self.destination, self.options, &gauge)?;
        let logs = self.copy_logs(&gauge)?;
        let stored = copies
            .into_iter()
            .map(|CompletedCopy { source: (database, header), copy }| self.finish(database, copy, header))
            .collect::<Result<Vec<StoredDatabase>>>()?;
        let manifest = self.manifest(stored, logs);
        self.destination.finish(&manifest)?;
        Ok((manifest, gauge.transferred(), continued_bytes))
    }

    fn file_len(&self, path: &Path) -> Result<u64> {
        self.destination.vfs.file_len(path).map_err(|error| BackupError::io(path, &error))
    }

    /// Returns the total size of the databases and logs in bytes.
    fn total_bytes(&self, databases: &[DiscoveredDatabase]) -> Result<u64> {
        let logs = self.logs.iter().map(|(_, path)| path);
        databases.iter().map(|database| &database.path).chain(logs).map(|path| self.file_len(path)).sum()
    }

    /// Opens a database and begins or continues its copy.
    fn begin<'d>(
        &self,
        database: &'d DiscoveredDatabase,
        name: FileName,
        gauge: &TransferMeter,
    ) -> Result<PendingCopy<OriginalDatabase<'d>>> {
        match database.header.state {
            DatabaseState::CleanShutdown | DatabaseState::DirtyShutdown => {}
            state => {
                return Err(BackupRefusal::DatabaseState { path: database.path.clone(), state }.into());
            }
        }
        let identity = hex64(range_checksum(&database.header.encode()));
        let earlier = self
            .earlier
            .databases
            .iter()
            .find(|earlier| earlier.file == name && earlier.identity == identity);
        let vfs = &*self.destination.vfs;
        let bytes = self.file_len(&database.path)?;
        let source = (database.header.page_size, bytes);
        let copy = DatabaseCopy::begin(self.destination, source, (name, identity), earlier, gauge)?;
        gauge.add_skipped(copy.continued_bytes);
        let read = copy.read_options(self.options);
        let (reader, header) = DatabasePageReader::for_file(vfs, &database.path, self.end, read)?;
        Ok(PendingCopy { source: (database, header), copy, reader })
    }

    fn copy_logs(&self, gauge: &TransferMeter) -> Result<Vec<StoredLog>> {
        let newest = self.logs.last().map_or(Generation(0), |(newest, _)| *newest);
        let mut copies = VerifiedLogReader::new(self.destination.vfs.clone(), self.logs.clone(), true);
        let mut logs = Vec::new();
        while let Some(log) = copies.next_log()? {
            gauge.wait_for(log.bytes.len() as u64)?;
            let name = FileName::new(self.set.name_of(log.generation, newest))?;
            let stored = self.destination.store_log(&log, name)?;
            if let Some(parent) = &self.parent {
                check_continues(parent, &stored, logs.is_empty())?;
            }
            logs.push(stored);
        }
        Ok(logs)
    }

    fn finish(
        &self,
        database: &DiscoveredDatabase,
        copy: DatabaseCopy,
        mut header: DatabaseHeader,
    ) -> Result<StoredDatabase> {
        let generation =
            |log: Option<&(Generation, PathBuf)>| log.map_or(Generation(0), |(number, _)| *number);
        let needs = needed_logs(&header);
        if needs.is_some() {
            let details = BackupInfo {
                position: self.end,
                time: LogTime::from_unix_ms(self.earlier.began_unix_ms),
                gen_low: generation(self.logs.first()),
                gen_high: generation(self.logs.last()),
            };
            mark_copy(&mut header, self.options.kind.to_engine_kind(), details);
        }
        copy.finish(&header, &database.path, needs)
    }

    fn manifest(&self, databases: Vec<StoredDatabase>, logs: Vec<StoredLog>) -> BackupManifest {
        let covers: Vec<String> = match &self.parent {
            Some(parent) if !self.options.kind.has_pages() => parent.covers.clone(),
            _ => databases
                .iter()
                .filter(|stored| stored.usable)
                .map(|stored| stored.signature.clone())
                .collect(),
        };
        let generation = |log: Option<&StoredLog>| log.map_or(0, |log| log.generation);
        BackupManifest {
            kind: self.options.kind,
            parent: self.parent.as_ref().map(|parent| parent.id.clone()),
            began_unix_ms: self.earlier.began_unix_ms,
            ended_unix_ms: self.destination.vfs.clock().unix_ms(),
            log_signature: self.set.signature.to_hex(),
            base_name: self.set.base_name,
            page_size: self.set.databases.first().map_or(0, |database| database.header.page_size.get()),
            generations: GenerationRange {
                first: generation(logs.first()),
                last: generation(logs.last()),
                last_is_open: true,
            },
            covers,
            databases,
            logs,
            ..BackupManifest::default()
        }
        .seal()
    }
}
