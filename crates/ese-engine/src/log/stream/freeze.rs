//! Freezes the stream between the two renames that end a generation, for a snapshot of its files.
//!
//! Until no file can change any more, the freezing thread is the writer and holds the `files` lock. Therefore no
//! record becomes durable after the generation that ends, and no other thread renames a file. All acknowledged
//! records are in complete generations that have their archive names.

use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition};
use jetcell_sync::MutexGuard;

use super::generations::{LogFiles, NameState};
use super::{LogStream, LogStreamState, MAX_WRITE_SEGMENTS, RecordBatch};
use crate::log::group_commit::WaitPurpose;
use crate::log::log_file::close_current;
use crate::{Error, Result};

impl LogStream {
    /// Ends the current generation and freezes the stream.
    ///
    /// The current generation's file gets its archive name. The next generation's file has a header but no records,
    /// and keeps the name of a prepared file. Then this calls `stop`, which must block all further changes to files.
    /// [`LogStream::name_generation`] completes the renames later. `mark` is the last record of the generation.
    ///
    /// Returns the generation that ended and the result of `stop`.
    pub(crate) fn freeze<T>(
        &self,
        mark: &LogRecord,
        stop: impl FnOnce() -> Result<T>,
    ) -> Result<(Generation, T)> {
        let mut batch = RecordBatch::new();
        batch.push(mark);
        loop {
            let end = self.append_privileged(&batch)?.end;
            // Flushing now leaves little for this thread to write later.
            self.flush(end)?;
            self.prepare_next(false)?;
            let files = self.files()?;
            let Some(state) = self.become_writer(Some(LogPosition::MAX), WaitPurpose::Flush)? else {
                continue;
            };
            if state.prepared.is_none() || state.named == NameState::Next || !has_records(&state) {
                self.pass_writer_role(state);
                continue;
            }
            return self.freeze_as_writer(files, state, stop);
        }
    }

    fn freeze_as_writer<T>(
        &self,
        files: MutexGuard<'_, LogFiles>,
        mut state: MutexGuard<'_, LogStreamState>,
        stop: impl FnOnce() -> Result<T>,
    ) -> Result<(Generation, T)> {
        let ending = state.generation;
        if state.buffer.tail().generation == ending {
            let filler = state.buffer.begin_generation();
            state.counters.wasted += filler as u64;
            self.publish_tail(&state);
        }
        drop(state);
        let result = self.end_generation(ending).and_then(|()| {
            self.name_archived(ending)?;
            stop()
        });
        if let Err(Error::ReadOnly(failure)) = &result {
            let _ = self.down.set(failure.clone());
        }
        self.pass_writer_role(self.state.lock());
        drop(files);
        result.map(|stopped| (ending, stopped))
    }

    /// Writes the rest of a generation and the header of the next generation. The calling thread must be the writer.
    fn end_generation(&self, ending: Generation) -> Result<()> {
        loop {
            let mut state = self.state.lock();
            let is_rest = state.buffer.pending_start().generation == ending;
            let mut runs = if is_rest { state.buffer.take(MAX_WRITE_SEGMENTS) } else { Vec::new() };
            self.room.notify_all();
            let file = state.file.clone();
            drop(state);
            let enter = (!is_rest).then(|| ending.next());
            let result = self.check().and_then(|()| self.write_out(&mut runs, file, enter));
            let done = result.map(|written| {
                let mut state = self.state.lock();
                self.written(&mut state, written, &runs);
                state.buffer.recycle(runs);
            });
            if let Err(error) = done {
                let _ = self.down.set(error.cause());
                return Err(error);
            }
            if !is_rest {
                return Ok(());
            }
        }
    }

    /// Performs the first of the two renames, and makes it durable.
    fn name_archived(&self, ended: Generation) -> Result<()> {
        close_current(&self.options, ended).map_err(|e| Error::io(self.options.names.current(), &e))?;
        self.sync_names()
    }
}

/// Returns whether the current generation has records. A generation without records need not end.
fn has_records(state: &LogStreamState) -> bool {
    state.buffer.tail() > LogPosition::new(state.generation.0, 2, 0)
}
