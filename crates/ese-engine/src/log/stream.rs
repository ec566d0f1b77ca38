//! The log being written: appending records, and making them durable in groups.
//!
//! Records are copied into 4 KiB segments in memory. A writer (whoever needs durability first) takes everything
//! appended so far, closes the open segment with filler, writes the segments with one transfer and one sync, and
//! wakes all whom that satisfies. Segments are never rewritten, so a write that a power cut tears cannot harm what
//! was durable before; a copy of the last segment (its shadow) goes with it, as ESE's readers expect.
//!
//! Invariants: positions only grow; `durable` is a segment boundary below which everything survives a crash; a
//! generation is entered only after its file is complete and the listener has agreed; after a failed write or
//! sync nothing is written any more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::record::LogRecord;
use ese_format::log::segment::{RECORDS_AT, finish};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use parking_lot::{Condvar, Mutex};
use vfs::{File, IoBuffer, IoReason, Vfs};

use super::generation::Prepared;
use super::{LogNames, LogTail, RecordBatch};
use crate::{Error, Result};

/// Segments in one write, at most: what a crash can leave behind the end of the log.
pub(super) const LONGEST_WRITE: usize = 128;
/// Below this the rest of a segment is filled rather than used for a fragment.
const SMALLEST_FRAGMENT: usize = 32;
const FRAGMENT_BEGIN: u8 = 76;
const FRAGMENT: u8 = 77;

/// Settings of a log stream.
#[derive(Clone)]
pub struct LogOptions {
    /// The world of files.
    pub vfs: Arc<dyn Vfs>,
    /// Where and under which names.
    pub names: LogNames,
    /// Bytes of one file, a multiple of 4096.
    pub file_size: u32,
    /// Page size of the databases, for the header.
    pub page_size: u32,
    /// Recycle files below the checkpoint.
    pub circular: bool,
}

/// What the log asks of its owner. Called by the writer, without locks of the log that appending needs.
pub trait LogListener: Send + Sync {
    /// The list of attached databases for a new log header.
    fn attachments(&self) -> Vec<u8>;
    /// A generation is about to be used: headers of attached databases must say so, durably, before this returns.
    fn before_generation(&self, generation: Generation, created: LogTime) -> Result<()>;
    /// Where redo would start now.
    fn checkpoint(&self) -> LogPosition;
}

/// Where appended records stand.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// First byte of the first record.
    pub start: LogPosition,
    /// Behind the last record.
    pub end: LogPosition,
}

/// What the log has done, since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogCounters {
    /// Records appended.
    pub records: u64,
    /// Bytes of records appended.
    pub bytes: u64,
    /// Bytes of filler.
    pub wasted: u64,
    /// Writes.
    pub writes: u64,
    /// Appends that found the buffer full.
    pub stalls: u64,
    /// Generations begun.
    pub generations: u64,
}

struct Segment {
    position: LogPosition,
    bytes: Box<[u8; SEGMENT_BYTES]>,
}

pub(super) struct State {
    open: Segment,
    /// Bytes of the open segment in use.
    used: usize,
    full: VecDeque<Segment>,
    writing: bool,
    /// The next file is ready.
    pub(super) prepared: Option<Prepared>,
    /// The file being written, and its generation; the open segment may be a generation ahead.
    pub(super) file: Arc<dyn File>,
    pub(super) generation: Generation,
    pub(super) created: LogTime,
    pub(super) accumulated: u64,
    /// The file carries its archive name already.
    pub(super) archived: bool,
    requested: LogPosition,
    pub(super) counters: LogCounters,
}

/// A log stream. ESE: `LOG`.
#[doc(alias = "LOG")]
pub struct LogStream {
    pub(super) options: LogOptions,
    pub(super) signature: Signature,
    pub(super) listener: OnceLock<Arc<dyn LogListener>>,
    pub(super) state: Mutex<State>,
    written: Condvar,
    tip: AtomicU64,
    durable: AtomicU64,
    down: OnceLock<String>,
    /// One preparation of a next file at a time.
    pub(super) preparing: Mutex<()>,
}

impl LogStream {
    /// Starts a new stream at generation 1.
    pub fn create(options: LogOptions, signature: Signature) -> Result<LogStream> {
        let (file, created) = super::generation::create_first(&options, signature)?;
        Ok(LogStream::at(options, signature, file, created, Generation(1), 1, 0, false))
    }

    /// Goes on behind the tail of an existing stream. What a crash left behind the tail is wiped out first.
    pub fn resume(options: LogOptions, tail: LogTail) -> Result<LogStream> {
        let header = tail.header;
        let path = match tail.archived {
            true => options.names.archived(header.generation),
            false => options.names.current(),
        };
        let failed = |e: std::io::Error| Error::io(&path, &e);
        let file = options.vfs.open(&path, vfs::OpenMode::Write).map_err(failed)?;
        let at = u64::from(tail.next_segment) * SEGMENT_BYTES as u64;
        let rest = file.len().map_err(failed)?.saturating_sub(at);
        if rest > 0 {
            let zeros = IoBuffer::zeroed(rest as usize);
            file.write_at(at, &zeros, IoReason::LogFormat).map_err(failed)?;
        }
        // What a killed process had written may still be in the kernel only, names included.
        file.sync(IoReason::LogFormat).map_err(failed)?;
        options.vfs.sync_directory(options.names.directory()).map_err(failed)?;
        let options =
            LogOptions { file_size: u32::from(header.file_segments) * SEGMENT_BYTES as u32, ..options };
        Ok(LogStream::at(
            options,
            header.signature,
            file,
            header.created,
            header.generation,
            tail.next_segment,
            tail.accumulated,
            tail.archived,
        ))
    }

    #[allow(clippy::too_many_arguments, reason = "the one constructor behind create and resume")]
    fn at(
        options: LogOptions,
        signature: Signature,
        file: Arc<dyn File>,
        created: LogTime,
        generation: Generation,
        segment: u16,
        accumulated: u64,
        archived: bool,
    ) -> LogStream {
        let mut position = LogPosition { generation, segment, offset: RECORDS_AT as u16 };
        let last = (options.file_size as usize / SEGMENT_BYTES - 2) as u16;
        if segment > last {
            position = LogPosition { generation: generation.next(), segment: 1, ..position };
        }
        let state = State {
            open: Segment {
                position: LogPosition { offset: 0, ..position },
                bytes: Box::new([0; SEGMENT_BYTES]),
            },
            used: RECORDS_AT,
            full: VecDeque::new(),
            writing: false,
            prepared: None,
            file,
            generation,
            created,
            accumulated,
            archived,
            requested: LogPosition::MIN,
            counters: LogCounters::default(),
        };
        LogStream {
            options,
            signature,
            listener: OnceLock::new(),
            state: Mutex::new(state),
            written: Condvar::new(),
            tip: AtomicU64::new(position.to_u64()),
            durable: AtomicU64::new(position.to_u64()),
            down: OnceLock::new(),
            preparing: Mutex::new(()),
        }
    }

    /// Tells the log whom to ask. Once.
    pub fn set_listener(&self, listener: Arc<dyn LogListener>) {
        let _ = self.listener.set(listener);
    }

    /// Identity of the stream.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// When the generation being written was created.
    pub fn created(&self) -> LogTime {
        self.state.lock().created
    }

    /// Where the next record will stand.
    pub fn tip(&self) -> LogPosition {
        LogPosition::from_u64(self.tip.load(Ordering::Acquire))
    }

    /// Everything before this survives a crash.
    pub fn durable(&self) -> LogPosition {
        LogPosition::from_u64(self.durable.load(Ordering::Acquire))
    }

    /// Counters since the log was opened.
    pub fn counters(&self) -> LogCounters {
        self.state.lock().counters
    }

    /// Appends records in one piece. `DiskFull`: nothing was appended; free space and try again.
    pub fn append(&self, batch: &RecordBatch) -> Result<Appended> {
        self.append_with(batch, false)
    }

    /// The same for ending transactions and shutting down: may use the reserve logs of a full disk.
    pub fn append_privileged(&self, batch: &RecordBatch) -> Result<Appended> {
        self.append_with(batch, true)
    }

    fn append_with(&self, batch: &RecordBatch, privileged: bool) -> Result<Appended> {
        let segments_needed = batch.len() / (SEGMENT_BYTES - RECORDS_AT - SMALLEST_FRAGMENT - 16) + 2;
        let file_segments = self.file_segments();
        if segments_needed > file_segments / 2 {
            let what =
                format!("{} bytes of records do not fit a log file; use larger log files", batch.len());
            return Err(Error::Usage(what));
        }
        let buffer_limit = (file_segments / 2).min(LONGEST_WRITE * 2);
        loop {
            self.check()?;
            let mut state = self.state.lock();
            if state.full.len() + segments_needed > buffer_limit {
                state.counters.stalls += 1;
                drop(state);
                self.write(None)?;
                continue;
            }
            let left = file_segments - 1 - usize::from(state.open.position.segment);
            if segments_needed >= left {
                if state.open.position.generation > state.generation {
                    drop(state);
                    self.write(None)?;
                    continue;
                }
                if state.prepared.is_none() {
                    drop(state);
                    self.prepare_next(privileged)?;
                    continue;
                }
            }
            let start = LogPosition { offset: state.used as u16, ..state.open.position };
            for record in batch.records() {
                self.put(&mut state, record);
            }
            state.counters.bytes += batch.len() as u64;
            let end = LogPosition { offset: state.used as u16, ..state.open.position };
            self.tip.store(end.to_u64(), Ordering::Release);
            return Ok(Appended { start, end });
        }
    }

    fn put(&self, state: &mut State, record: &[u8]) {
        state.counters.records += 1;
        let room = SEGMENT_BYTES - state.used;
        if record.len() <= room {
            return self.copy(state, &[record]);
        }
        let mut rest = record;
        if room >= SMALLEST_FRAGMENT {
            let (piece, behind) = rest.split_at(room - 7);
            let (total, len) = ((record.len() as u32).to_le_bytes(), (piece.len() as u16).to_le_bytes());
            self.copy(state, &[&[FRAGMENT_BEGIN], &total, &len, piece]);
            rest = behind;
        } else {
            // The bytes left are zero: no-operation records.
            state.counters.wasted += room as u64;
            self.close_segment(state);
            if record.len() <= SEGMENT_BYTES - RECORDS_AT {
                return self.copy(state, &[record]);
            }
            let (piece, behind) = rest.split_at(SEGMENT_BYTES - RECORDS_AT - 7);
            let (total, len) = ((record.len() as u32).to_le_bytes(), (piece.len() as u16).to_le_bytes());
            self.copy(state, &[&[FRAGMENT_BEGIN], &total, &len, piece]);
            rest = behind;
        }
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(SEGMENT_BYTES - state.used - 3));
            self.copy(state, &[&[FRAGMENT], &(piece.len() as u16).to_le_bytes(), piece]);
            rest = behind;
        }
    }

    fn copy(&self, state: &mut State, parts: &[&[u8]]) {
        for part in parts {
            state.open.bytes[state.used..state.used + part.len()].copy_from_slice(part);
            state.used += part.len();
        }
        if state.used == SEGMENT_BYTES {
            self.close_segment(state);
        }
    }

    fn close_segment(&self, state: &mut State) {
        let at = state.open.position;
        let last = at.segment as usize == self.file_segments() - 2;
        let position = match last {
            true => LogPosition { generation: at.generation.next(), segment: 1, offset: 0 },
            false => LogPosition { segment: at.segment + 1, ..at },
        };
        let next = Segment { position, bytes: Box::new([0; SEGMENT_BYTES]) };
        let full = std::mem::replace(&mut state.open, next);
        state.full.push_back(full);
        state.used = RECORDS_AT;
    }

    /// Returns once everything before `upto` is durable.
    pub fn flush(&self, upto: LogPosition) -> Result<()> {
        while self.durable() < upto {
            self.write(Some(upto))?;
        }
        Ok(())
    }

    /// Asks for the same without waiting; the next flush or step does it.
    pub fn request(&self, upto: LogPosition) {
        let mut state = self.state.lock();
        state.requested = state.requested.max(upto);
    }

    /// Background work: writes what was appended, prepares the next file, restores reserves.
    pub fn step(&self) -> Result<()> {
        self.check()?;
        self.flush(self.tip())?;
        if self.state.lock().prepared.is_none() {
            self.prepare_next(false)?;
        }
        self.restore_reserves();
        Ok(())
    }

    /// Makes everything durable. The stream must not be used afterwards.
    pub fn close(&self) -> Result<()> {
        self.flush(self.tip())?;
        self.discard_prepared();
        Ok(())
    }

    fn file_segments(&self) -> usize {
        self.options.file_size as usize / SEGMENT_BYTES
    }

    pub(super) fn check(&self) -> Result<()> {
        self.down.get().map_or(Ok(()), |what| Err(Error::ReadOnly(what.clone())))
    }

    /// One write by one writer: becomes it, or waits for it.
    fn write(&self, upto: Option<LogPosition>) -> Result<()> {
        let mut state = self.state.lock();
        self.check()?;
        if state.writing {
            self.written.wait(&mut state);
            return Ok(());
        }
        if upto.is_some_and(|upto| self.durable() >= upto) {
            return Ok(());
        }
        let wanted = upto.map(|upto| upto.max(state.requested));
        if state.used > RECORDS_AT
            && wanted.is_some_and(|wanted| {
                wanted > LogPosition { offset: RECORDS_AT as u16, ..state.open.position }
            })
        {
            self.fill(&mut state);
        }
        let Some(first) = state.full.front() else { return Ok(()) };
        let generation = first.position.generation;
        let count =
            state.full.iter().take(LONGEST_WRITE).take_while(|s| s.position.generation == generation).count();
        let segments: Vec<Segment> = state.full.drain(..count).collect();
        state.writing = true;
        drop(state);
        let result = self.write_segments(generation, &segments);
        let mut state = self.state.lock();
        state.writing = false;
        match &result {
            Ok((checksum, durable)) => {
                state.accumulated ^= checksum;
                state.counters.writes += 1;
                self.durable.store(durable.to_u64(), Ordering::Release);
            }
            Err(error) => {
                let _ = self.down.set(error.to_string());
            }
        }
        self.written.notify_all();
        result.map(|_| ()).map_err(|error| match error {
            Error::ReadOnly(_) => error,
            other => Error::ReadOnly(other.to_string()),
        })
    }

    /// Closes the open segment with filler, so that it need not be written again.
    fn fill(&self, state: &mut State) {
        let room = SEGMENT_BYTES - state.used;
        state.counters.wasted += room as u64;
        if let Some(filler) = LogRecord::filler(room) {
            self.copy(state, &[&filler.to_bytes()]);
        } else {
            self.close_segment(state);
        }
        let tip = LogPosition { offset: state.used as u16, ..state.open.position };
        self.tip.store(tip.to_u64(), Ordering::Release);
    }

    fn write_segments(&self, generation: Generation, segments: &[Segment]) -> Result<(u64, LogPosition)> {
        let entered = { self.state.lock().generation };
        if generation > entered {
            self.enter_generation(generation)?;
        }
        let (file, time) = {
            let state = self.state.lock();
            (state.file.clone(), LogTime::from_unix_ms(self.options.vfs.clock().unix_ms()))
        };
        let Some((first, last)) = segments.first().zip(segments.last()) else {
            return Ok((0, self.durable()));
        };
        // The shadow of the last segment goes behind it.
        let mut buffer = IoBuffer::zeroed((segments.len() + 1) * SEGMENT_BYTES);
        let mut checksum = 0;
        for (i, segment) in segments.iter().enumerate() {
            let place = &mut buffer[i * SEGMENT_BYTES..(i + 1) * SEGMENT_BYTES];
            place.copy_from_slice(&*segment.bytes);
            if let Ok(bytes) = <&mut [u8; SEGMENT_BYTES]>::try_from(&mut *place) {
                finish(bytes, segment.position, time);
            }
            checksum ^= u64::from_le_bytes(place[..8].try_into().unwrap_or_default());
        }
        let end = segments.len() * SEGMENT_BYTES;
        buffer.copy_within(end - SEGMENT_BYTES..end, end);
        let offset = u64::from(first.position.segment) * SEGMENT_BYTES as u64;
        let failed = |e: std::io::Error| Error::ReadOnly(format!("{}: {e}", file.path().display()));
        file.write_durable(offset, &buffer, IoReason::LogWrite).map_err(failed)?;
        let at = last.position;
        let last_of_file = at.segment as usize == self.file_segments() - 2;
        let next = match last_of_file {
            true => LogPosition { generation: at.generation.next(), segment: 1, offset: RECORDS_AT as u16 },
            false => LogPosition { segment: at.segment + 1, offset: RECORDS_AT as u16, ..at },
        };
        Ok((checksum, next))
    }
}
