//! A chain of backups to restore: one backup with databases, and the backups that continue it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jetcell_vfs::Vfs;

use crate::backup_list::CompleteBackup;
use crate::error::{BackupError, Result};
use crate::manifest::{BackupManifest, StoredLog};
use crate::refusal::BackupRefusal;
use crate::set_error::BackupSetError;

/// A chain of backups, without gaps in the logs.
#[derive(Clone, Debug)]
pub struct BackupChain {
    pub(crate) base: CompleteBackup,
    pub(crate) increments: Vec<CompleteBackup>,
}

/// A log in a chain, with the backup directory that contains it.
#[derive(Clone, Debug)]
pub(crate) struct ChainLog {
    pub directory: PathBuf,
    pub stored: StoredLog,
    /// True if the log was still open when it was backed up.
    pub is_open: bool,
}

impl BackupChain {
    /// Reads the manifests of the backups and sorts the backups into a chain.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    /// - A directory does not contain a complete backup (-615), or its manifest was changed.
    /// - No backup, or more than one backup, contains databases.
    /// - A backup belongs to another log stream (-555).
    /// - Logs between the backups are missing (-554, -556).
    /// - The logs of the backups belong to different histories (-515).
    pub fn load(vfs: &dyn Vfs, directories: &[PathBuf]) -> Result<BackupChain> {
        let mut links = Vec::new();
        for directory in directories {
            links.push(CompleteBackup {
                directory: directory.clone(),
                manifest: BackupManifest::read(vfs, directory)?,
            });
        }
        let (mut bases, mut later): (Vec<CompleteBackup>, Vec<CompleteBackup>) =
            links.into_iter().partition(|link| link.manifest.kind.has_pages());
        let Some(base) = bases.pop() else {
            return Err(BackupSetError::NoFullBackup.into());
        };
        if let Some(other) = bases.pop() {
            return Err(BackupRefusal::TwoFullBackups(other.directory, base.directory).into());
        }
        later.sort_by_key(|link| (link.manifest.generations.last, link.manifest.ended_unix_ms));
        for link in &later {
            if link.manifest.log_signature != base.manifest.log_signature {
                return Err(BackupSetError::OtherStream(link.directory.clone()).into());
            }
            if link.manifest.generations.last < base.manifest.generations.last {
                return Err(BackupSetError::EndsBeforeFullBackup(link.directory.clone()).into());
            }
        }
        let chain = BackupChain { base, increments: later };
        chain.logs()?;
        Ok(chain)
    }

    /// Returns the backups in chain order, with the paths of their directories.
    pub fn backups(&self) -> impl Iterator<Item = (&Path, &BackupManifest)> {
        std::iter::once(&self.base).chain(&self.increments).map(|link| (&*link.directory, &link.manifest))
    }

    /// Returns the log for each generation, taken from the newest backup that contains it.
    pub(crate) fn logs(&self) -> Result<BTreeMap<u32, ChainLog>> {
        let mut logs: BTreeMap<u32, ChainLog> = BTreeMap::new();
        for (directory, manifest) in self.backups() {
            for stored in &manifest.logs {
                let generations = manifest.generations;
                let log = ChainLog {
                    directory: directory.to_path_buf(),
                    stored: stored.clone(),
                    is_open: generations.last_is_open && generations.last == stored.generation,
                };
                if let Some(earlier) = logs.get(&stored.generation) {
                    let same = earlier.stored.created == stored.created
                        && (earlier.is_open || earlier.stored.checksum == stored.checksum);
                    if !same {
                        return Err(other_history(directory, stored.generation));
                    }
                }
                logs.insert(stored.generation, log);
            }
        }
        let mut before: Option<&ChainLog> = None;
        for (generation, log) in &logs {
            if let Some(before) = before {
                if before.stored.generation + 1 != *generation {
                    return Err(self.missing_log(before.stored.generation + 1, &log.directory));
                }
                if !log.stored.continues(&before.stored) {
                    return Err(if before.is_open {
                        // The instance appended records to the log after this backup, and some of these records are
                        // not in any backup.
                        self.missing_log(before.stored.generation, &log.directory)
                    } else {
                        other_history(&log.directory, *generation)
                    });
                }
            }
            before = Some(log);
        }
        Ok(logs)
    }

    fn missing_log(&self, generation: u32, previous: &Path) -> BackupError {
        let directory = previous.to_path_buf();
        if generation == self.base.manifest.generations.last + 1 {
            BackupSetError::StartTooHigh { directory, generation }.into()
        } else {
            BackupSetError::Gap { directory, generation }.into()
        }
    }
}

fn other_history(directory: &Path, generation: u32) -> BackupError {
    BackupSetError::OtherHistory { directory: directory.to_path_buf(), generation }.into()
}

/// Fails unless a log of a new backup is also in the parent backup, or continues its logs.
///
/// A restore since the parent backup may have started a different history. `is_first` is true for the first log of the
/// new backup.
pub(crate) fn check_continues(parent: &BackupManifest, log: &StoredLog, is_first: bool) -> Result<()> {
    let Some(last) = parent.logs.last() else { return Ok(()) };
    let generation = log.generation;
    if is_first && generation > last.generation + 1 {
        return Err(BackupSetError::LogsRemoved { last: last.generation, oldest: generation }.into());
    }
    let same = |stored: &StoredLog| {
        let open = parent.generations.last_is_open && stored.generation == last.generation;
        stored.created == log.created && (open || stored.checksum == log.checksum)
    };
    let continues = match parent.logs.iter().find(|stored| stored.generation == generation) {
        Some(stored) => same(stored),
        // Skip this check if the parent's last log was open: records may have been appended to it since the parent
        // backup.
        None if generation == last.generation + 1 && !parent.generations.last_is_open => log.continues(last),
        None => true,
    };
    if continues { Ok(()) } else { Err(BackupSetError::RestoredSince(generation).into()) }
}
