//! Snapshot backups of a running instance, which is frozen briefly, or of an instance that is not running.
//!
//! Invariants: the snapshot contains all files as of a single point in time. Its manifest is written only after every
//! page and log in it has been verified. Only the engine is frozen, not the file system, so other programs are not
//! blocked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{Database, Freeze, Instance};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::error::{BackupError, Result};
use crate::options::{BackupOptions, BackupResult};
use crate::refusal::BackupRefusal;
use crate::snapshot_method::{SnapshotMethod, SnapshotRequest};
use crate::snapshot_seal::UnsealedSnapshot;
use crate::stopped::{lock, select_logs};
use crate::text_file;

/// Snapshot method and time limit.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// Method that makes the snapshot.
    pub method: SnapshotMethod,
    /// Maximum time for which the instance is frozen. A program that makes the snapshot must also finish within this
    /// time.
    pub limit: Duration,
}

impl SnapshotOptions {
    /// Creates a snapshot description with the default limit of 70 s.
    pub fn new(method: SnapshotMethod) -> SnapshotOptions {
        SnapshotOptions { method, limit: Freeze::DEFAULT_LIMIT }
    }
}

/// Backs up all databases of a running instance by making a snapshot in the directory `to`.
///
/// The instance is frozen while the snapshot is made, so commits wait. Afterwards the snapshot is verified and its
/// manifest is written while the instance runs. `vfs` is the instance's file system. The parent and the save interval
/// in `options` are ignored.
///
/// # Errors
///
/// See [`Instance::begin_backup`] and [`Instance::freeze`]. In addition, returns an error in these cases:
/// - The backup kind contains no databases.
/// - The method does not work on this file system.
/// - The snapshot took too long (-2402).
/// - A log is damaged, or all databases have bad pages.
///
/// After an error, the incomplete snapshot is removed, unless the user's command made it. In that case it is left
/// without a manifest, so it is not a backup.
pub fn snapshot(
    instance: &Instance,
    vfs: &Arc<dyn Vfs>,
    to: &Path,
    snapshot: &SnapshotOptions,
    options: &BackupOptions,
) -> Result<BackupResult> {
    check_kind(options)?;
    let began_unix_ms = vfs.clock().unix_ms();
    let mut backup = instance.begin_backup(options.kind.to_engine_kind())?;
    SnapshotRequest { vfs: &**vfs, method: &snapshot.method, files: &backup.files(), to }.check()?;
    prepare(&**vfs, to, &snapshot.method)?;
    let freeze = backup.freeze(snapshot.limit)?;
    let files = backup.files();
    let order = SnapshotRequest { vfs: &**vfs, method: &snapshot.method, files: &files, to };
    let expected = order.expected_files()?;
    let taken = order.create(&|| freeze.remaining());
    freeze.thaw().inspect_err(|_| order.discard())?;
    taken?;
    let unsealed = UnsealedSnapshot {
        vfs,
        directory: to,
        files: expected,
        options,
        details: Some(backup.details()),
        began_unix_ms,
    };
    let last = *backup.generations().end();
    let sealed = unsealed.seal(&mut |log| {
        if log.generation == last { Ok(backup.confirm_logs_verified(log)?) } else { Ok(()) }
    });
    let manifest = sealed.map_err(|error| discard_after_error(&order, error))?;
    let is_usable = |database: &&Arc<Database>| {
        let signature = database.header().signature.to_hex();
        manifest.databases.iter().any(|stored| stored.usable && stored.signature == signature)
    };
    let whole: Vec<Arc<Database>> = backup.databases().iter().filter(is_usable).cloned().collect();
    let summary = backup.finish(&whole)?;
    Ok(BackupResult {
        manifest,
        removed_logs: summary.removed_logs,
        copied_bytes: 0,
        continued_bytes: 0,
        already_complete: false,
    })
}

/// Backs up an instance that was stopped or has crashed, by making a snapshot in the directory `to`.
///
/// `files` are the instance's logs and databases. They are locked during the snapshot and not changed.
///
/// # Errors
///
/// Returns an error if a database is in use or its logs are missing, and in the cases listed for [`snapshot`].
pub fn snapshot_stopped(
    vfs: &Arc<dyn Vfs>,
    files: &[PathBuf],
    to: &Path,
    snapshot: &SnapshotOptions,
    options: &BackupOptions,
) -> Result<BackupResult> {
    check_kind(options)?;
    if options.remove_logs {
        return Err(BackupRefusal::SnapshotRemovesLogs.into());
    }
    let began_unix_ms = vfs.clock().unix_ms();
    let set = options.find_set(vfs, files)?;
    let locks = lock(vfs, &set, files)?;
    let logs = select_logs(&set, options, None)?;
    let databases: Vec<PathBuf> = set.databases.iter().map(|database| database.path.clone()).collect();
    // The database's side file holds page images that can replace pages torn by a crash.
    let side_file =
        |database: &PathBuf| PathBuf::from([database.as_os_str(), "jdw".as_ref()].join(".".as_ref()));
    let side_files: Vec<PathBuf> =
        databases.iter().map(side_file).filter(|side_file| files.contains(side_file)).collect();
    let logs = logs.into_iter().map(|(_, path)| path);
    let files: Vec<PathBuf> = databases.into_iter().chain(logs).chain(side_files).collect();
    let order = SnapshotRequest { vfs: &**vfs, method: &snapshot.method, files: &files, to };
    order.check()?;
    order.sync_source()?;
    let expected = order.expected_files()?;
    prepare(&**vfs, to, &snapshot.method)?;
    let end = vfs.clock().monotonic() + snapshot.limit;
    order.create(&|| end.checked_sub(vfs.clock().monotonic()).filter(|left| !left.is_zero()))?;
    drop(locks);
    let unsealed =
        UnsealedSnapshot { vfs, directory: to, files: expected, options, details: None, began_unix_ms };
    let manifest = unsealed.seal(&mut |_| Ok(())).map_err(|error| discard_after_error(&order, error))?;
    Ok(BackupResult {
        manifest,
        removed_logs: None,
        copied_bytes: 0,
        continued_bytes: 0,
        already_complete: false,
    })
}

fn check_kind(options: &BackupOptions) -> Result<()> {
    if options.kind.has_pages() && options.parent.is_none() {
        return Ok(());
    }
    Err(BackupRefusal::SnapshotIsFull.into())
}

/// Creates the target directory if the method copies files. Other methods create it themselves.
fn prepare(vfs: &dyn Vfs, to: &Path, method: &SnapshotMethod) -> Result<()> {
    match method {
        SnapshotMethod::Reflink => vfs.create_directory(to).map_err(|error| BackupError::io(to, &error)),
        _ => Ok(()),
    }
}

/// Removes the snapshot after an error, because an interrupted snapshot cannot be continued.
fn discard_after_error(order: &SnapshotRequest<'_>, error: BackupError) -> BackupError {
    let manifest = order.to.join(crate::file_names::MANIFEST_FILE);
    if !order.vfs.exists(&manifest).unwrap_or(true) {
        order.discard();
        if !matches!(order.method, SnapshotMethod::Command(_)) {
            let _ = text_file::remove(order.vfs, &order.to.join(crate::file_names::PARTIAL_FILE));
        }
    }
    match error {
        BackupError::Stopped => BackupRefusal::SnapshotStopped.into(),
        other => other,
    }
}
