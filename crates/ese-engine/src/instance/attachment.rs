//! Creates, attaches and detaches databases.

use jetcell_sync::Arc;
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::record::{AttachDb, CreateDb, CreateDbFinish, DatabaseIdInLog, LogRecord, encode_path};
use ese_format::{DbTime, LogPosition, LogTime, PageNumber, Signature, TreeId};
use jetcell_vfs::{DirectoryLock, IoReason, OpenMode, parent_directory};
use rand::RngCore;

use super::Instance;
use crate::catalog::initial_pages;
use crate::database::Database;
use crate::events::EventKind;
use crate::options::DatabaseOptions;
use crate::storage::{self, OpenedFile, double_write};
use crate::{Error, FailedOperation, FileError, Result, UsageError};

impl Instance {
    /// Creates a database and attaches it. The file must not already exist.
    pub fn create_database(&self, path: &Path, create: &DatabaseOptions) -> Result<Arc<Database>> {
        self.core.check_writable()?;
        let path = &path_for_log(path)?;
        let vfs = &*self.options.vfs;
        let size = self.options.page_size;
        let io_error = |e: std::io::Error| Error::io(path, &e);
        if vfs.exists(path).map_err(io_error)? {
            return Err(Error::File { path: path.to_path_buf(), error: FileError::Exists });
        }
        let pages = create.initial_pages.max(256);
        let file = vfs.open(path, OpenMode::CreateNew).map_err(io_error)?;
        let mut logged = false;
        let result = (|| {
            let lock = vfs.lock(path).map_err(io_error)?;
            let now = LogTime::from_unix_ms(vfs.clock().unix_ms());
            let signature = Signature::new(self.random.lock().next_u32(), now);
            let mut header = DatabaseHeader::for_new_database(size, signature, self.signature);
            let initial = initial_pages(size, pages);
            header.state = DatabaseState::JustCreated;
            header.db_time = initial.db_time;
            header.last_tree = initial.last_tree;
            file.grow(size.offset_of(PageNumber::fixed(pages)) + size.bytes() as u64).map_err(io_error)?;
            initial.write(&*file, size).map_err(io_error)?;
            storage::write_header(&*file, &header)?;
            vfs.sync_directory(parent_directory(path)).map_err(io_error)?;
            let _one = self.attaching.lock();
            self.core.check_no_backup()?;
            let log_id = self.free_log_id(path)?;
            let procid = 0;
            let records = [
                LogRecord::CreateDb(CreateDb {
                    procid,
                    database: DatabaseIdInLog(log_id),
                    options: 0,
                    max_pages: 0,
                    signature,
                    flags: CreateDb::UNICODE,
                    version: Some((header.version as u16, header.update as u16)),
                    path: encode_path(&path.to_string_lossy()),
                }),
                LogRecord::CreateDbFinish(CreateDbFinish { procid, database: DatabaseIdInLog(log_id) }),
            ];
            logged = true;
            self.core.append(&records)?;
            self.attach_file(path, file.clone(), lock, header, log_id, create.extension_pages)
        })();
        if result.is_err() && !logged {
            // No log record refers to the file yet, so it can be removed.
            let _ = vfs.remove(path);
        }
        if result.is_ok() {
            self.core.events.report(EventKind::DatabaseCreated { database: path.clone() });
        }
        result
    }

    /// Attaches a clean database. If another call or recovery has already attached it, returns that database.
    pub fn attach(&self, path: &Path, extension_pages: u32) -> Result<Arc<Database>> {
        let vfs = &*self.options.vfs;
        let path = &path_for_log(path)?;
        let _one = self.attaching.lock();
        let known = |database: &Arc<Database>| vfs.same_file(database.path(), path);
        if let Some(known) = self.core.databases().into_iter().find(known) {
            known.file.extend_by(extension_pages);
            return Ok(known);
        }
        self.core.check_writable()?;
        self.core.check_no_backup()?;
        let file = vfs.open(path, OpenMode::Write).map_err(|e| Error::io(path, &e))?;
        let lock = vfs.lock(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: path.to_path_buf() },
            _ => Error::io(path, &e),
        })?;
        let (header, copies) = storage::read_header(&*file)?;
        storage::check_format(path, &header, self.options.page_size, false)?;
        // Data written by a killed process may exist only in the kernel's page cache. Attaching relies on the data
        // that it reads, so the data must be durable first.
        file.sync(IoReason::DatabaseHeader).map_err(|e| Error::io(path, &e))?;
        match header.state {
            DatabaseState::CleanShutdown => {}
            DatabaseState::JustCreated => {
                return Err(Error::File { path: path.to_path_buf(), error: FileError::CreationInterrupted });
            }
            _ if self.has_logs_of(&header)? => {
                return Err(Error::File { path: path.to_path_buf(), error: FileError::OtherPath });
            }
            _ => {
                return Err(Error::LogsMissing {
                    path: path.to_path_buf(),
                    required: (header.gen_min_required, header.gen_max_required),
                });
            }
        }
        let log_id = self.free_log_id(path)?;
        storage::repair_shadow(&*file, &header, copies)?;
        let attached = self.attach_file(path, file, lock, header, log_id, extension_pages)?;
        self.core.events.report(EventKind::DatabaseAttached { database: path.clone() });
        Ok(attached)
    }

    /// Returns whether the logs needed by a dirty database with this header are available. If they are, recovery
    /// could update the database if the log named its current path.
    fn has_logs_of(&self, header: &DatabaseHeader) -> Result<bool> {
        let oldest = header.gen_min_required;
        if header.log_signature != self.signature {
            return Ok(false);
        }
        if oldest >= self.core.log().named_generation().0 {
            return Ok(true);
        }
        let archived = self.core.log().names().archived(oldest);
        self.options.vfs.exists(&archived).map_err(|e| Error::io(&archived, &e))
    }

    /// Attaches an open file. The caller must hold `attaching` from the time it chooses the id until this call
    /// returns.
    fn attach_file(
        &self,
        path: &Path,
        file: Arc<dyn jetcell_vfs::File>,
        lock: Box<dyn DirectoryLock>,
        mut header: DatabaseHeader,
        log_id: u8,
        extension_pages: u32,
    ) -> Result<Arc<Database>> {
        let now = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        // The double-write file is discarded before the log names the database. Otherwise recovery would use page
        // images that belong to an earlier file at this path.
        double_write::discard(&*self.options.vfs, path)?;
        let protection = self.options.torn_page_protection;
        let double_write =
            protection.create(&*self.options.vfs, path, file.clone(), &header, self.signature)?;
        let record = LogRecord::AttachDb(AttachDb {
            procid: 0,
            database: DatabaseIdInLog(log_id),
            max_pages: 0,
            consistent_position: header.consistent_position,
            signature: header.signature,
            log_signature: header.log_signature,
            flags: AttachDb::UNICODE,
            path: encode_path(&path.to_string_lossy()),
        });
        // Recovery needs the log from the attach record on. The lock and the pin prevent the checkpoint from
        // advancing, because a generation that begins before the database is attached is not entered in its header.
        let _steady = self.core.checkpoint.lock();
        let pin = self.core.pins.pin(self.core.log().tail());
        let mut logged = false;
        let attached = (|| {
            let position = self.core.append(&[record])?;
            logged = true;
            self.core.log().flush(position.1)?;
            self.core.log().name_generation()?;
            header.state = DatabaseState::DirtyShutdown;
            header.log_signature = self.signature;
            header.attach_time = now;
            header.attach_position = position.0;
            header.resize_position = position.0;
            header.database_id = u32::from(log_id);
            header.gen_min_required = position.0.generation;
            header.gen_min_consistent = position.0.generation;
            header.gen_max_required = position.0.generation;
            header.gen_max_committed = position.0.generation;
            let (path, logged_path) = (path.to_path_buf(), path.to_string_lossy().into_owned());
            let opened = OpenedFile { path, logged_path, file, lock, header, extension_pages, double_write };
            let database = self.core.attach(opened, log_id);
            database.file.update_header(|_| {})?;
            if self.options.log.waypoint_latency > 0 {
                // A generation may have begun before the header could name it.
                self.core.log().name_generation()?;
            }
            Ok(database)
        })();
        self.core.pins.release(pin);
        // From the attach record on, recovery associates the id with this database. If an error occurs after that
        // record is written, the instance fails, so no other database gets the id.
        attached.inspect_err(|error: &Error| {
            if logged {
                self.core.fail(error.cause().during(FailedOperation::Attach(path.to_path_buf())));
            }
        })
    }

    /// Detaches a database: flushes it and leaves it clean. No session may use the database afterwards.
    ///
    /// Returns [`Error::Usage`] if the database is not attached to this instance. Returns [`Error::ReadOnly`] if the
    /// instance refuses changes. In that case the database stays attached and dirty; drop the instance and open it
    /// again to recover.
    pub fn detach(&self, database: &Arc<Database>) -> Result<()> {
        if !Arc::ptr_eq(&database.trees.versions, &self.core.versions) {
            return Err(UsageError::OtherInstance(database.path().to_path_buf()).into());
        }
        let _one = self.attaching.lock();
        self.core.check_no_backup()?;
        // Maintenance tasks run transactions, so they are stopped first.
        database.stop_maintenance();
        let detached = self.clean_up_all().and_then(|()| {
            self.core.detach(database, LogTime::from_unix_ms(self.options.vfs.clock().unix_ms()))
        });
        self.restore_waypoint_latency();
        detached
    }

    /// Returns a free id for another database at `path`. The caller must hold `attaching` until the database has been
    /// given the id.
    fn free_log_id(&self, path: &Path) -> Result<u8> {
        let mut attached = self.core.attachments();
        let is_free = |id: &u8| attached.iter().all(|entry| entry.database.0 != *id);
        let id = (1..=6).find(is_free).ok_or(UsageError::TooManyDatabases)?;
        let mut entry = Attachment {
            database: DatabaseIdInLog(id),
            flags: 0,
            db_time: DbTime(0),
            last_tree: TreeId(0),
            max_pages: 0,
            attach_position: LogPosition::MIN,
            consistent_position: LogPosition::MIN,
            signature: self.signature,
            path: Vec::new(),
        };
        entry.set_path(&path.to_string_lossy());
        attached.push(entry);
        // If the list were too long, no checkpoint could be written, and recovery could not complete.
        match Attachment::encode_list(&attached) {
            Ok(_) => Ok(id),
            Err(_) => Err(UsageError::PathsTooLong(path.to_path_buf()).into()),
        }
    }
}

/// Returns the path in the form that is stored in the log. It is absolute, because recovery must find the database
/// from any working directory.
fn path_for_log(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).ok().filter(|path| path.to_str().is_some());
    absolute.ok_or_else(|| UsageError::PathForLog(path.to_path_buf()).into())
}
