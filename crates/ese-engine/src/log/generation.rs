//! LogFiles of the stream: the first one, the next one prepared in advance, entering it, recycling; reserve logs are in `reserve`.
//!
//! Entering a generation costs the commit that does it nothing: its header goes into the prepared file with the first
//! records, in one synced write. The rest follows in the background, in an order that a crash may cut anywhere:
//! current file renamed to its archive name; prepared file renamed to the current name; both durable; database
//! headers, which no page with changes of the generation may precede. Until the names are right, recovery finds the
//! file by its header. The next file is prepared only behind all renames, so that at most one is outstanding.
//!
//! A new file is ready when it has its blocks. Zeros are written into them when nothing else is to be written: they
//! make small synced writes cheaper, and a log that fills faster than that writes large ones.

mod reserve;

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ese_format::attachment::ATTACHMENT_LIST_LEN;
use ese_format::log::header::{ENGINE_VERSION, FILE_TYPE_LOG, LOG_VERSION, LogHeader, SEGMENT_BYTES};
use ese_format::log::parameters::EngineParameters;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::{Arc, MutexGuard};
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode};

use super::LogTail;
use super::stream::{LogOptions, LogStream};
use crate::{Error, Result};

/// A file ready to become the next generation.
#[derive(Clone)]
pub(super) struct PreparedFile {
    file: Arc<dyn File>,
    from_reserve: bool,
    /// Blocks behind this were never written.
    written: u64,
}

/// Under which name the file being written is found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameState {
    /// That of a prepared file: its generation has just been entered.
    Next,
    Current,
    /// A crash fell between two renames, and nothing was entered since.
    Archived,
}

/// What the files are called.
pub(super) struct LogFiles {
    /// The newest generation with its right name, and when it was created.
    named: (Generation, LogTime),
    /// The names are durable.
    durable: bool,
    /// Archived generations, oldest first, once they were looked up.
    archived: Option<VecDeque<(Generation, PathBuf)>>,
    /// They may be another's by now.
    pub(super) ended: bool,
    /// The reserve logs that were there when the stream was opened can be used.
    reserves_examined: bool,
}

impl LogFiles {
    pub(super) fn new(generation: Generation, created: LogTime) -> LogFiles {
        LogFiles {
            named: (generation, created),
            durable: true,
            archived: None,
            ended: false,
            reserves_examined: false,
        }
    }

    pub(super) fn named(&self) -> (Generation, LogTime) {
        self.named
    }
}

/// No generation follows this one. ESE: `lGenerationMax`.
const LAST_GENERATION: Generation = Generation(0x7FFF_F800);
/// LogFiles removed at once, at most: it takes milliseconds for each, and more generations are not begun between two
/// checkpoints as a rule.
const MOST_REMOVED: usize = 16;
const FORMAT_WRITE: usize = 256 << 10;
/// Zeros written while nobody can have the file.
const FORMAT_PIECE: u64 = 1 << 20;

/// Creates a file of the size of a log, durably, whose blocks read as zeros. On failure nothing is left.
fn create(options: &LogOptions, path: &Path) -> Result<Arc<dyn File>> {
    let failed = |e: std::io::Error| Error::io(path, &e);
    let made = (|| {
        if options.vfs.exists(path).map_err(failed)? {
            options.vfs.remove(path).map_err(failed)?;
        }
        let file = options.vfs.open(path, OpenMode::CreateNew).map_err(failed)?;
        file.grow(u64::from(options.file_size)).map_err(failed)?;
        file.sync(IoReason::LogFormat).map_err(failed)?;
        options.vfs.sync_directory(options.names.directory()).map_err(failed)?;
        Ok(file)
    })();
    if made.is_err() {
        let _ = options.vfs.remove(path);
    }
    made
}

/// The same, and with zeros written.
fn create_zeroed(options: &LogOptions, path: &Path) -> Result<Arc<dyn File>> {
    let file = create(options, path)?;
    match write_zeros(&*file, 0..u64::from(options.file_size)).and_then(|()| file.sync(IoReason::LogFormat)) {
        Ok(()) => Ok(file),
        Err(e) => {
            let _ = options.vfs.remove(path);
            Err(Error::io(path, &e))
        }
    }
}

/// Writes zeros, not only allocated blocks: a first write into an unwritten one would change metadata as well.
fn write_zeros(file: &dyn File, range: Range<u64>) -> std::io::Result<()> {
    let zeros = IoBuffer::zeroed(FORMAT_WRITE.min((range.end - range.start) as usize));
    let mut at = range.start;
    while at < range.end {
        let len = zeros.len().min((range.end - at) as usize);
        file.write_at(at, &zeros[..len], IoReason::LogFormat)?;
        at += len as u64;
    }
    Ok(())
}

fn header(options: &LogOptions, signature: Signature, generation: Generation, created: LogTime) -> LogHeader {
    let mut parameters = EngineParameters::default();
    let path = options.names.directory().to_string_lossy();
    let len = path.len().min(parameters.log_path.len() - 1);
    parameters.log_path[..len].copy_from_slice(&path.as_bytes()[..len]);
    parameters.flags = u8::from(options.circular);
    parameters.log_file_segments = options.file_size / SEGMENT_BYTES as u32;
    LogHeader {
        generation,
        segment_bytes: SEGMENT_BYTES as u16,
        header_segments: 1,
        file_segments: (options.file_size as usize / SEGMENT_BYTES) as u16,
        database_page_size: options.page_size as u16,
        created,
        previous_created: LogTime::NONE,
        version_major: LOG_VERSION.0,
        version_minor: LOG_VERSION.1,
        version_update: LOG_VERSION.2,
        signature,
        parameters,
        flags: if options.circular { 2 } else { 0 },
        checkpoint: LogPosition::MIN,
        version_update_minor: LOG_VERSION.3,
        sector_code: 0,
        previous_checksum: 0,
        engine_version: ENGINE_VERSION,
        reserved: [0; 2],
        file_type: FILE_TYPE_LOG,
        attachment_list: [0; ATTACHMENT_LIST_LEN],
    }
}

/// Makes generation 1 and gives it the current name.
pub(super) fn create_first(options: &LogOptions, signature: Signature) -> Result<(Arc<dyn File>, LogTime)> {
    let next = options.names.next();
    let file = create_zeroed(options, &next)?;
    let created = LogTime::from_unix_ms(options.vfs.clock().unix_ms());
    let failed = |e: std::io::Error| Error::io(options.names.current(), &e);
    let mut segment = IoBuffer::zeroed(SEGMENT_BYTES);
    segment.copy_from_slice(&header(options, signature, Generation(1), created).encode());
    file.write_durable(0, &segment, IoReason::LogFormat).map_err(failed)?;
    options.vfs.rename(&next, &options.names.current()).map_err(failed)?;
    options.vfs.sync_directory(options.names.directory()).map_err(failed)?;
    Ok((file, created))
}

/// Opens the newest log to go on behind its tail, and makes durable exactly what was read, names included.
pub(super) fn reopen(options: &LogOptions, tail: &LogTail) -> Result<(Arc<dyn File>, NameState)> {
    let (vfs, names) = (&options.vfs, &options.names);
    let failed = |e: std::io::Error| Error::io(&tail.path, &e);
    let file = vfs.open(&tail.path, OpenMode::Write).map_err(failed)?;
    // Before its shadow is wiped.
    for (index, segment) in &tail.repaired {
        let mut buffer = IoBuffer::zeroed(SEGMENT_BYTES);
        buffer.copy_from_slice(segment);
        file.write_at(u64::from(*index) * SEGMENT_BYTES as u64, &buffer, IoReason::LogFormat)
            .map_err(failed)?;
    }
    if !tail.repaired.is_empty() {
        file.sync(IoReason::LogFormat).map_err(failed)?;
    }
    let end = u64::from(tail.next_segment) * SEGMENT_BYTES as u64;
    let rest = file.len().map_err(failed)?.saturating_sub(end);
    if tail.marked && rest > 0 {
        file.write_at(end, &IoBuffer::zeroed(rest as usize), IoReason::LogFormat).map_err(failed)?;
    }
    // What a killed process had written may still be in the kernel only, names included.
    file.sync(IoReason::LogFormat).map_err(failed)?;
    let next = names.next();
    if tail.path == next {
        rename_file(options, tail.header.generation).map_err(failed)?;
    } else if vfs.exists(&next).map_err(failed)? {
        // PreparedFile by an earlier run; whether it is complete cannot be told.
        vfs.remove(&next).map_err(failed)?;
    }
    vfs.sync_directory(names.directory()).map_err(failed)?;
    let archived = names.generation_of(&tail.path).is_some();
    Ok((file, if archived { NameState::Archived } else { NameState::Current }))
}

/// Gives the prepared file, which holds `generation`, the current name, and the one before it its archive name, unless
/// it has that already. Can be repeated.
fn rename_file(options: &LogOptions, generation: Generation) -> std::io::Result<Option<PathBuf>> {
    let (vfs, names) = (&options.vfs, &options.names);
    let current = names.current();
    let archived = names.archived(Generation(generation.0 - 1));
    // Only who tries knows for sure that there is none: the next line would replace it.
    let archived = match vfs.rename(&current, &archived) {
        Ok(()) => Some(archived),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    vfs.rename(&names.next(), &current)?;
    Ok(archived)
}

impl LogStream {
    /// The right to make, rename and remove files, until the stream has ended.
    fn files(&self) -> Result<MutexGuard<'_, LogFiles>> {
        let files = self.files.lock();
        if files.ended {
            self.check()?;
        }
        Ok(files)
    }

    /// Makes the next file ready. `privileged`: a reserve log may become it when the disk is full.
    pub(super) fn prepare_next(&self, privileged: bool) -> Result<()> {
        let mut files = self.files()?;
        let entered = {
            let state = self.state.lock();
            if state.prepared.is_some() {
                return Ok(());
            }
            state.generation
        };
        if entered >= LAST_GENERATION {
            return Err(Error::Usage(
                "log generation numbers are used up; start a new log stream".to_string(),
            ));
        }
        self.rename_files(&mut files)?;
        // What follows syncs the directory, and with it the names just given.
        let made = match self.take_retired(&mut files)? {
            Some(file) => Ok((file, u64::from(self.options.file_size))),
            None => create(&self.options, &self.options.names.next()).map(|file| (file, 0)),
        };
        let prepared = match made {
            Ok((file, written)) => PreparedFile { file, from_reserve: false, written },
            Err(Error::DiskFull { .. }) if privileged => {
                let prepared = self.take_reserve()?;
                self.state.lock().on_reserves = true;
                prepared
            }
            Err(error) => return Err(error),
        };
        files.durable = true;
        self.state.lock().prepared = Some(prepared);
        Ok(())
    }

    /// Writes some zeros into the prepared file, if there are blocks without, and no record was accepted for it yet.
    pub(super) fn format_next(&self) -> Result<()> {
        let size = u64::from(self.options.file_size);
        // Who needs the file meanwhile finds none, and waits for this lock to prepare one.
        let _files = self.files()?;
        let mut prepared = {
            let mut state = self.state.lock();
            let begun = state.buffer.tail().generation > state.generation;
            match state.prepared.take_if(|prepared| !begun && prepared.written < size) {
                Some(prepared) => prepared,
                None => return Ok(()),
            }
        };
        let end = size.min(prepared.written + FORMAT_PIECE);
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

    /// Gives the files the names that they should have, if a generation was entered since.
    fn rename_files(&self, files: &mut LogFiles) -> Result<()> {
        let (generation, created) = {
            let state = self.state.lock();
            if state.named != NameState::Next {
                return Ok(());
            }
            (state.generation, state.created)
        };
        let archived = rename_file(&self.options, generation)
            .map_err(|e| Error::ReadOnly(format!("{}: {e}", self.options.names.current().display())))?;
        if let (Some(path), Some(list)) = (archived, &mut files.archived) {
            list.push_back((Generation(generation.0 - 1), path));
        }
        files.named = (generation, created);
        files.durable = false;
        // Nothing is entered meanwhile, because no file is prepared.
        self.state.lock().named = NameState::Current;
        Ok(())
    }

    /// What is left to do after a generation was entered: names, then the headers of attached databases.
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
        self.listener.get().map_or(Ok(()), |listener| listener.entered(generation, created))
    }

    /// A sync that failed is not tried again.
    fn sync_names(&self) -> Result<()> {
        let directory = self.options.names.directory();
        self.options.vfs.sync_directory(directory).map_err(|e| {
            let error = Error::ReadOnly(format!("{}: {e}", directory.display()));
            let _ = self.down.set(error.cause());
            error
        })
    }

    /// The oldest retired generation becomes the next file: its blocks are written already, so that syncing new
    /// records changes no metadata.
    fn take_retired(&self, files: &mut LogFiles) -> Result<Option<Arc<dyn File>>> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let retired = self.retired(files)?;
        let Some((_, path)) = (retired > 0).then(|| files.archived.as_mut()?.pop_front()).flatten() else {
            return Ok(None);
        };
        let failed = |e: std::io::Error| Error::io(&path, &e);
        match vfs.rename(&path, &names.next()) {
            // Somebody tidied up.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            renamed => renamed.map_err(failed)?,
        }
        self.sync_names()?;
        let file = vfs.open(&names.next(), OpenMode::Write).map_err(failed)?;
        let complete = file.len().map_err(failed)? == u64::from(self.options.file_size);
        Ok(complete.then_some(file))
    }

    /// How many of the oldest archived generations nothing needs any more.
    fn retired(&self, files: &mut LogFiles) -> Result<usize> {
        let below = {
            let state = self.state.lock();
            state.retired.min(state.generation)
        };
        if below == Generation(0) {
            return Ok(0);
        }
        let archived = match &files.archived {
            Some(archived) => archived,
            None => files.archived.insert(self.look_up()?),
        };
        Ok(archived.iter().take_while(|(generation, _)| *generation < below).count())
    }

    fn look_up(&self) -> Result<VecDeque<(Generation, PathBuf)>> {
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

    /// The prepared file, and the header that makes it `generation`, to be written before or with its first records.
    pub(super) fn header_of(&self, generation: Generation) -> Result<(Arc<dyn File>, LogHeader)> {
        let created = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let mut header = header(&self.options, self.signature, generation, created);
        if let Some(listener) = self.listener.get() {
            header.checkpoint = listener.checkpoint();
            if let Ok(list) = listener.attachments().try_into() {
                header.attachment_list = list;
            }
        }
        let state = self.state.lock();
        let Some(prepared) = state.prepared.clone() else {
            return Err(Error::ReadOnly("no log file is prepared".to_string()));
        };
        header.previous_created = state.created;
        header.previous_checksum = state.accumulated;
        header.flags |= u8::from(prepared.from_reserve);
        Ok((prepared.file, header))
    }

    /// Nothing below `generation` is needed any more: the newest of those files are kept to be written over, as many as
    /// the stream may have files, the others removed, some each time.
    pub fn truncate_below(&self, generation: Generation) -> Result<()> {
        let mut files = self.files()?;
        self.rename_files(&mut files)?;
        self.state.lock().retired = generation;
        let retired = self.retired(&mut files)?;
        let all = files.archived.as_ref().map_or(0, VecDeque::len);
        let surplus = all.saturating_sub(self.options.retained_files).min(retired).min(MOST_REMOVED);
        if surplus == 0 {
            return Ok(());
        }
        // Ascending, so that what is left is always a run without gaps.
        for (_, path) in files.archived.iter_mut().flat_map(|archived| archived.drain(..surplus)) {
            match self.options.vfs.remove(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(|e| Error::io(&path, &e))?,
            }
        }
        self.sync_names()?;
        files.durable = true;
        Ok(())
    }
}
