//! The received part of the log that the active side is writing. ESE: block mode, or granular replication.
//!
//! ```text
//!  active side                         copy
//!  E00.log: 1 2 3 4 .. durable ──> incoming/streamed.log: 1 2 3 ──> closed: the rest is fetched, inspected, named
//! ```
//!
//! Only segments that are durable on the active side are sent, in order. As long as the active side keeps its
//! history, the file therefore contains the start of its log. Each fetch repeats the last segment, and the closed log
//! is inspected as a whole. If the received part belongs to a different history, it is dropped, and the log is
//! fetched as a file. The received part is not replayed until the log is closed. A failover loses only the records
//! after it.

use std::path::{Path, PathBuf};

use ese_engine::VerifiedLog;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::segment::{SegmentKind, classify};
use ese_format::{Generation, LogPosition};
use jetcell_backup::text_file;
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, Vfs};

use crate::copy_state::CopyState;
use crate::error::{CopyError, Result};
use crate::incoming::{INCOMING, create_or_replace, read_partial_log};
use crate::log_end::{ClosedLogId, begins_with, inspect, is_successor};
use crate::log_source::LogSource;

const STREAMED_LOG_FILE: &str = "streamed.log";

/// A log that is received while the active side is still writing it.
pub(crate) struct StreamedLog {
    generation: Generation,
    file: Arc<dyn File>,
    /// Number of bytes received, in complete segments.
    len: u64,
    /// The last received segment.
    last: Vec<u8>,
}

impl StreamedLog {
    /// Begins receiving the log that follows the closed logs, if it continues them. Only its header is stored at first.
    pub fn begin(
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        source: &dyn LogSource,
        state: &CopyState,
    ) -> Result<Option<StreamedLog>> {
        let generation = Generation(state.next);
        let Some(bytes) = source.read_open_log(generation, 0)? else { return Ok(None) };
        let Some(first) = bytes.get(..SEGMENT_BYTES) else { return Ok(None) };
        let continues = |header: &LogHeader| {
            (header.generation, header.signature) == (generation, state.stream())
                && state.end.is_none_or(|end| is_successor(&end, header))
        };
        if !LogHeader::decode(first).is_ok_and(|header| continues(&header)) || state.log_bytes == 0 {
            return Ok(None);
        }
        let path = streamed_path(directory);
        let create_file = || {
            let incoming = directory.join(INCOMING);
            vfs.create_directory(&incoming)?;
            let file = create_or_replace(&**vfs, &path)?;
            file.grow(state.log_bytes)?;
            file.write_at(0, first, IoReason::LogWrite)?;
            file.sync(IoReason::LogWrite)?;
            vfs.sync_directory(&incoming)?;
            Ok(file)
        };
        let file = create_file().map_err(|error: std::io::Error| CopyError::io(&path, &error))?;
        Ok(Some(StreamedLog { generation, file, len: SEGMENT_BYTES as u64, last: first.to_vec() }))
    }

    /// Returns the generation of the log.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the number of bytes received.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Fetches the rest of the log, which is now closed, and moves the log to its final place. Returns `None` if the
    /// whole log must be fetched as a file.
    pub fn complete(
        self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        state: &CopyState,
        after: Option<&ClosedLogId>,
        rest: &[u8],
    ) -> Result<Option<ClosedLogId>> {
        let (path, overlap) = (streamed_path(directory), self.last_segment_offset());
        // If the rest were missing, segments left over from an earlier log in its place would look like the unused
        // end of a log that was closed early.
        let is_rest = rest.starts_with(&self.last) && overlap + rest.len() as u64 == state.log_bytes;
        let inspected = if is_rest {
            let write = || {
                self.file.write_at(overlap, rest, IoReason::LogWrite)?;
                self.file.sync(IoReason::LogWrite)
            };
            write().map_err(|error| CopyError::io(&path, &error))?;
            let part = read_partial_log(vfs, directory)?;
            let log = inspect(vfs, &path, self.generation, state.stream(), after, part.as_ref())?.ok();
            // If the last segment is valid only because of its second copy, fetching it again may return the
            // undamaged segment.
            log.filter(|log| log.bytes.get(overlap as usize..) == Some(rest))
        } else {
            None
        };
        let place = state.logs(vfs, directory).archived(self.generation);
        match &inspected {
            Some(_) => vfs.rename(&path, &place).map_err(|error| CopyError::io(&place, &error))?,
            None => remove_streamed(&**vfs, directory)?,
        }
        Ok(inspected.as_ref().map(ClosedLogId::from_log))
    }

    /// Returns the offset of the last segment.
    pub fn last_segment_offset(&self) -> u64 {
        self.len - SEGMENT_BYTES as u64
    }

    /// Fetches the bytes after the last segment. Returns `None` if the last segment has changed.
    pub fn fetch(&mut self, source: &dyn LogSource) -> Result<Option<u64>> {
        let Some(mut bytes) = source.read_open_log(self.generation, self.last_segment_offset())? else {
            return Ok(Some(0));
        };
        if !bytes.starts_with(&self.last) {
            return Ok(None);
        }
        let first = self.len / SEGMENT_BYTES as u64;
        let new = bytes.get_mut(SEGMENT_BYTES..).unwrap_or_default();
        let good = valid_len(new, self.generation, first);
        let new = &new[..good];
        let Some(last) = new.last_chunk::<SEGMENT_BYTES>() else { return Ok(Some(0)) };
        let write = || {
            self.file.write_at(self.len, new, IoReason::LogWrite)?;
            self.file.sync(IoReason::LogWrite)
        };
        write().map_err(|error| CopyError::io(self.file.path(), &error))?;
        (self.last, self.len) = (last.to_vec(), self.len + good as u64);
        Ok(Some(good as u64))
    }
}

/// Returns the length of the valid segments at the start of `bytes`. Segment `first` of a log is the first one.
pub(crate) fn valid_len(bytes: &mut [u8], generation: Generation, first: u64) -> usize {
    let is_good = |(at, segment): (usize, &mut [u8])| {
        let index = u16::try_from(first + at as u64).ok();
        let expected = index.map(|index| LogPosition { generation, segment: index, offset: 0 });
        expected.is_some_and(|expected| matches!(classify(segment, expected), SegmentKind::Valid { .. }))
    };
    bytes.chunks_exact_mut(SEGMENT_BYTES).enumerate().map(is_good).take_while(|good| *good).count()
        * SEGMENT_BYTES
}

/// Returns the received part of the log that follows the closed logs. If `other` is given, the part must start with
/// it.
pub(crate) fn streamed_part(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    other: Option<&VerifiedLog>,
) -> Option<VerifiedLog> {
    let log = VerifiedLog::read(vfs, &streamed_path(directory), false).ok()?;
    other.is_none_or(|other| begins_with(&log, other)).then_some(log)
}

/// Returns how much of the active side's current log has been received, as the generation and the number of bytes in
/// complete segments. Returns `None` if nothing has been received, or if logs are copied only when they are closed.
pub fn streamed_progress(vfs: &Arc<dyn Vfs>, directory: &Path) -> Option<(Generation, u64)> {
    let log = streamed_part(vfs, directory, None)?;
    Some((log.generation, crate::log_end::records_end_offset(&log) as u64))
}

/// Returns the path of the log that is being received.
pub(crate) fn streamed_path(directory: &Path) -> PathBuf {
    directory.join(INCOMING).join(STREAMED_LOG_FILE)
}

/// Removes the received part of the log. It must not outlive the history to which it belongs.
pub(crate) fn remove_streamed(vfs: &dyn Vfs, directory: &Path) -> Result<()> {
    Ok(text_file::remove(vfs, &streamed_path(directory))?)
}

/// Makes an open log durable and returns its valid segments, starting at an offset. The first segment is not checked,
/// because it is the header or is already known.
pub(crate) fn read_durable(file: &dyn File, generation: Generation, from: u64) -> std::io::Result<IoBuffer> {
    const MAX_READ_BYTES: u64 = 256 << 10;
    let len = file.len()?.saturating_sub(from).min(MAX_READ_BYTES) as usize / SEGMENT_BYTES * SEGMENT_BYTES;
    let mut bytes = IoBuffer::zeroed(len);
    file.read_at(from, &mut bytes, IoReason::LogRead)?;
    let known = len.min(SEGMENT_BYTES);
    let good = valid_len(&mut bytes[known..], generation, from / SEGMENT_BYTES as u64 + 1);
    if good > 0 {
        // A copy must not contain bytes that the active side could still lose in a power failure.
        file.sync(IoReason::LogRead)?;
    }
    bytes.resize(known + good);
    Ok(bytes)
}
