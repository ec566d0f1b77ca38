//! Positions that a restore can reach.

use ese_engine::{RecoverySet, VerifiedLog};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, Vfs};

use crate::chain::BackupChain;
use crate::damaged_log::DamagedLog;
use crate::error::{BackupError, Result};
use crate::manifest::{StoredDatabase, StoredFile};
use crate::planned_log::PlannedLog;
use crate::ranges::{RANGE_BYTES, range_bounds, read_range};
use crate::recovery::ReplayEnd;
use crate::set_error::BackupSetError;
use crate::verify::open_stored;

/// The range of positions that a restore can reach, with the times of the log segments at both ends of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreWindow {
    /// Earliest position: all databases are consistent from here on.
    pub earliest: LogPosition,
    /// Time at which the log segment before the earliest position was begun.
    pub earliest_time: Option<LogTime>,
    /// Position after the last log record.
    pub latest: LogPosition,
    /// Time at which the last log segment was begun.
    pub latest_time: Option<LogTime>,
}

/// The positions that a restore of backups and surviving logs can reach, and the logs that limit them.
#[derive(Clone, Debug)]
pub struct RestoreReach {
    /// The positions, or `None` if no position can be reached.
    pub window: Option<RestoreWindow>,
    /// Missing and damaged logs, at which a restore to a later position would fail.
    pub problems: Vec<BackupError>,
    /// Surviving logs with a damaged header.
    pub damaged_logs: Vec<DamagedLog>,
}

impl RestoreWindow {
    /// Finds the window of a chain whose logs are `logs`. `names` contains the same logs.
    pub(crate) fn find(
        vfs: &Arc<dyn Vfs>,
        chain: &BackupChain,
        logs: &[PlannedLog],
        names: &RecoverySet,
    ) -> Result<RestoreWindow> {
        let usable = chain.base.manifest.databases.iter().filter(|database| database.usable);
        let mut earliest = LogPosition::MIN;
        for database in usable {
            earliest = earliest.max(consistent_from(&**vfs, chain, database)?);
        }
        // Skip damaged logs at the end: a restore that ends before them does not need them.
        let end = |log: &PlannedLog| VerifiedLog::read(vfs, &log.path, false).ok().map(|read| read.end);
        let latest = logs.iter().rev().find_map(end).unwrap_or(earliest);
        let time = |position| names.time_before(vfs, position).ok().flatten();
        let (earliest_time, latest_time) = (time(earliest), time(latest));
        Ok(RestoreWindow { earliest, earliest_time, latest, latest_time })
    }

    /// Returns true if the logs end before the requested end of a replay, which stops at `position`.
    pub(crate) fn ends_before(
        &self,
        requested: ReplayEnd,
        position: LogPosition,
        newest: Generation,
    ) -> bool {
        match requested {
            ReplayEnd::Generation(generation) => newest < Generation(generation),
            ReplayEnd::Position(requested) => requested > self.latest,
            ReplayEnd::Time(_) => position > self.latest,
        }
    }
}

/// Returns the position from which a backed-up database is consistent. This is the end of the last log that it needs,
/// or the position at which it was shut down.
fn consistent_from(vfs: &dyn Vfs, chain: &BackupChain, database: &StoredDatabase) -> Result<LogPosition> {
    let base = &chain.base;
    if let Some((_, needed)) = database.needs {
        let Some(log) = base.manifest.logs.iter().find(|log| log.generation == needed) else {
            let (directory, file) = (base.directory.clone(), database.file.clone());
            return Err(BackupSetError::NeededLogMissing { directory, file, generation: needed }.into());
        };
        return Ok(log.end_position().min(LogPosition::new(log.generation.saturating_add(1), 0, 0)));
    }
    let stored = StoredFile { name: &database.file, bytes: database.bytes, ranges: &database.ranges };
    let path = base.directory.join(&database.file);
    let file = open_stored(vfs, &path, stored)?;
    let Some(sum) = stored.range_checksums().0.first().copied() else {
        return Err(BackupSetError::OtherDatabase(path).into());
    };
    let mut start = IoBuffer::zeroed(RANGE_BYTES);
    if !read_range(&*file, &path, range_bounds(0, stored.bytes), sum, &mut start)? {
        // The restore will report the damage and remove the files that it has created.
        return Ok(LogPosition::MIN);
    }
    let (header, _) = DatabaseHeader::read_from_start(&start)
        .map_err(|error| BackupError::from(ese_engine::Error::corrupt(&path, error)))?;
    match header.state {
        DatabaseState::CleanShutdown => Ok(header.consistent_position),
        // According to the manifest, the database needs no logs.
        _ => Err(BackupSetError::OtherDatabase(path).into()),
    }
}
