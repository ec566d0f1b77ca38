//! Lists the backups in a directory.

use std::fs;
use std::path::{Path, PathBuf};

use ese_engine::RecoverySet;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::backup_type::BackupType;
use crate::error::{BackupError, Result};
use crate::manifest::{BackupManifest, BackupState};
use crate::refusal::BackupRefusal;

/// A complete backup, with its directory and manifest.
#[derive(Clone, Debug)]
pub struct CompleteBackup {
    /// Directory of the backup.
    pub directory: PathBuf,
    /// Manifest of the backup.
    pub manifest: BackupManifest,
}

/// All backups in a directory.
#[derive(Debug, Default)]
pub struct BackupList {
    /// Complete backups.
    pub complete: Vec<CompleteBackup>,
    /// Directories with other backups. The error is that of the manifest, or `None` if the backup was interrupted.
    pub unusable: Vec<(PathBuf, Option<BackupError>)>,
}

impl BackupList {
    /// Returns the backup in the directory itself, and the backups in its subdirectories.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn find(vfs: &dyn Vfs, directory: &Path) -> Result<BackupList> {
        let unreadable = |error| BackupError::io(directory, &error);
        let mut directories = vec![directory.to_path_buf()];
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            directories.extend(path.is_dir().then_some(path));
        }
        directories.sort();
        let mut found = BackupList::default();
        for directory in directories {
            match BackupManifest::state(vfs, &directory) {
                Ok(BackupState::Complete(manifest)) => {
                    found.complete.push(CompleteBackup { directory, manifest: *manifest });
                }
                Ok(BackupState::Partial) => found.unusable.push((directory, None)),
                Ok(BackupState::NotABackup) => {}
                Err(error) => found.unusable.push((directory, Some(error))),
            }
        }
        Ok(found)
    }

    /// Returns the directory of a backup: the given directory, or its only subdirectory that contains a backup.
    ///
    /// # Errors
    /// The directory cannot be read, or it contains several backups.
    pub fn find_single(vfs: &dyn Vfs, directory: &Path) -> Result<PathBuf> {
        if !directory.is_dir()
            || !matches!(BackupManifest::state(vfs, directory), Ok(BackupState::NotABackup))
        {
            return Ok(directory.to_path_buf());
        }
        let complete = BackupList::find(vfs, directory)?.complete;
        let mut found: Vec<PathBuf> = complete.into_iter().map(|found| found.directory).collect();
        match found.len() {
            0 => Ok(directory.to_path_buf()),
            1 => Ok(found.remove(0)),
            _ => Err(BackupRefusal::SeveralBackups { directory: directory.to_path_buf(), found }.into()),
        }
    }

    /// Returns the backup that a new backup of the given kind continues: the newest matching backup that is next to
    /// the new backup's directory `to`. `files` are the files of the instance.
    ///
    /// # Errors
    /// The files or the directory with the backups cannot be read.
    pub fn find_base(
        vfs: &Arc<dyn Vfs>,
        kind: BackupType,
        files: &[PathBuf],
        to: &Path,
    ) -> Result<Option<PathBuf>> {
        let bases: &[BackupType] = match kind {
            BackupType::Incremental => &[BackupType::Full, BackupType::Incremental],
            BackupType::Differential => &[BackupType::Full],
            BackupType::Full | BackupType::Copy => return Ok(None),
        };
        let stream = RecoverySet::find(vfs, files)?.signature.to_hex();
        let fits = |found: &&CompleteBackup| {
            found.manifest.log_signature == stream && bases.contains(&found.manifest.kind)
        };
        let all = BackupList::find(&**vfs, to.parent().unwrap_or(Path::new("/")))?;
        let newest = all.complete.iter().filter(fits).max_by_key(|found| found.manifest.ended_unix_ms);
        Ok(newest.map(|found| found.directory.clone()))
    }

    /// Returns the newest usable backup for which all backups exist that it continues.
    pub fn last_good(&self) -> Option<&CompleteBackup> {
        let good = |found: &&CompleteBackup| self.is_complete(found);
        // A backup contains everything that was committed before it began.
        self.complete.iter().filter(good).max_by_key(|found| found.manifest.began_unix_ms)
    }

    /// Returns true if all backups on which this backup builds exist, back to a full backup.
    fn is_complete(&self, backup: &CompleteBackup) -> bool {
        let mut manifest = &backup.manifest;
        // The number of steps is limited because forged manifests could form a cycle.
        for _ in 0..=self.complete.len() {
            if manifest.kind.has_pages() {
                return manifest.databases.iter().all(|database| database.usable);
            }
            let parent =
                self.complete.iter().find(|found| Some(&found.manifest.id) == manifest.parent.as_ref());
            let Some(parent) = parent else { return false };
            manifest = &parent.manifest;
        }
        false
    }
}
