//! The directory of a backup while it is being made.
//!
//! Before anything else, `manifest.partial.json` is written: it marks the directory, and says which pages are durable. It is
//! removed after the manifest was written.

use std::path::{Path, PathBuf};

use ese_engine::{Error, LogCopy};
use ese_format::LogTime;
use jetcell_input::bounded_list;
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{
    DirectoryLock, File, FileName, OpenMode, Vfs, is_unfinished, remove_if_exists, remove_unfinished,
};
use serde::{Deserialize, Serialize};

use crate::error::{BackupError, Result, SetFault};
use crate::file_names::{MANIFEST, PARTIAL};
use crate::manifest::{
    BadPage, Kind, MAX_BAD_PAGES, MAX_DATABASES, MAX_FLAW, Manifest, StoredLog, StoredPages,
};
use crate::ranges::RangeWriter;
use crate::text_file;

/// How far an interrupted backup has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partial {
    pub kind: Kind,
    pub log_signature: String,
    /// What must be unchanged in the source for the copied pages to be of use.
    pub source: String,
    /// The first generation that the copied pages need.
    pub first_generation: u32,
    pub began_unix_ms: i64,
    /// At most 1024.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_DATABASES>")]
    pub databases: Vec<PartialDatabase>,
}

impl Partial {
    /// Reads the text. `None`: no backup has this state, or a later version wrote it.
    fn from_text(text: &str, now_unix_ms: i64) -> Option<Partial> {
        let mut partial: Partial = serde_json::from_str(text).ok()?;
        partial.began_unix_ms = partial.began_unix_ms.min(now_unix_ms).max(0);
        let mut bad_pages = partial.databases.iter().flat_map(|database| &database.bad_pages);
        let is_possible = bad_pages.all(|bad| bad.flaw.chars().count() <= MAX_FLAW);
        is_possible.then_some(partial)
    }
}

/// How far the copy of one database has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialDatabase {
    pub file: FileName,
    /// What must be unchanged in the database.
    pub identity: String,
    /// Checksums of the ranges that are durable.
    pub ranges: String,
    pub pages: StoredPages,
    /// At most 1000.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_BAD_PAGES>")]
    pub bad_pages: Vec<BadPage>,
}

/// The error for a directory with a whole backup of another kind, or of another source or state.
pub fn whole_already(directory: &Path, manifest: &Manifest) -> BackupError {
    let what = format!(
        "{}: the directory has a whole backup already ({}, made at {}); name another directory for another backup",
        directory.display(),
        manifest.kind.of_engine(),
        LogTime::from_unix_ms(manifest.ended_unix_ms)
    );
    BackupError::set(SetFault::NotEmpty, what)
}

/// A directory in which a backup is being made.
pub struct Destination {
    _lock: Box<dyn DirectoryLock>,
    pub vfs: Arc<dyn Vfs>,
    pub directory: PathBuf,
    partial: Mutex<Partial>,
    /// Files that this call created.
    created: Mutex<Vec<PathBuf>>,
}

impl Destination {
    /// The interrupted backup in a directory, if there is one.
    ///
    /// Errors: the directory has a whole backup, or other files.
    pub fn interrupted(vfs: &dyn Vfs, directory: &Path) -> Result<Option<Partial>> {
        let files = match vfs.list(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|error| BackupError::io(directory, &error))?,
        };
        let files: Vec<PathBuf> = files.into_iter().filter(|path| !is_unfinished(path)).collect();
        let has = |name: &str| files.iter().any(|path| path.file_name().is_some_and(|file| file == name));
        let shown = directory.display();
        if has(MANIFEST) {
            return Err(whole_already(directory, &Manifest::read(vfs, directory)?));
        }
        if has(PARTIAL) {
            let text = text_file::read_own(vfs, &directory.join(PARTIAL))?.unwrap_or_default();
            // What cannot be read is begun again.
            return Ok(Partial::from_text(&text, vfs.clock().unix_ms()));
        }
        if !files.is_empty() {
            let what = format!("{shown}: the directory is not empty; name an empty or a new one");
            return Err(BackupError::set(SetFault::NotEmpty, what));
        }
        Ok(None)
    }

    /// Marks the directory, which may have the remains of an interrupted backup, and locks it until the backup has ended.
    ///
    /// Errors: another process makes a backup in the directory, or has made one.
    pub fn begin(vfs: Arc<dyn Vfs>, directory: &Path, partial: Partial) -> Result<Destination> {
        let failed = |error: std::io::Error| BackupError::io(directory, &error);
        vfs.create_directory(directory).map_err(failed)?;
        let lock = vfs.lock_directory(directory).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: directory.to_path_buf() }.into(),
            _ => failed(error),
        })?;
        if vfs.exists(&directory.join(MANIFEST)).map_err(failed)? {
            return Err(whole_already(directory, &Manifest::read(&*vfs, directory)?));
        }
        let destination = Destination {
            _lock: lock,
            vfs,
            directory: directory.to_path_buf(),
            partial: Mutex::new(partial),
            created: Mutex::default(),
        };
        for name in [MANIFEST, PARTIAL] {
            remove_unfinished(&*destination.vfs, &directory.join(name));
        }
        destination.save()?;
        Ok(destination)
    }

    fn save(&self) -> Result<()> {
        let text = jetcell_input::json_line(&*self.partial.lock()).unwrap_or_default();
        text_file::write(&*self.vfs, &self.directory.join(PARTIAL), &text)
    }

    /// Records how far a database has come. Its ranges must be durable.
    pub fn save_database(&self, database: PartialDatabase) -> Result<()> {
        {
            let mut partial = self.partial.lock();
            partial.databases.retain(|known| known.file != database.file);
            partial.databases.push(database);
        }
        self.save()
    }

    /// Creates a file. A file of that name is the remains of an interrupted backup.
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

    /// Stores a log, durably.
    pub fn store_log(&self, log: &LogCopy, name: FileName) -> Result<StoredLog> {
        let mut writer = RangeWriter::new(self.create(&name)?);
        writer.push(&log.bytes)?;
        let (bytes, sums) = writer.finish(&[])?;
        Ok(StoredLog::of(log, name, (bytes, &sums)))
    }

    /// Fails if the volume has less space than `bytes`.
    pub fn require_space(&self, bytes: u64) -> Result<()> {
        let failed = |error: std::io::Error| BackupError::io(&self.directory, &error);
        let free = self.vfs.free_space(&self.directory).map_err(failed)?;
        if free >= bytes {
            return Ok(());
        }
        Err(BackupError::Usage(format!(
            "{}: the backup needs {bytes} bytes, and {free} are free; free space, or name another directory",
            self.directory.display()
        )))
    }

    /// Makes the backup whole.
    pub fn finish(&self, manifest: &Manifest) -> Result<()> {
        let directory = &self.directory;
        self.vfs.sync_directory(directory).map_err(|error| BackupError::io(directory, &error))?;
        manifest.write(&*self.vfs, directory)?;
        text_file::remove(&*self.vfs, &directory.join(PARTIAL))
    }

    /// Removes everything that this call created. For a backup that cannot be continued.
    pub fn discard(&self) {
        // With a manifest, also with one that may not be durable, the files must stay.
        if text_file::remove(&*self.vfs, &self.directory.join(MANIFEST)).is_err() {
            return;
        }
        for path in self.created.lock().drain(..) {
            let _ = self.vfs.remove(&path);
        }
        for database in &self.partial.lock().databases {
            let _ = self.vfs.remove(&self.directory.join(&database.file));
        }
        let _ = text_file::remove(&*self.vfs, &self.directory.join(PARTIAL));
    }
}
