//! Reading a log stream: generations in order, segments, and the records put together from their fragments.
//!
//! The end of the stream is the first segment of the newest generation that is not valid. What a crash may leave
//! behind it is at most one unfinished write, so a valid segment further away than the longest write means that
//! something durable in between was damaged, and reading ends with an error instead.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::record::record_len;
use ese_format::log::segment::{RECORDS_AT, SegmentKind, classify};
use ese_format::{Generation, LogPosition};
use vfs::{IoBuffer, IoReason, OpenMode, Vfs};

use super::LogNames;
use super::stream::LONGEST_WRITE;
use crate::{Error, Result};

/// One record with its place.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// First byte.
    pub start: LogPosition,
    /// Behind the last byte.
    pub end: LogPosition,
    /// The record, in one piece.
    pub bytes: Vec<u8>,
}

/// Where a stream ends, and what is needed to go on writing it.
#[derive(Debug, Clone)]
pub struct LogTail {
    /// Header of the newest generation.
    pub header: LogHeader,
    /// First segment that is free.
    pub next_segment: u16,
    /// XOR of the checksums of its segments.
    pub accumulated: u64,
    /// The newest generation carries its archive name already (a crash fell between two renames).
    pub archived: bool,
}

/// The files of a stream.
pub struct LogReader {
    vfs: Arc<dyn Vfs>,
    names: LogNames,
    files: BTreeMap<Generation, PathBuf>,
}

struct LoadedLog {
    header: LogHeader,
    segments: Vec<Vec<u8>>,
    accumulated: u64,
}

impl LogReader {
    /// Finds the logs in a directory. `None` when there are none.
    pub fn open(vfs: Arc<dyn Vfs>, names: LogNames) -> Result<Option<LogReader>> {
        let directory = names.directory().to_path_buf();
        let listed = vfs.list(&directory).map_err(|e| Error::io(&directory, &e))?;
        let mut files: BTreeMap<Generation, PathBuf> =
            listed.iter().filter_map(|path| Some((names.generation_of(path)?, path.clone()))).collect();
        let mut reader = LogReader { vfs, names, files: BTreeMap::new() };
        let current = reader.names.current();
        if reader.vfs.exists(&current) {
            let header = reader.header(&current)?;
            files.insert(header.generation, current);
        }
        reader.files = files;
        Ok((!reader.files.is_empty()).then_some(reader))
    }

    /// Oldest and newest generation.
    pub fn range(&self) -> (Generation, Generation) {
        let bound = |entry: Option<(&Generation, &PathBuf)>| {
            entry.map_or(Generation(0), |(generation, _)| *generation)
        };
        (bound(self.files.first_key_value()), bound(self.files.last_key_value()))
    }

    /// Header of a generation.
    pub fn header_of(&self, generation: Generation) -> Result<LogHeader> {
        let path = self.files.get(&generation).ok_or_else(|| self.missing(generation))?;
        self.header(path)
    }

    /// Calls `visit` for every record from `from` on, and returns where the stream ends.
    pub fn read_from(
        &self,
        from: LogPosition,
        mut visit: impl FnMut(StoredRecord) -> Result<()>,
    ) -> Result<LogTail> {
        let (_, newest) = self.range();
        let mut previous: Option<LoadedLog> = None;
        let mut pending: Option<(LogPosition, usize, Vec<u8>)> = None;
        for number in from.generation.0..=newest.0 {
            let generation = Generation(number);
            let log = self.load(generation, generation == newest)?;
            if let Some(previous) = &previous {
                self.check_chain(previous, &log)?;
            }
            for (index, segment) in log.segments.iter().enumerate() {
                let base = LogPosition { generation, segment: index as u16 + 1, offset: 0 };
                self.records(segment, base, &mut pending, &mut |record| {
                    if record.start >= from { visit(record) } else { Ok(()) }
                })?;
            }
            previous = Some(log);
        }
        let log = previous.ok_or_else(|| self.missing(from.generation))?;
        Ok(LogTail {
            next_segment: log.segments.len() as u16 + 1,
            accumulated: log.accumulated,
            archived: self.files.get(&newest) != Some(&self.names.current()),
            header: log.header,
        })
    }

    /// The same up to `until`, where the stream ended when it was read before; it may have grown since.
    pub fn read_until(
        &self,
        from: LogPosition,
        until: LogPosition,
        mut visit: impl FnMut(StoredRecord) -> Result<()>,
    ) -> Result<()> {
        self.read_from(from, |record| if record.start < until { visit(record) } else { Ok(()) })?;
        Ok(())
    }

    fn check_chain(&self, previous: &LoadedLog, log: &LoadedLog) -> Result<()> {
        let generation = log.header.generation;
        let what = if log.header.signature != previous.header.signature {
            "belongs to another log stream"
        } else if log.header.previous_created != previous.header.created {
            "does not continue the generation before it (creation times differ)"
        } else if log.header.previous_checksum != previous.accumulated {
            "does not continue the generation before it (its checksum differs)"
        } else {
            return Ok(());
        };
        Err(self.corrupt(generation, what.to_string()))
    }

    fn header(&self, path: &PathBuf) -> Result<LogHeader> {
        let failed = |e: std::io::Error| Error::io(path, &e);
        let file = self.vfs.open(path, OpenMode::Read).map_err(failed)?;
        let mut bytes = IoBuffer::zeroed(SEGMENT_BYTES);
        file.read_at(0, &mut bytes, IoReason::LogRead).map_err(failed)?;
        LogHeader::decode(&bytes).map_err(|e| Error::Corrupt {
            path: path.clone(),
            page: None,
            what: e.to_string(),
        })
    }

    fn load(&self, generation: Generation, newest: bool) -> Result<LoadedLog> {
        let path = self.files.get(&generation).ok_or_else(|| self.missing(generation))?;
        // The newest one gets its archive name when the stream goes on while it is read.
        let archived = self.names.archived(generation);
        let path = if self.vfs.exists(&archived) { &archived } else { path };
        let failed = |e: std::io::Error| Error::io(path, &e);
        let header = self.header(path)?;
        if header.generation != generation {
            let what =
                format!("file name says generation {:X}, its header {:X}", generation.0, header.generation.0);
            return Err(self.corrupt(generation, what));
        }
        let file = self.vfs.open(path, OpenMode::Read).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let wanted = u64::from(header.file_segments) * SEGMENT_BYTES as u64;
        if len != wanted {
            return Err(self.corrupt(generation, format!("file has {len} bytes, its header says {wanted}")));
        }
        let mut bytes = IoBuffer::zeroed(len as usize);
        file.read_at(0, &mut bytes, IoReason::LogRead).map_err(failed)?;
        let mut log = LoadedLog { header, segments: Vec::new(), accumulated: 0 };
        let mut end: Option<(usize, SegmentKind)> = None;
        for (index, segment) in bytes.chunks_exact_mut(SEGMENT_BYTES).enumerate().skip(1) {
            let expected = LogPosition { generation, segment: index as u16, offset: 0 };
            match (classify(segment, expected), end) {
                (SegmentKind::Valid(checksum), None) => {
                    log.accumulated ^= checksum;
                    log.segments.push(segment.to_vec());
                }
                (SegmentKind::Valid(_), Some((at, _))) if !newest || index - at > LONGEST_WRITE => {
                    return Err(self.corrupt(
                        generation,
                        format!("segment {at:X} (hexadecimal) is damaged, but later ones are good"),
                    ));
                }
                (kind, None) => end = Some((index, kind)),
                _ => {}
            }
        }
        Ok(log)
    }

    fn records(
        &self,
        segment: &[u8],
        base: LogPosition,
        pending: &mut Option<(LogPosition, usize, Vec<u8>)>,
        visit: &mut dyn FnMut(StoredRecord) -> Result<()>,
    ) -> Result<()> {
        const FRAGMENT_BEGIN: u8 = 76;
        const FRAGMENT: u8 = 77;
        let mut at = RECORDS_AT;
        while at < segment.len() {
            let rest = &segment[at..];
            if rest[0] == 0 {
                at += 1;
                continue;
            }
            let position = |at: usize| {
                let next = LogPosition { segment: base.segment + 1, offset: RECORDS_AT as u16, ..base };
                if at >= SEGMENT_BYTES { next } else { LogPosition { offset: at as u16, ..base } }
            };
            let len = record_len(rest)
                .map_err(|e| e.to_string())
                .and_then(
                    |len| if len <= rest.len() { Ok(len) } else { Err("runs past its segment".to_string()) },
                )
                .map_err(|e| self.corrupt(base.generation, format!("record at {:?}: {e}", position(at))))?;
            let (start, end, bytes) = (position(at), position(at + len), &rest[..len]);
            at += len;
            match bytes[0] {
                FRAGMENT_BEGIN if len >= 7 => {
                    let total = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
                    *pending = Some((start, total, bytes[7..].to_vec()));
                }
                FRAGMENT if len >= 3 => {
                    let Some((start, total, mut whole)) = pending.take() else { continue };
                    whole.extend_from_slice(&bytes[3..]);
                    if whole.len() >= total {
                        visit(StoredRecord { start, end, bytes: whole })?;
                    } else {
                        *pending = Some((start, total, whole));
                    }
                }
                // A chain that a crash cut off is followed by the records of recovery.
                _ => {
                    *pending = None;
                    visit(StoredRecord { start, end, bytes: bytes.to_vec() })?;
                }
            }
        }
        Ok(())
    }

    fn missing(&self, generation: Generation) -> Error {
        Error::LogsMissing { path: self.names.directory().to_path_buf(), required: (generation, generation) }
    }

    fn corrupt(&self, generation: Generation, what: String) -> Error {
        let path = self.files.get(&generation).cloned().unwrap_or_else(|| self.names.current());
        Error::Corrupt { path, page: None, what }
    }
}
