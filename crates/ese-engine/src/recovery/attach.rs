//! Attaches databases during redo. Determines which databases redo changes, and from which position on.
//!
//! Redo changes a database from its attach record on. There are two exceptions: the header may show that the database
//! was later shut down cleanly, or has since been used with another log. In both cases, the file already has all
//! changes, and redo skips the records.
//!
//! A detached database may be removed, moved or recreated while redo still starts before its detach record. Therefore
//! a missing database, or another file in its place, is an error only if the log ends without the detach record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::header::{DatabaseHeader, DatabaseState, HeaderCopies};
use ese_format::log::record::{AttachDb, BackupRecord, CreateDb, SetDbVersion, decode_path};
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoReason, OpenMode, Vfs, fixed_unfinished_path, replace_file_through};

use crate::cache::AttachedFileId;
use crate::core::Core;
use crate::database::Database;
use crate::error::AttachmentErrorKind;
use crate::options::InstanceOptions;
use crate::storage::{
    DatabaseFile, OpenedFile, check_format, double_write, read_header, repair_shadow, write_header,
};
use crate::{Corruption, Error, FileError, Result};

/// The log that redo reads.
pub(super) struct RecoveredLog {
    pub signature: Signature,
    /// Oldest generation, if there is no checkpoint and redo starts there.
    pub oldest_without_checkpoint: Option<Generation>,
    pub newest: Generation,
    /// End of the log before recovery.
    pub end: LogPosition,
    /// Whether another engine writes the log. In that case more records may arrive.
    pub received: bool,
}

/// Attaches databases for redo.
pub(super) struct Attacher {
    core: Arc<Core>,
    options: InstanceOptions,
    log: RecoveredLog,
    pub torn_pages: usize,
    /// First and last missing generation that may contain commits.
    pub lost: Option<(Generation, Generation)>,
    /// Databases that the log attaches at this position but that were not found at their path, by log id. Redo skips
    /// their records.
    missing: BTreeMap<u8, Error>,
    /// Newest generation that each database needs. Until it has been replayed, the database's pages may be
    /// inconsistent.
    needed: BTreeMap<AttachedFileId, Generation>,
}

impl Attacher {
    pub fn new(core: &Arc<Core>, options: &InstanceOptions, log: RecoveredLog) -> Attacher {
        let (core, options) = (core.clone(), options.clone());
        Attacher {
            core,
            options,
            log,
            torn_pages: 0,
            lost: None,
            missing: BTreeMap::new(),
            needed: BTreeMap::new(),
        }
    }

    /// Attaches the databases that were attached at the position where redo starts.
    pub fn attach_listed(&mut self, list: &[Attachment], start: LogPosition) -> Result<()> {
        for entry in list.iter().filter(|entry| entry.attach_position < start) {
            let log_id = entry.database.0;
            // When the list was made, the database's header named this log.
            self.open(log_id, &entry.path_text(), entry.signature, entry.attach_position, |_| false)?;
            // The header may be older than the checkpoint. Redo does not repeat the operations before the checkpoint,
            // which used these numbers.
            if let Some(database) = self.core.file_in_log(log_id) {
                database.advance_tree_id_to(entry.last_tree);
                database.advance_time_to(entry.db_time);
            }
        }
        Ok(())
    }

    /// Replays an attach record at `position`.
    pub fn attach(&mut self, record: &AttachDb, position: LogPosition) -> Result<()> {
        let before = |header: &DatabaseHeader| {
            header.log_signature == record.log_signature
                && header.consistent_position == record.consistent_position
        };
        self.open(record.database.0, &decode_path(&record.path), record.signature, position, before)
    }

    /// Replays the creation of a database whose complete content is in the log records that follow.
    pub fn create(&mut self, record: &CreateDb, position: LogPosition) -> Result<()> {
        if !logs_content(record) {
            return Ok(());
        }
        let logged = decode_path(&record.path);
        let vfs = &*self.options.vfs.clone();
        let path = self.options.recovery.database_paths.resolve(vfs, &logged, record.signature);
        let io_error = |e: std::io::Error| Error::io(&path, &e);
        if !vfs.exists(&path).map_err(io_error)? {
            let mut header = DatabaseHeader::for_new_database(
                self.options.page_size,
                record.signature,
                self.log.signature,
            );
            header.state = DatabaseState::DirtyShutdown;
            header.database_id = u32::from(record.database.0);
            prepare_header(&mut header, position, &self.log.signature);
            create_file(vfs, &path, &header)?;
        }
        self.open(record.database.0, &logged, record.signature, position, |_| false)
    }

    /// Replays a change to a database's format version.
    pub fn set_version(&self, record: &SetDbVersion) -> Result<()> {
        match self.core.file_in_log(record.database.0) {
            Some(database) => database.set_version(record.update, record.update_minor),
            None => Ok(()),
        }
    }

    /// Replays a record about a database backup.
    pub fn replay_backup(&self, backup: &BackupRecord) -> Result<()> {
        match self.core.file_in_log(backup.database.0) {
            Some(database) if backup.phase == BackupRecord::UPDATE_HEADER => {
                database.record_backup(backup.scope, backup.details)
            }
            _ => Ok(()),
        }
    }

    /// Ends the restore of databases that come from a backup. Called once all logs that the backup needs have been
    /// replayed.
    pub fn finish_restore(&self) -> Result<()> {
        self.core.databases().iter().try_for_each(|database| database.file.mark_restored())
    }

    /// Replays a detach record. All pages were in the file before the record was written, but the header may not
    /// reflect that yet.
    pub fn detach(&mut self, log_id: u8, position: LogPosition) -> Result<()> {
        // At that position, all pages of the database were in its file, regardless of the file's current path.
        self.missing.remove(&log_id);
        let Some(database) = self.core.file_in_log(log_id) else {
            return Ok(());
        };
        self.close(&database, position)
    }

    /// Replays an engine's clean shutdown, which leaves all databases clean at `position`.
    pub fn replay_shutdown(&mut self, position: LogPosition) -> Result<()> {
        self.missing.clear();
        let databases = self.core.databases();
        databases.iter().try_for_each(|database| self.close(&database.file, position))
    }

    fn close(&self, database: &DatabaseFile, position: LogPosition) -> Result<()> {
        // The database was clean at that position, so cleanup has nothing left to do in it, and no transaction needs
        // a before-image.
        self.core.ended.forget(database.file_id, &self.core.pins);
        database.end_waypoint_latency()?;
        self.core.cache.flush_file(database.file_id)?;
        let now = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        self.core.close_clean(database, position, if self.log.received { now } else { LogTime::NONE })
    }

    /// Returns an error if a database needs generations after `replayed` to be consistent.
    pub fn check_consistent(&self, replayed: Generation) -> Result<()> {
        for database in self.core.databases() {
            let newest = self.needed.get(&database.file.file_id).copied().unwrap_or(Generation(0));
            if newest > replayed {
                let required = (replayed.next(), newest);
                return Err(Error::LogsMissing { path: database.path().to_path_buf(), required });
            }
        }
        Ok(())
    }

    /// Replays the end of an instance or of a recovery, after which no database is attached.
    pub fn replay_termination(&mut self) {
        self.missing.clear();
    }

    /// Returns an error if a missing database is still attached at this position in the log.
    pub fn check_no_missing_databases(&self) -> Result<()> {
        if self.options.recovery.ignore_missing_databases {
            return Ok(());
        }
        self.missing.first_key_value().map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Opens a database that the log attaches. If the header names another log, `is_before` returns whether this is
    /// the header with which the database was attached.
    fn open(
        &mut self,
        log_id: u8,
        path: &str,
        signature: Signature,
        attached_at: LogPosition,
        is_before: impl Fn(&DatabaseHeader) -> bool,
    ) -> Result<()> {
        let logged_path = path.to_string();
        let path = self.options.recovery.database_paths.resolve(&*self.options.vfs, path, signature);
        // An id is in use until the detach record of its database is read, even if that database is missing. Records
        // with this id may belong to the missing database.
        match self.core.file_in_log(log_id) {
            Some(other) if other.attachment().signature != signature => {
                let other = other.path.clone();
                return Err(Error::corrupt(path, Corruption::DatabaseId { id: log_id, other }));
            }
            Some(_) => return Ok(()),
            None if self.missing.contains_key(&log_id) => return Ok(()),
            None => {}
        }
        let vfs = &*self.options.vfs.clone();
        let (file, mut header, copies) = match self.find(&path, signature) {
            Ok(found) => found,
            // With one of these errors, the file is not the database. An unreadable file, in contrast, may be the
            // database.
            Err(error @ (Error::File { .. } | Error::Corrupt { .. } | Error::Attachment { .. })) => {
                self.missing.insert(log_id, error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let clean = header.state == DatabaseState::CleanShutdown;
        let own = header.log_signature == self.log.signature;
        // Positions in another log cannot be compared with positions in this log.
        let in_this_log = own || (clean && is_before(&header));
        if !in_this_log {
            if !clean {
                self.missing.insert(log_id, Error::File { path: path.clone(), error: FileError::OtherLog });
            }
            // The database was detached from this log and has since been used with the other log.
            return Ok(());
        }
        if clean && own && header.consistent_position > self.log.end {
            // The database was shut down after the position where the log ends, so the rest of the log is missing.
            let required = (self.log.newest, header.consistent_position.generation);
            return Err(Error::LogsMissing { path, required });
        }
        // The file was attached again after this position, so it has all earlier changes.
        if header.state == DatabaseState::DirtyShutdown && own && header.attach_position > attached_at {
            return Ok(());
        }
        self.check_restored(&path, &header)?;
        let has_all = clean && own && header.consistent_position >= attached_at;
        if has_all && copies == HeaderCopies::Both {
            return Ok(());
        }
        if self.log.received && clean && own && !has_all && !is_before(&header) {
            let (shut_down, attached) = (header.consistent_position, attached_at);
            let fault = AttachmentErrorKind::OtherShutdown { shut_down, attached };
            return Err(Error::Attachment { path, fault });
        }
        self.check_logs_present(&path, &header)?;
        self.check_committed(&path, &mut header)?;
        let lock = vfs.lock(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() },
            _ => Error::io(&path, &e),
        })?;
        if has_all {
            // A crash occurred between the writes of the two copies of the header.
            repair_shadow(&*file, &header, copies)?;
            return write_header(&*file, &header);
        }
        repair_shadow(&*file, &header, copies)?;
        self.restore_torn_pages(&path, &*file, &header)?;
        if header.state != DatabaseState::DirtyShutdown {
            // A crash occurred between the attach record and the write of the header.
            header.state = DatabaseState::DirtyShutdown;
            prepare_header(&mut header, attached_at, &self.log.signature);
        }
        let signature = self.log.signature;
        let protection = self.options.torn_page_protection;
        let double_write = protection.create(vfs, &path, file.clone(), &header, signature)?;
        // From now on, the file changes but its flush map is not updated. The header must therefore no longer match the
        // map.
        (header.flush_signature, header.flush_map_signature) = Default::default();
        let named = header.gen_max_required;
        let opened = OpenedFile { path, logged_path, file, lock, header, extension_pages: 256, double_write };
        let database = self.open_unsettled(opened, log_id)?;
        // A database that was shut down is consistent at every position after it was attached.
        if !clean {
            self.needed.insert(database.file.file_id, named);
        }
        if self.log.received {
            database.file.set_newest_applied(named);
        }
        database.file.update_header(|_| {})
    }

    /// Opens a file in which redo may change any page.
    fn open_unsettled(&self, opened: OpenedFile, log_id: u8) -> Result<Arc<Database>> {
        let database = self.core.attach(opened, log_id);
        database.file.unsettled.add_all_through(database.file.file_pages()?);
        Ok(database)
    }

    fn restore_torn_pages(&mut self, path: &Path, file: &dyn File, header: &DatabaseHeader) -> Result<()> {
        let vfs = &*self.options.vfs;
        // For a received log, only this bound is known: page images are made once the header names their generation.
        let behind_named = LogPosition::new(header.gen_max_required.next().0, 1, RECORDS_AT as u16);
        let end = if self.log.received { behind_named } else { self.log.end };
        self.torn_pages += double_write::restore(vfs, path, file, header, self.log.signature, end)?;
        double_write::discard(vfs, path)
    }

    /// Returns an error if the file comes from a backup and an instance attempts to recover it. The instance's
    /// checkpoint may be later than the position from which the pages need redo.
    fn check_restored(&self, path: &Path, header: &DatabaseHeader) -> Result<()> {
        let clean = header.state == DatabaseState::CleanShutdown;
        if self.log.received || clean || header.current_full_backup.gen_low == Generation(0) {
            return Ok(());
        }
        Err(Error::Attachment { path: path.to_path_buf(), fault: AttachmentErrorKind::NotRestored })
    }

    /// Returns an error if the log lacks generations that the file needs.
    ///
    /// A crash never causes this: the name of a log is durable before a header names its generation, and headers are
    /// durable before the checkpoint advances past a generation. If there is a checkpoint, the oldest generation that
    /// a header names may no longer exist, because redo starts after it.
    fn check_logs_present(&self, path: &Path, header: &DatabaseHeader) -> Result<()> {
        let (oldest, newest) = (header.gen_min_required, header.gen_max_required);
        let missing = match &self.log {
            log if header.log_signature != log.signature => return Ok(()),
            _ if header.state != DatabaseState::DirtyShutdown => return Ok(()),
            log if newest > log.newest => (log.newest.next(), newest),
            RecoveredLog { oldest_without_checkpoint: Some(first), .. } if oldest < *first => {
                (oldest, Generation(first.0 - 1))
            }
            _ => return Ok(()),
        };
        Err(Error::LogsMissing { path: path.to_path_buf(), required: missing })
    }

    /// Returns an error if the log lacks generations that may contain commits, unless their loss is accepted. The
    /// file is consistent without these generations. The header must no longer name the lost generations, because
    /// other logs may get the same generation numbers.
    fn check_committed(&mut self, path: &Path, header: &mut DatabaseHeader) -> Result<()> {
        if self.log.received {
            return Ok(());
        }
        let lost = (self.log.newest.next(), header.gen_max_committed);
        let is_open =
            header.state == DatabaseState::DirtyShutdown && header.log_signature == self.log.signature;
        if !is_open || lost.0 > lost.1 {
            return Ok(());
        }
        if !self.options.recovery.accept_lost_logs {
            return Err(Error::CommittedLogsMissing { path: path.to_path_buf(), committed: lost });
        }
        // The newest existing log will be named when the file is opened.
        header.gen_max_committed = Generation(0);
        self.lost = Some(self.lost.map_or(lost, |(first, last)| (first, last.max(lost.1))));
        Ok(())
    }

    /// Finds the database with this signature, opens it and reads its header. The file is not changed.
    fn find(
        &self,
        path: &Path,
        signature: Signature,
    ) -> Result<(Arc<dyn File>, DatabaseHeader, HeaderCopies)> {
        let vfs = &*self.options.vfs;
        let io_error = |e: std::io::Error| Error::io(path, &e);
        let file = match vfs.open(path, OpenMode::Write) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let fault = AttachmentErrorKind::NotFound;
                return Err(Error::Attachment { path: path.to_path_buf(), fault });
            }
            opened => opened.map_err(io_error)?,
        };
        if self.options.recovery.database_paths.is_empty()
            && let Some(copy) = self.find_in_log_directory(path, signature)?
        {
            return Err(Error::File { path: path.to_path_buf(), error: FileError::CopyInLogDirectory(copy) });
        }
        // Data written by a killed process may exist only in the kernel's page cache. The data that recovery reads
        // must be durable.
        file.sync(IoReason::DatabaseHeader).map_err(io_error)?;
        let (header, copies) = read_header(&*file)?;
        check_format(path, &header, self.options.page_size, self.options.recovery.accept_newer_formats)?;
        if header.signature != signature {
            let fault = AttachmentErrorKind::OtherDatabase;
            return Err(Error::Attachment { path: path.to_path_buf(), fault });
        }
        Ok((file, header, copies))
    }

    /// Returns the file in the log directory that has the database's name and signature, if there is one. In that
    /// case, the database and the log were copied there together. The log still names the original database, which
    /// has its own log.
    fn find_in_log_directory(&self, path: &Path, signature: Signature) -> Result<Option<PathBuf>> {
        let vfs = &*self.options.vfs;
        let Some(name) = path.file_name() else { return Ok(None) };
        let beside = self.options.log.directory.join(name);
        let io_error = |e: std::io::Error| Error::io(&beside, &e);
        if !vfs.exists(&beside).map_err(io_error)? || vfs.same_file(&beside, path) {
            return Ok(None);
        }
        let file = vfs.open(&beside, OpenMode::Read).map_err(io_error)?;
        match read_header(&*file) {
            Ok((header, _)) => Ok((header.signature == signature).then_some(beside)),
            Err(Error::File { .. } | Error::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether the records after the creation of a database contain its complete content. ESE logs the content
/// since log version 8.4000.3. Earlier versions and this engine do not.
pub(super) fn logs_content(record: &CreateDb) -> bool {
    record.version.is_some_and(|(_, update)| update == 0)
}

/// Prepares the header of a database that is attached at `position`, so that redo needs the log from that position
/// on.
fn prepare_header(header: &mut DatabaseHeader, position: LogPosition, log: &Signature) {
    header.log_signature = *log;
    header.attach_position = position;
    header.resize_position = position;
    header.gen_min_required = position.generation;
    header.gen_min_consistent = position.generation;
    header.gen_max_required = position.generation;
    header.gen_max_committed = position.generation;
}

/// Creates a database file with this header and no pages. After a crash, the file is either complete or does not
/// exist.
fn create_file(vfs: &dyn Vfs, path: &Path, header: &DatabaseHeader) -> Result<()> {
    let page = header.encode();
    let content = [&page[..], &page[..]].concat();
    let replaced =
        replace_file_through(vfs, path, &fixed_unfinished_path(path), &content, IoReason::DatabaseHeader);
    replaced.map_err(|error| Error::io(path, &error))
}

#[cfg(test)]
mod tests {
    use ese_format::PageSize;
    use ese_format::log::record::{DatabaseIdInLog, LogRecord, encode_path};
    use jetcell_vfs::{SimVfs, Vfs};

    use super::*;
    use crate::DatabaseOptions;
    use crate::btree::tests::open;

    /// Earlier versions could assign one id to two databases that were attached at the same time. Recovery must
    /// report the missing database, and must not apply that database's records to the other one.
    #[test]
    fn the_id_of_a_missing_database_is_not_reused() {
        let disk = two_under_one_id();
        let [missed, other] = PATHS.map(Path::new);
        disk.remove(missed).unwrap();
        let before = disk.contents(other);
        let Err(error) = open(&disk, PageSize::KIB_4, 64) else {
            panic!("a missing database was not reported")
        };
        let text = error.to_string();
        assert!(text.contains(PATHS[0]) && text.contains("it does not exist"), "{text}");
        assert!(disk.contents(other) == before);
    }

    /// If both databases exist, recovery cannot determine which of them a record belongs to.
    #[test]
    fn an_id_shared_by_two_databases_is_rejected() {
        let disk = two_under_one_id();
        let before = disk.contents(Path::new(PATHS[1]));
        let Err(error) = open(&disk, PageSize::KIB_4, 64) else {
            panic!("records of one database were applied to the other")
        };
        let text = error.to_string();
        assert!(matches!(error, Error::Corrupt { .. }), "{text}");
        assert!(PATHS.iter().all(|path| text.contains(path)), "{text}");
        assert!(disk.contents(Path::new(PATHS[1])) == before);
    }

    const PATHS: [&str; 2] = ["/db/missed.edb", "/db/other.edb"];

    /// Creates a log that attaches a database and then another one under the same id.
    fn two_under_one_id() -> SimVfs {
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        let paths = PATHS.map(Path::new);
        let [db, other_db] =
            paths.map(|path| instance.create_database(path, &DatabaseOptions::default()).unwrap());
        let attachment = other_db.file.attachment();
        instance.detach(&other_db).unwrap();
        let attach = AttachDb {
            procid: 0,
            database: DatabaseIdInLog(db.file.log_id),
            max_pages: 0,
            consistent_position: attachment.consistent_position,
            signature: attachment.signature,
            log_signature: attachment.signature,
            flags: AttachDb::UNICODE,
            path: encode_path(PATHS[1]),
        };
        instance.core().append(&[LogRecord::AttachDb(attach)]).unwrap();
        instance.flush().unwrap();
        disk.process_kill()
    }
}
