//! Log files on disk: creating, naming and reopening them.

use std::ops::Range;
use std::path::Path;

use ese_format::attachment::ATTACHMENT_LIST_LEN;
use ese_format::log::header::{ENGINE_VERSION, FILE_TYPE_LOG, LOG_VERSION, LogHeader, SEGMENT_BYTES};
use ese_format::log::parameters::EngineParameters;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode};

use super::{LogStreamOptions, LogTail};
use crate::{Error, Result};

/// Number of zero bytes per write when part of a file is filled with zeros.
const ZEROS_BYTES: usize = 256 << 10;

/// Format version of a stream. A stream that another engine began keeps its version, because a header with an older
/// version must not follow a newer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::log) struct LogVersion {
    version: (u32, u32, u32, u32),
    engine: u32,
}

impl LogVersion {
    /// Format version of new streams.
    pub const OWN: LogVersion = LogVersion { version: LOG_VERSION, engine: ENGINE_VERSION };

    /// Returns the version of a stream with this header, if it is not older than the version of new streams.
    /// Otherwise returns the version of new streams.
    pub fn from_header(header: &LogHeader) -> LogVersion {
        let version =
            (header.version_major, header.version_minor, header.version_update, header.version_update_minor);
        let of_stream = LogVersion { version, engine: header.engine_version };
        if version > LOG_VERSION { of_stream } else { LogVersion::OWN }
    }

    pub fn apply(self, header: &mut LogHeader) {
        (header.version_major, header.version_minor, header.version_update, header.version_update_minor) =
            self.version;
        header.engine_version = self.engine;
    }
}

/// Current name of the log file that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameState {
    /// The name of a prepared file, because its generation has only just been entered.
    Next,
    /// The name of the current log.
    Current,
    /// The name of an archived log. A crash occurred between two renames, and no new generation has been started since.
    Archived,
}

/// Durably creates a file with the size of a log. Its blocks read as zeros. If this fails, the file is removed.
pub(super) fn create(options: &LogStreamOptions, path: &Path) -> Result<Arc<dyn File>> {
    let io_error = |e: std::io::Error| Error::io(path, &e);
    let made = (|| {
        if options.vfs.exists(path).map_err(io_error)? {
            options.vfs.remove(path).map_err(io_error)?;
        }
        let file = options.vfs.open(path, OpenMode::CreateNew).map_err(io_error)?;
        file.grow(u64::from(options.file_size)).map_err(io_error)?;
        file.sync(IoReason::LogFormat).map_err(io_error)?;
        options.vfs.sync_directory(options.names.directory()).map_err(io_error)?;
        Ok(file)
    })();
    if made.is_err() {
        let _ = options.vfs.remove(path);
    }
    made
}

/// Creates a file like [`create`], and writes zeros to it.
pub(super) fn create_zeroed(options: &LogStreamOptions, path: &Path) -> Result<Arc<dyn File>> {
    let file = create(options, path)?;
    match write_zeros(&*file, 0..u64::from(options.file_size)).and_then(|()| file.sync(IoReason::LogFormat)) {
        Ok(()) => Ok(file),
        Err(e) => {
            let _ = options.vfs.remove(path);
            Err(Error::io(path, &e))
        }
    }
}

/// Writes zeros into allocated blocks. Otherwise the first write into an allocated but unwritten block would also
/// change metadata.
pub(super) fn write_zeros(file: &dyn File, range: Range<u64>) -> std::io::Result<()> {
    let zeros = IoBuffer::zeroed(ZEROS_BYTES.min((range.end - range.start) as usize));
    let mut at = range.start;
    while at < range.end {
        let len = zeros.len().min((range.end - at) as usize);
        file.write_at(at, &zeros[..len], IoReason::LogFormat)?;
        at += len as u64;
    }
    Ok(())
}

/// Creates the header for a new log. The writer completes it when the generation is entered.
pub(super) fn header(
    options: &LogStreamOptions,
    signature: Signature,
    generation: Generation,
    created: LogTime,
) -> LogHeader {
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

/// Creates generation 1 under the current name.
pub(super) fn create_first(
    options: &LogStreamOptions,
    signature: Signature,
) -> Result<(Arc<dyn File>, LogTime)> {
    let next = options.names.next();
    let file = create_zeroed(options, &next)?;
    let created = LogTime::from_unix_ms(options.vfs.clock().unix_ms());
    let io_error = |e: std::io::Error| Error::io(options.names.current(), &e);
    let mut segment = IoBuffer::zeroed(SEGMENT_BYTES);
    segment.copy_from_slice(&header(options, signature, Generation(1), created).encode());
    file.write_durable(0, &segment, IoReason::LogFormat).map_err(io_error)?;
    options.vfs.rename(&next, &options.names.current()).map_err(io_error)?;
    options.vfs.sync_directory(options.names.directory()).map_err(io_error)?;
    Ok((file, created))
}

/// Opens the newest log for appending after its tail. Makes the file names durable, together with exactly the content
/// that was read.
pub(super) fn reopen(options: &LogStreamOptions, tail: &LogTail) -> Result<(Arc<dyn File>, NameState)> {
    let (vfs, names) = (&options.vfs, &options.names);
    let io_error = |e: std::io::Error| Error::io(&tail.path, &e);
    let file = vfs.open(&tail.path, OpenMode::Write).map_err(io_error)?;
    // Repairs must be written before the shadow segment is erased.
    for (index, segment) in &tail.repaired {
        let mut buffer = IoBuffer::zeroed(SEGMENT_BYTES);
        buffer.copy_from_slice(segment);
        file.write_at(u64::from(*index) * SEGMENT_BYTES as u64, &buffer, IoReason::LogFormat)
            .map_err(io_error)?;
    }
    if !tail.repaired.is_empty() {
        file.sync(IoReason::LogFormat).map_err(io_error)?;
    }
    let end = u64::from(tail.next_segment) * SEGMENT_BYTES as u64;
    let rest = file.len().map_err(io_error)?.saturating_sub(end);
    if tail.marked && rest > 0 {
        file.write_at(end, &IoBuffer::zeroed(rest as usize), IoReason::LogFormat).map_err(io_error)?;
    }
    // Writes and renames by a killed process may exist only in the kernel's page cache.
    file.sync(IoReason::LogFormat).map_err(io_error)?;
    let next = names.next();
    if tail.path == next {
        archive_current(options, tail.header.generation).map_err(io_error)?;
    } else if vfs.exists(&next).map_err(io_error)? {
        // An earlier process prepared this file; it may be incomplete.
        vfs.remove(&next).map_err(io_error)?;
    }
    vfs.sync_directory(names.directory()).map_err(io_error)?;
    let archived = names.generation_of(&tail.path).is_some();
    Ok((file, if archived { NameState::Archived } else { NameState::Current }))
}

/// Renames the current log to its archive name, unless it already has that name. Then renames the prepared file,
/// which contains `generation`, to the current name. Calling this again is harmless.
pub(super) fn archive_current(options: &LogStreamOptions, generation: Generation) -> std::io::Result<()> {
    close_current(options, Generation(generation.0 - 1))?;
    options.vfs.rename(&options.names.next(), &options.names.current())
}

/// Renames the current log, which contains `generation`, to its archive name, unless it already has that name.
pub(super) fn close_current(options: &LogStreamOptions, generation: Generation) -> std::io::Result<()> {
    // Attempting the rename is the only reliable way to detect that no current log exists. A later rename would
    // otherwise replace the current log.
    match options.vfs.rename(&options.names.current(), &options.names.archived(generation)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
