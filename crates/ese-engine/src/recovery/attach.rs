//! Which databases take part in redo, and from where.
//!
//! A database takes part from its attach record on, unless its header says that it was shut down cleanly later
//! than that, or went on with another log: then the file already has everything and the records are not for it.
//!
//! A database may be removed, moved or created anew once it is detached, while redo still begins before that. What is
//! found in its place then is no error before the log has ended without its detach record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::header::{DatabaseHeader, DatabaseState, HeaderCopies};
use ese_format::log::record::{AttachDb, decode_path};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoReason, OpenMode};

use crate::core::Core;
use crate::double_write::{self, DoubleWrite};
use crate::options::InstanceOptions;
use crate::storage::{OpenedFile, check_format, mend_shadow, read_header, write_header};
use crate::{Error, Result};

/// The log that is redone.
pub(super) struct Stream {
    pub signature: Signature,
    /// Its oldest generation, if redo begins there for want of a checkpoint.
    pub begins: Option<Generation>,
    pub newest: Generation,
    /// Where it ended.
    pub until: LogPosition,
}

/// Attaches databases for redo.
pub(super) struct Attacher<'a> {
    core: &'a Arc<Core>,
    options: &'a InstanceOptions,
    stream: Stream,
    pub torn_pages: usize,
    /// Ids in the log of databases that are attached at this point of it, but are not found where they were. Their
    /// records are skipped.
    missed: BTreeMap<u8, Error>,
}

impl<'a> Attacher<'a> {
    pub fn new(core: &'a Arc<Core>, options: &'a InstanceOptions, stream: Stream) -> Attacher<'a> {
        Attacher { core, options, stream, torn_pages: 0, missed: BTreeMap::new() }
    }

    /// Attaches what was attached at the position where redo starts.
    pub fn attach_listed(&mut self, list: &[Attachment], start: LogPosition) -> Result<()> {
        for entry in list.iter().filter(|entry| entry.attach_position < start) {
            let log_id = entry.database.0;
            // The list was made when the header named this log.
            self.open(log_id, &entry.path_text(), entry.signature, entry.attach_position, |_| false)?;
            // The header may be older than the checkpoint, and what used up these numbers is not redone.
            if let Some(database) = self.core.file_in_log(log_id) {
                database.tree_id_used(entry.last_tree);
                database.time_used(entry.db_time);
            }
        }
        Ok(())
    }

    /// An attach record at `position`.
    pub fn attach(&mut self, record: &AttachDb, position: LogPosition) -> Result<()> {
        let before = |header: &DatabaseHeader| {
            header.log_signature == record.log_signature
                && header.consistent_position == record.consistent_position
        };
        self.open(record.database.0, &decode_path(&record.path), record.signature, position, before)
    }

    /// A detach record: the file was flushed before it was written; only its header may not say so yet.
    pub fn detach(&mut self, log_id: u8, position: LogPosition) -> Result<()> {
        // All its pages were in the file by then, wherever that is now.
        self.missed.remove(&log_id);
        let Some(database) = self.core.file_in_log(log_id) else {
            return Ok(());
        };
        self.core.cache.flush_file(database.file_id)?;
        // It was clean then: nothing is left to be cleaned.
        self.core.ended.forget(database.file_id);
        self.core.close_clean(&database, position, LogTime::NONE)
    }

    /// The instance ended, or recovery did: nothing was attached any more.
    pub fn none_attached(&mut self) {
        self.missed.clear();
    }

    /// At the end of the log: fails if a database that it has left attached was not found.
    pub fn check_none_missed(&mut self) -> Result<()> {
        self.missed.pop_first().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// `is_before` tells whether a header of another log is the one with which the database was attached.
    fn open(
        &mut self,
        log_id: u8,
        path: &str,
        signature: Signature,
        attached_at: LogPosition,
        is_before: impl Fn(&DatabaseHeader) -> bool,
    ) -> Result<()> {
        let path = PathBuf::from(path);
        // An id is taken until the log says that its database was detached, also by one that is missed: records under
        // this id may be for that one.
        match self.core.file_in_log(log_id) {
            Some(other) if other.attachment().signature != signature => {
                let what = format!(
                    "the log attaches it as database {log_id}, which is {} at that point of the log, so whose changes \
                     follow cannot be told",
                    other.path.display()
                );
                return Err(Error::Corrupt { path, page: None, what });
            }
            Some(_) => return Ok(()),
            None if self.missed.contains_key(&log_id) => return Ok(()),
            None => {}
        }
        let vfs = &*self.options.vfs;
        let (file, mut header, copies) = match self.find(&path, signature) {
            Ok(found) => found,
            // What the file is, is known, and it is not the database. What could not be read may well be.
            Err(error @ (Error::Usage(_) | Error::Corrupt { .. })) => {
                self.missed.insert(log_id, error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let clean = header.state == DatabaseState::CleanShutdown;
        let own = header.log_signature == self.stream.signature;
        // Positions of another log tell nothing about this one.
        let in_this_log = own || (clean && is_before(&header));
        if !in_this_log {
            if !clean {
                let what = format!(
                    "{}: it was in use with another log last and was not shut down; recover it with that log first",
                    path.display()
                );
                self.missed.insert(log_id, Error::Usage(what));
            }
            // The database went on with the other log after this one had let it go.
            return Ok(());
        }
        let has_all = clean && own && header.consistent_position >= attached_at;
        if has_all && copies == HeaderCopies::Both {
            return Ok(());
        }
        self.check_all_there(&path, &header)?;
        let lock = vfs.lock(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() },
            _ => Error::io(&path, &e),
        })?;
        if has_all {
            // The crash fell between the two copies of the header.
            mend_shadow(&*file, &header, copies)?;
            return write_header(&*file, &header);
        }
        mend_shadow(&*file, &header, copies)?;
        let (signature, until) = (self.stream.signature, self.stream.until);
        self.torn_pages += double_write::restore(vfs, &path, &*file, &header, signature, until)?;
        double_write::discard(vfs, &path)?;
        if header.state != DatabaseState::DirtyShutdown {
            // The crash fell between the attach record and the header.
            header.state = DatabaseState::DirtyShutdown;
            header.log_signature = self.stream.signature;
            header.attach_position = attached_at;
            header.gen_min_required = attached_at.generation;
            header.gen_min_consistent = attached_at.generation;
            header.gen_max_required = attached_at.generation;
            header.gen_max_committed = attached_at.generation;
        }
        let side = match self.options.page_protection {
            true => Some(DoubleWrite::create(vfs, &path, file.clone(), &header, signature)?),
            false => None,
        };
        let opened = OpenedFile { path, file, lock, header, extension_pages: 256, side };
        let database = self.core.attach(opened, log_id);
        database.file.update_header(|_| {})
    }

    /// Fails if the log lacks generations that the file needs. The names of logs are durable before a header names them,
    /// and headers before a checkpoint goes past them, so no crash leaves that. With a checkpoint the oldest one that a
    /// header names may be gone all the same: redo begins behind it.
    fn check_all_there(&self, path: &Path, header: &DatabaseHeader) -> Result<()> {
        let (oldest, newest) = (header.gen_min_required, header.gen_max_required);
        let lacking = match &self.stream {
            stream if header.log_signature != stream.signature => return Ok(()),
            _ if header.state != DatabaseState::DirtyShutdown => return Ok(()),
            stream if newest > stream.newest => (stream.newest.next(), newest),
            Stream { begins: Some(begins), .. } if oldest < *begins => (oldest, Generation(begins.0 - 1)),
            _ => return Ok(()),
        };
        Err(Error::LogsMissing { path: path.to_path_buf(), required: lacking })
    }

    /// The database with this signature, and its header. Changes nothing.
    fn find(
        &self,
        path: &Path,
        signature: Signature,
    ) -> Result<(Arc<dyn File>, DatabaseHeader, HeaderCopies)> {
        let vfs = &*self.options.vfs;
        if !vfs.exists(path).map_err(|e| Error::io(path, &e))? {
            return Err(Error::Usage(format!(
                "{}: the log needs this database to recover, and it is not there; put it back, or move the logs away \
                 to start without it",
                path.display()
            )));
        }
        if let Some(copy) = self.copy_beside_log(path, signature)? {
            return Err(Error::Usage(format!(
                "{}: the log is about this database, but beside the log there is a copy of it, {}; if the log was copied \
                 with it, recover where both come from, else move the copy away",
                path.display(),
                copy.display()
            )));
        }
        let failed = |e: std::io::Error| Error::io(path, &e);
        let file = vfs.open(path, OpenMode::Write).map_err(failed)?;
        // What a killed process had written may still be in the kernel only: what is read must also be durable.
        file.sync(IoReason::DatabaseHeader).map_err(failed)?;
        let (header, copies) = read_header(&*file)?;
        check_format(path, &header, self.options.page_size)?;
        if header.signature != signature {
            return Err(Error::Usage(format!(
                "{}: this is another database than the one the log is about; put the right one back",
                path.display()
            )));
        }
        Ok((file, header, copies))
    }

    /// Another file with the name and the signature of the database in the directory of the log: both were copied there,
    /// and the log still names the original, which has a log of its own.
    fn copy_beside_log(&self, path: &Path, signature: Signature) -> Result<Option<PathBuf>> {
        let vfs = &*self.options.vfs;
        let Some(name) = path.file_name() else { return Ok(None) };
        let beside = self.options.log_directory.join(name);
        let failed = |e: std::io::Error| Error::io(&beside, &e);
        if !vfs.exists(&beside).map_err(failed)? || vfs.same_file(&beside, path) {
            return Ok(None);
        }
        let file = vfs.open(&beside, OpenMode::Read).map_err(failed)?;
        match read_header(&*file) {
            Ok((header, _)) => Ok((header.signature == signature).then_some(beside)),
            Err(Error::Usage(_) | Error::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use ese_format::PageSize;
    use ese_format::log::record::{DatabaseIdInLog, LogRecord, encode_path};
    use jetcell_vfs::{SimVfs, Vfs};

    use super::*;
    use crate::CreateOptions;
    use crate::btree::tests::open;

    /// Instances once gave an id to two databases that were attached at the same time. What is missed must not be
    /// forgotten for the other one, nor may that one get its records.
    #[test]
    fn an_id_of_a_database_that_is_missed_is_not_free() {
        let disk = two_under_one_id();
        let [missed, other] = PATHS.map(Path::new);
        disk.remove(missed).unwrap();
        let before = disk.contents(other);
        let Err(error) = open(&disk, PageSize::KIB_4, 64) else {
            panic!("a missing database was not missed")
        };
        let text = error.to_string();
        assert!(text.contains(PATHS[0]) && text.contains("it is not there"), "{text}");
        assert!(disk.contents(other) == before);
    }

    /// If both are there, nothing tells whose the records are.
    #[test]
    fn one_id_for_two_databases_is_refused() {
        let disk = two_under_one_id();
        let before = disk.contents(Path::new(PATHS[1]));
        let Err(error) = open(&disk, PageSize::KIB_4, 64) else {
            panic!("records of one were made in the other")
        };
        let text = error.to_string();
        assert!(matches!(error, Error::Corrupt { .. }), "{text}");
        assert!(PATHS.iter().all(|path| text.contains(path)), "{text}");
        assert!(disk.contents(Path::new(PATHS[1])) == before);
    }

    const PATHS: [&str; 2] = ["/db/missed.edb", "/db/other.edb"];

    /// A log that attaches one database and then another under the same id.
    fn two_under_one_id() -> SimVfs {
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        let paths = PATHS.map(Path::new);
        let [db, other_db] =
            paths.map(|path| instance.create_database(path, &CreateOptions::default()).unwrap());
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
