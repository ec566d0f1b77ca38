//! The backups in a directory, and what is known about each of them.

use std::path::{Path, PathBuf};

use jetcell_input::with_advice;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::error::{BackupError, Result};
use crate::manifest::{BackupManifest, BackupState};
use crate::proof::BackupProof;
use crate::stream_sets::read_stream_set;
use crate::verify::find_known_damage;

/// A complete backup, with its directory and manifest.
#[derive(Clone, Debug)]
pub struct CompleteBackup {
    /// Directory of the backup.
    pub directory: PathBuf,
    /// Manifest of the backup.
    pub manifest: BackupManifest,
    /// Damage that a check or a proof has found, or a missing file.
    pub damage: Option<String>,
    /// The last proof of the backup.
    pub proof: Option<BackupProof>,
}

/// All backups in a directory.
#[derive(Debug, Default)]
pub struct BackupList {
    /// Complete backups.
    pub complete: Vec<CompleteBackup>,
    /// Interrupted, damaged and modified backups, each with the reason why it is unusable.
    pub unusable: Vec<(PathBuf, String)>,
    /// Directories of sets, each with the directories of its backups.
    pub sets: Vec<(PathBuf, Vec<PathBuf>)>,
}

impl BackupList {
    /// Finds the backup or set in the directory itself, and the backups and sets in its subdirectories.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be read. Problems of a backup are not errors.
    pub fn find(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<BackupList> {
        let io_error = |error: std::io::Error| BackupError::io(directory, &error);
        let mut directories = vec![directory.to_path_buf()];
        for entry in std::fs::read_dir(directory).map_err(io_error)? {
            let path = entry.map_err(io_error)?.path();
            directories.extend(path.is_dir().then_some(path));
        }
        let mut list = BackupList::default();
        let mut members = Vec::new();
        for directory in &directories {
            match read_stream_set(&**vfs, directory) {
                Ok(None) => {}
                Ok(Some(backups)) => {
                    members.extend(backups.iter().cloned());
                    list.sets.push((directory.clone(), backups));
                }
                Err(error) => list.unusable.push((directory.clone(), with_advice(&error, error.advice()))),
            }
        }
        for member in &members {
            if !member.is_dir() {
                list.unusable.push((member.clone(), "the set does not contain this backup yet".to_string()));
            }
        }
        directories.extend(members.into_iter().filter(|member| member.is_dir()));
        directories.sort();
        directories.dedup();
        for directory in directories {
            list.add(vfs, directory);
        }
        Ok(list)
    }

    /// Returns true if the directory is not a backup itself, so only its subdirectories can be backups.
    pub fn is_collection(vfs: &Arc<dyn Vfs>, directory: &Path) -> bool {
        matches!(BackupManifest::state(&**vfs, directory), Ok(BackupState::NotABackup))
    }

    fn add(&mut self, vfs: &Arc<dyn Vfs>, directory: PathBuf) {
        let manifest = match BackupManifest::state(&**vfs, &directory) {
            Ok(BackupState::Complete(manifest)) => *manifest,
            Ok(BackupState::Partial) => {
                return self.unusable.push((directory, "interrupted and incomplete".to_string()));
            }
            Ok(BackupState::NotABackup) => return,
            Err(error) => return self.unusable.push((directory, with_advice(&error, error.advice()))),
        };
        let proof = BackupProof::read(&**vfs, &directory, &manifest);
        let failed_proof = proof.as_ref().and_then(BackupProof::failure);
        let damage = find_known_damage(&**vfs, &directory, &manifest).or(failed_proof);
        if let Some(damage) = &damage {
            self.unusable.push((directory.clone(), damage.clone()));
        }
        self.complete.push(CompleteBackup { directory, manifest, damage, proof });
    }

    /// Returns a backup and the backups on which it builds, the full backup last. Returns `None` if one of them is
    /// missing, or if a database of the full backup is unusable.
    pub fn chain<'a>(&'a self, backup: &'a CompleteBackup) -> Option<Vec<&'a CompleteBackup>> {
        let mut chain = vec![backup];
        let mut last = backup;
        // The number of steps is limited because forged manifests could form a cycle.
        for _ in 0..=self.complete.len() {
            if last.manifest.kind.has_pages() {
                return last.manifest.databases.iter().all(|database| database.usable).then_some(chain);
            }
            let parent = last.manifest.parent.as_ref()?;
            last = self.complete.iter().find(|found| found.manifest.id == *parent)?;
            chain.push(last);
        }
        None
    }

    /// Returns true if all backups on which this backup builds exist, back to a full backup, and none of them is known
    /// to be damaged.
    pub fn is_good(&self, backup: &CompleteBackup) -> bool {
        self.chain(backup).is_some_and(|chain| chain.iter().all(|link| link.damage.is_none()))
    }

    /// Returns the newest backup that fulfils a condition, or the newest set whose backups all fulfil it. A backup
    /// contains everything that was committed before it began.
    pub fn newest(&self, is_fit: impl Fn(&CompleteBackup) -> bool) -> Vec<&CompleteBackup> {
        let in_set = |backup: &CompleteBackup| {
            self.sets.iter().any(|(_, members)| members.contains(&backup.directory))
        };
        let single = self.complete.iter().filter(|backup| !in_set(backup) && is_fit(backup));
        let single = single.map(|backup| vec![backup]);
        let sets = self.sets.iter().filter_map(|(_, members)| {
            let backup = |member: &PathBuf| self.complete.iter().find(|found| found.directory == *member);
            let backups: Option<Vec<&CompleteBackup>> = members.iter().map(backup).collect();
            backups.filter(|backups| !backups.is_empty() && backups.iter().all(|backup| is_fit(backup)))
        });
        single.chain(sets).max_by_key(|backups| oldest_begin(backups)).unwrap_or_default()
    }

    /// Returns the newest backup with a good proof.
    pub fn last_proved(&self) -> Option<(&CompleteBackup, &BackupProof)> {
        let proved = self.complete.iter().filter_map(|backup| Some((backup, backup.proof.as_ref()?)));
        proved.filter(|(_, proof)| proof.failure().is_none()).max_by_key(|(_, proof)| proof.proved_unix_ms)
    }
}

/// Returns the time at which the oldest of some backups began, in milliseconds since 1970 UTC.
fn oldest_begin(backups: &[&CompleteBackup]) -> i64 {
    backups.iter().map(|backup| backup.manifest.began_unix_ms).min().unwrap_or_default()
}
