//! Identifies the last log of a history, which the next log must continue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::{Error, VerifiedLog};
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::{Generation, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Maximum size of an ESE log in bytes.
pub const MAX_LOG_BYTES: u64 = 1 << 28;

/// Identifies a closed log by its generation, creation time and content checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedLogId {
    /// Generation of the log.
    pub generation: u32,
    /// Creation time, as the eight bytes in the log's header interpreted as a number.
    pub created: u64,
    /// XOR of the log's segment checksums.
    pub checksum: u64,
}

/// Reason why a copy rejects a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRejection {
    /// The log is damaged, truncated, or has the wrong generation. Fetching it again may succeed.
    Damaged(String),
    /// The log belongs to another log stream.
    OtherStream,
    /// The log continues a log that was created at another time.
    OtherHistory,
    /// The log continues a log with different content.
    OtherContent,
}

impl ClosedLogId {
    /// Returns the end of a verified log.
    pub fn from_log(log: &VerifiedLog) -> ClosedLogId {
        ClosedLogId {
            generation: log.generation.0,
            created: u64::from_be_bytes(log.created.0),
            checksum: log.checksum,
        }
    }

    /// Returns the next generation.
    pub fn next(&self) -> Generation {
        Generation(self.generation).next()
    }

    /// Returns the creation time of the log, in milliseconds since 1970 UTC.
    pub fn created_unix_ms(&self) -> Option<i64> {
        LogTime(self.created.to_be_bytes()).unix_ms()
    }
}

/// Verifies a closed log completely: all segments and records, the generation, and the log stream. In addition, the
/// log must continue `after` and start with `part`.
///
/// The outer error is returned if the log cannot be read.
pub fn inspect(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    generation: Generation,
    stream: Signature,
    after: Option<&ClosedLogId>,
    part: Option<&VerifiedLog>,
) -> Result<std::result::Result<VerifiedLog, LogRejection>> {
    let log = match VerifiedLog::read(vfs, path, true) {
        Ok(log) => log,
        Err(error @ (Error::Log { .. } | Error::Corrupt { .. })) => {
            return Ok(Err(LogRejection::Damaged(error.to_string())));
        }
        Err(Error::Io { kind: std::io::ErrorKind::UnexpectedEof, .. }) => {
            return Ok(Err(LogRejection::Damaged(format!("{}: the log is truncated", path.display()))));
        }
        Err(error) => return Err(error.into()),
    };
    if log.generation != generation {
        let what = format!(
            "the log contains generation {:X}, expected {:X} (hexadecimal)",
            log.generation.0, generation.0
        );
        return Ok(Err(LogRejection::Damaged(what)));
    }
    if log.signature != stream {
        return Ok(Err(LogRejection::OtherStream));
    }
    if let Some(after) = after.filter(|after| after.next() == generation) {
        if u64::from_be_bytes(log.previous_created.0) != after.created {
            return Ok(Err(LogRejection::OtherHistory));
        }
        if log.previous_checksum != after.checksum {
            return Ok(Err(LogRejection::OtherContent));
        }
    }
    if part.is_some_and(|part| part.generation == generation && !begins_with(&log, part)) {
        return Ok(Err(LogRejection::OtherContent));
    }
    Ok(Ok(log))
}

/// Returns true if a log starts with the header and segments of `part`, which was read from it earlier.
pub fn begins_with(log: &VerifiedLog, part: &VerifiedLog) -> bool {
    let end = records_end_offset(part);
    (log.generation, log.created, log.previous_created, log.previous_checksum)
        == (part.generation, part.created, part.previous_created, part.previous_checksum)
        && log.bytes.get(SEGMENT_BYTES..end) == part.bytes.get(SEGMENT_BYTES..end)
}

/// Returns true if a log contains anything after its header.
pub fn has_records(log: &VerifiedLog) -> bool {
    log.end.generation != log.generation || log.end.segment > 1
}

/// Returns true if `next` is the header of the log that directly follows the log that ends at `end`.
pub fn is_successor(end: &ClosedLogId, next: &LogHeader) -> bool {
    (end.created, end.checksum) == (u64::from_be_bytes(next.previous_created.0), next.previous_checksum)
}

/// Returns the offset in bytes at which the segments with records end.
pub fn records_end_offset(log: &VerifiedLog) -> usize {
    if log.end.generation == log.generation {
        usize::from(log.end.segment) * SEGMENT_BYTES
    } else {
        log.bytes.len().saturating_sub(SEGMENT_BYTES)
    }
}

/// Removes the newest log from a list if it contains no records. Another side may use its generation number for a
/// different log.
pub fn remove_empty_tail(
    vfs: &Arc<dyn Vfs>,
    logs: &mut BTreeMap<Generation, PathBuf>,
) -> Option<(Generation, PathBuf)> {
    let log = VerifiedLog::read(vfs, logs.last_key_value()?.1, false).ok()?;
    if !has_records(&log) && logs.len() > 1 { logs.pop_last() } else { None }
}

/// Reads the header of a log.
pub fn read_log_header(vfs: &dyn Vfs, path: &Path) -> ese_engine::Result<LogHeader> {
    let io_error = |error: std::io::Error| Error::io(path, &error);
    let file = vfs.open(path, OpenMode::Read).map_err(io_error)?;
    let mut segment = IoBuffer::zeroed(SEGMENT_BYTES);
    file.read_at(0, &mut segment, IoReason::LogRead).map_err(io_error)?;
    LogHeader::decode(&segment).map_err(|error| Error::corrupt(path, error))
}
