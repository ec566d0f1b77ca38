//! The current log of an instance: appends records, and makes them durable.
//!
//! Records are copied into 4 KiB segments in memory ([`SegmentBuffer`]). The writer ([`writer`]) writes segments, and
//! [`generations`] prepares, names and removes the files.
//!
//! Invariants: positions only grow; `durable` is a segment boundary, and all records before it survive a crash; a
//! record is accepted only if a file for its generation is ready; a generation is entered with the write of its
//! header and first records; after a failed write or sync the stream does not write again.

mod freeze;
mod generations;
mod received;
mod reserve_logs;
mod work_signal;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::record::{LogRecord, Trace};
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use jetcell_sync::{Arc, Condvar, Mutex, OnceLock};
use jetcell_vfs::{File, FileStem, IoBuffer};

use self::generations::{LogFiles, NameState, PreparedFile};
pub(crate) use self::work_signal::WakeCallback;
use self::work_signal::WorkSignal;
use super::group_commit::{CommitWaiter, GroupCommit};
use super::log_file::LogVersion;
use super::log_holds::LogHolds;
use super::segment_buffer::SegmentBuffer;
use super::{LogCounters, LogHold, LogListener, LogNames, LogStreamOptions, LogTail, RecordBatch};

use crate::{Error, InstanceFailure, Result, UsageError};

/// Maximum number of segments in one write: 4 MiB. A sync takes as long as writing a megabyte, so each write includes
/// everything that was appended during the previous one.
const MAX_WRITE_SEGMENTS: usize = 1024;
/// Divisor of the buffer size that gives the minimum amount of data worth writing: an eighth.
const MIN_WRITE_DIVISOR: usize = 8;
/// Maximum time that an append waits for room in the buffer before its own thread writes segments.
const MAX_ROOM_WAIT: Duration = Duration::from_millis(10);
/// Number of pieces of the next file that one background step fills with zeros.
const FORMAT_PIECES: usize = 4;

/// Start and end positions of records that were appended to the log.
#[derive(Clone, Copy, Debug)]
pub struct AppendedRange {
    /// Position of the first byte of the first record.
    pub start: LogPosition,
    /// Position after the last record.
    pub end: LogPosition,
}

pub(in crate::log) struct LogStreamState {
    pub(in crate::log) buffer: SegmentBuffer,
    /// Whether a thread is currently the writer.
    pub(in crate::log) writing: bool,
    pub(in crate::log) waiters: Vec<Arc<CommitWaiter>>,
    pub(in crate::log) group_commit: GroupCommit,
    /// File prepared for the next generation, until that generation is entered.
    pub(in crate::log) prepared: Option<PreparedFile>,
    /// File that is being written, whose generation is `generation`; the open segment may be one generation ahead.
    pub(in crate::log) file: Arc<dyn File>,
    pub(in crate::log) generation: Generation,
    pub(in crate::log) created: LogTime,
    pub(in crate::log) accumulated: u64,
    pub(in crate::log) named: NameState,
    /// Whether the disk was full and a reserve log was used. In this state, ordinary appends fail until all reserve
    /// logs are restored.
    pub(in crate::log) on_reserves: bool,
    pub(in crate::log) requested: LogPosition,
    /// Whether a thread is waiting for database headers to name the generation that was entered last.
    pub(in crate::log) naming_requested: bool,
    /// Archived generations before this one are obsolete. Their files may be overwritten.
    pub(in crate::log) obsolete_below: Generation,
    pub(in crate::log) counters: LogCounters,
}

impl LogStreamState {
    fn has_file_work(&self) -> bool {
        self.prepared.is_none() || self.naming_requested
    }
}

/// Appends records while the log tail is locked; see [`LogStream::append_with`].
pub(crate) struct Appender<'a> {
    log: &'a LogStream,
    state: &'a mut LogStreamState,
    bytes: usize,
}

impl Appender<'_> {
    /// Appends records. Their total size must not exceed the number of bytes passed to [`LogStream::append_with`].
    pub fn append(self, batch: &RecordBatch) -> AppendedRange {
        debug_assert!(batch.len() <= self.bytes);
        let state = self.state;
        let mut start = None;
        for record in batch.records() {
            let (position, padding) = state.buffer.append(record);
            start.get_or_insert(position);
            state.counters.records += 1;
            state.counters.wasted += padding as u64;
        }
        state.counters.bytes += batch.len() as u64;
        let end = state.buffer.tail();
        self.log.publish_tail(state);
        AppendedRange { start: start.unwrap_or(end), end }
    }
}

/// A log stream, to which log records are appended. ESE: `LOG`.
#[doc(alias = "LOG")]
#[repr(align(128))]
pub struct LogStream {
    pub(in crate::log) options: LogStreamOptions,
    pub(in crate::log) signature: Signature,
    pub(in crate::log) listener: OnceLock<Arc<dyn LogListener>>,
    pub(in crate::log) state: CachePadded<Mutex<LogStreamState>>,
    /// Signalled when many segments are full and no thread is waiting for them to become durable.
    work: WorkSignal,
    /// Signalled when a file must be prepared or a generation must be named.
    pub(in crate::log) file_work: WorkSignal,
    /// Signalled when the writer has taken segments from the buffer.
    pub(in crate::log) room: Condvar,
    /// Whether a background thread waits for full segments.
    has_background_writer: AtomicBool,
    tail: CachePadded<AtomicU64>,
    pub(in crate::log) durable: CachePadded<AtomicU64>,
    pub(in crate::log) flushes: AtomicU64,
    /// Newest generation that the headers of all attached databases name.
    pub(in crate::log) in_headers: AtomicU32,
    pub(in crate::log) down: OnceLock<InstanceFailure>,
    /// Whether another engine writes the stream and this engine replays it.
    received: bool,
    /// Format of the headers.
    pub(in crate::log) version: LogVersion,
    /// Buffer for the header of a new file. The writer holds the lock while it writes.
    pub(in crate::log) head: Mutex<IoBuffer>,
    /// State of the file names. The lock is held while files are created, renamed or removed.
    pub(in crate::log) files: Mutex<LogFiles>,
    /// Holds on logs that backups and copies still need.
    pub(in crate::log) holds: Arc<LogHolds>,
}

impl LogStream {
    /// Starts a new stream at generation 1.
    pub fn create(options: LogStreamOptions, signature: Signature) -> Result<LogStream> {
        let (file, created) = super::log_file::create_first(&options, signature)?;
        let log = LogStream::at(options, signature, file, LogPosition::new(1, 1, 0), created);
        log.restore_reserves();
        Ok(log)
    }

    /// Opens an existing stream for appending after its tail. Erases data that a crash left after the tail, and
    /// writes the segments that were repaired during reading. Afterwards, all data that was read is durable.
    pub fn resume(options: LogStreamOptions, tail: LogTail) -> Result<LogStream> {
        let (file, named) = super::log_file::reopen(&options, &tail)?;
        let header = &tail.header;
        let options = LogStreamOptions { file_size: LogStream::existing_file_size(&tail), ..options };
        let mut position =
            LogPosition { generation: header.generation, segment: tail.next_segment, offset: 0 };
        // The engine does not append to a file that another engine began, because a torn write in it could not be
        // distinguished from damage.
        let full = tail.next_segment + 1 >= header.file_segments;
        if !tail.marked || full || (options.begin_generation && tail.next_segment > 1) {
            position = LogPosition { generation: header.generation.next(), segment: 1, offset: 0 };
        }
        let mut log = LogStream::at(options, header.signature, file, position, header.created);
        log.version = LogVersion::from_header(header);
        let state = log.state.get_mut();
        state.generation = header.generation;
        state.accumulated = tail.accumulated;
        state.named = named;
        *log.files.get_mut() = LogFiles::new(header.generation, header.created);
        log.restore_reserves();
        Ok(log)
    }

    /// Returns the size in bytes of each file of an existing stream.
    pub(crate) fn existing_file_size(tail: &LogTail) -> u32 {
        u32::from(tail.header.file_segments) * SEGMENT_BYTES as u32
    }

    fn at(
        options: LogStreamOptions,
        signature: Signature,
        file: Arc<dyn File>,
        position: LogPosition,
        created: LogTime,
    ) -> LogStream {
        let start = LogPosition { offset: RECORDS_AT as u16, ..position };
        let state = LogStreamState {
            buffer: SegmentBuffer::new(position, options.file_size as usize / SEGMENT_BYTES),
            writing: false,
            waiters: Vec::new(),
            group_commit: GroupCommit::new(),
            prepared: None,
            file,
            generation: position.generation,
            created,
            accumulated: 0,
            named: NameState::Current,
            on_reserves: false,
            requested: LogPosition::MIN,
            naming_requested: false,
            obsolete_below: Generation(0),
            counters: LogCounters::default(),
        };
        LogStream {
            options,
            signature,
            listener: OnceLock::new(),
            state: CachePadded::new(Mutex::new(state)),
            work: WorkSignal::default(),
            file_work: WorkSignal::default(),
            room: Condvar::new(),
            has_background_writer: AtomicBool::new(false),
            tail: CachePadded::new(AtomicU64::new(start.to_u64())),
            durable: CachePadded::new(AtomicU64::new(start.to_u64())),
            flushes: AtomicU64::new(0),
            in_headers: AtomicU32::new(0),
            down: OnceLock::new(),
            received: false,
            version: LogVersion::OWN,
            head: Mutex::new(IoBuffer::zeroed(SEGMENT_BYTES)),
            files: Mutex::new(LogFiles::new(position.generation, created)),
            holds: Arc::default(),
        }
    }

    /// Retains the existing logs from a generation on until the result is dropped. The caller must hold the
    /// checkpoint lock.
    pub(crate) fn hold(&self, from: Generation) -> LogHold {
        let hold = self.holds.hold(from);
        // The checkpoint may already have released some of these logs. While this lock is held, no other thread
        // reuses their files.
        let _files = self.files.lock();
        let mut state = self.state.lock();
        state.obsolete_below = state.obsolete_below.min(from);
        hold
    }

    /// Sets the listener, the log's interface to its owner. Can be set only once.
    pub fn set_listener(&self, listener: Arc<dyn LogListener>) {
        let _ = self.listener.set(listener);
    }

    /// Returns the signature of the stream.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// Returns the base name of the stream.
    pub(crate) fn base_name(&self) -> FileStem {
        self.options.names.base()
    }

    /// Returns the path of an archived generation.
    pub(crate) fn archived(&self, generation: Generation) -> PathBuf {
        self.options.names.archived(generation)
    }

    /// Returns the size of each file in bytes.
    pub fn file_size(&self) -> u32 {
        self.options.file_size
    }

    /// Returns the names of the files.
    pub fn names(&self) -> &LogNames {
        &self.options.names
    }

    /// Returns the newest generation whose file has its final name, and that generation's creation time. Records may
    /// already be in the next generation.
    pub fn named_generation(&self) -> (Generation, LogTime) {
        self.files.lock().named()
    }

    /// Returns the end of the log, which is where the next record will start.
    pub fn tail(&self) -> LogPosition {
        LogPosition::from_u64(self.tail.load(Ordering::Acquire))
    }

    /// Returns the position before which all records survive a crash.
    pub fn durable(&self) -> LogPosition {
        LogPosition::from_u64(self.durable.load(Ordering::Acquire))
    }

    /// Returns the counters accumulated since the log was opened.
    pub fn counters(&self) -> LogCounters {
        LogCounters { flushes: self.flushes.load(Ordering::Relaxed), ..self.state.lock().counters }
    }

    /// Appends the records of a batch atomically. After `DiskFull`, nothing has been appended; the caller can free
    /// space and try again.
    pub fn append(&self, batch: &RecordBatch) -> Result<AppendedRange> {
        self.append_with(batch.len(), false, |appender| appender.append(batch))
    }

    /// Appends records like [`LogStream::append`], but uses the reserve logs if the disk is full. Meant for ending
    /// transactions and for shutdown.
    pub fn append_privileged(&self, batch: &RecordBatch) -> Result<AppendedRange> {
        self.append_with(batch.len(), true, |appender| appender.append(batch))
    }

    /// Calls `work` once there is room for `bytes` bytes of records, which `work` may append. No other thread can
    /// append during the call, so `work` must not wait.
    pub(crate) fn append_with<T>(
        &self,
        bytes: usize,
        privileged: bool,
        work: impl FnOnce(Appender<'_>) -> T,
    ) -> Result<T> {
        let needed = SegmentBuffer::segments_for(bytes);
        let most_waiting = self.max_waiting_segments();
        if needed > most_waiting {
            return Err(UsageError::RecordsTooLong(bytes).into());
        }
        loop {
            self.check()?;
            let mut state = self.state.lock();
            if state.on_reserves && !privileged {
                drop(state);
                self.leave_reserves()?;
                continue;
            }
            if state.buffer.waiting() + needed > most_waiting {
                state.counters.stalls += 1;
                // If a background thread does the writing, room is available as soon as its next write begins. A
                // thread that writes segments itself waits until its write completes.
                let has_background_writer = self.has_background_writer.load(Ordering::Relaxed);
                self.work.notify();
                if !has_background_writer || self.room.wait_for(&mut state, MAX_ROOM_WAIT).timed_out() {
                    drop(state);
                    self.write(None)?;
                }
                continue;
            }
            // At most one generation has begun without being entered, because at most one file is prepared.
            let begun = state.buffer.tail().generation > state.generation;
            let crosses = needed >= state.buffer.remaining_segments();
            if (begun || crosses) && state.prepared.is_none() {
                drop(state);
                self.prepare_next(privileged)?;
                continue;
            }
            if begun && crosses {
                drop(state);
                self.write(None)?;
                continue;
            }
            let done = work(Appender { log: self, state: &mut state, bytes });
            if self.has_segments(&state) {
                self.work.notify();
            }
            return Ok(done);
        }
    }

    /// Ends the current generation, even if it has space left. A generation without records is not ended.
    pub fn roll_over(&self) -> Result<()> {
        let goal = loop {
            self.check()?;
            let mut state = self.state.lock();
            let tail = state.buffer.tail();
            let begun = tail.generation > state.generation;
            if !begun && tail == (LogPosition { segment: 1, offset: RECORDS_AT as u16, ..tail }) {
                return Ok(());
            }
            if state.prepared.is_none() {
                drop(state);
                self.prepare_next(false)?;
                continue;
            }
            if !begun {
                let filler = state.buffer.begin_generation();
                state.counters.wasted += filler as u64;
                self.publish_tail(&state);
            }
            break state.buffer.tail();
        };
        self.flush(goal)?;
        while self.state.lock().generation < goal.generation {
            self.write(None)?;
        }
        self.name_generation()
    }

    /// Ends the current generation, even if it has no records.
    pub(crate) fn force_roll_over(&self, reason: &str) -> Result<()> {
        let mut batch = RecordBatch::new();
        let text = reason.as_bytes().to_vec();
        batch.push(&LogRecord::ForceLogRollover(Trace { procid: 0, text }));
        self.append(&batch)?;
        self.roll_over()
    }

    /// Returns the number of newest generations whose changes must not be written to pages yet.
    pub(crate) fn waypoint_latency(&self) -> u32 {
        self.options.waypoint_latency
    }

    /// Requests a flush without waiting for it. The next flush or background step performs it.
    pub fn request_flush(&self, upto: LogPosition) {
        let mut state = self.state.lock();
        state.requested = state.requested.max(upto);
    }

    /// Requests [`LogStream::name_generation`] without waiting for it. The next background step performs it.
    pub(crate) fn request_name_generation(&self) {
        self.state.lock().naming_requested = true;
        self.file_work.notify();
    }

    /// Does background work while the load is low: writes appended records, prepares the next file and formats part
    /// of it, and restores reserve logs. A full disk is not an error here; the append that needs the space reports
    /// it.
    pub fn step(&self) -> Result<()> {
        self.check()?;
        self.flush(self.tail())?;
        let prepared = self.prepare_if_room()?;
        // Enters a generation that has begun but has no records yet.
        self.write(None)?;
        self.state.lock().naming_requested = false;
        self.name_generation()?;
        if prepared {
            for _ in 0..FORMAT_PIECES {
                self.format_next()?;
            }
            self.restore_reserves();
        }
        Ok(())
    }

    /// Writes full segments.
    pub fn write_full(&self) -> Result<()> {
        self.check()?;
        self.write(None)
    }

    /// Does the background work that includes syncs, for which the writer should not wait: prepares the next file, and
    /// names the generation if that was requested. Returns `false` if the disk is full.
    pub fn prepare_files(&self) -> Result<bool> {
        self.check()?;
        let prepared = self.prepare_if_room()?;
        if std::mem::take(&mut self.state.lock().naming_requested) {
            self.name_generation()?;
        }
        Ok(prepared)
    }

    fn prepare_if_room(&self) -> Result<bool> {
        match self.prepare_next(false) {
            Err(Error::DiskFull { .. }) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Waits until there are enough full segments for a write. Returns `false` on timeout.
    pub fn wait_for_segments(&self, timeout: Duration) -> bool {
        self.has_background_writer.store(true, Ordering::Relaxed);
        self.work.wait(&self.state, timeout, |state| self.has_segments(state))
    }

    /// Waits until [`LogStream::prepare_files`] has work to do. Returns `false` on timeout.
    pub fn wait_for_file_work(&self, timeout: Duration) -> bool {
        self.file_work.wait(&self.state, timeout, LogStreamState::has_file_work)
    }

    /// Sets callbacks for owners that have no waiting threads. `segments` is called when there may be enough full
    /// segments for a write, and `files` when [`LogStream::prepare_files`] may have work to do. The callbacks run
    /// while the log's lock is held. Can be set only once.
    pub(crate) fn wake_background(&self, segments: WakeCallback, files: WakeCallback) {
        self.has_background_writer.store(true, Ordering::Relaxed);
        self.work.set(segments);
        self.file_work.set(files);
    }

    /// Returns whether there are enough full segments for a write.
    pub(crate) fn has_enough_to_write(&self) -> bool {
        self.has_segments(&self.state.lock())
    }

    /// Returns whether [`LogStream::prepare_files`] has work to do.
    pub(crate) fn needs_files(&self) -> bool {
        self.state.lock().has_file_work()
    }

    fn has_segments(&self, state: &LogStreamState) -> bool {
        state.buffer.waiting() >= self.max_waiting_segments() / MIN_WRITE_DIVISOR
    }

    /// Makes all records durable. The stream must not be used afterwards.
    pub fn close(&self) -> Result<()> {
        self.flush(self.tail())?;
        self.name_generation()?;
        self.discard_prepared();
        Ok(())
    }

    /// Returns the maximum number of full segments in memory.
    fn max_waiting_segments(&self) -> usize {
        (self.file_segments() / 2).min(MAX_WRITE_SEGMENTS * 2)
    }

    fn file_segments(&self) -> usize {
        self.options.file_size as usize / SEGMENT_BYTES
    }

    pub(in crate::log) fn check(&self) -> Result<()> {
        self.down.get().map_or(Ok(()), |failure| Err(Error::ReadOnly(failure.clone())))
    }

    pub(in crate::log) fn publish_tail(&self, state: &LogStreamState) {
        self.tail.store(state.buffer.tail().to_u64(), Ordering::Release);
    }
}
