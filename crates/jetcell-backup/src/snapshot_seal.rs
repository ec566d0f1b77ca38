//! Turns a snapshot into a backup: verifies all pages and logs where they are, and writes the manifest.

use std::path::{Path, PathBuf};

use ese_engine::{
    DatabasePageReader, DiscoveredDatabase, PageReadOptions, RecoverySet, VerifiedLog, VerifiedLogReader,
    mark_copy,
};
use ese_format::header::{BackupInfo, DatabaseState};
use ese_format::{Generation, LogPosition, LogTime, PageNumber};
use jetcell_sync::Arc;
use jetcell_vfs::{File, FileName, IoBuffer, IoReason, OpenMode, Vfs};

use crate::backup_directory::{BackupDirectory, PartialBackup};
use crate::error::{BackupError, Result};
use crate::manifest::{
    BackupManifest, GenerationRange, StoredBadPage, StoredDatabase, StoredLog, StoredPageCounts,
};
use crate::options::BackupOptions;
use crate::ranges::{RangeChecksums, RangeHasher};
use crate::refusal::BackupRefusal;
use crate::set_error::{BackupSetError, BadDatabase};
use crate::stopped::{lock, select_logs, verify_logs};
use crate::transfer_control::TransferMeter;

/// A file in a snapshot, and the path of the original file.
pub struct SnapshotFile {
    pub name: FileName,
    pub source: PathBuf,
    /// Length of the original at the time of the snapshot.
    pub bytes: u64,
}

/// A snapshot whose files have not been verified yet.
pub struct UnsealedSnapshot<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub directory: &'a Path,
    /// Files of the snapshot.
    pub files: Vec<SnapshotFile>,
    pub options: &'a BackupOptions,
    /// Backup information for the database headers. If `None`, it is derived from the end of the log and the
    /// available logs.
    pub details: Option<BackupInfo>,
    pub began_unix_ms: i64,
}

impl UnsealedSnapshot<'_> {
    /// Verifies all files, corrects pages where possible, and writes the manifest. Calls `verified` for each log.
    pub fn seal(&self, verified: &mut dyn FnMut(&VerifiedLog) -> Result<()>) -> Result<BackupManifest> {
        self.check_lengths()?;
        let paths: Vec<PathBuf> = self.files.iter().map(|file| self.directory.join(&file.name)).collect();
        let set = self.name_logs(self.options.find_set(self.vfs, &paths)?)?;
        let _locks = lock(self.vfs, &set, &[])?;
        let destination = BackupDirectory::begin(
            self.vfs.clone(),
            self.directory,
            PartialBackup {
                kind: self.options.kind,
                log_signature: set.signature.to_hex(),
                source: "snapshot".to_string(),
                first_generation: 0,
                began_unix_ms: self.began_unix_ms,
                databases: Vec::new(),
            },
        )?;
        let gauge = TransferMeter::new(self.options.pace.clone(), self.vfs.clock());
        let logs = select_logs(&set, self.options, None)?;
        let end = verify_logs(self.vfs, &logs)?;
        let databases = self.seal_databases(&set, &logs, end, &gauge)?;
        let logs = self.seal_logs(&logs, &gauge, verified)?;
        let manifest = self.manifest(&set, databases, logs);
        destination.finish(&manifest)?;
        Ok(manifest)
    }

    /// Fails if a snapshot file is missing or differs in length from its original.
    fn check_lengths(&self) -> Result<()> {
        for file in &self.files {
            let path = self.directory.join(&file.name);
            let refusal = match self.vfs.file_len(&path) {
                Ok(bytes) if bytes == file.bytes => continue,
                Ok(bytes) => BackupRefusal::SnapshotFileLength { path, bytes, expected: file.bytes },
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    BackupRefusal::SnapshotFileMissing(path)
                }
                Err(error) => return Err(BackupError::io(path, &error)),
            };
            return Err(refusal.into());
        }
        Ok(())
    }

    /// Renames the logs to the expected names. A freeze or a crash may have interrupted the engine while it was
    /// renaming them.
    fn name_logs(&self, set: RecoverySet) -> Result<RecoverySet> {
        let snapshot_error = |path: &Path, error: std::io::Error| match error.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem => {
                BackupRefusal::ReadOnlySnapshot(self.directory.to_path_buf()).into()
            }
            _ => BackupError::io(path, &error),
        };
        let newest = set.logs.last_key_value().map_or(Generation(0), |(newest, _)| *newest);
        let mut paths: Vec<PathBuf> = Vec::new();
        // Ascending order is required: the target name of the newest log may be the current name of the previous log.
        for (generation, path) in &set.logs {
            let target = self.directory.join(set.name_of(*generation, newest));
            if *path != target {
                self.vfs.rename(path, &target).map_err(|error| snapshot_error(path, error))?;
            }
            paths.push(target);
        }
        self.vfs.sync_directory(self.directory).map_err(|error| snapshot_error(self.directory, error))?;
        paths.extend(set.databases.into_iter().map(|database| database.path));
        Ok(RecoverySet::find(self.vfs, &paths)?)
    }

    fn seal_databases(
        &self,
        set: &RecoverySet,
        logs: &[(Generation, PathBuf)],
        end: LogPosition,
        gauge: &TransferMeter,
    ) -> Result<Vec<StoredDatabase>> {
        let databases: Vec<StoredDatabase> = set
            .databases
            .iter()
            .map(|database| self.seal_database(database, logs, end, gauge))
            .collect::<Result<_>>()?;
        if databases.iter().any(|database| database.usable) {
            return Ok(databases);
        }
        let bad = |database: StoredDatabase| BadDatabase {
            source: database.source,
            count: database.pages.bad,
            pages: database.bad_pages,
        };
        Err(BackupSetError::BadPages(databases.into_iter().map(bad).collect()).into())
    }

    fn seal_database(
        &self,
        found: &DiscoveredDatabase,
        logs: &[(Generation, PathBuf)],
        end: LogPosition,
        gauge: &TransferMeter,
    ) -> Result<StoredDatabase> {
        let path = &found.path;
        let io_error = |error: std::io::Error| BackupError::io(path, &error);
        let is_dirty = match found.header.state {
            DatabaseState::CleanShutdown => false,
            DatabaseState::DirtyShutdown => true,
            state => return Err(BackupRefusal::DatabaseState { path: path.clone(), state }.into()),
        };
        let read = PageReadOptions {
            read_bytes: self.options.read_bytes,
            reads_in_flight: self.options.reads_in_flight,
            from: PageNumber::fixed(1),
        };
        let (mut reader, mut header) = DatabasePageReader::for_file(&**self.vfs, path, end, read)?;
        if is_dirty {
            let generation = |log: Option<&(Generation, PathBuf)>| log.map_or(Generation(0), |log| log.0);
            let details = self.details.unwrap_or(BackupInfo {
                position: end,
                time: LogTime::from_unix_ms(self.began_unix_ms),
                gen_low: generation(logs.first()),
                gen_high: generation(logs.last()),
            });
            let restoring = header.current_full_backup;
            mark_copy(&mut header, self.options.kind.to_engine_kind(), details);
            // Unlike a streaming backup, a snapshot is consistent at one point in time and can be recovered in place.
            header.current_full_backup = restoring;
        }
        let file = self.vfs.open(path, OpenMode::WriteOwn).map_err(io_error)?;
        let len = file.len().map_err(io_error)?;
        gauge.add_total(len);
        let mut sums = RangeHasher::default();
        let page = header.encode();
        sums.push(&page);
        sums.push(&page);
        let size = reader.page_size();
        while let Some(extent) = reader.next_extent()? {
            gauge.wait_for(extent.bytes.len() as u64)?;
            sums.push(&extent.bytes);
            if corrections(&reader) > 0 {
                self.correct(&*file, size.offset_of(extent.first), &extent.bytes)?;
            }
            reader.recycle(extent);
        }
        let mut rest = IoBuffer::zeroed(len.saturating_sub(sums.position()) as usize);
        file.read_at(sums.position(), &mut rest, IoReason::Backup).map_err(io_error)?;
        sums.push(&rest);
        self.write_header(&*file, &page)?;
        let (bytes, ranges) = sums.finish();
        let reads = reader.reads();
        let bad = reads.bad_pages.iter();
        Ok(StoredDatabase {
            file: FileName::from_path(path)?,
            source: self.source_path(path),
            signature: header.signature.to_hex(),
            needs: is_dirty.then_some((
                header.gen_min_required.0,
                header.gen_max_required.max(header.gen_max_committed).0,
            )),
            bytes,
            usable: reads.bad == 0,
            pages: StoredPageCounts::default().plus(reads),
            bad_pages: bad.map(|(page, flaw)| StoredBadPage::new(*page, flaw)).collect(),
            ranges: ranges.to_text(),
        })
    }

    /// Writes corrected bytes if they differ from the bytes in the file.
    fn correct(&self, file: &dyn File, at: u64, bytes: &[u8]) -> Result<()> {
        let io_error = |error: std::io::Error| BackupError::io(file.path(), &error);
        let mut stored = IoBuffer::zeroed(bytes.len());
        // A page that cannot be read is counted as bad and is not rewritten.
        if file.read_at(at, &mut stored, IoReason::Backup).is_err() || stored[..] == *bytes {
            return Ok(());
        }
        stored.copy_from_slice(bytes);
        file.write_at(at, &stored, IoReason::Backup).map_err(io_error)
    }

    fn write_header(&self, file: &dyn File, page: &[u8]) -> Result<()> {
        let io_error = |error: std::io::Error| BackupError::io(file.path(), &error);
        file.sync(IoReason::Backup).map_err(io_error)?;
        let mut buffer = IoBuffer::zeroed(page.len());
        buffer.copy_from_slice(page);
        // The header copies are written one after the other, so one of them is always complete.
        for copy in 0..2 {
            file.write_at(copy * page.len() as u64, &buffer, IoReason::Backup).map_err(io_error)?;
            file.sync(IoReason::Backup).map_err(io_error)?;
        }
        Ok(())
    }

    fn seal_logs(
        &self,
        logs: &[(Generation, PathBuf)],
        gauge: &TransferMeter,
        verified: &mut dyn FnMut(&VerifiedLog) -> Result<()>,
    ) -> Result<Vec<StoredLog>> {
        let mut copies = VerifiedLogReader::new(self.vfs.clone(), logs.to_vec(), true);
        let mut stored = Vec::new();
        while let Some(log) = copies.next_log()? {
            gauge.wait_for(log.bytes.len() as u64)?;
            let io_error = |error: std::io::Error| BackupError::io(&log.path, &error);
            let file = self.vfs.open(&log.path, OpenMode::WriteOwn).map_err(io_error)?;
            self.correct(&*file, 0, &log.bytes)?;
            file.sync(IoReason::Backup).map_err(io_error)?;
            let mut sums = RangeHasher::default();
            sums.push(&log.bytes);
            let (bytes, ranges): (u64, RangeChecksums) = sums.finish();
            let name = FileName::from_path(&log.path)?;
            stored.push(StoredLog::from_log(&log, name, (bytes, &ranges)));
            verified(&log)?;
        }
        Ok(stored)
    }

    fn source_path(&self, path: &Path) -> PathBuf {
        let is_it = |file: &&SnapshotFile| path.file_name().is_some_and(|name| *name == *file.name);
        self.files.iter().find(is_it).map_or_else(|| path.to_path_buf(), |file| file.source.clone())
    }

    fn manifest(
        &self,
        set: &RecoverySet,
        databases: Vec<StoredDatabase>,
        logs: Vec<StoredLog>,
    ) -> BackupManifest {
        let usable = databases.iter().filter(|stored| stored.usable);
        let generation = |log: Option<&StoredLog>| log.map_or(0, |log| log.generation);
        BackupManifest {
            format: 0,
            engine: String::new(),
            id: String::new(),
            kind: self.options.kind,
            parent: None,
            began_unix_ms: self.began_unix_ms,
            ended_unix_ms: self.vfs.clock().unix_ms(),
            log_signature: set.signature.to_hex(),
            base_name: set.base_name,
            page_size: set.databases.first().map_or(0, |database| database.header.page_size.get()),
            generations: GenerationRange {
                first: generation(logs.first()),
                last: generation(logs.last()),
                last_is_open: true,
            },
            covers: usable.map(|stored| stored.signature.clone()).collect(),
            databases,
            logs,
            range_bytes: 0,
            checksum: String::new(),
        }
        .seal()
    }
}

/// Returns the number of pages that the reader has corrected so far.
fn corrections(reader: &DatabasePageReader) -> u64 {
    reader.reads().corrected + reader.reads().torn
}
