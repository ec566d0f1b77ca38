//! Reads a stream generation by generation, as it is received: each file is verified as a whole and must continue the one
//! before it.

use std::path::{Path, PathBuf};

use ese_format::log::header::LogHeader;
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::{Arc, Mutex, OnceLock};
use jetcell_vfs::{IoBuffer, Vfs};

use super::{LoadedLog, LogReader, PartialRecord, StoredRecord};
use crate::error::LogFault;
use crate::log::LogNames;
use crate::{Error, Result};

/// The end of the generations that were read: what the next one must continue.
#[derive(Clone, Default)]
pub(crate) struct LogChain {
    /// Header of the newest generation, and the XOR of the checksums of its segments.
    newest: Option<(LogHeader, u64)>,
    /// A record whose first fragments end that generation.
    pending: Option<PartialRecord>,
}

impl LogChain {
    /// The generation that must come next; `None` before the first one.
    pub fn next(&self) -> Option<Generation> {
        self.newest.as_ref().map(|(header, _)| header.generation.next())
    }

    /// The start of a record that the next generation completes.
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

    /// XOR of the checksums of its segments.
    pub fn accumulated(&self) -> u64 {
        self.0.scan.accumulated
    }

    /// The whole file, with the repairs that reading made.
    pub fn into_bytes(self) -> IoBuffer {
        self.0.bytes
    }

    /// Behind the last record.
    pub fn end(&self) -> LogPosition {
        let generation = self.0.header.generation;
        let behind = self.0.scan.last.saturating_add(1);
        match u32::from(behind) + 1 < u32::from(self.0.header.file_segments) {
            true => LogPosition { generation, segment: behind, offset: RECORDS_AT as u16 },
            false => LogPosition { generation: generation.next(), segment: 1, offset: RECORDS_AT as u16 },
        }
    }

    /// The position of the first segment that was begun after `time`.
    pub fn begun_after(&self, time: LogTime) -> Option<LogPosition> {
        let limit = time.unix_ms()?;
        (1..=self.0.scan.last).find_map(|index| {
            let segment = self.0.segment(index);
            let begun = LogTime(*segment.bytes.get(16..)?.first_chunk()?).unix_ms()?;
            let generation = self.0.header.generation;
            (begun > limit).then_some(LogPosition { generation, segment: index, offset: RECORDS_AT as u16 })
        })
    }
}

impl LogReader {
    /// A reader of files that are added one by one.
    pub(crate) fn received(vfs: Arc<dyn Vfs>, names: LogNames) -> LogReader {
        let (files, open_files, pinned) = (Mutex::default(), Mutex::default(), OnceLock::new());
        LogReader { vfs, names, files, open_files, pinned, received: true }
    }

    /// Adds the file of a generation.
    pub(crate) fn add(&self, generation: Generation, path: &Path) {
        self.files.lock().insert(generation, path.to_path_buf());
        self.open_files.lock().remove(&generation);
    }

    /// Forgets files of generations below this one.
    pub(crate) fn forget_below(&self, generation: Generation) {
        let (mut files, mut open) = (self.files.lock(), self.open_files.lock());
        *files = files.split_off(&generation);
        *open = open.split_off(&generation);
    }

    /// The header of the log file at `path`.
    pub(crate) fn header_at(&self, path: &Path) -> Result<LogHeader> {
        self.header(path)
    }

    /// Reads a file that was added, and verifies that it continues `chain`. `newest`: a crash may have cut it off.
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

    /// Calls `visit` for every record of a file. Returns the chain with the file at its end.
    pub(crate) fn visit_received(
        &self,
        log: &ReceivedLog,
        chain: &LogChain,
        mut visit: impl FnMut(StoredRecord) -> Result<()>,
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
        // Earlier formats leave the checksum zero.
        let has_checksum = (header.version_update, header.version_update_minor) >= (5, 13);
        let (fault, what) = if header.signature != previous.signature {
            (LogFault::OtherStream, "belongs to another log stream")
        } else if header.previous_created != previous.created {
            (LogFault::OtherHistory, "does not continue the generation before it (creation times differ)")
        } else if has_checksum && header.previous_checksum != accumulated {
            (LogFault::OtherContent, "does not continue the generation before it (its checksum differs)")
        } else {
            return Ok(());
        };
        Err(self.fault(
            header.generation,
            fault,
            LogPosition { generation: header.generation, segment: 0, offset: 0 },
            what,
        ))
    }

    pub(crate) fn fault(
        &self,
        generation: Generation,
        fault: LogFault,
        position: LogPosition,
        what: &str,
    ) -> Error {
        Error::Log { path: self.known_path(generation), position, fault, what: what.to_string() }
    }

    pub(super) fn known_path(&self, generation: Generation) -> PathBuf {
        self.files.lock().get(&generation).cloned().unwrap_or_else(|| self.names.current())
    }
}
