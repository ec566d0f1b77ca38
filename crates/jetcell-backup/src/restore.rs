//! Restores databases from backups: places the files, replays the logs, and rolls back uncommitted transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ese_engine::{
    BackgroundThreads, DatabasePaths, Error, InstanceOptions, RecoverySet, ReplaySummary, Replayer,
    TornPageProtection,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_input::hex::hex64;
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, IoBuffer, IoReason, OpenMode, Vfs};

use crate::chain::BackupChain;
use crate::created_files::CreatedFiles;
use crate::damaged_log::DamagedLog;
use crate::error::{BackupError, Result};
use crate::file_names::RESTORE_MARKER;
use crate::manifest::{StoredDatabase, StoredFile};
use crate::refusal::BackupRefusal;
use crate::restore_directory::{ExistingFiles, RestoreDirectory};
use crate::restore_options::RestoreOptions;
use crate::restore_plan::RestorePlan;
use crate::restore_record::{RestoreRecord, RestoredDatabase};
use crate::restore_window::RestoreWindow;
use crate::set_error::{BackupSetError, DirectoryContent, RestoreDifference};
use crate::transfer_control::TransferMeter;
use crate::verify::verify_file;

/// Result of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreResult {
    /// First and last generations that were replayed.
    pub generations: Option<(Generation, Generation)>,
    /// Log position up to which records were replayed.
    pub position: LogPosition,
    /// Number of replayed records by type.
    pub records: BTreeMap<&'static str, u64>,
    /// Number of page changes that redo made.
    pub changes: u64,
    /// Number of transactions rolled back.
    pub rolled_back: usize,
    /// Paths of the restored databases.
    pub databases: Vec<PathBuf>,
    /// Databases in the backup that were not restored, each with the reason.
    pub skipped_databases: Vec<(String, String)>,
    /// Number of bytes copied.
    pub copied_bytes: u64,
    /// Number of bytes that were already correct.
    pub retained_bytes: u64,
    /// The positions that the restore could reach.
    pub window: Option<RestoreWindow>,
    /// True if the logs end before the requested end of the replay.
    pub ends_early: bool,
    /// Surviving logs with a damaged header. The restored databases may lack the changes in them.
    pub damaged_logs: Vec<DamagedLog>,
    /// Time at which an identical earlier restore completed, in milliseconds since 1970 UTC. Set if the directory
    /// already contains the result and no database has been used since; this call then did nothing.
    pub earlier_restore_unix_ms: Option<i64>,
}

/// Restores databases and their log stream into the directory `to`.
///
/// The source is a backup with databases, and the backups that continue it. After the restore the databases are
/// clean, and an instance can be opened on the directory. A database in another directory is not changed, even if the
/// logs name it. If the directory already contains the unchanged result of the same restore, nothing is done.
///
/// After an error, a directory that was empty is empty again. When existing files are overwritten, an error before
/// the first change leaves them unchanged. After a later error, the restore must be repeated.
///
/// # Errors
///
/// Returns an error in these cases:
/// - A backup is incomplete (-615) or was changed.
/// - The backups do not match each other (see [`BackupChain::load`]).
/// - Surviving logs belong to another stream (-555) or are not contiguous (-557), or the header of one of them is
///   damaged and other logs follow it (-501).
/// - The restore would remove a surviving log with a damaged header.
/// - The replay would stop too early (-553).
/// - A log is damaged or belongs to another history.
/// - The directory contains files (-504), or the files are in use.
pub fn restore(
    vfs: &Arc<dyn Vfs>,
    backups: &[PathBuf],
    to: &Path,
    options: &RestoreOptions,
) -> Result<RestoreResult> {
    let chain = BackupChain::load(&**vfs, backups)?;
    if backups.iter().any(|backup| vfs.same_file(backup, to)) {
        return Err(BackupRefusal::RestoreOntoBackup(to.to_path_buf()).into());
    }
    if !options.force
        && let Some(restored) = already_restored(vfs, &chain, to, options)?
    {
        return Ok(restored);
    }
    let base_name = chain.base.manifest.base_name;
    let databases: Vec<FileName> = usable_databases(&chain).map(|database| database.file.clone()).collect();
    let mut existing = ExistingFiles::examine(vfs, to, base_name, &databases, options.force)?;
    let plan = RestorePlan::new(vfs, chain, options)?;
    if let Some(logs) = &options.logs
        && vfs.same_file(logs, to)
        && let Some(damaged) = plan.damaged_logs.first()
    {
        return Err(BackupRefusal::OverwritesDamagedLog(damaged.path.clone()).into());
    }
    let gauge = TransferMeter::new(options.pace.clone(), vfs.clock());
    if !existing.was_empty() {
        // A damaged backup must not overwrite existing files.
        verify_databases(&**vfs, &plan, &gauge)?;
    }
    let created = Arc::new(CreatedFiles::new(vfs.clone()));
    let vfs: &Arc<dyn Vfs> = &(created.clone() as Arc<dyn Vfs>);
    let mut placement = RestoreDirectory::begin(&created, to, (base_name, databases), &mut existing, &gauge)?;
    let placed = place_files(vfs, &plan, &mut placement, &gauge);
    // The replay acquires the file locks itself.
    existing.release_files();
    let restored = placed.and_then(|paths| replay(vfs, &plan, to, paths, options, &gauge));
    let restored = restored.and_then(|restored| {
        let restored = add_created_databases(vfs, &plan, &placement, restored)?;
        let databases = check_clean(&**vfs, &restored)?;
        placement.finish(&RestoreRecord {
            backups: backup_ids(&plan.chain),
            until: hex64(plan.until.to_u64()),
            with_logs: options.logs.is_some(),
            restored_unix_ms: vfs.clock().unix_ms(),
            databases,
        })?;
        Ok(RestoreResult {
            copied_bytes: placement.copied_bytes,
            retained_bytes: placement.retained_bytes,
            ..restored
        })
    });
    restored.inspect_err(|_| placement.discard())
}

/// Returns the identifiers of the backups in a chain.
fn backup_ids(chain: &BackupChain) -> Vec<String> {
    chain.backups().map(|(_, manifest)| manifest.id.clone()).collect()
}

/// Returns the result of an earlier restore of the same backups to the same position, if no database has been used
/// since.
///
/// # Errors
///
/// Returns an error if the directory contains the result of a different restore (-504).
fn already_restored(
    vfs: &Arc<dyn Vfs>,
    chain: &BackupChain,
    to: &Path,
    options: &RestoreOptions,
) -> Result<Option<RestoreResult>> {
    let marker = to.join(RESTORE_MARKER);
    let Some(record) = RestoreRecord::read(&**vfs, to)? else { return Ok(None) };
    if vfs.exists(&marker).map_err(|error| BackupError::io(&marker, &error))? {
        return Ok(None);
    }
    let refused = |difference| {
        let restored = LogTime::from_unix_ms(record.restored_unix_ms);
        let content = DirectoryContent::Restore { restored, difference };
        Err(BackupSetError::NotEmpty { directory: to.to_path_buf(), content }.into())
    };
    let plan = RestorePlan::new(vfs, chain.clone(), options)?;
    if options.logs.is_some() || !record.matches(&backup_ids(chain), plan.until) {
        return refused(RestoreDifference::OtherRestore);
    }
    let mut databases = Vec::new();
    // Maps the signature of each database that the record must list to its file.
    let mut expected: BTreeMap<&str, &FileName> =
        usable_databases(chain).map(|database| (&*database.signature, &database.file)).collect();
    let signatures: BTreeSet<&str> = expected.keys().copied().collect();
    for database in &record.databases {
        let path = to.join(&database.file);
        let exists = vfs.exists(&path).map_err(|error| BackupError::io(&path, &error))?;
        let header = exists.then(|| read_database_header(&**vfs, &path)).transpose()?;
        let is_unchanged =
            |header: &DatabaseHeader| RestoredDatabase::new(database.file.clone(), header) == *database;
        let Some(header) = header.filter(is_unchanged) else {
            return refused(RestoreDifference::DatabaseUsed(database.file.clone()));
        };
        let signature = header.signature.to_hex();
        let is_expected = if signatures.contains(&*signature) {
            expected.remove(&*signature) == Some(&database.file)
        } else {
            // This database was created by replaying the logs.
            Some(header.log_signature) == chain.base.manifest.signature()
        };
        if !is_expected || databases.contains(&path) {
            return refused(RestoreDifference::UnknownDatabases);
        }
        databases.push(path);
    }
    if !expected.is_empty() {
        return refused(RestoreDifference::MissingDatabases);
    }
    let left_out = skipped_databases(chain);
    let already_unix_ms = Some(record.restored_unix_ms);
    Ok(Some(RestoreResult {
        databases,
        skipped_databases: left_out,
        position: plan.until,
        window: Some(plan.window),
        ends_early: plan.ends_early,
        damaged_logs: plan.damaged_logs.clone(),
        earlier_restore_unix_ms: already_unix_ms,
        ..RestoreResult::default()
    }))
}

/// Returns the databases with bad pages, each with the reason.
fn skipped_databases(chain: &BackupChain) -> Vec<(String, String)> {
    let bad = chain.base.manifest.databases.iter().filter(|database| !database.usable);
    bad.map(|database| (database.file.to_string(), "its backup has bad pages".to_string())).collect()
}

/// Adds the databases that the replay of the logs has created.
fn add_created_databases(
    vfs: &Arc<dyn Vfs>,
    plan: &RestorePlan,
    placement: &RestoreDirectory<'_>,
    mut restored: RestoreResult,
) -> Result<RestoreResult> {
    for created in placement.created_databases(vfs)? {
        // Such a database needs no copy in the backup: the logs contain its entire content.
        let signature = created.header.signature.to_hex();
        let bad = plan.chain.base.manifest.databases.iter().find(|database| database.signature == signature);
        restored.skipped_databases.retain(|(file, _)| bad.is_none_or(|bad| bad.file.as_str() != file));
        restored.databases.push(created.path);
    }
    Ok(restored)
}

fn usable_databases(chain: &BackupChain) -> impl Iterator<Item = &StoredDatabase> {
    chain.base.manifest.databases.iter().filter(|database| database.usable)
}

fn stored_file(database: &StoredDatabase) -> StoredFile<'_> {
    StoredFile { name: &database.file, bytes: database.bytes, ranges: &database.ranges }
}

fn verify_databases(vfs: &dyn Vfs, plan: &RestorePlan, gauge: &TransferMeter) -> Result<()> {
    for database in usable_databases(&plan.chain) {
        verify_file(vfs, &plan.chain.base.directory, stored_file(database), gauge)?;
    }
    Ok(())
}

/// Places all files. Returns the databases and their new paths.
fn place_files(
    vfs: &Arc<dyn Vfs>,
    plan: &RestorePlan,
    placement: &mut RestoreDirectory<'_>,
    gauge: &TransferMeter,
) -> Result<Vec<(StoredDatabase, PathBuf)>> {
    let base = &plan.chain.base;
    let log_bytes: u64 = plan.logs.iter().filter_map(|log| log.stored.as_ref()).map(|log| log.bytes).sum();
    gauge.add_total(usable_databases(&plan.chain).map(|database| database.bytes).sum::<u64>() + log_bytes);
    for log in &plan.logs {
        let stored = log.stored.as_ref();
        let stored = stored.map(|log| StoredFile { name: &log.file, bytes: log.bytes, ranges: &log.ranges });
        placement.place_log(&log.path, stored, plan.log_name(log.generation))?;
    }
    if let Some(log) = plan.logs.last().filter(|log| plan.until.generation == log.generation) {
        RecoverySet::cut_log(vfs, &placement.temporary_path(&plan.log_name(log.generation)), plan.until)?;
    }
    let mut paths = Vec::new();
    for database in usable_databases(&plan.chain) {
        let path = placement.place_database(
            &base.directory,
            stored_file(database),
            u64::from(base.manifest.page_size),
        )?;
        check_header(&**vfs, plan, database, &path)?;
        paths.push((database.clone(), path));
    }
    placement.name_logs()?;
    Ok(paths)
}

/// Fails if the file is not the database described in the manifest.
fn check_header(vfs: &dyn Vfs, plan: &RestorePlan, database: &StoredDatabase, path: &Path) -> Result<()> {
    let header = read_database_header(vfs, path)?;
    let needs = match header.state {
        DatabaseState::CleanShutdown => None,
        _ => Some((header.gen_min_required.0, header.gen_max_required.0)),
    };
    let fits = Some(header.signature) == Signature::from_hex(&database.signature)
        && Some(header.log_signature) == plan.chain.base.manifest.signature()
        && needs == database.needs;
    if fits { Ok(()) } else { Err(BackupSetError::OtherDatabase(path.to_path_buf()).into()) }
}

fn read_database_header(vfs: &dyn Vfs, path: &Path) -> Result<DatabaseHeader> {
    let io_error = |error: std::io::Error| BackupError::io(path, &error);
    let file = vfs.open(path, OpenMode::Read).map_err(io_error)?;
    let mut start = IoBuffer::zeroed(file.len().map_err(io_error)?.min(64 << 10) as usize);
    file.read_at(0, &mut start, IoReason::Backup).map_err(io_error)?;
    let header = DatabaseHeader::read_from_start(&start);
    header.map(|(header, _)| header).map_err(|error| Error::corrupt(path, error).into())
}

fn replay(
    vfs: &Arc<dyn Vfs>,
    plan: &RestorePlan,
    to: &Path,
    placed: Vec<(StoredDatabase, PathBuf)>,
    options: &RestoreOptions,
    gauge: &TransferMeter,
) -> Result<RestoreResult> {
    let base = &plan.chain.base.manifest;
    let mut engine = InstanceOptions::with_vfs(vfs.clone(), to.to_path_buf());
    engine.log.base_name = base.base_name;
    engine.log.names = plan.names.log_names;
    engine.background = BackgroundThreads::own_if(options.threads);
    // An interrupted restore starts again from the backup files, so torn pages need no protection.
    engine.torn_page_protection = TornPageProtection::Off;
    engine.recovery.ignore_missing_databases = true;
    engine.recovery.begin_generation = true;
    let mut paths = DatabasePaths::default();
    for (database, path) in &placed {
        if let Some(signature) = Signature::from_hex(&database.signature) {
            paths.set_path(signature, path);
        }
    }
    // The logs name the original databases, which a restore must not change.
    paths.search(to);
    engine.recovery.database_paths = paths;
    let mut restored = RestoreResult {
        databases: placed.into_iter().map(|(_, path)| path).collect(),
        skipped_databases: skipped_databases(&plan.chain),
        window: Some(plan.window),
        ends_early: plan.ends_early,
        damaged_logs: plan.damaged_logs.clone(),
        ..RestoreResult::default()
    };
    if let Some(first) = plan.logs.first() {
        let mut replayer = Replayer::open(engine, &to.join(plan.log_name(first.generation)))?;
        for (index, log) in plan.logs.iter().enumerate() {
            gauge.check()?;
            let path = to.join(plan.log_name(log.generation));
            if index + 1 == plan.logs.len() {
                replayer.replay_until(&path, plan.until)?;
            } else {
                replayer.replay(&path)?;
            }
        }
        let (replayed, recovery) = replayer.finish()?;
        let ReplaySummary { generations, position, records, changed, .. } = replayed;
        (restored.generations, restored.position, restored.records) = (generations, position, records);
        (restored.changes, restored.rolled_back) = (changed, recovery.rolled_back);
    }
    Ok(restored)
}

/// Describes the restored databases. Fails if a database is not clean after the replay.
fn check_clean(vfs: &dyn Vfs, restored: &RestoreResult) -> Result<Vec<RestoredDatabase>> {
    let mut databases = Vec::new();
    for path in &restored.databases {
        let header = read_database_header(vfs, path)?;
        if header.state != DatabaseState::CleanShutdown {
            return Err(BackupSetError::NotClean(path.clone()).into());
        }
        databases.push(RestoredDatabase::new(FileName::from_path(path)?, &header));
    }
    Ok(databases)
}
