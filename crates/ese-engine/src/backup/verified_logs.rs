//! Reads and verifies logs for a backup. Each log must be the continuation of the previous one.

use std::path::{Path, PathBuf};

use ese_format::log::header::LogHeader;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, IoBuffer, Vfs, parent_directory};

use crate::error::BackupErrorKind;
use crate::log::{LogChain, LogNames, LogReader};
use crate::{Error, Result};

/// A verified log.
pub struct VerifiedLog {
    /// Path of the log file.
    pub path: PathBuf,
    /// Generation of the log.
    pub generation: Generation,
    /// Signature of the log stream.
    pub signature: Signature,
    /// Creation time of the log.
    pub created: LogTime,
    /// Creation time of the previous log.
    pub previous_created: LogTime,
    /// Checksum accumulated over the segments of the previous log. Earlier formats store zero.
    pub previous_checksum: u64,
    /// XOR of the checksums of the segments.
    pub checksum: u64,
    /// Position after the log's last record.
    pub end: LogPosition,
    /// Content of the whole file. Segments that a crash tore are replaced by their shadow copies.
    pub bytes: IoBuffer,
}

impl VerifiedLog {
    /// Reads a log and verifies every segment and record. `is_closed` means that the engine has ended the generation,
    /// so a crash cannot have truncated it.
    ///
    /// Returns an error if the log cannot be read or is damaged ([`Error::Log`], [`Error::Corrupt`]).
    pub fn read(vfs: &Arc<dyn Vfs>, path: &Path, is_closed: bool) -> Result<VerifiedLog> {
        let directory = parent_directory(path);
        let reader = LogReader::received(vfs.clone(), LogNames::new(directory, FileStem::E00));
        let generation = reader.header_at(path)?.generation;
        reader.add(generation, path);
        VerifiedLog::next(&reader, generation, path.to_path_buf(), &LogChain::default(), is_closed)
            .map(|(log, _)| log)
    }

    fn next(
        reader: &LogReader,
        generation: Generation,
        path: PathBuf,
        chain: &LogChain,
        is_closed: bool,
    ) -> Result<(VerifiedLog, LogChain)> {
        let log = reader.receive(generation, chain, !is_closed)?;
        let chain = reader.visit_received(&log, chain, |_| Ok(()))?;
        let header: &LogHeader = log.header();
        let copy = VerifiedLog {
            generation,
            signature: header.signature,
            created: header.created,
            previous_created: header.previous_created,
            previous_checksum: header.previous_checksum,
            checksum: log.accumulated(),
            end: log.end(),
            bytes: log.into_bytes(),
            path,
        };
        Ok((copy, chain))
    }
}

/// Reader that verifies logs and returns them in generation order.
pub struct VerifiedLogReader {
    reader: LogReader,
    chain: LogChain,
    logs: std::vec::IntoIter<(Generation, PathBuf)>,
    /// Whether the last log was still the current one when the engine stopped.
    last_is_open: bool,
}

impl VerifiedLogReader {
    /// Creates a reader of these logs. `last_is_open` means that the last log was not closed, so a crash may have
    /// truncated it.
    pub fn new(vfs: Arc<dyn Vfs>, logs: Vec<(Generation, PathBuf)>, last_is_open: bool) -> VerifiedLogReader {
        let directory = logs.first().and_then(|(_, path)| path.parent()).unwrap_or(Path::new("."));
        let reader = LogReader::received(vfs, LogNames::new(directory, FileStem::E00));
        logs.iter().for_each(|(generation, path)| reader.add(*generation, path));
        VerifiedLogReader { reader, chain: LogChain::default(), logs: logs.into_iter(), last_is_open }
    }

    /// Returns the number of logs that remain to be read.
    pub fn remaining(&self) -> usize {
        self.logs.len()
    }

    /// Reads and verifies the next log. Returns `None` after the last log.
    ///
    /// Returns an error if the log cannot be read, is damaged, or does not continue the previous log. ESE: -612.
    pub fn next_log(&mut self) -> Result<Option<VerifiedLog>> {
        let Some((generation, path)) = self.logs.next() else { return Ok(None) };
        let open = self.last_is_open && self.logs.len() == 0;
        let unreadable =
            |error: Error| BackupErrorKind::LogUnreadable { path: path.clone(), error: Arc::new(error) };
        let (log, chain) = VerifiedLog::next(&self.reader, generation, path.clone(), &self.chain, !open)
            .map_err(unreadable)?;
        self.chain = chain;
        Ok(Some(log))
    }
}
