//! The log being written: appending records, and the parts that make them durable.
//!
//! Records are copied into 4 KiB segments in memory ([`SegmentBuffer`]); the writer takes them from there.
//!
//! Invariants: positions only grow; `durable` is a segment boundary below which everything survives a crash; no
//! record is accepted whose generation has no file ready; a generation is entered with the write of its header and
//! first records; after a failed write or sync nothing is written any more.

use std::time::Duration;

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_sync::{Arc, Condvar, Mutex, OnceLock};
use jetcell_vfs::{File, IoBuffer, Vfs};

use super::buffer::SegmentBuffer;
use super::generation::{LogFiles, NameState, PreparedFile};
use super::writer::{GroupCommit, LONGEST_WRITE, Waiter};
use super::{LogNames, LogTail, RecordBatch};
use crate::{Error, Result};
use crossbeam_utils::CachePadded;

/// The share of the buffer that is worth a write: an eighth.
const WORTH_WRITING: usize = 8;
/// How long an append waits for the background to take segments, before it writes itself.
const MAX_ROOM_WAIT: Duration = Duration::from_millis(10);
/// Pieces of the next file that one step formats.
const FORMAT_PIECES: usize = 4;

/// Settings of a log stream.
#[derive(Clone)]
pub struct LogOptions {
    /// The world of files.
    pub vfs: Arc<dyn Vfs>,
    /// Where and under which names.
    pub names: LogNames,
    /// Bytes of one file of a new stream, a multiple of 4096. An existing one keeps the size that it has.
    pub file_size: u32,
    /// Page size of the databases, for the header.
    pub page_size: u32,
    /// Recycle files below the checkpoint.
    pub circular: bool,
    /// LogFiles of older generations that there may be before those that nothing needs any more are removed. Until then they
    /// are kept to be written over: what was written before is quicker to make durable.
    pub retained_files: usize,
}

/// What the log asks of its owner, without locks of the log that appending needs.
pub trait LogListener: Send + Sync {
    /// The list of attached databases for a new log header. Asked by the writer: must not wait for I/O.
    fn attachments(&self) -> Vec<u8>;
    /// The newest generation whose file has its name: headers of attached databases must say so, durably, before this
    /// returns. Called by whoever settles, again and again with the same generation.
    fn entered(&self, generation: Generation, created: LogTime) -> Result<()>;
    /// Where redo would start now. Asked by the writer as well.
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
    /// Writes; each is one sync.
    pub writes: u64,
    /// Bytes of segments written, without their shadows.
    pub written: u64,
    /// Flushes that found something not yet durable: `flushes / writes` share one write.
    pub flushes: u64,
    /// Appends that found the buffer full.
    pub stalls: u64,
    /// Generations begun.
    pub generations: u64,
}

pub(super) struct State {
    pub(super) buffer: SegmentBuffer,
    /// Somebody has the turn to write.
    pub(super) writing: bool,
    pub(super) waiters: Vec<Arc<Waiter>>,
    pub(super) group_commit: GroupCommit,
    /// The next file, until its generation is entered.
    pub(super) prepared: Option<PreparedFile>,
    /// The file being written, and its generation; the open segment may be a generation ahead.
    pub(super) file: Arc<dyn File>,
    pub(super) generation: Generation,
    pub(super) created: LogTime,
    pub(super) accumulated: u64,
    pub(super) named: NameState,
    /// The disk was full and a reserve log was used; ordinary appends wait until all reserves are back.
    pub(super) on_reserves: bool,
    pub(super) requested: LogPosition,
    /// Somebody waits for headers to name the generation entered last.
    pub(super) naming_requested: bool,
    /// Archived generations below this may be written over.
    pub(super) retired: Generation,
    pub(super) counters: LogCounters,
}

/// The right to append now, see [`LogStream::append_with`].
pub(crate) struct Appender<'a> {
    log: &'a LogStream,
    state: &'a mut State,
    bytes: usize,
}

impl Appender<'_> {
    /// Appends records, no more than was said.
    pub fn append(self, batch: &RecordBatch) -> Appended {
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
        Appended { start: start.unwrap_or(end), end }
    }
}

/// A log stream. ESE: `LOG`.
#[doc(alias = "LOG")]
#[repr(align(128))]
pub struct LogStream {
    pub(super) options: LogOptions,
    pub(super) signature: Signature,
    pub(super) listener: OnceLock<Arc<dyn LogListener>>,
    pub(super) state: CachePadded<Mutex<State>>,
    /// Rung when much has gathered that nobody waits for.
    work: Condvar,
    /// Rung when a file is to be prepared, and when names and headers are to be settled.
    pub(super) file_work: Condvar,
    /// Rung when a writer has taken segments out of the buffer.
    pub(super) room: Condvar,
    /// Somebody waits for work.
    attended: AtomicBool,
    tail: CachePadded<AtomicU64>,
    pub(super) durable: CachePadded<AtomicU64>,
    pub(super) flushes: AtomicU64,
    pub(super) down: OnceLock<String>,
    /// The header of a new file; held by the writer while it writes.
    pub(super) head: Mutex<IoBuffer>,
    /// One change of names at a time.
    pub(super) files: Mutex<LogFiles>,
}

impl LogStream {
    /// Starts a new stream at generation 1.
    pub fn create(options: LogOptions, signature: Signature) -> Result<LogStream> {
        let (file, created) = super::generation::create_first(&options, signature)?;
        let log = LogStream::at(options, signature, file, LogPosition::new(1, 1, 0), created);
        log.restore_reserves();
        Ok(log)
    }

    /// Goes on behind the tail of an existing stream. What a crash left behind the tail is wiped out first, and
    /// what reading repaired is written; then everything that was read is durable.
    pub fn resume(options: LogOptions, tail: LogTail) -> Result<LogStream> {
        let (file, named) = super::generation::reopen(&options, &tail)?;
        let header = &tail.header;
        let options = LogOptions { file_size: LogStream::file_size_behind(&tail), ..options };
        let mut position =
            LogPosition { generation: header.generation, segment: tail.next_segment, offset: 0 };
        // A file that another engine began is left as it is: in it a torn write could not be told from damage.
        if !tail.marked || tail.next_segment + 1 >= header.file_segments {
            position = LogPosition { generation: header.generation.next(), segment: 1, offset: 0 };
        }
        let mut log = LogStream::at(options, header.signature, file, position, header.created);
        let state = log.state.get_mut();
        state.generation = header.generation;
        state.accumulated = tail.accumulated;
        state.named = named;
        *log.files.get_mut() = LogFiles::new(header.generation, header.created);
        log.restore_reserves();
        Ok(log)
    }

    /// Bytes of one file of a stream that goes on behind its tail: what they were.
    pub(crate) fn file_size_behind(tail: &LogTail) -> u32 {
        u32::from(tail.header.file_segments) * SEGMENT_BYTES as u32
    }

    fn at(
        options: LogOptions,
        signature: Signature,
        file: Arc<dyn File>,
        position: LogPosition,
        created: LogTime,
    ) -> LogStream {
        let start = LogPosition { offset: RECORDS_AT as u16, ..position };
        let state = State {
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
            retired: Generation(0),
            counters: LogCounters::default(),
        };
        LogStream {
            options,
            signature,
            listener: OnceLock::new(),
            state: CachePadded::new(Mutex::new(state)),
            work: Condvar::new(),
            file_work: Condvar::new(),
            room: Condvar::new(),
            attended: AtomicBool::new(false),
            tail: CachePadded::new(AtomicU64::new(start.to_u64())),
            durable: CachePadded::new(AtomicU64::new(start.to_u64())),
            flushes: AtomicU64::new(0),
            down: OnceLock::new(),
            head: Mutex::new(IoBuffer::zeroed(SEGMENT_BYTES)),
            files: Mutex::new(LogFiles::new(position.generation, created)),
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

    /// Bytes of one file.
    pub fn file_size(&self) -> u32 {
        self.options.file_size
    }

    /// The newest generation whose file has its name, and when it was created. Records may be in the next already.
    pub fn named_generation(&self) -> (Generation, LogTime) {
        self.files.lock().named()
    }

    /// Where the next record will stand.
    pub fn tail(&self) -> LogPosition {
        LogPosition::from_u64(self.tail.load(Ordering::Acquire))
    }

    /// Everything before this survives a crash.
    pub fn durable(&self) -> LogPosition {
        LogPosition::from_u64(self.durable.load(Ordering::Acquire))
    }

    /// Counters since the log was opened.
    pub fn counters(&self) -> LogCounters {
        LogCounters { flushes: self.flushes.load(Ordering::Relaxed), ..self.state.lock().counters }
    }

    /// Appends records in one piece. `DiskFull`: nothing was appended; free space and try again.
    pub fn append(&self, batch: &RecordBatch) -> Result<Appended> {
        self.append_with(batch.len(), false, |appender| appender.append(batch))
    }

    /// The same for ending transactions and shutting down: may use the reserve logs of a full disk.
    pub fn append_privileged(&self, batch: &RecordBatch) -> Result<Appended> {
        self.append_with(batch.len(), true, |appender| appender.append(batch))
    }

    /// Lets `work` append records of at most `bytes` when there is room for them and nobody else can append. It must
    /// not wait.
    pub(crate) fn append_with<T>(
        &self,
        bytes: usize,
        privileged: bool,
        work: impl FnOnce(Appender<'_>) -> T,
    ) -> Result<T> {
        let needed = SegmentBuffer::segments_for(bytes);
        let most_waiting = self.most_waiting();
        if needed > most_waiting {
            let what = format!("{bytes} bytes of records do not fit a log file; use larger log files");
            return Err(Error::Usage(what));
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
                // There is room as soon as a write begins; whoever writes itself waits until it ends.
                let attended = self.attended.load(Ordering::Relaxed);
                self.work.notify_one();
                if !attended || self.room.wait_for(&mut state, MAX_ROOM_WAIT).timed_out() {
                    drop(state);
                    self.write(None)?;
                }
                continue;
            }
            // At most one generation is begun and not entered, because at most one file is prepared.
            let begun = state.buffer.tail().generation > state.generation;
            let crosses = needed >= state.buffer.left();
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
            if state.buffer.waiting() >= most_waiting / WORTH_WRITING {
                self.work.notify_one();
            }
            return Ok(done);
        }
    }

    /// Ends the generation being written, however much room it has left. One without records stays.
    pub fn roll(&self) -> Result<()> {
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

    /// Asks for the same without waiting; the next flush or step does it.
    pub fn request_flush(&self, upto: LogPosition) {
        let mut state = self.state.lock();
        state.requested = state.requested.max(upto);
    }

    /// Asks for [`LogStream::settle`] without waiting; the next step does it.
    pub(crate) fn request_name_generation(&self) {
        self.state.lock().naming_requested = true;
        self.file_work.notify_one();
    }

    /// Background work when little happens: writes what was appended, prepares the next file and formats some of it,
    /// restores reserves. A full disk is no error here; the append that needs the space reports it.
    pub fn step(&self) -> Result<()> {
        self.check()?;
        self.flush(self.tail())?;
        let prepared = self.prepare_if_room()?;
        // A generation that has begun and has no records yet.
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

    /// What takes syncs of its own, for which writing should not wait: prepares the next file, and settles if that was
    /// asked for. `false`: the disk is full.
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

    /// Waits until full segments are worth a write. `false`: the time is over.
    pub fn wait_for_segments(&self, timeout: Duration) -> bool {
        self.attended.store(true, Ordering::Relaxed);
        let enough = self.most_waiting() / WORTH_WRITING;
        self.wait_while(&self.work, timeout, |state| state.buffer.waiting() < enough)
    }

    /// Waits until there is a chore that whoever appends would have to do before long. `false`: the time is over.
    pub fn wait_for_file_work(&self, timeout: Duration) -> bool {
        self.wait_while(&self.file_work, timeout, |state| state.prepared.is_some() && !state.naming_requested)
    }

    fn wait_while(&self, bell: &Condvar, timeout: Duration, idle: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock();
        if idle(&state) {
            bell.wait_for(&mut state, timeout);
        }
        !idle(&state)
    }

    /// Makes everything durable. The stream must not be used afterwards.
    pub fn close(&self) -> Result<()> {
        self.flush(self.tail())?;
        self.name_generation()?;
        self.discard_prepared();
        Ok(())
    }

    /// Full segments in memory, at most.
    fn most_waiting(&self) -> usize {
        (self.file_segments() / 2).min(LONGEST_WRITE * 2)
    }

    fn file_segments(&self) -> usize {
        self.options.file_size as usize / SEGMENT_BYTES
    }

    pub(super) fn check(&self) -> Result<()> {
        self.down.get().map_or(Ok(()), |what| Err(Error::ReadOnly(what.clone())))
    }

    pub(super) fn publish_tail(&self, state: &State) {
        self.tail.store(state.buffer.tail().to_u64(), Ordering::Release);
    }
}
