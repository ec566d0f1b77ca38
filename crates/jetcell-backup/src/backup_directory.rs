//! The directory of a backup that is in progress.
//!
//! `manifest.partial.json` is written before any other file. It marks the directory and records which pages are
//! durable. It is removed after the manifest has been written.

use std::path::{Path, PathBuf};

use ese_engine::{Error, VerifiedLog};
use ese_format::LogTime;
use jetcell_input::bounded_list;
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{
    DirectoryLock, File, FileName, OpenMode, Vfs, is_unfinished, remove_if_exists, remove_unfinished,
};
use serde::{Deserialize, Serialize};

use crate::backup_type::BackupType;
use crate::bad_page::StoredBadPage;
use crate::error::{BackupError, Result};
use crate::file_names::{MANIFEST_FILE, PARTIAL_FILE};
use crate::manifest::{
    BackupManifest, MAX_BAD_PAGES, MAX_DATABASES, MAX_FLAW_CHARS, StoredLog, StoredPageCounts,
};
use crate::ranges::RangeWriter;
use crate::refusal::BackupRefusal;
use crate::set_error::{BackupSetError, DirectoryContent};
use crate::text_file;

/// The progress of an interrupted backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialBackup {
    pub kind: BackupType,
    pub log_signature: String,
    /// Source state. The copied pages can be reused only if this state has not changed.
    pub source: String,
    /// The first log generation that the copied pages need.
    pub first_generation: u32,
    pub began_unix_ms: i64,
    /// Progress of each database, at most 1024 entries.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_DATABASES>")]
    pub databases: Vec<PartialDatabaseCopy>,
}

impl PartialBackup {
    /// Parses the state file. Returns `None` if its content is invalid or was written by a later version.
    fn from_text(text: &str, now_unix_ms: i64) -> Option<PartialBackup> {
        let mut partial: PartialBackup = serde_json::from_str(text).ok()?;
        partial.began_unix_ms = partial.began_unix_ms.min(now_unix_ms).max(0);
        let mut bad_pages = partial.databases.iter().flat_map(|database| &database.bad_pages);
        let is_possible = bad_pages.all(|bad| bad.flaw.chars().count() <= MAX_FLAW_CHARS);
        is_possible.then_some(partial)
    }
}

/// Progress of copying one database in an interrupted backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialDatabaseCopy {
    pub file: FileName,
    /// Database state. The copied pages can be reused only if this state has not changed.
    pub identity: String,
    /// Checksums of the durable ranges.
    pub ranges: String,
    pub pages: StoredPageCounts,
    /// Bad pages, at most 1000.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_BAD_PAGES>")]
    pub bad_pages: Vec<StoredBadPage>,
}

/// Returns the error for a directory that already holds a complete backup of a different kind, source or source state.
pub fn already_complete(directory: &Path, manifest: &BackupManifest) -> BackupError {
    let made = LogTime::from_unix_ms(manifest.ended_unix_ms);
    let content = DirectoryContent::Backup { kind: manifest.kind, made };
    BackupSetError::NotEmpty { directory: directory.to_path_buf(), content }.into()
}

/// The directory of a backup in progress.
pub struct BackupDirectory {
    _lock: Box<dyn DirectoryLock>,
    pub vfs: Arc<dyn Vfs>,
    pub directory: PathBuf,
    partial: Mutex<PartialBackup>,
    /// Files created by this call.
    created: Mutex<Vec<PathBuf>>,
}

impl BackupDirectory {
    /// Returns the interrupted backup in the directory, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory contains a complete backup or other files.
    pub fn read_interrupted(vfs: &dyn Vfs, directory: &Path) -> Result<Option<PartialBackup>> {
        let files = match vfs.list(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|error| BackupError::io(directory, &error))?,
        };
        let files: Vec<PathBuf> = files.into_iter().filter(|path| !is_unfinished(path)).collect();
        let has_file =
            |name: &str| files.iter().any(|path| path.file_name().is_some_and(|file| file == name));
        if has_file(MANIFEST_FILE) {
            return Err(already_complete(directory, &BackupManifest::read(vfs, directory)?));
        }
        if has_file(PARTIAL_FILE) {
            let text = text_file::read_trusted(vfs, &directory.join(PARTIAL_FILE))?.unwrap_or_default();
            // If the state file cannot be parsed, the backup starts from the beginning.
            return Ok(PartialBackup::from_text(&text, vfs.clock().unix_ms()));
        }
        if !files.is_empty() {
            let content = DirectoryContent::Files;
            return Err(BackupSetError::NotEmpty { directory: directory.to_path_buf(), content }.into());
        }
        Ok(None)
    }

    /// Marks the directory and locks it until the backup completes. The directory may contain an interrupted backup.
    ///
    /// # Errors
    ///
    /// Returns an error if another process is making a backup in the directory, or has completed one.
    pub fn begin(vfs: Arc<dyn Vfs>, directory: &Path, partial: PartialBackup) -> Result<BackupDirectory> {
        let io_error = |error: std::io::Error| BackupError::io(directory, &error);
        vfs.create_directory(directory).map_err(io_error)?;
        let lock = vfs.lock_directory(directory).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: directory.to_path_buf() }.into(),
            _ => io_error(error),
        })?;
        if vfs.exists(&directory.join(MANIFEST_FILE)).map_err(io_error)? {
            return Err(already_complete(directory, &BackupManifest::read(&*vfs, directory)?));
        }
        let destination = BackupDirectory {
            _lock: lock,
            vfs,
            directory: directory.to_path_buf(),
            partial: Mutex::new(partial),
            created: Mutex::default(),
        };
        for name in [MANIFEST_FILE, PARTIAL_FILE] {
            remove_unfinished(&*destination.vfs, &directory.join(name));
        }
        destination.save()?;
        Ok(destination)
    }

    fn save(&self) -> Result<()> {
        let partial = self.partial.lock().clone();
        text_file::write_json_line(&*self.vfs, &self.directory.join(PARTIAL_FILE), &partial)
    }

    /// Records a database's progress. The ranges that it lists must already be durable.
    pub fn save_database(&self, database: PartialDatabaseCopy) -> Result<()> {
        {
            let mut partial = self.partial.lock();
            partial.databases.retain(|known| known.file != database.file);
            partial.databases.push(database);
        }
        self.save()
    }

    /// Creates a file. Replaces any file of this name left by an interrupted backup.
    pub fn create(&self, name: &FileName) -> Result<Arc<dyn File>> {
        let path = self.directory.join(name);
        let create = || {
            remove_if_exists(&*self.vfs, &path)?;
            self.vfs.open(&path, OpenMode::CreateNew)
        };
        let file = create().map_err(|error| BackupError::io(&path, &error))?;
        self.created.lock().push(path);
        Ok(file)
    }

    /// Writes a log to the backup and makes it durable.
    pub fn store_log(&self, log: &VerifiedLog, name: FileName) -> Result<StoredLog> {
        let mut writer = RangeWriter::new(self.create(&name)?);
        writer.push(&log.bytes)?;
        let (bytes, sums) = writer.finish(&[])?;
        Ok(StoredLog::from_log(log, name, (bytes, &sums)))
    }

    /// Fails if the volume has less than `bytes` of free space.
    pub fn require_space(&self, bytes: u64) -> Result<()> {
        let io_error = |error: std::io::Error| BackupError::io(&self.directory, &error);
        let free = self.vfs.free_space(&self.directory).map_err(io_error)?;
        if free >= bytes {
            return Ok(());
        }
        Err(BackupRefusal::NeedsSpace { directory: self.directory.clone(), bytes, free }.into())
    }

    /// Completes the backup: writes the manifest and removes the state file.
    pub fn finish(&self, manifest: &BackupManifest) -> Result<()> {
        let directory = &self.directory;
        self.vfs.sync_directory(directory).map_err(|error| BackupError::io(directory, &error))?;
        manifest.write(&*self.vfs, directory)?;
        text_file::remove(&*self.vfs, &directory.join(PARTIAL_FILE))
    }

    /// Removes all files created by this call to the backup function. Called only if a later call cannot continue the
    /// backup.
    pub fn discard(&self) {
        // If the manifest may still exist, the backup may be complete, so its files must not be removed.
        if text_file::remove(&*self.vfs, &self.directory.join(MANIFEST_FILE)).is_err() {
            return;
        }
        for path in self.created.lock().drain(..) {
            let _ = self.vfs.remove(&path);
        }
        for database in &self.partial.lock().databases {
            let _ = self.vfs.remove(&self.directory.join(&database.file));
        }
        let _ = text_file::remove(&*self.vfs, &self.directory.join(PARTIAL_FILE));
    }
}
