//! Files of the stream: the first one, the next one prepared in advance, entering it, recycling, reserves.
//!
//! Entering a generation, in an order that a crash may cut anywhere: header into the prepared file; current file
//! renamed to its archive name; prepared file renamed to the current name; database headers. Until the last step
//! no record of the new generation is written.

use std::sync::Arc;

use ese_format::attachment::ATTACHMENT_LIST_LEN;
use ese_format::log::header::{ENGINE_VERSION, FILE_TYPE_LOG, LOG_VERSION, LogHeader, SEGMENT_BYTES};
use ese_format::log::parameters::EngineParameters;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use vfs::{File, IoBuffer, IoReason, OpenMode};

use super::stream::{LogOptions, LogStream};
use super::{LogNames, LogTail};
use crate::{Error, Result};

/// A file ready to become the next generation.
#[derive(Clone)]
pub(super) struct Prepared {
    file: Arc<dyn File>,
    from_reserve: bool,
}

/// Reserve logs kept for a full disk: two, or as many small ones as make a megabyte.
fn reserves(options: &LogOptions) -> std::ops::RangeInclusive<u32> {
    1..=((1 << 20) / options.file_size).clamp(2, 16)
}

/// No generation follows this one. ESE: `lGenerationMax`.
const LAST_GENERATION: Generation = Generation(0x7FFF_F800);
/// Retired generations kept to be written over: as many as are begun between two checkpoints.
const KEPT_RETIRED: usize = 8;
const FORMAT_WRITE: usize = 256 << 10;

/// Creates a zero-filled file of the size of a log, durably. On failure nothing is left.
fn create_filled(options: &LogOptions, path: &std::path::Path) -> Result<Arc<dyn File>> {
    let failed = |e: std::io::Error| Error::io(path, &e);
    let made = (|| {
        if options.vfs.exists(path) {
            options.vfs.remove(path).map_err(failed)?;
        }
        let file = options.vfs.open(path, OpenMode::CreateNew).map_err(failed)?;
        let size = u64::from(options.file_size);
        file.grow(size).map_err(failed)?;
        // Written, not only allocated: a first write into unwritten extents would change metadata as well.
        let zeros = IoBuffer::zeroed(FORMAT_WRITE.min(options.file_size as usize));
        let mut at = 0;
        while at < size {
            let len = zeros.len().min((size - at) as usize);
            file.write_at(at, &zeros[..len], IoReason::LogFormat).map_err(failed)?;
            at += len as u64;
        }
        file.sync(IoReason::LogFormat).map_err(failed)?;
        options.vfs.sync_directory(options.names.directory()).map_err(failed)?;
        Ok(file)
    })();
    if made.is_err() {
        let _ = options.vfs.remove(path);
    }
    made
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

fn write_header(file: &dyn File, header: &LogHeader) -> Result<()> {
    let failed = |e: std::io::Error| Error::ReadOnly(format!("{}: {e}", file.path().display()));
    let mut segment = IoBuffer::zeroed(SEGMENT_BYTES);
    segment.copy_from_slice(&header.encode());
    file.write_at(0, &segment, IoReason::LogFormat).map_err(failed)?;
    file.sync(IoReason::LogFormat).map_err(failed)
}

/// Makes generation 1 and gives it the current name.
pub(super) fn create_first(options: &LogOptions, signature: Signature) -> Result<(Arc<dyn File>, LogTime)> {
    let next = options.names.next();
    let file = create_filled(options, &next)?;
    let created = LogTime::from_unix_ms(options.vfs.clock().unix_ms());
    write_header(&*file, &header(options, signature, Generation(1), created))?;
    let failed = |e: std::io::Error| Error::io(options.names.current(), &e);
    options.vfs.rename(&next, &options.names.current()).map_err(failed)?;
    options.vfs.sync_directory(options.names.directory()).map_err(failed)?;
    Ok((file, created))
}

/// Opens the newest log to go on behind its tail, and makes durable exactly what was read.
pub(super) fn reopen(options: &LogOptions, tail: &LogTail) -> Result<Arc<dyn File>> {
    let path = match tail.archived {
        true => options.names.archived(tail.header.generation),
        false => options.names.current(),
    };
    let failed = |e: std::io::Error| Error::io(&path, &e);
    let file = options.vfs.open(&path, OpenMode::Write).map_err(failed)?;
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
    options.vfs.sync_directory(options.names.directory()).map_err(failed)?;
    Ok(file)
}

impl LogStream {
    /// Makes the next file ready. `privileged`: a reserve log may become it when the disk is full.
    pub(super) fn prepare_next(&self, privileged: bool) -> Result<()> {
        let _one = self.preparing.lock();
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
        let made = match self.take_retired()? {
            Some(file) => Ok(file),
            None => create_filled(&self.options, &self.options.names.next()),
        };
        let prepared = match made {
            Ok(file) => Prepared { file, from_reserve: false },
            Err(Error::DiskFull { .. }) if privileged => {
                let prepared = self.take_reserve()?;
                self.state.lock().on_reserves = true;
                prepared
            }
            Err(error) => return Err(error),
        };
        self.state.lock().prepared = Some(prepared);
        Ok(())
    }

    /// The oldest retired generation becomes the next file: its blocks are written already, so that syncing new
    /// records changes no metadata.
    fn take_retired(&self) -> Result<Option<Arc<dyn File>>> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let Some((_, path)) = self.retired()?.into_iter().next() else { return Ok(None) };
        let failed = |e: std::io::Error| Error::io(&path, &e);
        vfs.rename(&path, &names.next()).map_err(failed)?;
        vfs.sync_directory(names.directory()).map_err(failed)?;
        let file = vfs.open(&names.next(), OpenMode::Write).map_err(failed)?;
        let complete = file.len().map_err(failed)? == u64::from(self.options.file_size);
        Ok(complete.then_some(file))
    }

    /// Archived generations that nothing needs any more, oldest first.
    fn retired(&self) -> Result<Vec<(Generation, std::path::PathBuf)>> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let below = {
            let state = self.state.lock();
            state.retired.min(state.generation)
        };
        if below == Generation(0) {
            return Ok(Vec::new());
        }
        let directory = names.directory();
        let found = vfs.list(directory).map_err(|e| Error::io(directory, &e))?;
        let generations = found.into_iter().filter_map(|path| Some((names.generation_of(&path)?, path)));
        let mut retired: Vec<_> = generations.filter(|(generation, _)| *generation < below).collect();
        retired.sort_unstable();
        Ok(retired)
    }

    fn take_reserve(&self) -> Result<Prepared> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let mut reserves = reserves(&self.options).rev().map(|number| names.reserve(number));
        let Some(reserve) = reserves.find(|path| vfs.exists(path)) else {
            return Err(Error::DiskFull { path: names.next() });
        };
        let failed = |e: std::io::Error| Error::io(&reserve, &e);
        vfs.rename(&reserve, &names.next()).map_err(failed)?;
        vfs.sync_directory(names.directory()).map_err(failed)?;
        let file = vfs.open(&names.next(), OpenMode::Write).map_err(failed)?;
        Ok(Prepared { file, from_reserve: true })
    }

    /// Creates missing reserve logs. A full disk is no error: they are for later.
    pub(super) fn restore_reserves(&self) {
        let _one = self.preparing.lock();
        for reserve in reserves(&self.options).map(|number| self.options.names.reserve(number)) {
            if !self.options.vfs.exists(&reserve) && create_filled(&self.options, &reserve).is_err() {
                return;
            }
        }
        self.state.lock().on_reserves = false;
    }

    /// Ordinary work may not use what the reserves gave: it goes on when all of them are there again.
    pub(super) fn leave_reserves(&self) -> Result<()> {
        self.restore_reserves();
        match self.state.lock().on_reserves {
            true => Err(Error::DiskFull { path: self.options.names.next() }),
            false => Ok(()),
        }
    }

    pub(super) fn discard_prepared(&self) {
        if self.state.lock().prepared.take().is_some() {
            let _ = self.options.vfs.remove(&self.options.names.next());
        }
    }

    /// Makes `generation` the current one. Only the writer calls this.
    pub(super) fn enter_generation(&self, generation: Generation) -> Result<()> {
        let (prepared, old, old_created, accumulated, archived) = {
            let state = self.state.lock();
            (state.prepared.clone(), state.generation, state.created, state.accumulated, state.archived)
        };
        let Some(prepared) = prepared else {
            return Err(Error::ReadOnly("no log file is prepared".to_string()));
        };
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let created = LogTime::from_unix_ms(vfs.clock().unix_ms());
        let mut header = header(&self.options, self.signature, generation, created);
        header.previous_created = old_created;
        header.previous_checksum = accumulated;
        header.flags |= u8::from(prepared.from_reserve);
        if let Some(listener) = self.listener.get() {
            header.checkpoint = listener.checkpoint();
            if let Ok(list) = listener.attachments().try_into() {
                header.attachment_list = list;
            }
        }
        write_header(&*prepared.file, &header)?;
        let failed = |e: std::io::Error| Error::ReadOnly(format!("{}: {e}", names.current().display()));
        if !archived {
            vfs.rename(&names.current(), &names.archived(old)).map_err(failed)?;
            vfs.sync_directory(names.directory()).map_err(failed)?;
        }
        vfs.rename(&names.next(), &names.current()).map_err(failed)?;
        vfs.sync_directory(names.directory()).map_err(failed)?;
        if let Some(listener) = self.listener.get() {
            listener.before_generation(generation, created)?;
        }
        let mut state = self.state.lock();
        state.prepared = None;
        state.file = prepared.file;
        state.generation = generation;
        state.created = created;
        state.accumulated = 0;
        state.archived = false;
        state.counters.generations += 1;
        Ok(())
    }

    /// Nothing below `generation` is needed any more: the newest of those files are kept to be written over, the
    /// others removed.
    pub fn truncate_below(&self, generation: Generation) -> Result<()> {
        let (names, vfs) = (&self.options.names, &self.options.vfs);
        let directory = names.directory();
        let failed = |e: std::io::Error| Error::io(directory, &e);
        let _one = self.preparing.lock();
        self.state.lock().retired = generation;
        let retired = self.retired()?;
        let surplus = retired.len().saturating_sub(KEPT_RETIRED);
        if surplus == 0 {
            return Ok(());
        }
        // Ascending, so that what is left is always a run without gaps.
        for (_, path) in &retired[..surplus] {
            vfs.remove(path).map_err(failed)?;
        }
        vfs.sync_directory(directory).map_err(failed)
    }
}

/// Removes a prepared file of an earlier run; its content cannot be trusted to be complete.
pub(crate) fn remove_leftovers(vfs: &dyn vfs::Vfs, names: &LogNames) -> Result<()> {
    let next = names.next();
    if vfs.exists(&next) {
        vfs.remove(&next).map_err(|e| Error::io(&next, &e))?;
    }
    Ok(())
}
