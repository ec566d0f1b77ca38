//! Places databases and logs into the directory of a restore.
//!
//! A marker is written first and removed last, so that an interrupted restore is known, and can be begun again. A database
//! gets its header last: until then it is none.
//!
//! Over existing files, ranges with the right checksum stay as they are. Logs are written beside the old ones, and renamed
//! when all of them are durable: the logs that survived may be in the same directory.

use std::path::{Path, PathBuf};

use ese_engine::Error;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, File, IoBuffer, IoReason, OpenMode, Vfs};

use crate::error::{BackupError, Result, SetFault};
use crate::manifest::StoredFile;
use crate::pace::Gauge;
use crate::ranges::{RANGE_BYTES, range_of, read_range, sum_of};
use crate::text_file;

/// The file that marks a directory whose restore has not ended.
pub const RESTORE_MARKER: &str = "restore.partial";
/// What the marker says if the directory was empty before.
const FRESH: &str = "into an empty directory\n";
const OVER: &str = "over existing files\n";
/// Ending of the names of logs that are being placed.
const PLACING: &str = "restoring";

/// The directory of a restore.
pub struct Placement<'a> {
    vfs: &'a dyn Vfs,
    directory: &'a Path,
    gauge: &'a Gauge,
    /// The directory was empty before, so everything in it was made by restores.
    fresh: bool,
    /// Names of the logs that were placed.
    logs: Vec<String>,
    /// Bytes that were copied, and that were right already.
    pub copied: u64,
    pub kept: u64,
}

/// Whether files are restored over existing ones, and which may be in use.
pub struct Existing {
    fresh: bool,
    _locks: Vec<Box<dyn DirectoryLock>>,
}

impl Existing {
    /// Looks at the directory, and locks its files. Changes nothing.
    ///
    /// Errors: there are files and `force` is not set (-504); one of them is in use.
    pub fn examine(vfs: &Arc<dyn Vfs>, directory: &Path, base: &str, force: bool) -> Result<Existing> {
        let files = match vfs.list(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|error| BackupError::io(directory, &error))?,
        };
        let files: Vec<PathBuf> = files.into_iter().filter(|path| !text_file::is_unfinished(path)).collect();
        let marker = text_file::read(&**vfs, &directory.join(RESTORE_MARKER))?;
        let fresh = files.is_empty() || marker.as_deref() == Some(FRESH);
        if !fresh && !force {
            let what = format!(
                "{}: the directory is not empty; name another one, or restore over the files in it with --force",
                directory.display()
            );
            return Err(BackupError::set(SetFault::NotEmpty, what));
        }
        let lock_file = format!("{base}.lock");
        let may_be_used = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            *name == *lock_file
                || !matches!(&*ending, "log" | "jtx" | "chk" | "jcp" | "jrs" | "jdw" | "jfm" | "lock")
        };
        let lock = |path: &PathBuf| {
            vfs.lock(path).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() }.into(),
                _ => BackupError::io(path, &error),
            })
        };
        let locks = files.iter().filter(may_be_used).map(lock).collect::<Result<_>>()?;
        Ok(Existing { fresh, _locks: locks })
    }

    /// Whether the directory was empty before.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }
}

impl<'a> Placement<'a> {
    /// Marks the directory.
    pub fn begin(
        vfs: &'a dyn Vfs,
        directory: &'a Path,
        existing: &Existing,
        gauge: &'a Gauge,
    ) -> Result<Placement<'a>> {
        vfs.create_directory(directory).map_err(|error| BackupError::io(directory, &error))?;
        let text = if existing.fresh { FRESH } else { OVER };
        text_file::write(vfs, &directory.join(RESTORE_MARKER), text)?;
        Ok(Placement { vfs, directory, gauge, fresh: existing.fresh, logs: Vec::new(), copied: 0, kept: 0 })
    }

    /// Copies a database from the backup in `from`. Every range is verified, before it is written.
    pub fn place_database(
        &mut self,
        from: &Path,
        stored: StoredFile<'_>,
        page_bytes: u64,
    ) -> Result<PathBuf> {
        let source_path = from.join(stored.name);
        let source = self.open(&source_path, OpenMode::Read)?;
        let path = self.directory.join(stored.name);
        let exists = self.vfs.exists(&path).map_err(|error| BackupError::io(&path, &error))?;
        let target = self.open(&path, if exists { OpenMode::Write } else { OpenMode::CreateNew })?;
        let failed = |error: std::io::Error| BackupError::io(&path, &error);
        let old = target.len().map_err(failed)?;
        if old > 0 {
            // From here on the file is no database.
            let head = IoBuffer::zeroed((2 * page_bytes).min(old) as usize);
            target.write_at(0, &head, IoReason::Backup).map_err(failed)?;
            target.sync(IoReason::Backup).map_err(failed)?;
        }
        if old < stored.bytes {
            target.grow(stored.bytes).map_err(failed)?;
        }
        let sums = stored.sums();
        let mut buffer = IoBuffer::zeroed(RANGE_BYTES.min(stored.bytes as usize));
        // The range with the header comes last.
        for index in (1..sums.0.len()).chain([0]) {
            let range @ (at, len) = range_of(index, stored.bytes);
            let sum = sums.0.get(index).copied().unwrap_or_default();
            if index == 0 {
                target.truncate(stored.bytes).map_err(failed)?;
                target.sync(IoReason::Backup).map_err(failed)?;
            }
            if at + len as u64 <= old && read_range(&*target, &path, range, sum, &mut buffer)? {
                self.kept += len as u64;
                self.gauge.skip(len as u64);
                continue;
            }
            self.gauge.take(len as u64)?;
            verified(&*source, &source_path, range, sum, &mut buffer)?;
            target.write_at(at, &buffer, IoReason::Backup).map_err(failed)?;
            self.copied += len as u64;
        }
        target.sync(IoReason::Backup).map_err(failed)?;
        Ok(path)
    }

    /// Copies a log under a name that no engine reads. `sums`: what the manifest says about it.
    pub fn place_log(&mut self, from: &Path, stored: Option<StoredFile<'_>>, name: String) -> Result<()> {
        let source = self.open(from, OpenMode::Read)?;
        let bytes = source.len().map_err(|error| BackupError::io(from, &error))?;
        let mut content = IoBuffer::zeroed(bytes as usize);
        self.gauge.take(bytes)?;
        source.read_at(0, &mut content, IoReason::Backup).map_err(|error| BackupError::io(from, &error))?;
        if let Some(stored) = stored {
            let sums: Vec<u64> = content.chunks(RANGE_BYTES).map(sum_of).collect();
            if bytes != stored.bytes || sums != stored.sums().0 {
                return Err(changed(from));
            }
        }
        let path = self.placing(&name);
        let failed = |error: std::io::Error| BackupError::io(&path, &error);
        if self.vfs.exists(&path).map_err(failed)? {
            self.vfs.remove(&path).map_err(failed)?;
        }
        let target = self.open(&path, OpenMode::CreateNew)?;
        target.write_at(0, &content, IoReason::Backup).map_err(failed)?;
        target.sync(IoReason::Backup).map_err(failed)?;
        self.copied += bytes;
        self.logs.push(name);
        Ok(())
    }

    /// The path of a log that is being placed.
    pub fn placing(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.{PLACING}"))
    }

    /// Gives the logs their names, and removes those of the stream that was there before, with its checkpoint.
    pub fn name_logs(&self, base: &str) -> Result<()> {
        let failed = |error: std::io::Error| BackupError::io(self.directory, &error);
        self.vfs.sync_directory(self.directory).map_err(failed)?;
        for name in &self.logs {
            self.vfs.rename(&self.placing(name), &self.directory.join(name)).map_err(failed)?;
        }
        self.vfs.sync_directory(self.directory).map_err(failed)?;
        for path in self.vfs.list(self.directory).map_err(failed)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_of_stream(&name, base) && !self.logs.contains(&name) {
                self.vfs.remove(&path).map_err(failed)?;
            }
        }
        self.vfs.sync_directory(self.directory).map_err(failed)
    }

    /// Removes what the replay does not leave behind, and the marker.
    pub fn finish(&self, base: &str) -> Result<()> {
        let failed = |error: std::io::Error| BackupError::io(self.directory, &error);
        for path in self.vfs.list(self.directory).map_err(failed)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".jrs") || name == format!("{base}.lock") {
                self.vfs.remove(&path).map_err(failed)?;
            }
        }
        self.vfs.sync_directory(self.directory).map_err(failed)?;
        text_file::remove(self.vfs, &self.directory.join(RESTORE_MARKER))
    }

    /// Removes everything, if the directory was empty before.
    pub fn discard(&self) {
        if !self.fresh {
            return;
        }
        let marker = self.directory.join(RESTORE_MARKER);
        for path in self.vfs.list(self.directory).unwrap_or_default() {
            if path != marker {
                let _ = self.vfs.remove(&path);
            }
        }
        let _ = text_file::remove(self.vfs, &marker);
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.vfs.open(path, mode).map_err(|error| BackupError::io(path, &error))
    }
}

/// Whether a file belongs to the log stream: a log, the checkpoint or a reserve log; or to the way in which a database was
/// used before.
fn is_of_stream(name: &str, base: &str) -> bool {
    if name.ends_with(".jdw") || name.ends_with(".jfm") || name.ends_with(PLACING) {
        return true;
    }
    let Some(rest) = name.strip_prefix(base) else { return false };
    let Some((middle, ending)) = rest.rsplit_once('.') else { return false };
    let is_number = |text: &str| matches!(text.len(), 5..=8) && text.bytes().all(|b| b.is_ascii_hexdigit());
    match ending {
        "log" | "jtx" => middle.is_empty() || middle == "tmp" || is_number(middle),
        "chk" | "jcp" => middle.is_empty(),
        "jrs" => true,
        _ => false,
    }
}

fn verified(
    source: &dyn File,
    path: &Path,
    range: (u64, usize),
    sum: u64,
    buffer: &mut IoBuffer,
) -> Result<()> {
    match read_range(source, path, range, sum, buffer)? {
        true => Ok(()),
        false => Err(changed(path)),
    }
}

/// The error for a file of a backup with other bytes.
pub fn changed(path: &Path) -> BackupError {
    let what = "it does not have the bytes that were backed up; use another backup".to_string();
    BackupError::Changed { path: path.to_path_buf(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_stream_are_removed() {
        for of_stream in
            ["E00.log", "E00tmp.log", "E0000000012.log", "E0000012.log", "E00.chk", "E00res00001.jrs"]
        {
            assert!(is_of_stream(of_stream, "E00"), "{of_stream}");
        }
        for other in ["E01.log", "E00.txt", "E00notes.log", "data.edb", "E00", "mail.log"] {
            assert!(!is_of_stream(other, "E00"), "{other}");
        }
    }
}
