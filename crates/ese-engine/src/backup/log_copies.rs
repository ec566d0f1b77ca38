//! Reads logs for a backup: each is verified, and must continue the one before it.

use std::path::{Path, PathBuf};

use ese_format::log::header::LogHeader;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, IoBuffer, Vfs};

use crate::error::BackupFault;
use crate::log::{LogChain, LogNames, LogReader};
use crate::{Error, Result};

/// A verified log.
pub struct LogCopy {
    /// Its file.
    pub path: PathBuf,
    /// Its generation.
    pub generation: Generation,
    /// The stream.
    pub signature: Signature,
    /// When it was created.
    pub created: LogTime,
    /// When the log before it was created.
    pub previous_created: LogTime,
    /// The checksum of the segments of the log before it. Earlier formats have zero.
    pub previous_checksum: u64,
    /// XOR of the checksums of its segments.
    pub checksum: u64,
    /// Behind the last record.
    pub end: LogPosition,
    /// The whole file. Segments that a crash tore are replaced by their copies.
    pub bytes: IoBuffer,
}

impl LogCopy {
    /// Reads a log, and verifies every segment and record of it. `is_closed`: its engine has ended the generation, so that no
    /// crash can have cut it off.
    ///
    /// Errors: it cannot be read, or is damaged ([`Error::Log`], [`Error::Corrupt`]).
    pub fn read(vfs: &Arc<dyn Vfs>, path: &Path, is_closed: bool) -> Result<LogCopy> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let reader = LogReader::received(vfs.clone(), LogNames::new(directory, FileStem::E00));
        let generation = reader.header_at(path)?.generation;
        reader.add(generation, path);
        LogCopy::next(&reader, generation, path.to_path_buf(), &LogChain::default(), is_closed)
            .map(|(log, _)| log)
    }

    fn next(
        reader: &LogReader,
        generation: Generation,
        path: PathBuf,
        chain: &LogChain,
        is_closed: bool,
    ) -> Result<(LogCopy, LogChain)> {
        let log = reader.receive(generation, chain, !is_closed)?;
        let chain = reader.visit_received(&log, chain, |_| Ok(()))?;
        let header: &LogHeader = log.header();
        let copy = LogCopy {
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

/// Logs in the order of their generations.
pub struct LogCopies {
    reader: LogReader,
    chain: LogChain,
    logs: std::vec::IntoIter<(Generation, PathBuf)>,
    /// The last one was being written when its engine ended.
    last_is_open: bool,
}

impl LogCopies {
    /// Reads these logs. `last_is_open`: the last one was not closed, so that a crash may have cut it off.
    pub fn new(vfs: Arc<dyn Vfs>, logs: Vec<(Generation, PathBuf)>, last_is_open: bool) -> LogCopies {
        let directory = logs.first().and_then(|(_, path)| path.parent()).unwrap_or(Path::new("."));
        let reader = LogReader::received(vfs, LogNames::new(directory, FileStem::E00));
        logs.iter().for_each(|(generation, path)| reader.add(*generation, path));
        LogCopies { reader, chain: LogChain::default(), logs: logs.into_iter(), last_is_open }
    }

    /// How many logs are left.
    pub fn left(&self) -> usize {
        self.logs.len()
    }

    /// The next log. `None`: all were read.
    ///
    /// Errors: it cannot be read, is damaged, or does not continue the one before it. ESE: -612.
    pub fn next_log(&mut self) -> Result<Option<LogCopy>> {
        let Some((generation, path)) = self.logs.next() else { return Ok(None) };
        let open = self.last_is_open && self.logs.len() == 0;
        let unreadable = |error: Error| Error::Backup {
            fault: BackupFault::LogUnreadable,
            what: format!("{}: the log cannot be backed up: {error}", path.display()),
        };
        let (log, chain) =
            LogCopy::next(&self.reader, generation, path.clone(), &self.chain, !open).map_err(unreadable)?;
        self.chain = chain;
        Ok(Some(log))
    }
}
