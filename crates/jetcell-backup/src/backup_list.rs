//! Finds the backups in a directory, with their known damage and their last proofs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ese_engine::RecoverySet;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::backup_fault::BackupFault;
use crate::backup_type::BackupType;
use crate::error::{BackupError, Result};
use crate::manifest::{BackupManifest, BackupState};
use crate::proof_record::BackupProof;
use crate::refusal::BackupRefusal;
use crate::stream_sets::read_stream_set;
use crate::verify::find_known_damage;

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
    /// Complete backups, including damaged ones.
    pub complete: Vec<CompleteBackup>,
    /// Directories with interrupted, damaged and modified backups, each with the reason why it is unusable.
    pub unusable: Vec<(PathBuf, BackupFault)>,
    /// Directories of sets, each with the directories of its backups.
    pub sets: Vec<(PathBuf, Vec<PathBuf>)>,
    /// Directories of the backups that were proved, each with its last proof.
    pub proofs: Vec<(PathBuf, BackupProof)>,
}

impl BackupList {
    /// Returns the backup or set in the directory itself, and the backups and sets in its subdirectories.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn find(vfs: &dyn Vfs, directory: &Path) -> Result<BackupList> {
        let mut found = BackupList::default();
        let mut directories = vec![directory.to_path_buf()];
        directories.extend(found.subdirectories(directory)?);
        let mut members = Vec::new();
        for directory in &directories {
            match read_stream_set(vfs, directory) {
                Ok(None) => {}
                Ok(Some(of_set)) => found.sets.push((directory.clone(), of_set)),
                Err(error) => {
                    found.add_unreadable(directory.clone(), error);
                    // The list of the set cannot be read, so any subdirectory may be one of its backups.
                    match found.subdirectories(directory) {
                        Ok(of_set) => members.extend(of_set),
                        Err(error) => found.add_unreadable(directory.clone(), error),
                    }
                }
            }
        }
        let of_sets: Vec<PathBuf> = found.sets.iter().flat_map(|(_, members)| members).cloned().collect();
        for member in of_sets {
            match is_directory(&member) {
                Ok(true) => members.push(member),
                Ok(false) => found.unusable.push((member, BackupFault::NotInSet)),
                Err(error) => found.add_unreadable(member, error),
            }
        }
        directories.extend(members);
        directories.sort();
        directories.dedup();
        for directory in directories {
            match BackupManifest::state(vfs, &directory) {
                Ok(BackupState::Complete(manifest)) => found.add(vfs, directory, *manifest),
                Ok(BackupState::Partial) => found.unusable.push((directory, BackupFault::Interrupted)),
                Ok(BackupState::NotABackup) => {}
                Err(error) => found.add_unreadable(directory, error),
            }
        }
        Ok(found)
    }

    /// Returns the subdirectories of a directory. Those that cannot be examined are added to the unusable backups.
    fn subdirectories(&mut self, directory: &Path) -> Result<Vec<PathBuf>> {
        let unreadable = |error| BackupError::io(directory, &error);
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            match is_directory(&path) {
                Ok(true) if is_closed_lost_and_found(&path) => {}
                Ok(true) => found.push(path),
                Ok(false) => {}
                Err(error) => self.add_unreadable(path, error),
            }
        }
        Ok(found)
    }

    /// Adds a backup or set that cannot be read. Several files in its directory may be unreadable, but only the first
    /// error is listed.
    fn add_unreadable(&mut self, directory: PathBuf, error: BackupError) {
        let is_same = |(path, fault): &(PathBuf, BackupFault)| {
            *path == directory && matches!(fault, BackupFault::Unreadable(_))
        };
        if !self.unusable.iter().any(is_same) {
            self.unusable.push((directory, error.into()));
        }
    }

    /// Returns true if a backup, or the list of a set, could not be read. This list of backups may then be incomplete.
    pub fn is_incomplete(&self) -> bool {
        self.unusable.iter().any(|(_, fault)| matches!(fault, BackupFault::Unreadable(_)))
    }

    /// Adds a complete backup, its last proof, and any known damage.
    fn add(&mut self, vfs: &dyn Vfs, directory: PathBuf, manifest: BackupManifest) {
        let proof = BackupProof::read(vfs, &directory, &manifest).unwrap_or_else(|error| {
            self.add_unreadable(directory.clone(), error);
            None
        });
        let failed = proof.as_ref().and_then(|proof| proof.problems.first());
        match find_known_damage(vfs, &directory, &manifest) {
            Ok(damage) => {
                let damage = damage.or_else(|| Some(BackupFault::ProofFailed(failed?.clone())));
                self.unusable.extend(damage.map(|damage| (directory.clone(), damage)));
            }
            Err(error) => self.add_unreadable(directory.clone(), error),
        }
        self.proofs.extend(proof.map(|proof| (directory.clone(), proof)));
        self.complete.push(CompleteBackup { directory, manifest });
    }

    /// Returns the directory of a backup: the given directory, or its only subdirectory that contains a backup.
    ///
    /// # Errors
    /// Returns an error if the directory or a backup in it cannot be read, or if the directory contains several
    /// backups.
    pub fn find_single(vfs: &dyn Vfs, directory: &Path) -> Result<PathBuf> {
        if !is_directory(directory)?
            || !matches!(BackupManifest::state(vfs, directory), Ok(BackupState::NotABackup))
        {
            return Ok(directory.to_path_buf());
        }
        let list = BackupList::find(vfs, directory)?;
        let is_listed = |path: &PathBuf| list.complete.iter().any(|complete| complete.directory == *path);
        let mut unreadable = list.unusable.iter().filter_map(|(path, fault)| match fault {
            BackupFault::Unreadable(error) if !is_listed(path) => Some(error),
            _ => None,
        });
        // The unreadable backup may be the only one in the directory, or an additional one.
        if let Some(error) = unreadable.next().filter(|_| list.complete.len() < 2) {
            return Err(BackupError::UnreadableInDirectory(Box::new(error.clone())));
        }
        let mut found: Vec<PathBuf> = list.complete.into_iter().map(|found| found.directory).collect();
        // A set counts with all its backups, even if only one of them exists.
        found.extend(list.sets.into_iter().flat_map(|(_, members)| members));
        found.sort();
        found.dedup();
        match found.len() {
            0 => Ok(directory.to_path_buf()),
            1 => Ok(found.remove(0)),
            _ => Err(BackupRefusal::SeveralBackups { directory: directory.to_path_buf(), found }.into()),
        }
    }

    /// Returns the backup that a new backup of the given kind continues: the newest matching backup that is next to
    /// the new backup's directory `to`. `files` are the files of one log stream.
    ///
    /// # Errors
    /// Returns an error if the files or the directory with the backups cannot be read.
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
        let all = BackupList::find(&**vfs, to.parent().unwrap_or(Path::new("/")))?;
        let fits = |found: &&CompleteBackup| {
            found.manifest.log_signature == stream
                && bases.contains(&found.manifest.kind)
                && all.is_good(found)
        };
        let newest = all.complete.iter().filter(fits).max_by_key(|found| found.manifest.ended_unix_ms);
        Ok(newest.map(|found| found.directory.clone()))
    }

    /// Returns a backup and the backups that it continues, the full backup last. Returns `None` if one of them is
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

    /// Returns the newest backup that can be restored, or the backups of the newest such set, even if they are known
    /// to be damaged.
    pub fn last_complete(&self) -> Vec<&CompleteBackup> {
        self.newest(|found| self.chain(found).is_some())
    }

    /// Returns the newest usable backup whose chain is complete, or the backups of the newest such set. No backup in
    /// these chains is known to be damaged.
    pub fn last_good(&self) -> Vec<&CompleteBackup> {
        self.newest(|found| self.is_good(found))
    }

    /// Returns true if the chain of this backup is complete and no backup in it is known to be damaged. A failed proof
    /// of a later backup also counts, because any backup that the later one continues may be the cause.
    fn is_good(&self, backup: &CompleteBackup) -> bool {
        let is_damaged =
            |link: &CompleteBackup| self.unusable.iter().any(|(directory, _)| *directory == link.directory);
        let Some(chain) = self.chain(backup) else { return false };
        let proof = |of: &CompleteBackup| {
            self.proofs.iter().find(|(directory, _)| *directory == of.directory).map(|(_, proof)| proof)
        };
        let is_in_failed_proof = || {
            let failed =
                self.complete.iter().filter(|other| proof(other).is_some_and(|proof| !proof.is_good()));
            let mut chains = failed.filter_map(|other| self.chain(other));
            chains.any(|links| links.iter().any(|link| link.directory == backup.directory))
        };
        !chain.iter().any(|link| is_damaged(link))
            && (proof(backup).is_some_and(BackupProof::is_good) || !is_in_failed_proof())
    }

    /// Returns the newest backup that fulfils a condition, or the newest set whose backups all fulfil it.
    fn newest(&self, is_fit: impl Fn(&CompleteBackup) -> bool) -> Vec<&CompleteBackup> {
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

    /// Returns the directory of the backup with the newest successful proof, together with that proof.
    pub fn last_proved(&self) -> Option<(&Path, &BackupProof)> {
        let good = self.proofs.iter().filter(|(_, proof)| proof.is_good());
        let newest = good.max_by_key(|(_, proof)| proof.proved_unix_ms);
        newest.map(|(directory, proof)| (&**directory, proof))
    }
}

/// Returns true if the path is a directory, or a link to one. A path that does not exist is not a directory.
fn is_directory(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(BackupError::io(path, &error)),
    }
}

/// Returns true for the directory that `mkfs` creates in the root of a volume, if only the superuser may read it. A
/// backup volume has such a directory, which does not contain backups.
fn is_closed_lost_and_found(path: &Path) -> bool {
    let is_closed = || fs::read_dir(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    path.file_name().is_some_and(|name| name == "lost+found") && is_closed()
}

/// Returns the time at which the oldest of some backups began, in milliseconds since 1970 UTC. Together, they contain
/// everything that was committed before then.
fn oldest_begin(backups: &[&CompleteBackup]) -> i64 {
    backups.iter().map(|backup| backup.manifest.began_unix_ms).min().unwrap_or_default()
}
