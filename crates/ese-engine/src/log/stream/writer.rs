//! The writer, which makes the log durable with group commit.
//!
//! The first thread that needs durability becomes the writer. It takes everything appended so far, closes the open
//! segment with filler, and writes the segments with one transfer and one sync. Threads that arrive during the write
//! wait. Then the writer wakes the threads whose records are durable, and passes its role to the first of the
//! remaining threads. Commits in quick succession wait briefly for each other
//! ([`GroupCommit`](crate::log::group_commit::GroupCommit)).
//!
//! A segment is never written twice, so a torn write cannot damage data that was already durable. Each write ends
//! with a copy of its last segment: the shadow that ESE's readers expect. The next write overwrites the shadow,
//! because by then the segment itself is durable.

use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::segment::finish;
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, MutexGuard};
use jetcell_vfs::{File, IoReason};

use super::generations::NameState;
use super::{LogStream, LogStreamState, MAX_WRITE_SEGMENTS};
use crate::log::group_commit::{CommitWaiter, WaitPurpose, WaitResult};
use crate::log::segment_buffer::SegmentRun;
use crate::{Error, InstanceFailure, Result};

impl LogStream {
    /// Waits until all records that were appended before `upto` are durable.
    pub fn flush(&self, upto: LogPosition) -> Result<()> {
        self.flush_for(upto, WaitPurpose::Flush)
    }

    /// Flushes the log like [`LogStream::flush`], for a commit. It may wait briefly for other commits to share a
    /// write with.
    pub fn commit(&self, upto: LogPosition) -> Result<()> {
        self.flush_for(upto, WaitPurpose::Commit)
    }

    fn flush_for(&self, upto: LogPosition, purpose: WaitPurpose) -> Result<()> {
        let upto = upto.min(self.tail());
        if self.durable() < upto {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        while self.durable() < upto {
            self.write_for(Some(upto), purpose)?;
        }
        match self.options.waypoint_latency {
            0 => Ok(()),
            _ => self.name_committed(upto),
        }
    }

    /// Ensures that database headers name the generations of all records before `upto`. If generations may be lost, a
    /// commit is acknowledged only after this call. Otherwise the loss of the newest generation would go unnoticed.
    fn name_committed(&self, upto: LogPosition) -> Result<()> {
        if upto > self.named_in_headers() { self.name_generation() } else { Ok(()) }
    }

    /// Stops writing and renaming files, after waiting for the write in progress. Afterwards, other instances may
    /// open the files, and further calls return [`Error::ReadOnly`].
    pub(crate) fn stop(&self) {
        let _ = self.down.set(InstanceFailure::Ended);
        self.files.lock().stopped = true;
        let waiter = CommitWaiter::new(LogPosition::MIN, WaitPurpose::Flush);
        {
            let mut state = self.state.lock();
            if !state.writing {
                return;
            }
            state.waiters.push(waiter.clone());
        }
        // The log no longer accepts writes, so the one in progress is the last.
        waiter.wait();
    }

    /// Writes once, or waits for another thread's write. Without `upto`, writes only full segments, or, if there are
    /// none, enters a generation that has begun.
    pub(in crate::log) fn write(&self, upto: Option<LogPosition>) -> Result<()> {
        self.write_for(upto, WaitPurpose::Flush)
    }

    /// Makes the calling thread the writer. Returns `None` if another thread's write has already made the position
    /// durable.
    pub(super) fn become_writer(
        &self,
        upto: Option<LogPosition>,
        purpose: WaitPurpose,
    ) -> Result<Option<MutexGuard<'_, LogStreamState>>> {
        let mut state = self.state.lock();
        self.check()?;
        let waiter = CommitWaiter::new(upto.unwrap_or(LogPosition::MIN), purpose);
        let mut first = state.waiters.is_empty();
        if state.writing {
            state.waiters.push(waiter.clone());
            drop(state);
            if waiter.wait() == WaitResult::Durable {
                return self.check().map(|()| None);
            }
            state = self.state.lock();
            first = true;
        } else if upto.is_some_and(|upto| self.durable() >= upto) {
            return Ok(None);
        }
        state.writing = true;
        let present = state.waiters.len() + 1;
        if purpose == WaitPurpose::Flush || !state.group_commit.should_wait(present) {
            return Ok(Some(state));
        }
        // The commit that completes the group performs the write. If the group stays incomplete, the first commit
        // writes after `max_wait`.
        state.writing = false;
        waiter.reset();
        state.waiters.push(waiter.clone());
        let max_wait = state.group_commit.max_wait;
        drop(state);
        let result = if first { waiter.wait_for(max_wait, &*self.options.vfs.clock()) } else { None };
        if first && result.is_none() {
            let mut state = self.state.lock();
            let place = state.waiters.iter().position(|other| Arc::ptr_eq(other, &waiter));
            if let (false, Some(place)) = (state.writing, place) {
                state.waiters.remove(place);
                state.writing = true;
                state.group_commit.timed_out();
                return Ok(Some(state));
            }
            // Another thread is writing, or has finished writing and is about to wake this thread.
        }
        match result.unwrap_or_else(|| waiter.wait()) {
            WaitResult::Durable => self.check().map(|()| None),
            WaitResult::BecomeWriter => Ok(Some(self.state.lock())),
        }
    }

    fn write_for(&self, upto: Option<LogPosition>, purpose: WaitPurpose) -> Result<()> {
        let Some(mut state) = self.become_writer(upto, purpose)? else { return Ok(()) };
        if upto.is_some_and(|upto| upto.max(state.requested) > state.buffer.open_at()) {
            let filler = state.buffer.fill();
            state.counters.wasted += filler as u64;
            self.publish_tail(&state);
        }
        let mut runs = state.buffer.take(MAX_WRITE_SEGMENTS);
        self.room.notify_all();
        let generation = runs.first().map_or(state.buffer.tail(), |run| run.position).generation;
        let enter = generation > state.generation && (!runs.is_empty() || state.prepared.is_some());
        let mut result = self.check().map(|()| WriteResult::default());
        if result.is_ok() && (enter || !runs.is_empty()) {
            let file = state.file.clone();
            drop(state);
            let clock = self.options.vfs.clock();
            let began = clock.monotonic();
            result = self.write_out(&mut runs, file, enter.then_some(generation));
            let took = clock.monotonic().saturating_sub(began);
            state = self.state.lock();
            state.group_commit.record_write_time(took);
        }
        match result.as_mut().map(std::mem::take) {
            Ok(written) => self.written(&mut state, written, &runs),
            Err(error) => {
                let _ = self.down.set(error.cause());
            }
        }
        state.buffer.recycle(runs);
        let reached = if self.down.get().is_some() { LogPosition::MAX } else { self.durable() };
        let (next, done) = state.hand_over(reached);
        if purpose == WaitPurpose::Commit {
            let commits = |waiters: &[Arc<CommitWaiter>]| {
                waiters.iter().filter(|waiter| waiter.purpose == WaitPurpose::Commit).count()
            };
            state.group_commit.expected =
                1 + commits(&done) + commits(&state.waiters) + commits(next.as_slice());
        }
        drop(state);
        next.iter().for_each(|waiter| waiter.wake(WaitResult::BecomeWriter));
        done.iter().for_each(|waiter| waiter.wake(WaitResult::Durable));
        result.and_then(|_| self.check())
    }

    /// Applies the result of a write: all segments taken from the buffer are durable.
    pub(super) fn written(&self, state: &mut LogStreamState, written: WriteResult, runs: &[SegmentRun]) {
        if let Some((file, header)) = written.entered {
            state.enter(file, &header);
            self.file_work.notify();
        }
        state.accumulated ^= written.checksum;
        state.counters.writes += u64::from(!runs.is_empty());
        state.counters.written += runs.iter().map(|run| run.bytes().len() as u64).sum::<u64>();
        self.durable.store(state.buffer.pending_start().to_u64(), Ordering::Release);
    }

    /// Passes on the writer role: wakes the threads whose records are durable, and the next writer.
    pub(super) fn pass_writer_role(&self, mut state: MutexGuard<'_, LogStreamState>) {
        let reached = if self.down.get().is_some() { LogPosition::MAX } else { self.durable() };
        let (next, done) = state.hand_over(reached);
        drop(state);
        next.iter().for_each(|waiter| waiter.wake(WaitResult::BecomeWriter));
        done.iter().for_each(|waiter| waiter.wake(WaitResult::Durable));
    }

    /// Writes segments of one generation. If the generation is new, writes its header first.
    pub(super) fn write_out(
        &self,
        runs: &mut [SegmentRun],
        file: Arc<dyn File>,
        enter: Option<Generation>,
    ) -> Result<WriteResult> {
        let entered = enter.map(|generation| self.header_of(generation)).transpose()?;
        let time = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let mut checksum = 0;
        let first = runs.first().map(|run| run.position);
        for (position, segment) in runs.iter_mut().flat_map(SegmentRun::segments_mut) {
            finish(segment, position, time, first.unwrap_or(position));
            checksum ^= segment.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        }
        let mut head = self.head.lock();
        let head = entered.as_ref().map(|(_, header)| {
            head.copy_from_slice(&header.encode());
            &**head
        });
        let bytes = runs.iter().map(SegmentRun::bytes);
        let shadow = runs.last().and_then(|run| run.bytes().rchunks_exact(SEGMENT_BYTES).next());
        let parts: Vec<&[u8]> = head.into_iter().chain(bytes).chain(shadow).collect();
        let start = if head.is_some() { 0 } else { first.map_or(0, |first| first.segment) };
        let offset = u64::from(start) * SEGMENT_BYTES as u64;
        let file = entered.as_ref().map_or(file, |(prepared, _)| prepared.clone());
        file.write_parts_durable(offset, &parts, IoReason::LogWrite)
            .map_err(|e| self.current_log_failure(&e))?;
        Ok(WriteResult { checksum, entered })
    }

    /// Returns the error of an operation on the newest log. The file still has the path under which it was prepared,
    /// so the error names the current log instead.
    pub(super) fn current_log_failure(&self, error: &std::io::Error) -> Error {
        Error::ReadOnly(InstanceFailure::io(self.options.names.current(), error))
    }
}

/// Result of one log write.
#[derive(Default)]
pub(super) struct WriteResult {
    /// XOR of the checksums of the segments.
    checksum: u64,
    /// File and header of the generation that this write entered.
    entered: Option<(Arc<dyn File>, LogHeader)>,
}

impl LogStreamState {
    /// Makes the prepared file the current file. Its header is already durable.
    fn enter(&mut self, file: Arc<dyn File>, header: &LogHeader) {
        self.prepared = None;
        self.file = file;
        self.generation = header.generation;
        self.created = header.created;
        self.accumulated = 0;
        self.named = NameState::Next;
        self.counters.generations += 1;
    }

    /// Ends a write that made all records before `reached` durable. Returns the next writer, and the waiters whose
    /// wait is over.
    fn hand_over(&mut self, reached: LogPosition) -> (Option<Arc<CommitWaiter>>, Vec<Arc<CommitWaiter>>) {
        let (done, mut waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| waiter.upto <= reached);
        let next = (!waiting.is_empty()).then(|| waiting.remove(0));
        self.waiters = waiting;
        self.writing = next.is_some();
        (next, done)
    }
}
