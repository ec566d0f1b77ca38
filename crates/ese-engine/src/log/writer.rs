//! Making the log durable in groups.
//!
//! Whoever needs durability first becomes the writer: it takes everything appended so far, closes the open segment
//! with filler, and writes the segments with one transfer and one sync. Who comes meanwhile waits. Then the turn goes
//! to the first whose records are not durable yet, at once, and those whose records are go on; nobody else wakes.
//! Segments are never written twice, so a write that a power cut tears cannot harm what was durable
//! before. A copy of the last segment goes with it: the shadow that ESE's readers expect. The next write
//! overwrites it, when what it copies is long durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;

use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::segment::finish;
use ese_format::{Generation, LogPosition, LogTime};
use vfs::{File, IoBuffer, IoReason};

use super::buffer::Segment;
use super::generation::Named;
use super::stream::{LogStream, State};
use crate::{Error, Result};

/// Segments in one write, at most.
pub(super) const LONGEST_WRITE: usize = 256;

impl LogStream {
    /// Returns once everything appended before `upto` is durable.
    pub fn flush(&self, upto: LogPosition) -> Result<()> {
        let upto = upto.min(self.tip());
        if self.durable() >= upto {
            return Ok(());
        }
        self.flushes.fetch_add(1, Ordering::Relaxed);
        while self.durable() < upto {
            self.write(Some(upto))?;
        }
        Ok(())
    }

    /// One turn of the writer, or waiting for that of another, who may have done it. Without `upto` only full segments
    /// are written; if there are none, a generation that begins next is entered.
    pub(super) fn write(&self, upto: Option<LogPosition>) -> Result<()> {
        let mut state = self.state.lock();
        self.check()?;
        if state.writing {
            let waiter = Waiter::new(upto.unwrap_or(LogPosition::MIN));
            state.waiters.push(waiter.clone());
            drop(state);
            match waiter.wait() {
                Verdict::Done => return self.check(),
                Verdict::YourTurn => state = self.state.lock(),
            }
        } else if upto.is_some_and(|upto| self.durable() >= upto) {
            return Ok(());
        }
        state.writing = true;
        if upto.is_some_and(|upto| upto.max(state.requested) > state.buffer.open_at()) {
            let filler = state.buffer.fill();
            state.counters.wasted += filler as u64;
            self.publish_tip(&state);
        }
        let segments = state.buffer.take(LONGEST_WRITE);
        let generation = segments.first().map_or(state.buffer.tip(), |segment| segment.position).generation;
        let enter = generation > state.generation && (!segments.is_empty() || state.prepared.is_some());
        let mut result = self.check().map(|()| Written::default());
        if result.is_ok() && (enter || !segments.is_empty()) {
            let file = state.file.clone();
            drop(state);
            result = self.write_out(&segments, file, enter.then_some(generation));
            state = self.state.lock();
        }
        match &mut result {
            Ok(written) => {
                if let Some((file, header)) = written.entered.take() {
                    state.enter(file, &header);
                    self.work.notify_one();
                }
                state.accumulated ^= written.checksum;
                state.counters.writes += u64::from(!segments.is_empty());
                state.counters.written += (segments.len() * SEGMENT_BYTES) as u64;
                self.durable.store(state.buffer.untaken().to_u64(), Ordering::Release);
            }
            Err(error) => {
                let _ = self.down.set(error.to_string());
            }
        }
        state.buffer.recycle(segments);
        let reached = if self.down.get().is_some() { LogPosition::MAX } else { self.durable() };
        let (next, done) = state.pass_on(reached);
        drop(state);
        next.iter().for_each(|waiter| waiter.wake(Verdict::YourTurn));
        done.iter().for_each(|waiter| waiter.wake(Verdict::Done));
        result.and_then(|_| self.check())
    }

    /// Writes segments of one generation, behind its header if it is new.
    fn write_out(
        &self,
        segments: &[Segment],
        file: Arc<dyn File>,
        enter: Option<Generation>,
    ) -> Result<Written> {
        let entered = enter.map(|generation| self.header_of(generation)).transpose()?;
        let mut transfer = self.transfer.lock();
        if transfer.is_empty() {
            *transfer = IoBuffer::zeroed((LONGEST_WRITE + 2) * SEGMENT_BYTES);
        }
        let mut end = 0;
        if let Some((_, header)) = &entered {
            transfer[..SEGMENT_BYTES].copy_from_slice(&header.encode());
            end = SEGMENT_BYTES;
        }
        let time = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let mut checksum = 0;
        let mut offset = 0;
        if let Some(first) = segments.first() {
            offset = u64::from(first.position.segment) * SEGMENT_BYTES as u64 - end as u64;
            for (segment, place) in segments.iter().zip(transfer[end..].chunks_exact_mut(SEGMENT_BYTES)) {
                place.copy_from_slice(&*segment.bytes);
                if let Some(place) = place.first_chunk_mut() {
                    finish(place, segment.position, time, first.position);
                }
                checksum ^= place.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            }
            end += segments.len() * SEGMENT_BYTES;
            transfer.copy_within(end - SEGMENT_BYTES..end, end);
            end += SEGMENT_BYTES;
        }
        let file = entered.as_ref().map_or(file, |(prepared, _)| prepared.clone());
        // The file itself knows the name under which it was prepared.
        let failed =
            |e: std::io::Error| Error::ReadOnly(format!("{}: {e}", self.options.names.current().display()));
        file.write_durable(offset, &transfer[..end], IoReason::LogWrite).map_err(failed)?;
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
        self.named = Named::Next;
        self.counters.generations += 1;
    }

    /// A turn ends when everything before `reached` is durable: who is to go on with the next one, and whose wait is
    /// over.
    fn pass_on(&mut self, reached: LogPosition) -> (Option<Arc<Waiter>>, Vec<Arc<Waiter>>) {
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
enum Verdict {
    /// The records are durable, or the log is down.
    Done = 1,
    /// The waiter is the writer now.
    YourTurn = 2,
}

/// A thread that waits for the writer.
pub(super) struct Waiter {
    upto: LogPosition,
    thread: Thread,
    /// Of a [`Verdict`], or zero.
    verdict: AtomicU8,
}

impl Waiter {
    fn new(upto: LogPosition) -> Arc<Waiter> {
        Arc::new(Waiter { upto, thread: std::thread::current(), verdict: AtomicU8::new(0) })
    }

    fn wake(&self, verdict: Verdict) {
        self.verdict.store(verdict as u8, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) -> Verdict {
        loop {
            match self.verdict.load(Ordering::Acquire) {
                1 => return Verdict::Done,
                2 => return Verdict::YourTurn,
                _ => std::thread::park(),
            }
        }
    }
}
