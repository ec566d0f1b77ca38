//! Reads a log stream: the generations in order, their segments, and the records assembled from fragments.
//!
//! [`ese_format::log::scan`] determines where a file ends, and whether a crash or damage is the cause. Reading does
//! not change the disk. Repairs are made in memory, and are written when the stream is resumed.
//!
//! While the records of one file are visited, the next file is already being read. The newest file is an exception,
//! because it may be written to at the same time.

mod chain;
mod record_reads;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::record::record_len;
use ese_format::log::scan::{LogScan, scan_log};
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition};
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_sync::{Arc, Mutex, OnceLock};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Transfer, TransferKind, Vfs};

pub(crate) use self::chain::{LogChain, ReceivedLog};
use self::record_reads::OpenLogFile;
pub(crate) use self::record_reads::RecordReads;
use super::LogNames;
use crate::error::LogErrorKind;
use crate::{Corruption, Error, InternalError, LogDamage, Result};

const NOP: u8 = 0;
const FRAGMENT_BEGIN: u8 = 76;
const FRAGMENT: u8 = 77;
/// Maximum number of bytes that are allocated for a record before its fragments are read, regardless of the length in
/// the record.
const MAX_RESERVED: usize = 1 << 20;

/// An encoded log record with its position in the log.
#[derive(Debug, Clone)]
pub struct PositionedRecord {
    /// Position of the first byte.
    pub start: LogPosition,
    /// Position after the last byte.
    pub end: LogPosition,
    /// Content of the record, assembled from its fragments.
    pub bytes: Vec<u8>,
}

/// The end of a log stream, with the information needed to append to it.
#[derive(Debug, Clone)]
pub struct LogTail {
    /// Header of the newest generation.
    pub header: LogHeader,
    /// First free segment.
    pub next_segment: u16,
    /// XOR of the checksums of the newest generation's segments.
    pub accumulated: u64,
    /// Path of the newest generation's file. A crash may have prevented its rename to the current name.
    pub path: PathBuf,
    /// Segments that were repaired during reading, whose bytes on disk therefore differ.
    pub repaired: Vec<(u16, Vec<u8>)>,
    /// Whether the engine that wrote the file marks the beginning of each write. Records can be appended to the file
    /// only if it does.
    pub marked: bool,
}

/// Reads the files of a log stream.
pub struct LogReader {
    vfs: Arc<dyn Vfs>,
    names: LogNames,
    /// Path of each generation's file. While a stream is being received, files are added.
    files: Mutex<BTreeMap<Generation, PathBuf>>,
    /// Log files that are kept open to read individual records.
    open_files: Mutex<BTreeMap<Generation, OpenLogFile>>,
    pinned: OnceLock<PinnedTail>,
    /// Whether files are added individually and keep their paths.
    received: bool,
}

/// The newest file, up to the tail of the log. The stream appends after the tail and renames the file.
struct PinnedTail {
    header: LogHeader,
    next_segment: u16,
    accumulated: u64,
    file: OpenLogFile,
}

struct LoadedLog {
    header: LogHeader,
    bytes: IoBuffer,
    scan: LogScan,
}

/// A file that is being read.
struct FileRead {
    header: LogHeader,
    path: PathBuf,
    read: Receiver<(io::Result<()>, IoBuffer)>,
}

impl LoadedLog {
    fn segment(&self, index: u16) -> Segment<'_> {
        let at = usize::from(index) * SEGMENT_BYTES;
        let bytes = self.bytes.get(at..at + SEGMENT_BYTES).unwrap_or_default();
        Segment { generation: self.header.generation, file_segments: self.header.file_segments, index, bytes }
    }
}

/// A segment of a log file that has `file_segments` segments.
struct Segment<'a> {
    generation: Generation,
    file_segments: u16,
    index: u16,
    bytes: &'a [u8],
}

/// A record whose last fragments have not been read yet.
#[derive(Clone)]
struct PartialRecord {
    start: LogPosition,
    total: usize,
    bytes: Vec<u8>,
}

impl LogReader {
    /// Opens the logs in a directory. Returns `None` if the directory contains no logs, and [`Error::LogMissing`] if
    /// the newest log is missing.
    pub fn open(vfs: Arc<dyn Vfs>, names: LogNames) -> Result<Option<LogReader>> {
        LogReader::open_with(vfs, names, false)
    }

    /// Opens the logs like [`LogReader::open`]. If `accept_lost` is set, the newest logs may be missing.
    pub(crate) fn open_with(
        vfs: Arc<dyn Vfs>,
        names: LogNames,
        accept_lost: bool,
    ) -> Result<Option<LogReader>> {
        let directory = names.directory().to_path_buf();
        let listed = vfs.list(&directory).map_err(|e| Error::io(&directory, &e))?;
        let mut files: BTreeMap<Generation, PathBuf> =
            listed.iter().filter_map(|path| Some((names.generation_of(path)?, path.clone()))).collect();
        let (open_files, pinned) = (Mutex::default(), OnceLock::new());
        let mut reader =
            LogReader { vfs, names, files: Mutex::default(), open_files, pinned, received: false };
        let (current, next) = (reader.names.current(), reader.names.next());
        let is_there = |name: &Path| listed.iter().any(|path| path.file_name() == name.file_name());
        if is_there(&current) {
            let generation = reader.header(&current)?.generation;
            // Archiving this log would replace an existing archived log.
            if let Some((newest, archived)) =
                files.last_key_value().filter(|(newest, _)| **newest >= generation)
            {
                let (archived, newest) = (archived.clone(), *newest);
                let fault = Corruption::NotNewestLog { found: generation, archived, newest };
                return Err(Error::corrupt(current, fault));
            }
            files.insert(generation, current.clone());
        }
        let archived_only =
            if is_there(&current) { None } else { files.last_key_value().map(|(newest, _)| *newest) };
        let any = !files.is_empty();
        reader.files = Mutex::new(files);
        if any
            && is_there(&next)
            && let Some(generation) = reader.entered(&next)?
        {
            reader.files.lock().insert(generation, next);
        } else if let Some(newest) = archived_only.filter(|_| !accept_lost) {
            // A crash never leaves only archived logs: the next generation is entered before the current log gets its
            // archive name. ESE: `JET_errMissingLogFile`.
            return Err(Error::LogMissing { path: current, generation: newest.next() });
        }
        Ok(any.then_some(reader))
    }

    /// Returns the generation in the prepared file, if it was entered before a crash. In that case its header
    /// continues the newest log.
    ///
    /// Any other content is either left over from an earlier use of the file, or an incomplete header. No commit in a
    /// file with an incomplete header was acknowledged.
    fn entered(&self, next: &Path) -> Result<Option<Generation>> {
        let header = match self.header(next) {
            Ok(header) => header,
            Err(Error::Corrupt { .. } | Error::Io { kind: io::ErrorKind::UnexpectedEof, .. }) => {
                return Ok(None);
            }
            // A file that cannot be read may contain acknowledged commits.
            Err(error) => return Err(error),
        };
        let (_, newest) = self.range();
        let last = self.header_of(newest)?;
        let continues = header.generation == newest.next()
            && header.signature == last.signature
            && header.previous_created == last.created;
        Ok(continues.then_some(header.generation))
    }

    /// Returns the oldest and the newest generation.
    pub fn range(&self) -> (Generation, Generation) {
        let bound = |entry: Option<(&Generation, &PathBuf)>| {
            entry.map_or(Generation(0), |(generation, _)| *generation)
        };
        let files = self.files.lock();
        (bound(files.first_key_value()), bound(files.last_key_value()))
    }

    /// Returns the directory that contains the logs.
    pub fn directory(&self) -> &Path {
        self.names.directory()
    }

    /// Returns the header of a generation.
    pub fn header_of(&self, generation: Generation) -> Result<LogHeader> {
        self.header(&self.path_of(generation)?)
    }

    /// Calls `visit` for every record that starts at or after `from`. Returns the end of the stream.
    pub fn read_from(
        &self,
        from: LogPosition,
        mut visit: impl FnMut(PositionedRecord) -> Result<()>,
    ) -> Result<LogTail> {
        let (_, newest) = self.range();
        let mut visit = |record: PositionedRecord| if record.start >= from { visit(record) } else { Ok(()) };
        let log = self.read_files(from.generation.0..=newest.0, &mut None, &mut visit)?;
        let log = log.ok_or_else(|| self.missing(from.generation))?;
        let repaired =
            log.scan.repaired.iter().map(|&index| (index, log.segment(index).bytes.to_vec())).collect();
        Ok(LogTail {
            next_segment: log.scan.last + 1,
            accumulated: log.scan.accumulated,
            path: self.files.lock().get(&newest).cloned().unwrap_or_else(|| self.names.current()),
            repaired,
            marked: log.scan.marked,
            header: log.header,
        })
    }

    /// Visits all records of consecutive generations. Returns the last generation.
    fn read_files(
        &self,
        generations: impl Iterator<Item = u32>,
        pending: &mut Option<PartialRecord>,
        visit: &mut dyn FnMut(PositionedRecord) -> Result<()>,
    ) -> Result<Option<LoadedLog>> {
        let (_, newest) = self.range();
        let mut previous: Option<LoadedLog> = None;
        let mut next: Option<Result<FileRead>> = None;
        for generation in generations.map(Generation) {
            let read = next.take().unwrap_or_else(|| self.begin(generation, IoBuffer::zeroed(0)));
            let log = self.finish(read?, generation == newest)?;
            let mut spare = IoBuffer::zeroed(0);
            if let Some(previous) = previous.take() {
                self.check_chain((&previous.header, previous.scan.accumulated), &log.header)?;
                spare = previous.bytes;
            }
            if generation.next() < newest {
                next = Some(self.begin(generation.next(), spare));
            }
            for index in 1..=log.scan.last {
                self.records(&log.segment(index), pending, visit)?;
            }
            previous = Some(log);
        }
        Ok(previous)
    }

    /// Keeps the newest file open while the stream is resumed after `tail`. Later reads of this file do not depend on
    /// its name, which changes, and do not see records written after the tail.
    pub fn pin_tail(&self, tail: &LogTail) -> Result<()> {
        let pinned = PinnedTail {
            header: tail.header.clone(),
            next_segment: tail.next_segment,
            accumulated: tail.accumulated,
            file: self.open_log_file(&tail.path)?,
        };
        let _ = self.pinned.set(pinned);
        Ok(())
    }

    /// Rereads the records, up to the pinned tail. The stream may have grown since.
    pub fn read_to_pinned_tail(
        &self,
        from: LogPosition,
        mut visit: impl FnMut(PositionedRecord) -> Result<()>,
    ) -> Result<()> {
        let pinned = self.pinned.get().ok_or(InternalError::UnpinnedTail)?;
        let mut visit = |record: PositionedRecord| if record.start >= from { visit(record) } else { Ok(()) };
        let generation = pinned.header.generation;
        let mut pending = None;
        if let Some(previous) = self.read_files(from.generation.0..generation.0, &mut pending, &mut visit)? {
            self.check_chain((&previous.header, previous.scan.accumulated), &pinned.header)?;
        }
        // An empty segment after the last one marks the end.
        let end = usize::from(pinned.next_segment) * SEGMENT_BYTES;
        let mut bytes = IoBuffer::zeroed(end + SEGMENT_BYTES);
        let file = &pinned.file.file;
        file.read_at(0, &mut bytes[..end], IoReason::LogRead).map_err(|e| Error::io(file.path(), &e))?;
        let scan = scan_log(&mut bytes, generation).map_err(|fault| self.corrupt(generation, fault))?;
        if (scan.last + 1, scan.accumulated) != (pinned.next_segment, pinned.accumulated) {
            return Err(self.corrupt(generation, Corruption::ChangedLog));
        }
        let log = LoadedLog { header: pinned.header.clone(), bytes, scan };
        for index in 1..pinned.next_segment {
            self.records(&log.segment(index), &mut pending, &mut visit)?;
        }
        Ok(())
    }

    fn header(&self, path: &Path) -> Result<LogHeader> {
        let io_error = |e: std::io::Error| Error::io(path, &e);
        let file = self.vfs.open(path, OpenMode::Read).map_err(io_error)?;
        let mut bytes = IoBuffer::zeroed(SEGMENT_BYTES);
        file.read_at(0, &mut bytes, IoReason::LogRead).map_err(io_error)?;
        LogHeader::decode(&bytes).map_err(|e| Error::corrupt(path, e))
    }

    /// Returns the current path of a generation's file. The stream renames the newest files while they are being
    /// read.
    fn path_of(&self, generation: Generation) -> Result<PathBuf> {
        let found = self.files.lock().get(&generation).cloned();
        let found = found.ok_or_else(|| self.missing(generation))?;
        if self.received || self.names.generation_of(&found).is_some() {
            return Ok(found);
        }
        let archived = self.names.archived(generation);
        if self.vfs.exists(&archived).map_err(|e| Error::io(&archived, &e))? {
            return Ok(archived);
        }
        let current = self.names.current();
        match self.header(&current) {
            Ok(header) if header.generation == generation => Ok(current),
            _ => Ok(found),
        }
    }

    /// Starts to read a file. Uses `buffer` if it has the right size.
    fn begin(&self, generation: Generation, mut buffer: IoBuffer) -> Result<FileRead> {
        let path = self.path_of(generation)?;
        let io_error = |e: io::Error| Error::io(&path, &e);
        let header = self.header(&path)?;
        if header.generation != generation {
            let (named, stored) = (generation, header.generation);
            return Err(self.corrupt(generation, Corruption::LogGeneration { named, stored }));
        }
        let file = self.vfs.open(&path, OpenMode::Read).map_err(io_error)?;
        let len = file.len().map_err(io_error)?;
        let wanted = u64::from(header.file_segments) * SEGMENT_BYTES as u64;
        if len != wanted {
            let position = LogPosition { generation, segment: 0, offset: 0 };
            return Err(self.fault(position, LogErrorKind::Length { found: len, specified: wanted }));
        }
        if buffer.len() as u64 != len {
            buffer = IoBuffer::zeroed(len as usize);
        }
        let (sender, read) = channel();
        // Sending fails only if the receiver was dropped. In that case, the file is not needed.
        let done = move |result, buffer| {
            let _ = sender.send((result, buffer));
        };
        let kind = TransferKind::Read;
        file.submit(vec![Transfer {
            kind,
            offset: 0,
            buffer,
            reason: IoReason::LogRead,
            done: Box::new(done),
        }]);
        Ok(FileRead { header, path, read })
    }

    fn finish(&self, read: FileRead, newest: bool) -> Result<LoadedLog> {
        let FileRead { header, path, read } = read;
        let io_error = |e: io::Error| Error::io(&path, &e);
        let (result, mut bytes) = read.recv().map_err(|e| io_error(io::Error::other(e)))?;
        result.map_err(io_error)?;
        let generation = header.generation;
        let scan = scan_log(&mut bytes, generation).map_err(|fault| {
            let position = LogPosition { generation, segment: fault.segment, offset: 0 };
            self.damaged(position, fault)
        })?;
        if scan.torn && !newest {
            let segment = scan.last + 1;
            let position = LogPosition { generation, segment, offset: 0 };
            return Err(self.damaged(position, LogDamage::TornSegment(segment)));
        }
        Ok(LoadedLog { header, bytes, scan })
    }

    fn records(
        &self,
        segment: &Segment<'_>,
        pending: &mut Option<PartialRecord>,
        visit: &mut dyn FnMut(PositionedRecord) -> Result<()>,
    ) -> Result<()> {
        let Segment { generation, file_segments: of, index, bytes: segment } = *segment;
        let position = |at: usize| {
            if at < SEGMENT_BYTES {
                LogPosition { generation, segment: index, offset: at as u16 }
            } else if u32::from(index) + 2 < u32::from(of) {
                LogPosition { generation, segment: index + 1, offset: RECORDS_AT as u16 }
            } else {
                LogPosition { generation: generation.next(), segment: 1, offset: RECORDS_AT as u16 }
            }
        };
        let mut at = RECORDS_AT;
        while let Some(rest) = segment.get(at..).filter(|rest| !rest.is_empty()) {
            if rest[0] == NOP {
                at += 1;
                continue;
            }
            let bytes = record_len(rest)
                .map_err(LogDamage::Record)
                .and_then(|len| rest.get(..len).ok_or(LogDamage::RecordTooLong))
                .map_err(|damage| self.damaged(position(at), damage))?;
            let (start, end) = (position(at), position(at + bytes.len()));
            at += bytes.len();
            match bytes {
                [FRAGMENT_BEGIN, a, b, c, d, _, _, piece @ ..] => {
                    let total = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
                    let mut bytes = Vec::with_capacity(total.min(MAX_RESERVED));
                    bytes.extend_from_slice(piece);
                    *pending = Some(PartialRecord { start, total, bytes });
                }
                [FRAGMENT, _, _, piece @ ..] => {
                    // The record's first fragment lies before the range being read, so the record is skipped.
                    let Some(mut whole) = pending.take() else { continue };
                    whole.bytes.extend_from_slice(piece);
                    match whole.bytes.len().cmp(&whole.total) {
                        std::cmp::Ordering::Less => *pending = Some(whole),
                        std::cmp::Ordering::Equal => {
                            visit(PositionedRecord { start: whole.start, end, bytes: whole.bytes })?;
                        }
                        std::cmp::Ordering::Greater => {
                            return Err(self.damaged(whole.start, LogDamage::Fragments(whole.start)));
                        }
                    }
                }
                // A crash truncated the record. The records that follow were written by recovery.
                _ => {
                    *pending = None;
                    visit(PositionedRecord { start, end, bytes: bytes.to_vec() })?;
                }
            }
        }
        Ok(())
    }

    fn missing(&self, generation: Generation) -> Error {
        Error::LogMissing { path: self.names.directory().to_path_buf(), generation }
    }

    fn corrupt(&self, generation: Generation, fault: impl Into<Corruption>) -> Error {
        Error::corrupt(self.known_path(generation), fault)
    }

    fn damaged(&self, position: LogPosition, damage: impl Into<LogDamage>) -> Error {
        self.fault(position, LogErrorKind::Damaged(damage.into()))
    }
}
