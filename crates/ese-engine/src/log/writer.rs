//! Making the log durable in groups.
//!
//! Whoever needs durability first becomes the writer: it takes everything appended so far, closes the open segment
//! with filler, and writes the segments with one transfer and one sync. Who comes meanwhile waits. Then the turn goes
//! to the first whose records are not durable yet, at once, and those whose records are go on; nobody else wakes.
//! Commits that follow each other closely wait a moment for each other ([`GroupCommit`]).
//! Segments are never written twice, so a write that a power cut tears cannot harm what was durable
//! before. A copy of the last segment goes with it: the shadow that ESE's readers expect. The next write
//! overwrites it, when what it copies is long durable.

use std::time::Duration;

use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::segment::finish;
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::atomic::{AtomicU8, Ordering};
use jetcell_sync::thread::Thread;
use jetcell_sync::{Arc, Deadline, MutexGuard};
use jetcell_vfs::{File, IoReason};

use super::buffer::Run;
use super::generation::NameState;
use super::stream::{LogStream, State};
use crate::{Error, Result};

/// Segments in one write, at most: 4 MiB. What gathers while a write is under way goes with the next one, because a sync
/// takes as long as a megabyte.
pub(super) const LONGEST_WRITE: usize = 1024;

impl LogStream {
    /// Returns once everything appended before `upto` is durable.
    pub fn flush(&self, upto: LogPosition) -> Result<()> {
        self.flush_for(upto, Purpose::Flush)
    }

    /// The same for a commit; it may wait a moment for others, to share one write with them.
    pub fn commit(&self, upto: LogPosition) -> Result<()> {
        self.flush_for(upto, Purpose::Commit)
    }

    fn flush_for(&self, upto: LogPosition, purpose: Purpose) -> Result<()> {
        let upto = upto.min(self.tail());
        if self.durable() >= upto {
            return Ok(());
        }
        self.flushes.fetch_add(1, Ordering::Relaxed);
        while self.durable() < upto {
            self.write_for(Some(upto), purpose)?;
        }
        Ok(())
    }

    /// From now on nothing is written, and no file changes its name: others may open the files. Waits for what is under
    /// way. Everybody who comes later gets [`Error::ReadOnly`].
    pub(crate) fn stop(&self) {
        let _ = self.down.set("the instance has ended".to_string());
        self.files.lock().ended = true;
        let waiter = Waiter::new(LogPosition::MIN, Purpose::Flush);
        {
            let mut state = self.state.lock();
            if !state.writing {
                return;
            }
            state.waiters.push(waiter.clone());
        }
        // With the log down, the turn that goes on now is the last.
        waiter.wait(None);
    }

    /// One turn of the writer, or waiting for that of another, who may have done it. Without `upto` only full segments
    /// are written; if there are none, a generation that begins next is entered.
    pub(super) fn write(&self, upto: Option<LogPosition>) -> Result<()> {
        self.write_for(upto, Purpose::Flush)
    }

    /// The turn to write, or `None` when another turn has done what was wanted.
    fn acquire(&self, upto: Option<LogPosition>, purpose: Purpose) -> Result<Option<MutexGuard<'_, State>>> {
        let mut state = self.state.lock();
        self.check()?;
        let waiter = Waiter::new(upto.unwrap_or(LogPosition::MIN), purpose);
        let mut first = state.waiters.is_empty();
        if state.writing {
            state.waiters.push(waiter.clone());
            drop(state);
            if waiter.wait(None) == Some(WaitResult::Durable) {
                return self.check().map(|()| None);
            }
            state = self.state.lock();
            first = true;
        } else if upto.is_some_and(|upto| self.durable() >= upto) {
            return Ok(None);
        }
        state.writing = true;
        let present = state.waiters.len() + 1;
        if purpose == Purpose::Flush || !state.group_commit.should_wait(present) {
            return Ok(Some(state));
        }
        // Whoever completes the group writes; if nobody does, the first one does when its patience is at an end.
        state.writing = false;
        waiter.forget();
        state.waiters.push(waiter.clone());
        let mut max_wait = first.then_some(state.group_commit.max_wait);
        drop(state);
        loop {
            match waiter.wait(max_wait) {
                Some(WaitResult::Durable) => return self.check().map(|()| None),
                Some(WaitResult::BecomeWriter) => return Ok(Some(self.state.lock())),
                None => {
                    let mut state = self.state.lock();
                    let place = state.waiters.iter().position(|other| Arc::ptr_eq(other, &waiter));
                    if let (false, Some(place)) = (state.writing, place) {
                        state.waiters.remove(place);
                        state.writing = true;
                        state.group_commit.failed();
                        return Ok(Some(state));
                    }
                    // Another turn goes on, or has ended and tells how in a moment.
                    max_wait = None;
                }
            }
        }
    }

    fn write_for(&self, upto: Option<LogPosition>, purpose: Purpose) -> Result<()> {
        let Some(mut state) = self.acquire(upto, purpose)? else { return Ok(()) };
        if upto.is_some_and(|upto| upto.max(state.requested) > state.buffer.open_at()) {
            let filler = state.buffer.fill();
            state.counters.wasted += filler as u64;
            self.publish_tail(&state);
        }
        let mut runs = state.buffer.take(LONGEST_WRITE);
        self.room.notify_all();
        let generation = runs.first().map_or(state.buffer.tail(), |run| run.position).generation;
        let enter = generation > state.generation && (!runs.is_empty() || state.prepared.is_some());
        let mut result = self.check().map(|()| Written::default());
        if result.is_ok() && (enter || !runs.is_empty()) {
            let file = state.file.clone();
            drop(state);
            let clock = self.options.vfs.clock();
            let began = clock.monotonic();
            result = self.write_out(&mut runs, file, enter.then_some(generation));
            let took = clock.monotonic().saturating_sub(began);
            state = self.state.lock();
            state.group_commit.max_wait = (took * WAIT_IN_WRITES).clamp(SHORTEST_WAIT, LONGEST_WAIT);
        }
        match &mut result {
            Ok(written) => {
                if let Some((file, header)) = written.entered.take() {
                    state.enter(file, &header);
                    self.file_work.notify_one();
                }
                state.accumulated ^= written.checksum;
                state.counters.writes += u64::from(!runs.is_empty());
                state.counters.written += runs.iter().map(|run| run.bytes().len() as u64).sum::<u64>();
                self.durable.store(state.buffer.untaken().to_u64(), Ordering::Release);
            }
            Err(error) => {
                let _ = self.down.set(error.cause());
            }
        }
        state.buffer.recycle(runs);
        let reached = if self.down.get().is_some() { LogPosition::MAX } else { self.durable() };
        let (next, done) = state.hand_over(reached);
        if purpose == Purpose::Commit {
            let commits = |waiters: &[Arc<Waiter>]| {
                waiters.iter().filter(|waiter| waiter.purpose == Purpose::Commit).count()
            };
            state.group_commit.expected =
                1 + commits(&done) + commits(&state.waiters) + commits(next.as_slice());
        }
        drop(state);
        next.iter().for_each(|waiter| waiter.wake(WaitResult::BecomeWriter));
        done.iter().for_each(|waiter| waiter.wake(WaitResult::Durable));
        result.and_then(|_| self.check())
    }

    /// Writes segments of one generation, behind its header if it is new.
    fn write_out(&self, runs: &mut [Run], file: Arc<dyn File>, enter: Option<Generation>) -> Result<Written> {
        let entered = enter.map(|generation| self.header_of(generation)).transpose()?;
        let time = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let mut checksum = 0;
        let first = runs.first().map(|run| run.position);
        for (position, segment) in runs.iter_mut().flat_map(Run::segments_mut) {
            finish(segment, position, time, first.unwrap_or(position));
            checksum ^= segment.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        }
        let mut head = self.head.lock();
        let head = entered.as_ref().map(|(_, header)| {
            head.copy_from_slice(&header.encode());
            &**head
        });
        let bytes = runs.iter().map(Run::bytes);
        let shadow = runs.last().and_then(|run| run.bytes().rchunks_exact(SEGMENT_BYTES).next());
        let parts: Vec<&[u8]> = head.into_iter().chain(bytes).chain(shadow).collect();
        let start = if head.is_some() { 0 } else { first.map_or(0, |first| first.segment) };
        let offset = u64::from(start) * SEGMENT_BYTES as u64;
        let file = entered.as_ref().map_or(file, |(prepared, _)| prepared.clone());
        // The file itself knows the name under which it was prepared.
        let failed =
            |e: std::io::Error| Error::ReadOnly(format!("{}: {e}", self.options.names.current().display()));
        file.write_parts_durable(offset, &parts, IoReason::LogWrite).map_err(failed)?;
        Ok(Written { checksum, entered })
    }
}

/// What a write has done.
#[derive(Default)]
struct Written {
    /// XOR of the checksums of the segments.
    checksum: u64,
    /// The generation that began with it.
    entered: Option<(Arc<dyn File>, LogHeader)>,
}

impl State {
    /// From now on the prepared file, whose header is durable, is the one being written.
    fn enter(&mut self, file: Arc<dyn File>, header: &LogHeader) {
        self.prepared = None;
        self.file = file;
        self.generation = header.generation;
        self.created = header.created;
        self.accumulated = 0;
        self.named = NameState::Next;
        self.counters.generations += 1;
    }

    /// A turn ends when everything before `reached` is durable: who is to go on with the next one, and whose wait is
    /// over.
    fn hand_over(&mut self, reached: LogPosition) -> (Option<Arc<Waiter>>, Vec<Arc<Waiter>>) {
        let (done, mut waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| waiter.upto <= reached);
        let next = (!waiting.is_empty()).then(|| waiting.remove(0));
        self.waiters = waiting;
        self.writing = next.is_some();
        (next, done)
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitResult {
    /// The records are durable, or the log is down.
    Durable = 1,
    /// The waiter is the writer now.
    BecomeWriter = 2,
}

/// Why somebody waits for durability.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Commit,
    Flush,
}

/// Whether commits wait for each other. Sessions that commit one transaction after the other fall into two groups that
/// take turns, each write carrying one; while the threads of one group work, the disk waits for the other anyway. When
/// all of them are waited for, one write carries all. That pays only if they come soon: each time they do not, it is
/// left for longer.
pub(super) struct GroupCommit {
    /// Commits that took part in the write before, or waited for the next one.
    expected: usize,
    /// Waiting longer is not worth it.
    max_wait: Duration,
    /// Writes without gathering that are to come, and how many there will be after the next failure.
    pause: u32,
    next_pause: u32,
}

/// Patience in units of what the last write took. A group that forms has formed within one, and its write takes another;
/// if the time were over before that, the one who counts it would wake in the middle of the write for nothing.
const WAIT_IN_WRITES: u32 = 2;
const SHORTEST_WAIT: Duration = Duration::from_micros(20);
const LONGEST_WAIT: Duration = Duration::from_millis(1);
const SHORTEST_PAUSE: u32 = 16;
const LONGEST_PAUSE: u32 = 1024;

impl GroupCommit {
    pub(super) fn new() -> GroupCommit {
        GroupCommit { expected: 1, max_wait: SHORTEST_WAIT, pause: 0, next_pause: SHORTEST_PAUSE }
    }

    /// Whether to wait for more than `present`. Asked once by each commit that could write.
    fn should_wait(&mut self, present: usize) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        if present >= self.expected {
            if self.expected > 1 {
                self.next_pause = SHORTEST_PAUSE;
            }
            return false;
        }
        true
    }

    fn failed(&mut self) {
        self.pause = self.next_pause;
        self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
    }
}

/// A thread that waits for the writer.
pub(super) struct Waiter {
    upto: LogPosition,
    purpose: Purpose,
    thread: Thread,
    /// Of a [`WaitResult`], or zero.
    verdict: AtomicU8,
}

impl Waiter {
    fn new(upto: LogPosition, purpose: Purpose) -> Arc<Waiter> {
        Arc::new(Waiter { upto, purpose, thread: jetcell_sync::thread::current(), verdict: AtomicU8::new(0) })
    }

    fn wake(&self, verdict: WaitResult) {
        self.verdict.store(verdict as u8, Ordering::Release);
        self.thread.unpark();
    }

    /// To wait once more.
    fn forget(&self) {
        self.verdict.store(0, Ordering::Relaxed);
    }

    /// `None`: the time is over. A wake-up that came late for an earlier wait does not end this one.
    fn wait(&self, max_wait: Option<Duration>) -> Option<WaitResult> {
        let end = max_wait.map(Deadline::after);
        loop {
            match self.verdict.load(Ordering::Acquire) {
                1 => return Some(WaitResult::Durable),
                2 => return Some(WaitResult::BecomeWriter),
                _ => {}
            }
            match end.as_ref().map(Deadline::remaining) {
                None => jetcell_sync::thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => jetcell_sync::thread::park_timeout(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_wait_for_each_other_while_that_works() {
        let mut group_commit = GroupCommit::new();
        assert!(!group_commit.should_wait(1), "nobody else is known");
        group_commit.expected = 3;
        assert!(group_commit.should_wait(1) && group_commit.should_wait(2) && !group_commit.should_wait(3));
        for pause in [SHORTEST_PAUSE, 2 * SHORTEST_PAUSE] {
            group_commit.failed();
            assert!((0..pause).all(|_| !group_commit.should_wait(1)) && group_commit.should_wait(1));
        }
        assert!(!group_commit.should_wait(3), "all are there");
        group_commit.failed();
        assert!((0..SHORTEST_PAUSE).all(|_| !group_commit.should_wait(1)) && group_commit.should_wait(1));
    }
}
