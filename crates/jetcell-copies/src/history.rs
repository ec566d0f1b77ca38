//! Compares two sides by their logs. Determines which side continues the other, and where their histories diverge.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::{Error, LogChanges, LogCopy, RecoverySet};
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::{Generation, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::copy_state::CopyState;
use crate::error::Result;
use crate::incoming::part_of_log;
use crate::log_end::{LogEnd, follows, has_records, header_of, take_empty_tail};

/// The logs of one side: an instance, a copy or a backup.
pub struct History {
    vfs: Arc<dyn Vfs>,
    stream: Signature,
    logs: BTreeMap<Generation, PathBuf>,
    /// The newest generation of an instance, which may be running, and the name that its log gets when it is closed.
    open: Option<(Generation, PathBuf)>,
}

/// Relation of one side to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
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

impl Relation {
    /// Returns true if one of the two sides must be reseeded.
    pub fn is_divergence(self) -> bool {
        matches!(self, Relation::OtherContent(_) | Relation::ForeignPast(_) | Relation::OtherStream)
    }
}

impl History {
    /// Finds the logs among `files` and returns their history.
    ///
    /// # Errors
    ///
    /// Returns an error if `files` contains no logs, or logs from several streams.
    pub fn of_files(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<History> {
        Ok(History::of_set(vfs, &RecoverySet::find(vfs, files)?))
    }

    /// Returns the history of a side: an instance, a copy or a backup. `files` are the files in `directory`.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no logs, or logs from several streams.
    pub fn of_side(vfs: &Arc<dyn Vfs>, directory: &Path, files: &[PathBuf]) -> Result<History> {
        let history = match (CopyState::read(&**vfs, directory)?, History::of_files(vfs, files)) {
            // A copy of a clean instance has no closed logs at first.
            (Some(state), Err(_)) if state.first_log(vfs, directory)?.is_some() => {
                History { vfs: vfs.clone(), stream: state.stream(), logs: BTreeMap::new(), open: None }
            }
            (_, history) => history?,
        };
        history.with_part(directory)
    }

    /// Returns the history of the logs in a recovery set.
    pub fn of_set(vfs: &Arc<dyn Vfs>, set: &RecoverySet) -> History {
        let mut logs = set.logs.clone();
        let open = logs.last_key_value().map(|(newest, path)| {
            (*newest, path.with_file_name(set.log_names.archived(set.base_name, *newest)))
        });
        take_empty_tail(vfs, &mut logs);
        History { vfs: vfs.clone(), stream: set.signature, logs, open }
    }

    /// Adds the partial log that follows a copy's closed logs. It came with a seed or a reseed, and the databases
    /// contain changes from it.
    pub fn with_part(mut self, directory: &Path) -> Result<History> {
        let part = part_of_log(&self.vfs, directory)?;
        let is_next = |part: &LogCopy| self.logs.is_empty() || part.generation == self.newest().next();
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

    fn header(&self, generation: Generation) -> Result<Option<LogHeader>> {
        let Some(path) = self.logs.get(&generation) else { return Ok(None) };
        let header = header_of(&*self.vfs, path);
        if !self.was_closed(generation, header.as_ref().ok().map(|header| header.generation)) {
            return header.map(Some);
        }
        header_of(&*self.vfs, self.closed_path(path)).map(Some)
    }

    fn read(&self, generation: Generation) -> Result<Option<LogCopy>> {
        let is_closed = generation < self.newest();
        let Some(path) = self.logs.get(&generation) else { return Ok(None) };
        let log = LogCopy::read(&self.vfs, path, is_closed);
        if !self.was_closed(generation, log.as_ref().ok().map(|log| log.generation)) {
            return Ok(Some(log?));
        }
        Ok(Some(LogCopy::read(&self.vfs, self.closed_path(path), true)?))
    }

    /// Returns true if the instance has closed its newest log since the files were listed. The file under the listed
    /// name then no longer exists, or has a different generation, `found`.
    fn was_closed(&self, generation: Generation, found: Option<Generation>) -> bool {
        let Some((newest, path)) = &self.open else { return false };
        found != Some(generation)
            && *newest == generation
            && header_of(&*self.vfs, path).is_ok_and(|header| header.generation == generation)
    }

    fn closed_path<'p>(&'p self, path: &'p Path) -> &'p Path {
        self.open.as_ref().map_or(path, |(_, closed)| closed)
    }

    /// Returns the end of one of this side's logs.
    pub fn end_of(&self, generation: Generation) -> Result<Option<LogEnd>> {
        Ok(self.read(generation)?.as_ref().map(LogEnd::of))
    }

    /// Returns the relation of this side to another side.
    ///
    /// # Errors
    ///
    /// Returns an error if a log that the comparison needs cannot be read or is damaged.
    pub fn compare(&self, other: &History) -> Result<Relation> {
        if self.stream != other.stream {
            return Ok(Relation::OtherStream);
        }
        let common: Vec<Generation> =
            self.logs.keys().filter(|generation| other.logs.contains_key(generation)).copied().collect();
        let Some(newest) = common.last().copied() else { return self.adjacent(other) };
        let mut parted = None;
        for generation in common.iter().rev() {
            match self.same(other, *generation)? {
                Same::Yes => break,
                Same::Longer if *generation == newest && parted.is_none() => {
                    let behind = other.newest().0 - newest.0;
                    return Ok(if behind > 0 {
                        // The other side closed this generation earlier, so its content differs.
                        Relation::OtherContent(newest)
                    } else {
                        Relation::Ahead(self.newest().0 - newest.0)
                    });
                }
                Same::Shorter if *generation == newest && parted.is_none() => {
                    let ahead = self.newest().0 - newest.0;
                    return Ok(if ahead > 0 {
                        Relation::OtherContent(newest)
                    } else {
                        Relation::Behind(other.newest().0 - newest.0)
                    });
                }
                _ => parted = Some(*generation),
            }
        }
        if let Some(first) = parted {
            return Ok(Relation::OtherContent(first));
        }
        let (ours, theirs) = (self.newest(), other.newest());
        // The longer side's next log identifies, in its header, the log that it continues.
        let (shorter, longer) = if ours <= theirs { (self, other) } else { (other, self) };
        if let (Some(end), Some(next)) = (shorter.end_of(newest)?, longer.header(newest.next())?)
            && !follows(&end, &next)
        {
            return Ok(Relation::ForeignPast(newest.next()));
        }
        Ok(match ours.cmp(&theirs) {
            std::cmp::Ordering::Equal => Relation::Equal,
            std::cmp::Ordering::Less => Relation::Behind(theirs.0 - ours.0),
            std::cmp::Ordering::Greater => Relation::Ahead(ours.0 - theirs.0),
        })
    }

    /// Compares sides without a common log. One side may start directly after the end of the other.
    fn adjacent(&self, other: &History) -> Result<Relation> {
        let (shorter, longer) = if self.newest() < other.newest() { (self, other) } else { (other, self) };
        let newest = shorter.newest();
        match (shorter.end_of(newest)?, longer.header(newest.next())?) {
            (Some(end), Some(next)) if follows(&end, &next) => {
                let distance = longer.newest().0 - newest.0;
                let is_behind = self.newest() < other.newest();
                Ok(if is_behind { Relation::Behind(distance) } else { Relation::Ahead(distance) })
            }
            (Some(_), Some(_)) => Ok(Relation::ForeignPast(newest.next())),
            _ => Ok(Relation::NoCommonLog),
        }
    }

    /// Compares the two sides' logs for one generation.
    fn same(&self, other: &History, generation: Generation) -> Result<Same> {
        let (Some(ours), Some(theirs)) = (self.header(generation)?, other.header(generation)?) else {
            return Ok(Same::No);
        };
        if (ours.created, ours.previous_created, ours.previous_checksum)
            != (theirs.created, theirs.previous_created, theirs.previous_checksum)
        {
            return Ok(Same::No);
        }
        // The next logs store the checksums of these logs.
        if let (Some(ours), Some(theirs)) =
            (self.header(generation.next())?, other.header(generation.next())?)
        {
            return Ok(if ours.previous_checksum == theirs.previous_checksum { Same::Yes } else { Same::No });
        }
        let (Some(ours), Some(theirs)) = (self.read(generation)?, other.read(generation)?) else {
            return Ok(Same::No);
        };
        Ok(compare_content(&ours, &theirs))
    }

    /// Returns the changes in the logs from generation `from` on, which is the first generation that the other side
    /// does not have.
    ///
    /// The preceding log is read from the other side. If this side's logs continue it, the earlier logs are the same
    /// on both sides.
    ///
    /// # Errors
    ///
    /// Returns an error if a log is damaged or does not continue the previous log, or if the other side lacks the
    /// previous log.
    pub fn changes_from(&self, from: Generation, other: &History) -> Result<LogChanges> {
        let before = Generation(from.0.saturating_sub(1));
        let Some(first) = other.logs.get(&before).map(|path| (before, path.clone())) else {
            let path = other.logs.values().next().and_then(|path| path.parent()).unwrap_or(Path::new("."));
            return Err(Error::LogMissing { path: path.to_path_buf(), generation: before }.into());
        };
        let own = self.logs.range(from..).map(|(generation, path)| (*generation, path.clone()));
        let logs: Vec<_> = std::iter::once(first).chain(own).collect();
        Ok(LogChanges::of(&self.vfs, &logs, from, true)?)
    }
}

enum Same {
    Yes,
    No,
    /// The first log contains all segments of the other log, and more.
    Longer,
    /// The other log contains all segments of the first log, and more.
    Shorter,
}

fn compare_content(ours: &LogCopy, theirs: &LogCopy) -> Same {
    if ours.checksum == theirs.checksum {
        return Same::Yes;
    }
    let end = |log: &LogCopy| match log.end.generation == log.generation {
        true => usize::from(log.end.segment),
        false => log.bytes.len() / SEGMENT_BYTES - 1,
    };
    let (our_end, their_end) = (end(ours), end(theirs));
    let common = our_end.min(their_end) * SEGMENT_BYTES;
    let part = |log: &LogCopy| log.bytes.get(SEGMENT_BYTES..common).map(<[u8]>::to_vec);
    match part(ours) == part(theirs) {
        true if our_end > their_end => Same::Longer,
        true if our_end < their_end => Same::Shorter,
        _ => Same::No,
    }
}
