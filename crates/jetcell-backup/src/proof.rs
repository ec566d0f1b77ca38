//! Proof that a backup can be restored: it is verified and restored into a scratch directory, and the structure of the
//! restored databases is checked. The result is recorded next to the manifest.

use std::path::{Path, PathBuf};

use ese_check::{CheckError, CheckOptions, check_database};
use ese_engine::Error;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::error::{BackupError, Result};
use crate::manifest::BackupManifest;
use crate::proof_record::BackupProof;
use crate::restore::restore;
use crate::restore_options::RestoreOptions;
use crate::transfer_control::TransferControl;
use crate::verify::{VerifyOptions, verify};

/// Proves a backup. `backups` contains the directory of the backup, followed by the directories of the backups on which
/// it builds. The scratch directory is created in `scratch` and removed afterwards. The result is recorded durably
/// in the directory of the backup.
///
/// # Errors
///
/// Returns an error if the proof could not be completed: it was cancelled, the scratch directory has too little space,
/// or the result cannot be recorded. Problems of the backup are not errors; [`BackupProof::problems`] lists them.
pub fn prove(
    vfs: &Arc<dyn Vfs>,
    backups: &[PathBuf],
    scratch: &Path,
    pace: &TransferControl,
) -> Result<BackupProof> {
    let Some(newest) = backups.first() else { return Err(crate::BackupSetError::NoFullBackup.into()) };
    let began = vfs.clock().monotonic();
    let mut proof = BackupProof {
        manifest: BackupManifest::read(&**vfs, newest)?.checksum,
        proved_unix_ms: vfs.clock().unix_ms(),
        seconds: 0.0,
        databases: 0,
        pages: 0,
        position: String::new(),
        problems: Vec::new(),
    };
    for directory in backups {
        let options = VerifyOptions { pace: pace.clone(), ..VerifyOptions::default() };
        for (path, at, what) in verify(vfs, directory, &options)?.problems {
            proof.add(&format!("{}: at byte {at}: {what}", path.display()));
        }
    }
    if proof.is_good() {
        restore_and_check(vfs, backups, scratch, pace, &mut proof)?;
    }
    proof.seconds = (vfs.clock().monotonic() - began).as_secs_f64();
    proof.write(&**vfs, newest)?;
    Ok(proof)
}

fn restore_and_check(
    vfs: &Arc<dyn Vfs>,
    backups: &[PathBuf],
    scratch: &Path,
    pace: &TransferControl,
    proof: &mut BackupProof,
) -> Result<()> {
    let directory = tempfile::Builder::new()
        .prefix("jetcell-prove-")
        .tempdir_in(scratch)
        .map_err(|error| BackupError::io(scratch, &error))?;
    let options = RestoreOptions { threads: true, pace: pace.clone(), ..RestoreOptions::default() };
    let restored = match restore(vfs, backups, directory.path(), &options) {
        Ok(restored) => restored,
        Err(error) if is_about_backup(&error) => {
            proof.add(&error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for (file, why) in &restored.skipped_databases {
        proof.add(&format!("{file}: not restored: {why}"));
    }
    (proof.databases, proof.position) = (restored.databases.len(), restored.position.to_string());
    for path in &restored.databases {
        let name = path.file_name().unwrap_or_default().display();
        let options = CheckOptions {
            structure: true,
            cancel: pace.cancel.clone(),
            leaks_are_errors: false,
            ..CheckOptions::default()
        };
        match check_database(&**vfs, path, &options) {
            Ok(report) if report.cancelled => return Err(BackupError::Stopped),
            Ok(report) => {
                proof.pages += u64::from(report.file_pages);
                if !report.clean {
                    proof.add(&format!("{name}: the database is not clean"));
                }
                for finding in report.errors() {
                    let page = finding.page.map(|page| format!("page {page}: ")).unwrap_or_default();
                    proof.add(&format!("{name}: {page}{}", finding.message));
                }
            }
            Err(CheckError::Io { path, error }) => return Err(BackupError::io(&path, &error)),
            Err(error) => proof.add(&format!("{name}: {error}")),
        }
    }
    Ok(())
}

/// Returns true if a restore failed because of the backup, and not because of the scratch directory or the caller.
fn is_about_backup(error: &BackupError) -> bool {
    match error {
        BackupError::Changed { .. } | BackupError::Set(_) | BackupError::Name(_) => true,
        BackupError::Engine(error) => !matches!(
            error,
            Error::Io { .. }
                | Error::InUse { .. }
                | Error::DiskFull { .. }
                | Error::OutOfMemory { .. }
                | Error::ReadOnly(_)
                | Error::Cancelled
        ),
        BackupError::UnreadableInDirectory(error) => is_about_backup(error),
        BackupError::Refused(_) | BackupError::Stopped => false,
    }
}
