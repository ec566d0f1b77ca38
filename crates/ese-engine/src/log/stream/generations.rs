//! The files of the stream. The next file is prepared in advance, then entered, named and finally recycled.
//!
//! Entering a generation does not cost the commit an extra sync: the header is written into the prepared file with
//! the first records, in one synced write. The remaining steps run in the background, and a crash may occur between
//! any of them: the current file gets its archive name; the prepared file gets the current name; both names become
//! durable; then the headers of attached databases name the generation. The last step must precede any page write
//! that contains changes of this generation. Until the file has its final name, recovery identifies it by its header.
//! The next file is prepared only after the renames, so at most one generation lacks its name.
//!
//! A new file is ready as soon as its blocks are allocated. While the load is low, a background thread writes zeros
//! into them, which makes small synced writes cheaper. If the log fills faster, writes are large and do not need
//! this.

use std::collections::VecDeque;
use std::path::PathBuf;

use ese_format::log::header::LogHeader;
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, MutexGuard};
use jetcell_vfs::{File, IoReason, OpenMode};

use super::LogStream;
use super::reserve_logs::{ReserveLogState, ReserveLogs};
use crate::log::CopyRegistration;
pub(super) use crate::log::log_file::NameState;
use crate::log::log_file::{archive_current, create, header, write_zeros};
use crate::{Error, InstanceFailure, Result, UsageError};

/// Number of the last possible generation. ESE: `lGenerationMax`.
const LAST_GENERATION: Generation = Generation(0x7FFF_F800);
/// Maximum number of files removed at once. Each removal takes milliseconds. Usually, fewer generations than this begin
/// between two checkpoints.
const MAX_REMOVED: usize = 16;
/// Number of zero bytes written at once into the prepared file. No other thread can take that file during the write.
const FORMAT_BYTES: u64 = 1 << 20;

/// A file that is ready to become the next generation.
#[derive(Clone)]
pub(in crate::log) struct PreparedFile {
    pub(super) file: Arc<dyn File>,
    pub(super) from_reserve: bool,
    /// Offset of the first block that has never been written. All later blocks are unwritten, too.
    pub(super) written: u64,
}

/// State of the stream's file names.
pub(in crate::log) struct LogFiles {
    /// Newest generation whose file has its final name, and that generation's creation time.
    pub(super) named: (Generation, LogTime),
    /// Whether the file names are durable.
    durable: bool,
    /// Archived generations, oldest first; `None` until the directory has been read.
    archived: Option<VecDeque<(Generation, PathBuf)>>,
    /// Whether the stream has stopped. Its files may then already belong to another instance.
    pub(super) stopped: bool,
    pub(super) reserves: ReserveLogState,
}

impl LogFiles {
    pub(super) fn new(generation: Generation, created: LogTime) -> LogFiles {
        LogFiles {
            named: (generation, created),
            durable: true,
            archived: None,
            stopped: false,
            reserves: ReserveLogState::Unknown,
        }
    }

    pub(super) fn named(&self) -> (Generation, LogTime) {
        self.named
    }
}

impl LogStream {
    /// Locks the files so that they can be created, renamed or removed. Returns an error if the stream has stopped.
    pub(super) fn files(&self) -> Result<MutexGuard<'_, LogFiles>> {
        let files = self.files.lock();
        if files.stopped {
            self.check()?;
        }
        Ok(files)
    }

    /// Prepares the next file. `privileged` allows the use of a reserve log if the disk is full.
    pub(in crate::log) fn prepare_next(&self, privileged: bool) -> Result<()> {
        let mut files = self.files()?;
        let entered = {
            let state = self.state.lock();
            if state.prepared.is_some() {
                return Ok(());
            }
            state.generation
        };
        if entered >= LAST_GENERATION {
            return Err(UsageError::NoMoreGenerations.into());
        }
        self.rename_files(&mut files)?;
        // Both cases sync the directory, which also makes the renames durable.
        let made = match self.take_obsolete(&mut files)? {
            Some(file) => Ok((file, u64::from(self.options.file_size))),
            None => create(&self.options, &self.options.names.next()).map(|file| (file, 0)),
        };
        let prepared = match made {
            Ok((file, written)) => PreparedFile { file, from_reserve: false, written },
            Err(Error::DiskFull { .. }) if privileged => {
                files.reserves = ReserveLogState::Missing;
                let file = ReserveLogs(&self.options).take()?;
                let before = std::mem::replace(&mut self.state.lock().on_reserves, true);
                if let (false, Some(listener)) = (before, self.listener.get()) {
                    listener.disk_full(&self.options.names.next());
                }
                PreparedFile { file, from_reserve: true, written: 0 }
            }
            Err(error) => return Err(error),
        };
        files.durable = true;
        self.state.lock().prepared = Some(prepared);
        Ok(())
    }

    /// Creates missing reserve logs. A full disk is not an error; a later call will create them.
    pub(in crate::log) fn restore_reserves(&self) {
        let Ok(mut files) = self.files() else { return };
        if ReserveLogs(&self.options).restore(&mut files.reserves) {
            self.state.lock().on_reserves = false;
        }
    }

    /// Returns an error unless all reserve logs exist again, because ordinary work must not use their space.
    pub(in crate::log) fn leave_reserves(&self) -> Result<()> {
        self.restore_reserves();
        if self.state.lock().on_reserves {
            Err(Error::DiskFull { path: self.options.names.next(), advice: None })
        } else {
            Ok(())
        }
    }

    /// Writes zeros into a part of the prepared file, if it has unwritten blocks and no record has been accepted for
    /// it yet.
    pub(super) fn format_next(&self) -> Result<()> {
        let size = u64::from(self.options.file_size);
        // Until the file is put back, a thread that needs it finds none, and waits for this lock to prepare one.
        let _files = self.files()?;
        let mut prepared = {
            let mut state = self.state.lock();
            let begun = state.buffer.tail().generation > state.generation;
            match state.prepared.take_if(|prepared| !begun && prepared.written < size) {
                Some(prepared) => prepared,
                None => return Ok(()),
            }
        };
        let end = size.min(prepared.written + FORMAT_BYTES);
        let mut formatted = write_zeros(&*prepared.file, prepared.written..end);
        if end == size {
            formatted = formatted.and_then(|()| prepared.file.sync(IoReason::LogFormat));
        }
        if let Err(error) = formatted {
            let path = self.options.names.next();
            let _ = self.options.vfs.remove(&path);
            return Err(Error::io(path, &error));
        }
        prepared.written = end;
        self.state.lock().prepared = Some(prepared);
        Ok(())
    }

    /// Renames the files if a generation was entered since the last call.
    fn rename_files(&self, files: &mut LogFiles) -> Result<()> {
        let (generation, created) = {
            let state = self.state.lock();
            if state.named != NameState::Next {
                return Ok(());
            }
            (state.generation, state.created)
        };
        archive_current(&self.options, generation).map_err(|e| self.current_log_failure(&e))?;
        // An earlier call may have renamed the log and then failed, so the list determines whether the log is new.
        let closed = Generation(generation.0 - 1);
        if let Some(list) = &mut files.archived
            && list.back().is_none_or(|(last, _)| *last < closed)
        {
            list.push_back((closed, self.options.names.archived(closed)));
        }
        files.named = (generation, created);
        files.durable = false;
        // Until now, no generation could be entered, because no file was prepared.
        self.state.lock().named = NameState::Current;
        Ok(())
    }

    /// Names the newest generation: renames the files, makes the names durable, and then makes the headers of
    /// attached databases name the generation.
    pub(crate) fn name_generation(&self) -> Result<()> {
        let (generation, created) = {
            let mut files = self.files()?;
            self.rename_files(&mut files)?;
            if !files.durable {
                self.sync_names()?;
                files.durable = true;
            }
            files.named
        };
        self.listener.get().map_or(Ok(()), |listener| listener.entered(generation, created))?;
        self.in_headers.fetch_max(generation.0, Ordering::AcqRel);
        Ok(())
    }

    /// Returns the end of the records in the newest generation that all headers name.
    pub(crate) fn named_in_headers(&self) -> LogPosition {
        let next = self.in_headers.load(Ordering::Acquire).saturating_add(1);
        LogPosition::new(next, 1, RECORDS_AT as u16)
    }

    /// Makes the names durable. A failed sync is not retried, because it makes the log fail.
    pub(super) fn sync_names(&self) -> Result<()> {
        let directory = self.options.names.directory();
        self.options.vfs.sync_directory(directory).map_err(|e| {
            let failure = InstanceFailure::io(directory, &e);
            let _ = self.down.set(failure.clone());
            Error::ReadOnly(failure)
        })
    }

    /// Reuses the oldest obsolete generation's file as the next file. Its blocks were already written, so syncing new
    /// records changes no metadata.
    fn take_obsolete(&self, files: &mut LogFiles) -> Result<Option<Arc<dyn File>>> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let obsolete = self.obsolete(files)?;
        let Some(archived) = files.archived.as_mut().filter(|_| obsolete > 0) else { return Ok(None) };
        let Some((_, path)) = archived.front().cloned() else { return Ok(None) };
        let io_error = |e: std::io::Error| Error::io(&path, &e);
        // The generation leaves the list only after its file was renamed. Otherwise the next call would take a newer
        // one, and the remaining generations would have a gap.
        match vfs.rename(&path, &names.next()) {
            // The file was removed manually.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                archived.pop_front();
                return Ok(None);
            }
            renamed => renamed.map_err(io_error)?,
        }
        archived.pop_front();
        self.sync_names()?;
        let file = vfs.open(&names.next(), OpenMode::Write).map_err(io_error)?;
        let complete = file.len().map_err(io_error)? == u64::from(self.options.file_size);
        Ok(complete.then_some(file))
    }

    /// Returns the number of obsolete archived generations. They are the oldest ones.
    fn obsolete(&self, files: &mut LogFiles) -> Result<usize> {
        let below = {
            let state = self.state.lock();
            state.obsolete_below.min(state.generation)
        };
        if below == Generation(0) {
            return Ok(0);
        }
        let archived = match &files.archived {
            Some(archived) => archived,
            None => files.archived.insert(self.list_archived()?),
        };
        Ok(archived.iter().take_while(|(generation, _)| *generation < below).count())
    }

    fn list_archived(&self) -> Result<VecDeque<(Generation, PathBuf)>> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let directory = names.directory();
        let found = vfs.list(directory).map_err(|e| Error::io(directory, &e))?;
        let mut archived: Vec<_> =
            found.into_iter().filter_map(|path| Some((names.generation_of(&path)?, path))).collect();
        archived.sort_unstable();
        Ok(archived.into())
    }

    pub(super) fn discard_prepared(&self) {
        if self.state.lock().prepared.take().is_some() {
            let _ = self.options.vfs.remove(&self.options.names.next());
        }
    }

    /// Returns the prepared file and the header that assigns `generation` to it. The header is written before the
    /// first records or together with them.
    pub(super) fn header_of(&self, generation: Generation) -> Result<(Arc<dyn File>, LogHeader)> {
        let created = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let mut header = header(&self.options, self.signature, generation, created);
        self.version.apply(&mut header);
        if let Some(listener) = self.listener.get() {
            header.checkpoint = listener.checkpoint();
            if let Ok(list) = listener.attachments().try_into() {
                header.attachment_list = list;
            }
        }
        let state = self.state.lock();
        let Some(prepared) = state.prepared.clone() else {
            return Err(Error::ReadOnly(InstanceFailure::NoPreparedLog));
        };
        header.previous_created = state.created;
        header.previous_checksum = state.accumulated;
        header.flags |= u8::from(prepared.from_reserve);
        Ok((prepared.file, header))
    }

    /// Makes generations older than `generation` obsolete. Removes the oldest of them, a few at a time, until the
    /// stream has [`LogStreamOptions::retained_files`](crate::log::LogStreamOptions::retained_files) archived files.
    /// The other obsolete files will be overwritten.
    pub fn truncate_below(&self, generation: Generation) -> Result<()> {
        let generation = self.needed_from(generation)?;
        let mut files = self.files()?;
        self.rename_files(&mut files)?;
        self.state.lock().obsolete_below = generation;
        let obsolete = self.obsolete(&mut files)?;
        let all = files.archived.as_ref().map_or(0, VecDeque::len);
        let surplus = all.saturating_sub(self.options.retained_files).min(obsolete).min(MAX_REMOVED);
        if surplus == 0 {
            return Ok(());
        }
        self.remove_oldest(&mut files, surplus)
    }

    /// Returns whether copies of the stream are registered.
    pub(crate) fn has_copies(&self) -> bool {
        !self.copies().is_empty()
    }

    /// Returns the registered copies of the stream.
    pub(crate) fn copies(&self) -> Vec<CopyRegistration> {
        let (names, vfs) = (self.names(), &*self.options.vfs);
        let found = CopyRegistration::list(vfs, names.directory(), names.base()).unwrap_or_default();
        let registered = found.into_iter().filter_map(|(_, registration)| registration);
        registered.filter(|copy| copy.stream == self.signature).collect()
    }

    /// Returns whether a copy lags so far that no logs are retained for it.
    pub(crate) fn is_cut_off(&self, copy: &CopyRegistration) -> bool {
        copy.is_cut_off(self.state.lock().generation, self.options.copy_lag_limit)
    }

    /// Returns the maximum number of generations that a copy may lag.
    pub(crate) fn copy_lag_limit(&self) -> u32 {
        self.options.copy_lag_limit
    }

    /// Returns the oldest generation needed by redo from `redo_from`, by a backup, or by a copy.
    fn needed_from(&self, redo_from: Generation) -> Result<Generation> {
        let (names, newest) = (&self.options.names, self.state.lock().generation);
        let (directory, limit) = (names.directory(), self.options.copy_lag_limit);
        let vfs = &*self.options.vfs;
        let copies =
            CopyRegistration::oldest_needed(vfs, directory, names.base(), self.signature, newest, limit)?;
        let others = self.holds.oldest().into_iter().chain(copies);
        Ok(others.fold(redo_from, Generation::min))
    }

    /// Removes all archived generations older than `generation` that are not held. Returns the first and last removed
    /// generations.
    pub(crate) fn remove_below(&self, generation: Generation) -> Result<Option<(Generation, Generation)>> {
        let mut files = self.files()?;
        self.rename_files(&mut files)?;
        let below = self.needed_from(generation)?.min(self.state.lock().generation);
        let archived = match &files.archived {
            Some(archived) => archived,
            None => files.archived.insert(self.list_archived()?),
        };
        let removed = archived.iter().take_while(|(generation, _)| *generation < below);
        let removed: Vec<Generation> = removed.map(|(generation, _)| *generation).collect();
        let (Some(first), Some(last)) = (removed.first(), removed.last()) else { return Ok(None) };
        self.remove_oldest(&mut files, removed.len())?;
        Ok(Some((*first, *last)))
    }

    /// Removes archived files in ascending order. A generation leaves the list only after its file was removed, so
    /// the remaining generations never have a gap.
    fn remove_oldest(&self, files: &mut LogFiles, count: usize) -> Result<()> {
        let Some(archived) = &mut files.archived else { return Ok(()) };
        for _ in 0..count {
            let Some((_, path)) = archived.front() else { break };
            match self.options.vfs.remove(path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(|e| Error::io(path, &e))?,
            }
            archived.pop_front();
        }
        self.sync_names()?;
        files.durable = true;
        Ok(())
    }
}
