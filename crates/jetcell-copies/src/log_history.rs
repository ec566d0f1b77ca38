//! Compares two sides by their logs. Determines which side continues the other, and where their histories diverge.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::{Error, LogChanges, RecoverySet, VerifiedLog};
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::{Generation, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::copy_state::CopyState;
use crate::error::Result;
use crate::incoming::read_partial_log;
use crate::log_end::{ClosedLogId, has_records, is_successor, read_log_header, remove_empty_tail};

/// The logs on one side: an instance, a copy or a backup.
pub struct LogHistory {
    vfs: Arc<dyn Vfs>,
    stream: Signature,
    logs: BTreeMap<Generation, PathBuf>,
    /// The newest generation of an instance, which may be running, and the file name of its log after it is closed.
    open: Option<(Generation, PathBuf)>,
}

/// How the log history of one side relates to that of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryRelation {
    /// Both sides have the same logs.
    Equal,
    /// This side ends earlier and the other side continues it, so this side can follow. Contains the number of
    /// generations that this side lacks.
    Behind(u32),
    /// This side has all of the other side's logs and more. Contains the number of additional generations.
    Ahead(u32),
    /// Both sides have this generation, but with different content.
    OtherContent(Generation),
    /// This side ends before this generation, and the other side's log does not continue it.
    ForeignPast(Generation),
    /// The logs belong to different log streams.
    OtherStream,
    /// The two sides' logs neither overlap nor adjoin, so they cannot be compared.
    NoCommonLog,
}

impl HistoryRelation {
    /// Returns true if one of the two sides must be reseeded.
    pub fn is_divergence(self) -> bool {
        matches!(
            self,
            HistoryRelation::OtherContent(_) | HistoryRelation::ForeignPast(_) | HistoryRelation::OtherStream
        )
    }
}

impl LogHistory {
    /// Finds the logs among `files` and returns their history.
    ///
    /// # Errors
    ///
    /// Returns an error if `files` contains no logs, or logs from several streams.
    pub fn from_files(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<LogHistory> {
        Ok(LogHistory::from_set(vfs, &RecoverySet::find(vfs, files)?))
    }

    /// Returns the history of a side: an instance, a copy or a backup. `files` are the files in `directory`.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no logs, or logs from several streams.
    pub fn from_directory(vfs: &Arc<dyn Vfs>, directory: &Path, files: &[PathBuf]) -> Result<LogHistory> {
        let history = match (CopyState::read(&**vfs, directory)?, LogHistory::from_files(vfs, files)) {
            // A copy of a clean instance has no closed logs at first.
            (Some(state), Err(_)) if state.first_log(vfs, directory)?.is_some() => {
                LogHistory { vfs: vfs.clone(), stream: state.stream(), logs: BTreeMap::new(), open: None }
            }
            (_, history) => history?,
        };
        history.with_part(directory)
    }

    /// Returns the history of the logs in a recovery set.
    pub fn from_set(vfs: &Arc<dyn Vfs>, set: &RecoverySet) -> LogHistory {
        let mut logs = set.logs.clone();
        let open = logs.last_key_value().map(|(newest, path)| {
            (*newest, path.with_file_name(set.log_names.archived(set.base_name, *newest)))
        });
        remove_empty_tail(vfs, &mut logs);
        LogHistory { vfs: vfs.clone(), stream: set.signature, logs, open }
    }

    /// Adds the partial log that follows a copy's closed logs. It came with a seed or a reseed, and the databases
    /// contain changes from it.
    pub fn with_part(mut self, directory: &Path) -> Result<LogHistory> {
        let part = read_partial_log(&self.vfs, directory)?;
        let is_next = |part: &VerifiedLog| self.logs.is_empty() || part.generation == self.newest().next();
        if let Some(part) = part.filter(|part| is_next(part) && has_records(part)) {
            self.logs.insert(part.generation, part.path);
        }
        Ok(self)
    }

    /// Returns the newest generation.
    pub fn newest(&self) -> Generation {
        self.logs.last_key_value().map_or(Generation(0), |(newest, _)| *newest)
    }

    /// Returns the logs by generation.
    pub fn logs(&self) -> &BTreeMap<Generation, PathBuf> {
        &self.logs
    }

    /// Returns the signature of the log stream.
    pub fn stream(&self) -> Signature {
        self.stream
    }

    fn header(&self, generation: Generation) -> ese_engine::Result<Option<LogHeader>> {
        let Some(path) = self.logs.get(&generation) else { return Ok(None) };
        let header = read_log_header(&*self.vfs, path);
        if !self.was_closed(generation, header.as_ref().ok().map(|header| header.generation)) {
            return header.map(Some);
        }
        read_log_header(&*self.vfs, self.closed_path(path)).map(Some)
    }

    fn read(&self, generation: Generation) -> Result<Option<VerifiedLog>> {
        let is_closed = generation < self.newest();
        let Some(path) = self.logs.get(&generation) else { return Ok(None) };
        let log = VerifiedLog::read(&self.vfs, path, is_closed);
        if !self.was_closed(generation, log.as_ref().ok().map(|log| log.generation)) {
            return Ok(Some(log?));
        }
        Ok(Some(VerifiedLog::read(&self.vfs, self.closed_path(path), true)?))
    }

    /// Returns true if the instance has closed its newest log since the files were listed. The file under the listed
    /// name then no longer exists, or has a different generation, `found`.
    fn was_closed(&self, generation: Generation, found: Option<Generation>) -> bool {
        let Some((newest, path)) = &self.open else { return false };
        found != Some(generation)
            && *newest == generation
            && read_log_header(&*self.vfs, path).is_ok_and(|header| header.generation == generation)
    }

    fn closed_path<'p>(&'p self, path: &'p Path) -> &'p Path {
        self.open.as_ref().map_or(path, |(_, closed)| closed)
    }

    /// Returns the end of one of this side's logs.
    pub fn log_end(&self, generation: Generation) -> Result<Option<ClosedLogId>> {
        Ok(self.read(generation)?.as_ref().map(ClosedLogId::from_log))
    }

    /// Returns the relation of this side to another side.
    ///
    /// # Errors
    ///
    /// Returns an error if a log that the comparison needs cannot be read or is damaged.
    pub fn compare(&self, other: &LogHistory) -> Result<HistoryRelation> {
        if self.stream != other.stream {
            return Ok(HistoryRelation::OtherStream);
        }
        let common: Vec<Generation> =
            self.logs.keys().filter(|generation| other.logs.contains_key(generation)).copied().collect();
        let Some(newest) = common.last().copied() else { return self.compare_adjacent(other) };
        let mut parted = None;
        for generation in common.iter().rev() {
            match self.compare_generation(other, *generation)? {
                LogComparison::Yes => break,
                LogComparison::Longer if *generation == newest && parted.is_none() => {
                    let behind = other.newest().0.saturating_sub(newest.0);
                    return Ok(if behind > 0 {
                        // The other side closed this generation earlier, so its content differs.
                        HistoryRelation::OtherContent(newest)
                    } else {
                        HistoryRelation::Ahead(self.newest().0.saturating_sub(newest.0))
                    });
                }
                LogComparison::Shorter if *generation == newest && parted.is_none() => {
                    let ahead = self.newest().0.saturating_sub(newest.0);
                    return Ok(if ahead > 0 {
                        HistoryRelation::OtherContent(newest)
                    } else {
                        HistoryRelation::Behind(other.newest().0.saturating_sub(newest.0))
                    });
                }
                _ => parted = Some(*generation),
            }
        }
        if let Some(first) = parted {
            return Ok(HistoryRelation::OtherContent(first));
        }
        let (ours, theirs) = (self.newest(), other.newest());
        // The longer side's next log identifies, in its header, the log that it continues.
        let (shorter, longer) = if ours <= theirs { (self, other) } else { (other, self) };
        if let (Some(end), Some(next)) = (shorter.log_end(newest)?, longer.header(newest.next())?)
            && !is_successor(&end, &next)
        {
            return Ok(HistoryRelation::ForeignPast(newest.next()));
        }
        Ok(match ours.cmp(&theirs) {
            std::cmp::Ordering::Equal => HistoryRelation::Equal,
            std::cmp::Ordering::Less => HistoryRelation::Behind(theirs.0.saturating_sub(ours.0)),
            std::cmp::Ordering::Greater => HistoryRelation::Ahead(ours.0.saturating_sub(theirs.0)),
        })
    }

    /// Compares sides without a common log. One side may start directly after the end of the other.
    fn compare_adjacent(&self, other: &LogHistory) -> Result<HistoryRelation> {
        let (shorter, longer) = if self.newest() < other.newest() { (self, other) } else { (other, self) };
        let newest = shorter.newest();
        match (shorter.log_end(newest)?, longer.header(newest.next())?) {
            (Some(end), Some(next)) if is_successor(&end, &next) => {
                let distance = longer.newest().0.saturating_sub(newest.0);
                let is_behind = self.newest() < other.newest();
                Ok(if is_behind {
                    HistoryRelation::Behind(distance)
                } else {
                    HistoryRelation::Ahead(distance)
                })
            }
            (Some(_), Some(_)) => Ok(HistoryRelation::ForeignPast(newest.next())),
            _ => Ok(HistoryRelation::NoCommonLog),
        }
    }

    /// Compares the two sides' logs for one generation.
    fn compare_generation(&self, other: &LogHistory, generation: Generation) -> Result<LogComparison> {
        let (Some(ours), Some(theirs)) = (self.header(generation)?, other.header(generation)?) else {
            return Ok(LogComparison::No);
        };
        if (ours.created, ours.previous_created, ours.previous_checksum)
            != (theirs.created, theirs.previous_created, theirs.previous_checksum)
        {
            return Ok(LogComparison::No);
        }
        // The next logs store the checksums of these logs.
        if let (Some(ours), Some(theirs)) =
            (self.header(generation.next())?, other.header(generation.next())?)
        {
            return Ok(if ours.previous_checksum == theirs.previous_checksum {
                LogComparison::Yes
            } else {
                LogComparison::No
            });
        }
        let (Some(ours), Some(theirs)) = (self.read(generation)?, other.read(generation)?) else {
            return Ok(LogComparison::No);
        };
        Ok(compare_content(&ours, &theirs))
    }

    /// Returns the changes in the logs, starting with generation `from`. This is the first generation that the other
    /// side does not have.
    ///
    /// The preceding log is read from the other side. If this side's logs continue it, the earlier logs are the same
    /// on both sides.
    ///
    /// # Errors
    ///
    /// Returns an error if a log is damaged or does not continue the previous log, or if the other side lacks the
    /// previous log.
    pub fn changes_from(&self, from: Generation, other: &LogHistory) -> ese_engine::Result<LogChanges> {
        let before = Generation(from.0.saturating_sub(1));
        let Some(first) = other.logs.get(&before).map(|path| (before, path.clone())) else {
            let path = other.logs.values().next().and_then(|path| path.parent()).unwrap_or(Path::new("."));
            return Err(Error::LogMissing { path: path.to_path_buf(), generation: before });
        };
        let own = self.logs.range(from..).map(|(generation, path)| (*generation, path.clone()));
        let logs: Vec<_> = std::iter::once(first).chain(own).collect();
        LogChanges::from_logs(&self.vfs, &logs, from, true)
    }
}

enum LogComparison {
    Yes,
    No,
    /// The first log contains all segments of the other log, and more.
    Longer,
    /// The other log contains all segments of the first log, and more.
    Shorter,
}

fn compare_content(ours: &VerifiedLog, theirs: &VerifiedLog) -> LogComparison {
    if ours.checksum == theirs.checksum {
        return LogComparison::Yes;
    }
    let end = |log: &VerifiedLog| {
        if log.end.generation == log.generation {
            usize::from(log.end.segment)
        } else {
            log.bytes.len() / SEGMENT_BYTES - 1
        }
    };
    let (our_end, their_end) = (end(ours), end(theirs));
    let common = our_end.min(their_end) * SEGMENT_BYTES;
    let part = |log: &VerifiedLog| log.bytes.get(SEGMENT_BYTES..common).map(<[u8]>::to_vec);
    match part(ours) == part(theirs) {
        true if our_end > their_end => LogComparison::Longer,
        true if our_end < their_end => LogComparison::Shorter,
        _ => LogComparison::No,
    }
}
