//! Making the log durable in groups.
//!
//! Whoever needs durability first becomes the writer: it takes everything appended so far, closes the open segment
//! with filler, writes the segments with one transfer and one sync, and wakes everybody; who came meanwhile shares
//! the next turn. Segments are never written twice, so a write that a power cut tears cannot harm what was durable
//! before. A copy of the last segment goes with it: the shadow that ESE's readers expect. The next write
//! overwrites it, when what it copies is long durable.

use std::sync::atomic::Ordering;

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::segment::finish;
use ese_format::{Generation, LogPosition, LogTime};
use vfs::{IoBuffer, IoReason};

use super::buffer::Segment;
use super::stream::LogStream;
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
        self.state.lock().counters.flushes += 1;
        while self.durable() < upto {
            self.write(Some(upto))?;
        }
        Ok(())
    }

    /// One turn of the writer, or waiting for the turn of another. Without `upto` only full segments are written;
    /// if there are none, a generation that begins next is entered.
    pub(super) fn write(&self, upto: Option<LogPosition>) -> Result<()> {
        let mut state = self.state.lock();
        self.check()?;
        if state.writing {
            self.written.wait(&mut state);
            return self.check();
        }
        if let Some(upto) = upto {
            if self.durable() >= upto {
                return Ok(());
            }
            if upto.max(state.requested) > (LogPosition { offset: 0, ..state.buffer.tip() }) {
                let filler = state.buffer.fill();
                state.counters.wasted += filler as u64;
                self.publish_tip(&state);
            }
        }
        let segments = state.buffer.take(LONGEST_WRITE);
        let generation = segments.first().map_or(state.buffer.tip(), |segment| segment.position).generation;
        if segments.is_empty() && (generation == state.generation || state.prepared.is_none()) {
            return Ok(());
        }
        let enter = generation > state.generation;
        state.writing = true;
        drop(state);
        let result = self.write_out(&segments, enter.then_some(generation));
        let mut state = self.state.lock();
        state.writing = false;
        match &result {
            Ok(checksum) => {
                state.accumulated ^= checksum;
                state.counters.writes += u64::from(!segments.is_empty());
                state.counters.written += (segments.len() * SEGMENT_BYTES) as u64;
                self.durable.store(state.buffer.untaken().to_u64(), Ordering::Release);
            }
            Err(error) => {
                let _ = self.down.set(error.to_string());
            }
        }
        state.buffer.recycle(segments);
        self.written.notify_all();
        drop(state);
        result.and_then(|_| self.check())
    }

    /// Writes segments of one generation, entering it first if it is new; the XOR of their checksums.
    fn write_out(&self, segments: &[Segment], enter: Option<Generation>) -> Result<u64> {
        if let Some(generation) = enter {
            self.enter_generation(generation)?;
        }
        let Some(first) = segments.first() else { return Ok(0) };
        let file = self.state.lock().file.clone();
        let time = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let mut transfer = self.transfer.lock();
        let end = segments.len() * SEGMENT_BYTES;
        if transfer.len() < end + SEGMENT_BYTES {
            *transfer = IoBuffer::zeroed((LONGEST_WRITE + 1) * SEGMENT_BYTES);
        }
        let mut checksum = 0;
        for (segment, place) in segments.iter().zip(transfer.chunks_exact_mut(SEGMENT_BYTES)) {
            place.copy_from_slice(&*segment.bytes);
            if let Some(place) = place.first_chunk_mut() {
                finish(place, segment.position, time, first.position);
            }
            checksum ^= place.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        }
        transfer.copy_within(end - SEGMENT_BYTES..end, end);
        let offset = u64::from(first.position.segment) * SEGMENT_BYTES as u64;
        // The file itself knows the name under which it was prepared.
        let failed =
            |e: std::io::Error| Error::ReadOnly(format!("{}: {e}", self.options.names.current().display()));
        file.write_durable(offset, &transfer[..end + SEGMENT_BYTES], IoReason::LogWrite).map_err(failed)?;
        Ok(checksum)
    }
}
