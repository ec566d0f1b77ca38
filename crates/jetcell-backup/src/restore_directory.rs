//! Places databases and logs into the directory that is being restored.
//!
//! A marker file is written first and removed last, so an interrupted restore can be detected and started again. A
//! database's header is written after all of its other pages. Until then, the file is not a valid database.
//!
//! When existing files are overwritten, ranges with the correct checksum are left unchanged. New logs are written
//! alongside the old ones and renamed after all of them are durable, because surviving logs that the restore still
//! needs may be in the same directory.
//!
//! The directory is locked until the restore completes, which prevents concurrent restores into it. Symbolic links in
//! the directory are not followed. Files that have several hard links or belong to other users are not overwritten.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ese_engine::{DiscoveredDatabase, Error, RecoverySet};
use jetcell_sync::Arc;
use jetcell_vfs::{
    DirectoryLock, File, FileName, FileStem, IoBuffer, IoReason, OpenMode, Vfs, is_unfinished,
    remove_if_exists, remove_unfinished,
};

use crate::created_files::CreatedFiles;
use crate::error::{BackupError, Result};
use crate::file_damage::FileDamage;
use crate::file_names::{
    PLACED_LOG_EXTENSION, RESTORE_MARKER, RESTORED_FILE, is_side_file, is_stream_file, lock_file,
};
use crate::manifest::StoredFile;
use crate::ranges::{RANGE_BYTES, range_bounds, read_range};
use crate::restore_record::RestoreRecord;
use crate::set_error::{BackupSetError, DirectoryContent};
use crate::text_file;
use crate::transfer_control::TransferMeter;
use crate::verify::open_stored;

/// Content of the marker file if the directory was empty before the restore.
const EMPTY_DIRECTORY_MARK: &str = "into an empty directory\n";
const EXISTING_FILES_MARK: &str = "over existing files\n";

/// The target directory of a restore, with the files that have been placed into it.
pub struct RestoreDirectory<'a> {
    vfs: &'a CreatedFiles,
    directory: &'a Path,
    gauge: &'a TransferMeter,
    base: FileStem,
    /// File names of the databases.
    databases: Vec<FileName>,
    /// True if the directory was empty before the restore. If so, restores created all instance files in it.
    was_empty: bool,
    /// Files that existed before this restore.
    existing_files: BTreeSet<PathBuf>,
    /// Names of the logs that have been placed.
    logs: Vec<String>,
    /// Number of bytes copied.
    pub copied_bytes: u64,
    /// Number of bytes that were already correct.
    pub retained_bytes: u64,
    _lock: Option<Box<dyn DirectoryLock>>,
}

/// The files that were already in a directory before a restore.
pub struct ExistingFiles {
    was_empty: bool,
    files: BTreeSet<PathBuf>,
    /// Lock on the directory; `None` if the directory does not exist yet.
    lock: Option<Box<dyn DirectoryLock>>,
    file_locks: Vec<Box<dyn DirectoryLock>>,
}

impl ExistingFiles {
    /// Lists the directory, then locks it and its files. Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    /// - The directory contains files and `force` is not set (-504).
    /// - Another process is using one of the files or is restoring into the directory.
    /// - A file that the restore would write is a link or belongs to another user.
    pub fn examine(
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        base: FileStem,
        databases: &[FileName],
        force: bool,
    ) -> Result<ExistingFiles> {
        let exists = vfs.exists(directory).map_err(|error| BackupError::io(directory, &error))?;
        let lock =
            if exists { Some(explain_lock_error(vfs.lock_directory(directory), directory)?) } else { None };
        let files = match vfs.list(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|error| BackupError::io(directory, &error))?,
        };
        let marker = text_file::read_trusted(&**vfs, &directory.join(RESTORE_MARKER))?;
        let fresh =
            files.iter().all(|path| is_unfinished(path)) || marker.as_deref() == Some(EMPTY_DIRECTORY_MARK);
        if !fresh && !force {
            return Err(not_empty(directory));
        }
        for name in databases {
            let path = directory.join(name);
            match vfs.open(&path, OpenMode::WriteOwn) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(BackupError::io(path, &error));
                }
                _ => {}
            }
        }
        let lock_file = lock_file(base);
        let may_be_used = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            let is_other = matches!(&*ending, "log" | "jtx" | "chk" | "jcp" | "jrs" | "jdw" | "jfm" | "lock");
            *name == *lock_file || !is_other && !is_unfinished(path)
        };
        let file_locks = files
            .iter()
            .filter(may_be_used)
            .map(|path| explain_lock_error(vfs.lock(path), path))
            .collect::<Result<_>>()?;
        Ok(ExistingFiles { was_empty: fresh, files: files.into_iter().collect(), lock, file_locks })
    }

    /// Returns true if the directory was empty before the restore.
    pub fn was_empty(&self) -> bool {
        self.was_empty
    }

    /// Releases the file locks so that the replay can acquire them. The directory stays locked.
    pub fn release_files(&mut self) {
        self.file_locks.clear();
    }
}

fn not_empty(directory: &Path) -> BackupError {
    let content = DirectoryContent::InstanceFiles;
    BackupSetError::NotEmpty { directory: directory.to_path_buf(), content }.into()
}

impl<'a> RestoreDirectory<'a> {
    /// Marks the directory and locks it until the restore completes.
    ///
    /// # Errors
    ///
    /// Returns an error if another process has started using the directory since it was examined.
    pub fn begin(
        vfs: &'a CreatedFiles,
        directory: &'a Path,
        (base, databases): (FileStem, Vec<FileName>),
        existing: &mut ExistingFiles,
        gauge: &'a TransferMeter,
    ) -> Result<RestoreDirectory<'a>> {
        let io_error = |error: std::io::Error| BackupError::io(directory, &error);
        vfs.create_directory(directory).map_err(io_error)?;
        let lock = match existing.lock.take() {
            Some(lock) => lock,
            None => {
                let lock = explain_lock_error(vfs.lock_directory(directory), directory)?;
                if !vfs.list(directory).map_err(io_error)?.is_empty() {
                    return Err(not_empty(directory));
                }
                lock
            }
        };
        let placement = RestoreDirectory {
            vfs,
            directory,
            gauge,
            base,
            databases,
            was_empty: existing.was_empty,
            existing_files: std::mem::take(&mut existing.files),
            logs: Vec::new(),
            copied_bytes: 0,
            retained_bytes: 0,
            _lock: Some(lock),
        };
        placement.write_marker().inspect_err(|_| placement.discard())?;
        Ok(placement)
    }

    fn write_marker(&self) -> Result<()> {
        for name in [RESTORE_MARKER, RESTORED_FILE] {
            remove_unfinished(self.vfs, &self.directory.join(name));
        }
        let text = if self.was_empty { EMPTY_DIRECTORY_MARK } else { EXISTING_FILES_MARK };
        text_file::write(self.vfs, &self.directory.join(RESTORE_MARKER), text)?;
        text_file::remove(self.vfs, &self.directory.join(RESTORED_FILE))
    }

    /// Copies a database from the backup directory `from`. Each range is verified before it is written.
    pub fn place_database(
        &mut self,
        from: &Path,
        stored: StoredFile<'_>,
        page_bytes: u64,
    ) -> Result<PathBuf> {
        let source_path = from.join(stored.name);
        let source = open_stored(self.vfs, &source_path, stored)?;
        let path = self.directory.join(stored.name);
        let io_error = |error: std::io::Error| BackupError::io(&path, &error);
        // Do not overwrite a file that another process has created since the directory was listed.
        let target = if self.existing_files.contains(&path) {
            self.vfs.open(&path, OpenMode::WriteOwn)
        } else {
            Err(ErrorKind::NotFound.into())
        };
        let target = match target {
            Err(error) if error.kind() == ErrorKind::NotFound => self.vfs.open(&path, OpenMode::CreateNew),
            opened => opened,
        };
        let target = target.map_err(io_error)?;
        let old = target.len().map_err(io_error)?;
        if old > 0 {
            // From this point until the header is written, the file is not a valid database.
            let head = IoBuffer::zeroed((2 * page_bytes).min(old) as usize);
            target.write_at(0, &head, IoReason::Backup).map_err(io_error)?;
            target.sync(IoReason::Backup).map_err(io_error)?;
        }
        if old < stored.bytes {
            target.grow(stored.bytes).map_err(io_error)?;
        }
        let sums = stored.range_checksums();
        let mut buffer = IoBuffer::zeroed(RANGE_BYTES.min(stored.bytes as usize));
        // The range that contains the header is written last.
        for index in (1..sums.0.len()).chain([0]) {
            let range @ (at, len) = range_bounds(index, stored.bytes);
            let sum = sums.0.get(index).copied().unwrap_or_default();
            if index == 0 {
                target.truncate(stored.bytes).map_err(io_error)?;
                target.sync(IoReason::Backup).map_err(io_error)?;
            }
            if at + len as u64 <= old && read_range(&*target, &path, range, sum, &mut buffer)? {
                self.retained_bytes += len as u64;
                self.gauge.add_skipped(len as u64);
                continue;
            }
            self.gauge.wait_for(len as u64)?;
            read_verified(&*source, &source_path, range, sum, &mut buffer)?;
            target.write_at(at, &buffer, IoReason::Backup).map_err(io_error)?;
            self.copied_bytes += len as u64;
        }
        target.sync(IoReason::Backup).map_err(io_error)?;
        Ok(path)
    }

    /// Copies a log under a temporary name that the engine ignores. `stored` is the log's manifest entry.
    pub fn place_log(&mut self, from: &Path, stored: Option<StoredFile<'_>>, name: String) -> Result<()> {
        let source = match stored {
            Some(stored) => open_stored(self.vfs, from, stored)?,
            None => self.open(from, OpenMode::Read)?,
        };
        let bytes = source.len().map_err(|error| BackupError::io(from, &error))?;
        let sums = stored.map(|stored| stored.range_checksums().0);
        let path = self.temporary_path(&name);
        let io_error = |error: std::io::Error| BackupError::io(&path, &error);
        remove_if_exists(self.vfs, &path).map_err(io_error)?;
        let target = self.open(&path, OpenMode::CreateNew)?;
        let mut buffer = IoBuffer::zeroed(bytes.min(RANGE_BYTES as u64) as usize);
        for index in 0..bytes.div_ceil(RANGE_BYTES as u64) as usize {
            let range @ (at, len) = range_bounds(index, bytes);
            self.gauge.wait_for(len as u64)?;
            match &sums {
                Some(sums) => {
                    let sum = sums.get(index).copied().unwrap_or_default();
                    read_verified(&*source, from, range, sum, &mut buffer)?;
                }
                None => {
                    buffer.resize(len);
                    let read = source.read_at(at, &mut buffer, IoReason::Backup);
                    read.map_err(|error| BackupError::io(from, &error))?;
                }
            }
            target.write_at(at, &buffer, IoReason::Backup).map_err(io_error)?;
        }
        target.sync(IoReason::Backup).map_err(io_error)?;
        self.copied_bytes += bytes;
        self.logs.push(name);
        Ok(())
    }

    /// Returns the temporary path of a log that is being placed.
    pub fn temporary_path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.{PLACED_LOG_EXTENSION}"))
    }

    /// Renames the logs to their final names and removes the previous log stream's logs and checkpoint.
    pub fn name_logs(&self) -> Result<()> {
        let io_error = |error: std::io::Error| BackupError::io(self.directory, &error);
        self.vfs.sync_directory(self.directory).map_err(io_error)?;
        for name in &self.logs {
            self.vfs.rename(&self.temporary_path(name), &self.directory.join(name)).map_err(io_error)?;
        }
        self.vfs.sync_directory(self.directory).map_err(io_error)?;
        self.remove_files(|name| self.is_replaced(name) && !self.logs.iter().any(|log| log == name))
    }

    /// Returns true if the file must be removed because the new logs supersede it. This applies to the previous log
    /// stream's logs and checkpoint, and to the databases' side files.
    fn is_replaced(&self, name: &str) -> bool {
        is_stream_file(name, self.base)
            || name.rsplit_once('.').is_some_and(|(_, ending)| ending == PLACED_LOG_EXTENSION)
            || self.databases.iter().any(|database| is_side_file(name, database))
    }

    /// Returns the databases that the replay has created in the directory.
    pub fn created_databases(&self, vfs: &Arc<dyn Vfs>) -> Result<Vec<DiscoveredDatabase>> {
        let io_error = |error: std::io::Error| BackupError::io(self.directory, &error);
        let of_stream = |path: &Path| is_stream_file(&file_name(path), self.base);
        let is_new = |path: &PathBuf| of_stream(path) || self.vfs.contains(path);
        let files: Vec<PathBuf> =
            self.vfs.list(self.directory).map_err(io_error)?.into_iter().filter(is_new).collect();
        let placed = |path: &Path| self.databases.iter().any(|name| self.directory.join(name) == path);
        let has_logs = files.iter().any(|path| of_stream(path));
        let mut databases = if has_logs { RecoverySet::find(vfs, &files)?.databases } else { Vec::new() };
        databases.retain(|database| !placed(&database.path));
        Ok(databases)
    }

    /// Removes the files that only the replay needed, writes the restore record, and removes the marker.
    pub fn finish(&self, record: &RestoreRecord) -> Result<()> {
        let lock_file = lock_file(self.base);
        let is_reserve = |name: &str| is_stream_file(name, self.base) && name.ends_with(".jrs");
        self.remove_files(|name| is_reserve(name) || name == lock_file)?;
        record.write(self.vfs, self.directory)?;
        text_file::remove(self.vfs, &self.directory.join(RESTORE_MARKER))
    }

    /// Removes all files created by restores, if the directory was empty before.
    pub fn discard(&self) {
        if !self.was_empty {
            return;
        }
        let lock_file = lock_file(self.base);
        let placed = |name: &str| self.databases.iter().any(|database| database.as_str() == name);
        let is_own =
            |name: &str| self.is_replaced(name) || placed(name) || name == lock_file || name == RESTORED_FILE;
        for path in self.vfs.list(self.directory).unwrap_or_default() {
            let name = file_name(&path);
            let of_earlier_restore = is_own(&name) && self.existing_files.contains(&path);
            if name != RESTORE_MARKER && (of_earlier_restore || self.vfs.contains(&path)) {
                let _ = self.vfs.remove(&path);
            }
        }
        let _ = text_file::remove(self.vfs, &self.directory.join(RESTORE_MARKER));
    }

    /// Removes the files that `is_removed` selects, if they existed before the restore or were created by it. Files
    /// that other processes have created since are not removed.
    fn remove_files(&self, is_removed: impl Fn(&str) -> bool) -> Result<()> {
        let io_error = |error: std::io::Error| BackupError::io(self.directory, &error);
        for path in self.vfs.list(self.directory).map_err(io_error)? {
            let is_of_others = !self.existing_files.contains(&path) && !self.vfs.contains(&path);
            if !is_of_others && is_removed(&file_name(&path)) {
                remove_if_exists(self.vfs, &path).map_err(io_error)?;
            }
        }
        self.vfs.sync_directory(self.directory).map_err(io_error)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.vfs.open(path, mode).map_err(|error| BackupError::io(path, &error))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the acquired lock. If another caller holds the lock, the error says that the file or directory is in use.
fn explain_lock_error(
    lock: io::Result<Box<dyn DirectoryLock>>,
    path: &Path,
) -> Result<Box<dyn DirectoryLock>> {
    lock.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::InUse { path: path.to_path_buf() }.into(),
        _ => BackupError::io(path, &error),
    })
}

fn read_verified(
    source: &dyn File,
    path: &Path,
    range: (u64, usize),
    sum: u64,
    buffer: &mut IoBuffer,
) -> Result<()> {
    if read_range(source, path, range, sum, buffer)? {
        Ok(())
    } else {
        Err(BackupError::changed(path, FileDamage::Content))
    }
}
