//! Logs and databases found in directories.

mod named_paths;
mod plan;
mod streams;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::foreign::ForeignFormat;
use ese_format::header::{DatabaseHeader, HeaderError};
use ese_format::log::header::{LogHeader, LogHeaderError, SEGMENT_BYTES};
use ese_format::log::record::{LogRecord, decode_path};
use ese_format::log::segment::finish;
use ese_format::recognise::{EseFileKind, START_LEN};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, IoBuffer, IoReason, OpenMode, Vfs, is_unfinished, parent_directory};

pub use self::plan::RecoveryPlan;
use super::attach::logs_content;
use super::redo::redoable;
use crate::log::{LogChain, LogNameFormat, LogNames, LogReader, ReceivedLog};
use crate::{Error, LogErrorKind, Result, UsageError};

/// File name extension of logs that a recovery abandoned.
pub const SET_ASIDE: &str = ".lost";

/// A database file that was found by recovery, with its header.
#[derive(Clone, Debug)]
pub struct DiscoveredDatabase {
    /// Path of the file.
    pub path: PathBuf,
    /// Header of the database.
    pub header: DatabaseHeader,
}

/// Reason why a file is not part of a [`RecoverySet`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoredReason {
    /// The file belongs to another log stream.
    #[error("it belongs to another log stream")]
    OtherStream,
    /// An earlier recovery abandoned the log and renamed its file.
    #[error("an earlier recovery abandoned it")]
    SetAside,
    /// The file contains an earlier generation and was prepared for reuse as a new log.
    #[error("the file contains an earlier generation and was prepared for reuse")]
    Reused,
    /// Another file has all records of the generation.
    #[error("another file contains the complete generation")]
    Duplicate,
    /// The header of the log cannot be read.
    #[error(transparent)]
    LogHeader(LogHeaderError),
    /// The header of the database cannot be read.
    #[error(transparent)]
    DatabaseHeader(HeaderError),
}

/// The logs and databases of one stream, identified by file content.
#[derive(Clone, Debug)]
pub struct RecoverySet {
    /// Base name of the logs, taken from the first log whose name begins with a valid base name, or `E00` if there is
    /// none.
    pub base_name: FileStem,
    /// Signature of the log stream.
    pub signature: Signature,
    /// Path of each generation's file.
    pub logs: BTreeMap<Generation, PathBuf>,
    /// Databases of the stream.
    pub databases: Vec<DiscoveredDatabase>,
    /// Oldest and newest generations that an earlier recovery abandoned. Their files have the extension
    /// [`SET_ASIDE`].
    pub set_aside: Option<(Generation, Generation)>,
    /// Files that are not part of the set, each with the reason.
    pub ignored: Vec<(PathBuf, IgnoredReason)>,
    /// Format of the log names.
    pub log_names: LogNameFormat,
    /// Whether the newest log has the name of the current log.
    pub(super) has_current: bool,
    /// Signatures of all databases that were found, including those of other streams.
    pub(super) signatures: Vec<Signature>,
}

/// The databases that appear in the logs of a plan.
#[derive(Clone, Debug, Default)]
pub struct VerifiedLogs {
    /// Signatures of databases that redo can create from the logs.
    created: Vec<Signature>,
    /// Signatures of attached databases, with their paths in the log.
    attached: Vec<(Signature, String)>,
}

impl VerifiedLogs {
    /// Returns whether redo can create a database from the logs.
    pub fn creates_database(&self) -> bool {
        !self.created.is_empty()
    }

    fn add(&mut self, signature: Signature, path: &[u8]) {
        if !self.attached.iter().any(|(known, _)| *known == signature) {
            self.attached.push((signature, decode_path(path)));
        }
    }
}

/// Role of a log, as indicated by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum LogRole {
    Archived,
    Current,
    Prepared,
    SetAside,
}

struct DiscoveredLog {
    path: PathBuf,
    header: LogHeader,
    /// Base name; `None` if the name does not begin with a valid base name.
    base: Option<FileStem>,
    role: LogRole,
    short: bool,
}

impl RecoverySet {
    /// Classifies files by content. The files are not changed. Unfinished files, and files that another process has
    /// removed or renamed since they were listed, are skipped. If a log is missing as a result, [`RecoverySet::plan`]
    /// reports it.
    ///
    /// Returns an error if there are no logs, if the logs belong to several streams, or if an existing file cannot be
    /// read.
    pub fn find(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let (mut logs, mut databases, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
        let mut other = None;
        for path in files.iter().filter(|path| !is_unfinished(path)) {
            let Some(recognised) = recognise(&**vfs, path)? else { continue };
            match recognised {
                (EseFileKind::Log, start) => {
                    match LogHeader::decode(&start[..SEGMENT_BYTES.min(start.len())]) {
                        Ok(header) => logs.push(found_log(path, header)),
                        Err(error) => ignored.push((path.clone(), IgnoredReason::LogHeader(error))),
                    }
                }
                (EseFileKind::Database, start) => match DatabaseHeader::read_from_start(&start) {
                    Ok((header, _)) => databases.push(DiscoveredDatabase { path: path.clone(), header }),
                    Err(error) => ignored.push((path.clone(), IgnoredReason::DatabaseHeader(error))),
                },
                (EseFileKind::Unknown, start) if other.is_none() => {
                    other = ForeignFormat::detect(&start).map(|format| (path.clone(), format));
                }
                _ => {}
            }
        }
        let signature = stream_of(&logs, &databases, &ignored, other)?;
        for log in logs.iter().filter(|log| log.header.signature != signature) {
            ignored.push((log.path.clone(), IgnoredReason::OtherStream));
        }
        logs.retain(|log| log.header.signature == signature);
        let aside: Vec<DiscoveredLog> = logs.extract_if(.., |log| log.role == LogRole::SetAside).collect();
        let generations = aside.iter().map(|log| log.header.generation);
        let set_aside = generations.clone().min().zip(generations.max());
        ignored.extend(aside.into_iter().map(|log| (log.path, IgnoredReason::SetAside)));
        let signatures = databases.iter().map(|database| database.header.signature).collect();
        for database in databases.iter().filter(|database| database.header.log_signature != signature) {
            ignored.push((database.path.clone(), IgnoredReason::OtherStream));
        }
        databases.retain(|database| database.header.log_signature == signature);
        let base_name = logs.iter().find_map(|log| log.base).unwrap_or_default();
        let newer = |log: &DiscoveredLog| log.path.extension().is_some_and(|extension| extension == "jtx");
        let log_names = LogNameFormat {
            short: logs.iter().any(|log| log.short),
            newer_extensions: logs.iter().any(newer),
        };
        let (chosen, has_current) = choose(vfs, logs, &mut ignored)?;
        Ok(RecoverySet {
            base_name,
            signature,
            logs: chosen,
            databases,
            set_aside,
            ignored,
            log_names,
            has_current,
            signatures,
        })
    }

    /// Returns the error for a missing generation. A file with the name of the missing log may belong to another
    /// stream, or its header may be damaged.
    pub fn missing_log(&self, plan: &RecoveryPlan, generation: Generation) -> Error {
        let newest = plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
        let names = [self.name_of(generation, generation), self.name_of(generation, newest)];
        for (path, reason) in &self.ignored {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !names.iter().any(|wanted| wanted.eq_ignore_ascii_case(&name)) {
                continue;
            }
            let position = LogPosition { generation, segment: 0, offset: 0 };
            match reason {
                IgnoredReason::LogHeader(error) => return unreadable_log(path, generation, *error),
                IgnoredReason::OtherStream => {
                    let fault = LogErrorKind::OtherStream;
                    return Error::Log { path: path.clone(), position, fault };
                }
                _ => {}
            }
        }
        let log = self.logs.first_key_value().map(|(_, path)| parent_directory(path));
        let database = self.databases.first().map(|database| parent_directory(&database.path));
        let path = log.or(database).unwrap_or(Path::new(".")).to_path_buf();
        Error::LogMissing { path, generation }
    }

    /// Returns the file name that a generation gets in a separate directory where `newest` is the newest generation.
    pub fn name_of(&self, generation: Generation, newest: Generation) -> String {
        if generation == newest {
            self.log_names.current(self.base_name)
        } else {
            self.log_names.archived(self.base_name, generation)
        }
    }

    /// Verifies that logs are undamaged and consecutive, and that redo knows all their records. The files are not
    /// changed.
    pub fn verify(
        &self,
        vfs: &Arc<dyn Vfs>,
        plan: &RecoveryPlan,
        until: LogPosition,
    ) -> Result<VerifiedLogs> {
        if plan.logs.is_empty() {
            return Err(UsageError::StopBeforeLogs(until).into());
        }
        let mut found = VerifiedLogs::default();
        let reader = LogReader::received(vfs.clone(), LogNames::new(Path::new("."), self.base_name));
        let mut chain = LogChain::default();
        for (index, (generation, path)) in plan.logs.iter().enumerate() {
            reader.add(*generation, path);
            let log = reader.receive(*generation, &chain, index + 1 == plan.logs.len())?;
            if index == 0 {
                let listed = Attachment::decode_list(&log.header().attachment_list).unwrap_or_default();
                listed.iter().for_each(|entry| found.add(entry.signature, &entry.path));
            }
            chain = reader.visit_received(&log, &chain, |stored| {
                if stored.start < until {
                    match redoable(&reader, &stored)? {
                        LogRecord::CreateDb(create) if logs_content(&create) => {
                            found.created.push(create.signature);
                        }
                        LogRecord::AttachDb(attach) => found.add(attach.signature, &attach.path),
                        _ => {}
                    }
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Returns the paths in the log of databases that the logs change without creating them, and that are not among
    /// the files.
    pub fn missing_databases<'a>(&'a self, logs: &'a VerifiedLogs) -> impl Iterator<Item = &'a str> {
        let is_there = |signature| self.signatures.contains(signature) || logs.created.contains(signature);
        logs.attached.iter().filter(move |(signature, _)| !is_there(signature)).map(|(_, path)| path.as_str())
    }

    /// Returns the first position at which records may be later than `time`, or the end of the log if all records are
    /// older.
    pub fn position_after(&self, vfs: &Arc<dyn Vfs>, time: LogTime) -> Result<LogPosition> {
        let reader = LogReader::received(vfs.clone(), LogNames::new(Path::new("."), self.base_name));
        for (generation, path) in &self.logs {
            reader.add(*generation, path);
            let log = reader.receive(*generation, &LogChain::default(), true)?;
            if let Some(position) = log.first_segment_after(time) {
                return Ok(position);
            }
        }
        Ok(LogPosition::MAX)
    }

    /// Truncates a log file at `until`, durably removing the records from that position on.
    pub fn cut_log(vfs: &Arc<dyn Vfs>, path: &Path, until: LogPosition) -> Result<()> {
        let io_error = |e: std::io::Error| Error::io(path, &e);
        let file = vfs.open(path, OpenMode::Write).map_err(io_error)?;
        let len = file.len().map_err(io_error)?;
        let at = u64::from(until.segment) * SEGMENT_BYTES as u64;
        if at == 0 || at + SEGMENT_BYTES as u64 > len {
            return Ok(());
        }
        let mut rest = IoBuffer::zeroed((len - at) as usize);
        let (segment, _) = rest.split_at_mut(SEGMENT_BYTES);
        file.read_at(at, segment, IoReason::LogRead).map_err(io_error)?;
        let time = segment
            .get(16..)
            .and_then(|time| time.first_chunk())
            .map_or(LogTime::NONE, |time| LogTime(*time));
        let keep = usize::from(until.offset).min(SEGMENT_BYTES);
        segment.get_mut(keep..).unwrap_or_default().fill(0);
        match segment.first_chunk_mut() {
            Some(segment) if keep > ese_format::log::segment::RECORDS_AT => {
                let position = LogPosition { offset: 0, ..until };
                finish(segment, position, time, position);
            }
            _ => segment.fill(0),
        }
        file.write_at(at, &rest, IoReason::LogFormat).map_err(io_error)?;
        file.sync(IoReason::LogFormat).map_err(io_error)
    }
}

/// Returns a file's format and first bytes, or `None` if the file no longer exists.
pub(super) fn recognise(vfs: &dyn Vfs, path: &Path) -> Result<Option<(EseFileKind, Vec<u8>)>> {
    let io_error = |e: std::io::Error| Error::io(path, &e);
    let file = match vfs.open(path, OpenMode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_error)?,
    };
    let len = file.len().map_err(io_error)?.min(START_LEN as u64) as usize / SEGMENT_BYTES * SEGMENT_BYTES;
    // Most files of an instance are logs, for which the first segment is sufficient.
    let mut start = IoBuffer::zeroed(len.min(SEGMENT_BYTES));
    file.read_at(0, &mut start, IoReason::DatabaseRead).map_err(io_error)?;
    if len > SEGMENT_BYTES && LogHeader::decode(&start).is_err() {
        start = IoBuffer::zeroed(len);
        file.read_at(0, &mut start, IoReason::DatabaseRead).map_err(io_error)?;
    }
    Ok(Some((EseFileKind::detect(&start), start.to_vec())))
}

/// Determines the stream to which the files belong. `other` is a file of another program.
fn stream_of(
    logs: &[DiscoveredLog],
    databases: &[DiscoveredDatabase],
    ignored: &[(PathBuf, IgnoredReason)],
    other: Option<(PathBuf, ForeignFormat)>,
) -> Result<Signature> {
    let mut streams: Vec<Signature> = Vec::new();
    for log in logs {
        if !streams.contains(&log.header.signature) {
            streams.push(log.header.signature);
        }
    }
    let is_stream_of_database =
        |stream: &&Signature| databases.iter().any(|database| database.header.log_signature == **stream);
    let count = |stream: &Signature| logs.iter().filter(|log| log.header.signature == *stream).count();
    let most = streams.iter().map(count).max().unwrap_or(0);
    let mut largest = streams.iter().filter(|stream| count(stream) == most);
    match (streams.iter().find(is_stream_of_database), largest.next(), largest.next()) {
        (Some(named), ..) => Ok(*named),
        (None, Some(one), None) => Ok(*one),
        (None, Some(_), Some(_)) => Err(UsageError::SeveralStreams.into()),
        _ => {
            // Logs exist, but none of their headers can be read.
            for (path, reason) in ignored {
                if let IgnoredReason::LogHeader(error) = reason {
                    return Err(unreadable_log(path, Generation(0), *error));
                }
            }
            let database = databases.first().map(|database| database.path.clone());
            Err(match (database, other) {
                (Some(database), _) => UsageError::NoLogs(database),
                (None, Some((path, format))) => UsageError::OtherFormat { path, format },
                (None, None) => UsageError::NothingFound,
            }
            .into())
        }
    }
}

/// Returns the error for a log whose header cannot be read.
fn unreadable_log(path: &Path, generation: Generation, error: LogHeaderError) -> Error {
    let position = LogPosition { generation, segment: 0, offset: 0 };
    Error::Log { path: path.to_path_buf(), position, fault: LogErrorKind::Header(error) }
}

fn found_log(path: &Path, header: LogHeader) -> DiscoveredLog {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let generation = header.generation.0;
    let strip = |suffix: &str| {
        let at = stem.len().checked_sub(suffix.len())?;
        let (base, rest) = (stem.get(..at)?, stem.get(at..)?);
        (rest.eq_ignore_ascii_case(suffix) && !base.is_empty()).then(|| base.to_string())
    };
    let (base, role, short) = if let Some(base) = strip(&format!("{generation:08X}")) {
        (base, LogRole::Archived, false)
    } else if let Some(base) = strip(&format!("{generation:05X}")) {
        (base, LogRole::Archived, true)
    } else if let Some(base) = strip("tmp") {
        (base, LogRole::Prepared, false)
    } else if path.extension().is_some_and(|extension| *extension == SET_ASIDE[1..]) {
        (stem, LogRole::SetAside, false)
    } else {
        (stem, LogRole::Current, false)
    };
    DiscoveredLog { path: path.to_path_buf(), header, base: FileStem::new(&base).ok(), role, short }
}

/// Chooses one file for each generation. A prepared file belongs to the stream only if the previous or next log
/// confirms it. It contains either the generation that was being created, or one whose file was about to be reused.
fn choose(
    vfs: &Arc<dyn Vfs>,
    mut found: Vec<DiscoveredLog>,
    ignored: &mut Vec<(PathBuf, IgnoredReason)>,
) -> Result<(BTreeMap<Generation, PathBuf>, bool)> {
    found.sort_by_key(|log| (log.header.generation, log.role));
    let mut by_generation: BTreeMap<Generation, Vec<DiscoveredLog>> = BTreeMap::new();
    for log in found {
        by_generation.entry(log.header.generation).or_default().push(log);
    }
    let mut chosen: BTreeMap<Generation, (PathBuf, LogRole)> = BTreeMap::new();
    let headers: BTreeMap<Generation, LogHeader> = by_generation
        .iter()
        .filter_map(|(generation, logs)| {
            let log = logs.iter().find(|log| log.role != LogRole::Prepared)?;
            Some((*generation, log.header.clone()))
        })
        .collect();
    for (generation, logs) in by_generation {
        let next = headers.get(&generation.next());
        let previous = generation.0.checked_sub(1).and_then(|number| headers.get(&Generation(number)));
        let belongs = |log: &DiscoveredLog| {
            log.role != LogRole::Prepared
                || next.is_some_and(|next| next.previous_created == log.header.created)
                || previous.is_some_and(|previous| log.header.previous_created == previous.created)
        };
        let several = logs.len() > 1;
        let mut best: Option<(PathBuf, LogRole)> = None;
        for log in logs {
            if !belongs(&log) {
                ignored.push((log.path, IgnoredReason::Reused));
                continue;
            }
            // If several files have the same generation, the next generation identifies the correct one.
            let right = match next {
                Some(next) if several => content_of(vfs, &log).ok() == Some(next.previous_checksum),
                _ => best.is_none(),
            };
            if right || best.is_none() {
                if let Some((path, _)) = best.replace((log.path, log.role)) {
                    ignored.push((path, IgnoredReason::Duplicate));
                }
            } else {
                ignored.push((log.path, IgnoredReason::Duplicate));
            }
        }
        if let Some(best) = best {
            chosen.insert(generation, best);
        }
    }
    let has_current = chosen.last_key_value().is_some_and(|(_, (_, role))| *role != LogRole::Archived);
    Ok((chosen.into_iter().map(|(generation, (path, _))| (generation, path)).collect(), has_current))
}

fn content_of(vfs: &Arc<dyn Vfs>, log: &DiscoveredLog) -> Result<u64> {
    let reader =
        LogReader::received(vfs.clone(), LogNames::new(Path::new("."), log.base.unwrap_or_default()));
    reader.add(log.header.generation, &log.path);
    reader
        .receive(log.header.generation, &LogChain::default(), true)
        .as_ref()
        .map(ReceivedLog::accumulated)
        .map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use ese_format::PageSize;
    use ese_format::log::record::{LogRecord, Opaque};
    use ese_format::log::segment::RECORDS_AT;
    use jetcell_vfs::SimVfs;

    use super::*;
    use crate::DatabaseOptions;
    use crate::btree::tests::open;

    const END: LogPosition = LogPosition::MAX;

    #[test]
    fn a_log_is_truncated_after_the_given_position() {
        const SEGMENTS: usize = 4;
        let path = Path::new("/E00.log");
        let whole: Vec<u8> = (0..SEGMENTS * SEGMENT_BYTES).map(|at| (at % 251) as u8 | 1).collect();
        for segment in 0..=SEGMENTS + 1 {
            for offset in [0, RECORDS_AT, RECORDS_AT + 1, 4000] {
                let disk = SimVfs::new();
                disk.put(path, &whole);
                let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
                RecoverySet::cut_log(&vfs, path, LogPosition::new(7, segment as u16, offset as u16)).unwrap();
                let cut = disk.contents(path).unwrap();
                if !(1..SEGMENTS).contains(&segment) {
                    assert!(cut == whole, "the header and the bytes after the file are unchanged: {segment}");
                    continue;
                }
                let at = segment * SEGMENT_BYTES;
                assert!(cut.len() == whole.len() && cut[..at] == whole[..at]);
                let stays = if offset > RECORDS_AT { offset } else { 0 };
                assert!(cut[at + stays..].iter().all(|byte| *byte == 0), "{segment} {offset}");
                // The header of the segment is rewritten.
                if stays > 0 {
                    assert!(cut[at + RECORDS_AT..at + stays] == whole[at + RECORDS_AT..at + stays]);
                }
            }
        }
    }

    #[test]
    fn records_before_the_end_of_the_recovery_are_verified() {
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        instance.create_database(Path::new("/db/test.edb"), &DatabaseOptions::default()).unwrap();
        // A file growth record with a layout that redo does not know.
        let growth = LogRecord::Ignored(Opaque { kind: 68, body: vec![0; 9] });
        let (at, _) = instance.core().append(&[growth]).unwrap();
        let skipped = LogRecord::Ignored(Opaque { kind: 82, body: vec![1, 2] });
        let (behind, _) = instance.core().append(&[skipped]).unwrap();
        instance.flush().unwrap();
        drop(instance);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.process_kill());
        let set = RecoverySet::find(&vfs, &vfs.list(Path::new("/log")).unwrap()).unwrap();
        let plan = set.plan(END);
        assert!(set.verify(&vfs, &plan, at).is_ok());
        for until in [behind, END] {
            let error = set.verify(&vfs, &plan, until).unwrap_err().to_string();
            assert!(error.contains("unknown layout"), "{error}");
        }
    }
}
