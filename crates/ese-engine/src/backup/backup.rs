//! Step-by-step backup of an instance's databases.

use std::path::PathBuf;
use std::time::Duration;

use ese_format::header::{BackupInfo, DatabaseHeader, DatabaseState};
use ese_format::log::record::{self, DatabaseIdInLog, LogRecord};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::FileStem;

use super::{BackupKind, DatabasePageReader, Freeze, PageReadOptions, VerifiedLog, VerifiedLogReader};
use crate::core::Core;
use crate::database::Database;
use crate::error::BackupErrorKind;
use crate::events::{EventKind, SnapshotEvent};
use crate::log::LogHold;
use crate::storage::add_backup_to_header;
use crate::{Error, Result, UsageError};

/// Result of a completed backup.
#[derive(Clone, Debug, Default)]
pub struct BackupSummary {
    /// First and last generation of the removed logs. Neither recovery nor a backup needs these logs.
    pub removed_logs: Option<(Generation, Generation)>,
}

/// A running backup. The caller executes these steps: read each database's pages ([`Backup::read_pages`], optionally in
/// parallel), call [`Backup::close_logs`], read all logs ([`Backup::next_log`]), store the headers
/// ([`Backup::header`]), and call [`Backup::finish`]. Dropping the backup before [`Backup::finish`] aborts it; only the
/// log has changed by then.
///
/// ```
/// use ese_engine::*;
///
/// # fn main() -> Result<()> {
/// # let directory = std::env::temp_dir().join(format!("ese-engine-backup-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let instance = Instance::open(InstanceOptions::new(&directory)?)?;
/// # instance.create_database(&directory.join("data.edb"), &DatabaseOptions::default())?;
/// let mut backup = instance.begin_backup(BackupKind::Full)?;
/// for database in backup.databases().to_vec() {
///     let mut pages = backup.read_pages(&database, PageReadOptions::default())?;
///     while let Some(extent) = pages.next_extent()? {
///         // Store `extent.bytes` at the offset of page `extent.first`.
///         pages.recycle(extent);
///     }
///     assert_eq!(pages.reads().bad, 0);
/// }
/// backup.close_logs()?;
/// while let Some(log) = backup.next_log()? {
///     // Store `log.bytes`.
///     assert!(backup.generations().contains(&log.generation));
/// }
/// for database in backup.databases() {
///     // Store the header as the first two pages of the copy.
///     let header = backup.header(database)?;
///     assert_eq!(header.gen_max_required, *backup.generations().end());
/// }
/// // When all of this is durable:
/// let databases = backup.databases().to_vec();
/// backup.finish(&databases)?;
/// # drop(databases);
/// # instance.shutdown()?;
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok(())
/// # }
/// ```
#[doc(alias = "JetBeginExternalBackupInstance")]
pub struct Backup {
    core: Arc<Core>,
    kind: BackupKind,
    databases: Vec<Arc<Database>>,
    /// Position of the log record that marks the start of the backup, and the start time.
    mark: (LogPosition, LogTime),
    low: Generation,
    /// Last generation of the backup; `None` until [`Backup::close_logs`] sets it.
    high: Option<Generation>,
    hold: LogHold,
    logs: Option<VerifiedLogReader>,
    /// Creation time of the last generation; `None` until its log has been read.
    last_created: Option<LogTime>,
    /// Shared with the page readers. The reference count shows whether any readers exist.
    reading: Arc<()>,
    /// Whether the pages and logs come from a snapshot.
    is_snapshot: bool,
    ended: bool,
}

impl Backup {
    /// Begins a backup of all attached databases. The caller must ensure that no database is attached or detached
    /// during this call.
    pub(crate) fn begin(core: Arc<Core>, kind: BackupKind, circular: bool) -> Result<Backup> {
        core.check_writable()?;
        if circular && !kind.has_pages() {
            return Err(BackupErrorKind::CircularLogging.into());
        }
        let databases = core.databases();
        if databases.is_empty() {
            return Err(UsageError::NothingToBackUp.into());
        }
        let (low, hold) = Backup::first_log(&core, kind, &databases)?;
        core.begin_backup()?;
        let mut backup = Backup {
            mark: (LogPosition::MIN, LogTime::from_unix_ms(core.vfs.clock().unix_ms())),
            core,
            kind,
            databases,
            low,
            high: None,
            hold,
            logs: None,
            last_created: None,
            reading: Arc::default(),
            is_snapshot: false,
            ended: false,
        };
        backup.mark.0 = backup.append(record::BackupRecord::BEGIN, DatabaseIdInLog(0))?;
        backup.core.events.report(match kind {
            BackupKind::Full => EventKind::FullBackupStarted,
            BackupKind::Copy => EventKind::InternalCopyStarted,
            BackupKind::Incremental | BackupKind::Differential => EventKind::IncrementalBackupStarted,
        });
        Ok(backup)
    }

    /// Returns the oldest log that the backup contains, and a hold that retains this log and all later ones.
    fn first_log(
        core: &Core,
        kind: BackupKind,
        databases: &[Arc<Database>],
    ) -> Result<(Generation, LogHold)> {
        let checkpoint = core.checkpoint.lock();
        let low = match kind {
            BackupKind::Full | BackupKind::Copy => {
                let named = databases.iter().map(|database| database.file.oldest_log()).min();
                // The checkpoint may precede the first generation of the log. Generation 0 has no log file.
                checkpoint.generation.min(named.unwrap_or(checkpoint.generation)).max(Generation(1))
            }
            BackupKind::Incremental | BackupKind::Differential => {
                let mut low = Generation(u32::MAX);
                for database in databases {
                    let header = database.file.header();
                    let full = header.full_backup.gen_high;
                    if full == Generation(0) {
                        return Err(BackupErrorKind::NoFullBackup(database.path().to_path_buf()).into());
                    }
                    let last = match kind {
                        BackupKind::Incremental => full.max(header.incremental_backup.gen_high),
                        _ => full,
                    };
                    low = low.min(last.next());
                }
                low
            }
        };
        let hold = core.log().hold(low);
        drop(checkpoint);
        let archived = core.log().archived(low);
        let is_there = low >= core.log().named_generation().0
            || core.vfs.exists(&archived).map_err(|e| Error::io(&archived, &e))?;
        if !is_there {
            return Err(BackupErrorKind::LogsRemoved(archived).into());
        }
        Ok((low, hold))
    }

    /// Returns the kind of the backup.
    pub fn kind(&self) -> BackupKind {
        self.kind
    }

    /// Returns the databases of the instance.
    pub fn databases(&self) -> &[Arc<Database>] {
        &self.databases
    }

    /// Returns the first and last log generation of the backup. Until [`Backup::close_logs`], the last one is the
    /// current generation.
    pub fn generations(&self) -> std::ops::RangeInclusive<Generation> {
        self.low..=self.high.unwrap_or_else(|| self.core.log().tail().generation)
    }

    /// Returns the signature of the log stream.
    pub fn log_signature(&self) -> Signature {
        self.core.log().signature()
    }

    /// Returns the base name of the logs.
    pub fn base_name(&self) -> FileStem {
        self.core.log().base_name()
    }

    /// Extends the backup back to an older generation. The backup can then include pages that an interrupted backup
    /// has already read.
    ///
    /// Returns an error if this requires a log that was removed.
    pub fn extend_back_to(&mut self, low: Generation) -> Result<()> {
        if low >= self.low || self.high.is_some() {
            return Ok(());
        }
        let hold = {
            let _steady = self.core.checkpoint.lock();
            self.core.log().hold(low)
        };
        for generation in low.0..self.low.0 {
            let archived = self.core.log().archived(Generation(generation));
            if !self.core.vfs.exists(&archived).map_err(|e| Error::io(&archived, &e))? {
                return Err(BackupErrorKind::LogsRemoved(archived).into());
            }
        }
        (self.low, self.hold) = (low, hold);
        Ok(())
    }

    /// Starts reading the pages of a database. Sessions continue to work.
    pub fn read_pages(
        &self,
        database: &Arc<Database>,
        options: PageReadOptions,
    ) -> Result<DatabasePageReader> {
        if self.high.is_some() || !self.kind.has_pages() {
            return Err(BackupErrorKind::WrongStep.into());
        }
        let (file, size) = (database.path().to_path_buf(), database.page_size());
        let bytes = u64::from(database.file.file_pages()?) * size.bytes() as u64;
        self.core.events.report(EventKind::BackupFileStarted { file, bytes });
        DatabasePageReader::for_attached(database.file.clone(), options, self.reading.clone())
    }

    /// Closes the current generation, which becomes the last one of the backup. The logs then contain all changes in
    /// the pages that were read.
    pub fn close_logs(&mut self) -> Result<()> {
        if self.high.is_some() || Arc::strong_count(&self.reading) > 1 {
            return Err(BackupErrorKind::WrongStep.into());
        }
        let position = self.append(record::BackupRecord::PREPARE_LOGS, DatabaseIdInLog(0))?;
        self.core.log().roll_over()?;
        self.core.log().name_generation()?;
        let high = position.generation;
        let logs = (self.low.0..=high.0).map(Generation);
        let logs = logs.map(|generation| (generation, self.core.log().archived(generation))).collect();
        self.logs = Some(VerifiedLogReader::new(self.core.vfs.clone(), logs, false));
        self.high = Some(high);
        self.core.events.report(EventKind::BackupLogsStarted { first: self.low, last: high });
        Ok(())
    }

    /// Freezes the instance so that a snapshot can supply the backup's pages and logs.
    ///
    /// Instead of reading pages and logs, the caller makes the snapshot, ends the freeze with [`Freeze::thaw`],
    /// verifies the pages and logs in the snapshot, calls [`Backup::confirm_logs_verified`], and then
    /// [`Backup::finish`]. See [`crate::Instance::freeze`] for details and errors.
    #[doc(alias = "JetOSSnapshotFreeze")]
    pub fn freeze(&mut self, limit: Duration) -> Result<Freeze> {
        if self.high.is_some() || !self.kind.has_pages() || Arc::strong_count(&self.reading) > 1 {
            return Err(BackupErrorKind::WrongStep.into());
        }
        self.is_snapshot = true;
        self.report_snapshot(SnapshotEvent::Started { full: self.kind == BackupKind::Full });
        let mark = self.record(record::BackupRecord::PREPARE_LOGS, DatabaseIdInLog(0));
        let freeze = Freeze::begin(self.core.clone(), &mark, limit, false)?;
        self.high = Some(freeze.generation());
        Ok(freeze)
    }

    /// Returns the files that a snapshot must contain: the databases, the backup's logs, and the log that follows
    /// them. Call this while the instance is frozen.
    pub fn files(&self) -> Vec<PathBuf> {
        let log = self.core.log();
        let logs =
            (self.low.0..=self.generations().end().0).map(|generation| log.archived(Generation(generation)));
        let databases = self.databases.iter().map(|database| database.path().to_path_buf());
        databases.chain(logs).chain([log.names().next()]).collect()
    }

    /// Confirms that all logs in the snapshot were verified. `last` is the log of the last generation with records.
    ///
    /// Returns an error if there was no freeze, or if `last` is not the log of that generation (-616).
    pub fn confirm_logs_verified(&mut self, last: &VerifiedLog) -> Result<()> {
        if !self.is_snapshot || Some(last.generation) != self.high {
            return Err(BackupErrorKind::IncompleteSnapshot.into());
        }
        self.last_created = Some(last.created);
        Ok(())
    }

    /// Reads and verifies the next log of the backup. Returns `None` after the last log.
    ///
    /// Returns [`Error::Backup`] if a log is missing, is damaged, or does not continue the previous log (-612). The
    /// backup cannot be finished then.
    pub fn next_log(&mut self) -> Result<Option<VerifiedLog>> {
        let Some(logs) = &mut self.logs else {
            return Err(BackupErrorKind::LogsNotClosed.into());
        };
        let log = logs.next_log()?;
        if let Some(log) = log.as_ref().filter(|log| Some(log.generation) == self.high) {
            self.last_created = Some(log.created);
        }
        Ok(log)
    }

    /// Returns the position, time and generations of the backup.
    pub fn details(&self) -> BackupInfo {
        let (position, time) = self.mark;
        BackupInfo { position, time, gen_low: self.low, gen_high: self.high.unwrap_or(Generation(0)) }
    }

    /// Returns the header for the copy of a database. All logs must have been read.
    pub fn header(&self, database: &Database) -> Result<DatabaseHeader> {
        let (Some(high), Some(created)) = (self.high, self.last_created) else {
            return Err(BackupErrorKind::LogNotCopied.into());
        };
        let mut header = database.file.header();
        require_logs(&mut header, (self.low, high), created);
        mark_copy(&mut header, self.kind, self.details());
        Ok(header)
    }

    /// Completes the backup. `intact` lists the databases whose pages were all good; from now on, their headers name
    /// this backup. All data that was read must already be durable. A full or incremental backup also removes the logs
    /// that are no longer needed.
    pub fn finish(mut self, intact: &[Arc<Database>]) -> Result<BackupSummary> {
        if self.last_created.is_none() {
            return Err(BackupErrorKind::LogNotCopied.into());
        }
        for database in intact {
            self.append(record::BackupRecord::UPDATE_HEADER, DatabaseIdInLog(database.log_id()))?;
            database.file.record_backup(self.kind.scope(), self.details())?;
        }
        let mut summary = BackupSummary::default();
        if self.kind.truncates() {
            summary.removed_logs = self.truncate(intact)?;
        }
        self.append(record::BackupRecord::STOP, DatabaseIdInLog(0))?;
        self.ended = true;
        self.core.events.report(EventKind::BackupCompleted { internal_copy: self.kind == BackupKind::Copy });
        self.report_snapshot(SnapshotEvent::Completed);
        Ok(summary)
    }

    /// Removes the logs that neither redo nor a backup needs. Returns the first and last removed generations.
    fn truncate(&mut self, whole: &[Arc<Database>]) -> Result<Option<(Generation, Generation)>> {
        let mut limit = self.high.map_or(Generation(0), Generation::next);
        for database in self.core.databases() {
            if !whole.iter().any(|one| Arc::ptr_eq(one, &database)) {
                limit = limit.min(database.file.header().full_backup.gen_high);
            }
            limit = limit.min(database.file.oldest_log());
        }
        limit = limit.min(self.core.checkpoint.lock().generation);
        self.hold.advance(limit);
        let removed = self.core.log().remove_below(limit)?;
        if removed.is_some() {
            self.append(record::BackupRecord::TRUNCATE, DatabaseIdInLog(0))?;
        }
        self.core.events.report(match removed {
            Some((first, last)) => EventKind::LogsTruncated { first, last },
            None => EventKind::NoLogsTruncated,
        });
        Ok(removed)
    }

    fn report_snapshot(&self, event: SnapshotEvent) {
        if self.is_snapshot {
            self.core.events.report(EventKind::Snapshot(event));
        }
    }

    fn record(&self, phase: u8, database: DatabaseIdInLog) -> LogRecord {
        LogRecord::Backup2(record::BackupRecord {
            phase,
            kind: if self.is_snapshot {
                record::BackupRecord::SNAPSHOT
            } else {
                record::BackupRecord::STREAMING
            },
            scope: self.kind.scope(),
            database,
            details: self.details(),
            reserved: 0,
            path: Vec::new(),
        })
    }

    /// Appends a record for a backup step and makes it durable. Returns the position of the record.
    fn append(&self, phase: u8, database: DatabaseIdInLog) -> Result<LogPosition> {
        let record = self.record(phase, database);
        let (start, end) = self.core.append(&[record])?;
        self.core.log().flush(end)?;
        Ok(start)
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if !self.ended {
            // The append fails if the log has failed. In that case, the failure of the instance also ends the backup.
            let _ = self.append(record::BackupRecord::ABORT, DatabaseIdInLog(0));
            let internal_copy = self.kind == BackupKind::Copy;
            self.core.events.report(EventKind::BackupAborted { internal_copy });
            self.report_snapshot(SnapshotEvent::Aborted);
        }
        self.core.backup_running.store(false, Ordering::Release);
    }
}

/// Turns a database header into the header of a copy made by a backup with these details. The new header requires the
/// copy to be restored before it is used.
pub fn mark_copy(header: &mut DatabaseHeader, kind: BackupKind, details: BackupInfo) {
    add_backup_to_header(header, kind.scope(), details);
    header.current_full_backup = details;
}

/// Makes a header require this range of generations. `created` is the creation time of the last one.
fn require_logs(header: &mut DatabaseHeader, (low, high): (Generation, Generation), created: LogTime) {
    header.state = DatabaseState::DirtyShutdown;
    (header.gen_min_required, header.gen_min_consistent) = (low, low);
    (header.gen_max_required, header.gen_max_committed) = (high, high);
    header.gen_max_committed_time = created;
    // Earlier formats do not store this time.
    if header.gen_max_required_time != LogTime::NONE {
        header.gen_max_required_time = created;
    }
    // A flush map contains no information about the copy.
    (header.flush_signature, header.flush_map_signature) = Default::default();
}
