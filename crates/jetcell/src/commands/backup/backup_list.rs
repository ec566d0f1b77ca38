//! Lists the backups in a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_backup::{BackupManifest, BackupState};
use jetcell_vfs::Vfs;

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// A complete backup, with its directory and manifest.
pub struct CompleteBackup {
    pub directory: PathBuf,
    pub manifest: BackupManifest,
}

/// All backups in a directory.
#[derive(Default)]
pub struct BackupList {
    pub complete: Vec<CompleteBackup>,
    /// Interrupted backups and backups with a modified manifest, each with the reason why it is unusable.
    pub unusable: Vec<(PathBuf, String)>,
}

impl BackupList {
    /// Returns true if all backups on which this backup builds exist, back to a full backup.
    pub fn is_complete(&self, backup: &CompleteBackup) -> bool {
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

/// Returns the directory of a backup: the given directory, or its only subdirectory that contains a backup.
pub fn find_single_backup(vfs: &Arc<dyn Vfs>, directory: &Path) -> CommandResult<PathBuf> {
    if !directory.is_dir() || !matches!(BackupManifest::state(&**vfs, directory), Ok(BackupState::NotABackup))
    {
        return Ok(directory.to_path_buf());
    }
    let mut found: Vec<PathBuf> =
        find_backups(vfs, directory)?.complete.into_iter().map(|found| found.directory).collect();
    match found.len() {
        0 => Ok(directory.to_path_buf()),
        1 => Ok(found.remove(0)),
        count => {
            let first: Vec<String> = found.iter().take(3).map(|path| path.display().to_string()).collect();
            let more = if count > first.len() { ", ..." } else { "" };
            let named = first.join(", ");
            Err(CommandError::new(format_args!(
                "{}: the directory contains {count} backups",
                directory.display()
            ))
            .advise(format!("specify one of them: {named}{more}")))
        }
    }
}

/// Returns the backup in the directory itself, or the backups in its subdirectories.
pub fn find_backups(vfs: &Arc<dyn Vfs>, directory: &Path) -> CommandResult<BackupList> {
    let mut directories = vec![directory.to_path_buf()];
    for entry in std::fs::read_dir(directory).context(directory.display())? {
        let path = entry.context(directory.display())?.path();
        directories.extend(path.is_dir().then_some(path));
    }
    directories.sort();
    let mut found = BackupList::default();
    for directory in directories {
        match BackupManifest::state(&**vfs, &directory) {
            Ok(BackupState::Complete(manifest)) => {
                found.complete.push(CompleteBackup { directory, manifest: *manifest });
            }
            Ok(BackupState::Partial) => {
                found.unusable.push((directory, "interrupted and incomplete".to_string()));
            }
            Ok(BackupState::NotABackup) => {}
            Err(error) => {
                let why = CommandError::from(error).full_text();
                found.unusable.push((directory, why));
            }
        }
    }
    Ok(found)
}
