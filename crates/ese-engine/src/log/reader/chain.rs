//! Reads a stream generation by generation as it is received. Each file is verified as a whole, and must continue the
//! previous file.

use std::path::{Path, PathBuf};

use ese_format::log::header::LogHeader;
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::{Arc, Mutex, OnceLock};
use jetcell_vfs::{IoBuffer, Vfs};

use super::{LoadedLog, LogReader, PartialRecord, PositionedRecord};
use crate::error::LogErrorKind;
use crate::log::LogNames;
use crate::{Error, Result};

/// The point reached by the generations read so far, from which the next generation must continue.
#[derive(Clone, Default)]
pub(crate) struct LogChain {
    /// Header of the newest generation, and the XOR of its segments' checksums.
    newest: Option<(LogHeader, u64)>,
    /// Incomplete record whose first fragments are at the end of the newest generation.
    pending: Option<PartialRecord>,
}

impl LogChain {
    /// Returns the generation that must come next, or `None` before the first one.
    pub fn next(&self) -> Option<Generation> {
        self.newest.as_ref().map(|(header, _)| header.generation.next())
    }

    /// Returns the start of the incomplete record that the next generation completes.
    pub fn pending_from(&self) -> Option<LogPosition> {
        self.pending.as_ref().map(|pending| pending.start)
    }
}

/// A verified log file in memory.
pub(crate) struct ReceivedLog(LoadedLog);

impl ReceivedLog {
    pub fn header(&self) -> &LogHeader {
        &self.0.header
    }

    /// Returns the XOR of the checksums of the segments.
    pub fn accumulated(&self) -> u64 {
        self.0.scan.accumulated
    }

    /// Returns the content of the whole file, including repairs made during reading.
    pub fn into_bytes(self) -> IoBuffer {
        self.0.bytes
    }

    /// Returns the position after the last record.
    pub fn end(&self) -> LogPosition {
        let generation = self.0.header.generation;
        let behind = self.0.scan.last.saturating_add(1);
        if u32::from(behind) + 1 < u32::from(self.0.header.file_segments) {
            LogPosition { generation, segment: behind, offset: RECORDS_AT as u16 }
        } else {
            LogPosition { generation: generation.next(), segment: 1, offset: RECORDS_AT as u16 }
        }
    }

    /// Returns the position of the first segment that was begun after `time`.
    pub fn first_segment_after(&self, time: LogTime) -> Option<LogPosition> {
        let limit = time.unix_ms()?;
        (1..=self.0.scan.last).find_map(|index| {
            let segment = self.0.segment(index);
            let begun = LogTime(*segment.bytes.get(16..)?.first_chunk()?).unix_ms()?;
            let generation = self.0.header.generation;
            (begun > limit).then_some(LogPosition { generation, segment: index, offset: RECORDS_AT as u16 })
        })
    }

    /// Returns the time at which the last segment with bytes before `end` was begun.
    pub fn last_segment_time(&self, end: LogPosition) -> Option<LogTime> {
        let generation = self.0.header.generation;
        (1..=self.0.scan.last).rev().find_map(|index| {
            let begin = LogPosition { generation, segment: index, offset: RECORDS_AT as u16 };
            let segment = self.0.segment(index);
            let time = LogTime(*segment.bytes.get(16..)?.first_chunk()?);
            (begin < end && time.unix_ms().is_some()).then_some(time)
        })
    }
}

impl LogReader {
    /// Creates a reader to which files are added individually.
    pub(crate) fn received(vfs: Arc<dyn Vfs>, names: LogNames) -> LogReader {
        let (files, open_files, pinned) = (Mutex::default(), Mutex::default(), OnceLock::new());
        LogReader { vfs, names, files, open_files, pinned, received: true }
    }

    /// Adds the file of a generation.
    pub(crate) fn add(&self, generation: Generation, path: &Path) {
        self.files.lock().insert(generation, path.to_path_buf());
        self.open_files.lock().remove(&generation);
    }

    /// Removes the files of generations below this one from the reader.
    pub(crate) fn remove_below(&self, generation: Generation) {
        let (mut files, mut open) = (self.files.lock(), self.open_files.lock());
        *files = files.split_off(&generation);
        *open = open.split_off(&generation);
    }

    /// Returns the header of the log file at `path`.
    pub(crate) fn header_at(&self, path: &Path) -> Result<LogHeader> {
        self.header(path)
    }

    /// Reads an added file, and verifies that it continues `chain`. `newest` means that a crash may have truncated
    /// the file.
    pub(crate) fn receive(
        &self,
        generation: Generation,
        chain: &LogChain,
        newest: bool,
    ) -> Result<ReceivedLog> {
        let log = self.finish(self.begin(generation, IoBuffer::zeroed(0))?, newest)?;
        if let Some((header, accumulated)) = &chain.newest {
            if header.generation.next() != generation {
                return Err(self.missing(header.generation.next()));
            }
            self.check_chain((header, *accumulated), &log.header)?;
        }
        Ok(ReceivedLog(log))
    }

    /// Calls `visit` for every record in a file. Returns the chain extended by this file.
    pub(crate) fn visit_received(
        &self,
        log: &ReceivedLog,
        chain: &LogChain,
        mut visit: impl FnMut(PositionedRecord) -> Result<()>,
    ) -> Result<LogChain> {
        let ReceivedLog(log) = log;
        let mut pending = chain.pending.clone();
        for index in 1..=log.scan.last {
            self.records(&log.segment(index), &mut pending, &mut visit)?;
        }
        Ok(LogChain { newest: Some((log.header.clone(), log.scan.accumulated)), pending })
    }

    pub(super) fn check_chain(
        &self,
        (previous, accumulated): (&LogHeader, u64),
        header: &LogHeader,
    ) -> Result<()> {
        // In earlier formats the checksum is zero.
        let has_checksum = (header.version_update, header.version_update_minor) >= (5, 13);
        let fault = if header.signature != previous.signature {
            LogErrorKind::OtherStream
        } else if header.previous_created != previous.created {
            LogErrorKind::OtherHistory
        } else if has_checksum && header.previous_checksum != accumulated {
            LogErrorKind::OtherContent
        } else {
            return Ok(());
        };
        Err(self.fault(LogPosition { generation: header.generation, segment: 0, offset: 0 }, fault))
    }

    pub(crate) fn fault(&self, position: LogPosition, fault: LogErrorKind) -> Error {
        Error::Log { path: self.known_path(position.generation), position, fault }
    }

    pub(super) fn known_path(&self, generation: Generation) -> PathBuf {
        self.files.lock().get(&generation).cloned().unwrap_or_else(|| self.names.current())
    }
}
