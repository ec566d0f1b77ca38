//! Copies closed logs from the active side in order, and inspects each log before the copy uses it.
//!
//! ```text
//!  active side ──> incoming/E0000000012.log ──> inspected ──> E0000000012.log ──> durable ──> copy.json names it
//! ```

use std::path::{Path, PathBuf};

use ese_engine::{CopyEvent, Error, VerifiedLog};
use ese_format::Generation;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use jetcell_sync::Arc;
use jetcell_vfs::{IoReason, Vfs};

use crate::copy_events::CopyEvents;
use crate::copy_state::{CopyPhase, CopyState};
use crate::error::{CopyError, Result};
use crate::incoming::{INCOMING, create_or_replace, read_partial_log};
use crate::log_end::{ClosedLogId, LogRejection, inspect, is_successor, read_log_header, records_end_offset};
use crate::log_source::{AvailableLogs, LogSource};
use crate::streamed_log::{StreamedLog, valid_len};
use crate::unfit_reason::UnfitReason;

/// Maximum number of attempts to fetch a log before the copy becomes unfit.
const MAX_FETCH_ATTEMPTS: u32 = 3;
/// Maximum number of times an open log is fetched in one step. The limit ensures that other work continues even if
/// the log grows fast.
const MAX_FETCHES_PER_STEP: u32 = 64;

/// Result of checking whether the active side and the copy have the same history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryConfirmation {
    /// The active side has the last log of the copy.
    Yes,
    /// The active side has too little of the last log to decide. If the next closed log can be fetched, it decides,
    /// because its header identifies the log that it continues.
    ByNextLog,
    /// The check is not possible yet, or the active side has a different history.
    NotYet,
}

/// Copies logs into a copy's directory.
pub(crate) struct LogFetcher<'c> {
    pub vfs: &'c Arc<dyn Vfs>,
    pub directory: &'c Path,
    pub source: &'c dyn LogSource,
    /// The received part of the log that the active side is writing.
    pub streamed: &'c mut Option<StreamedLog>,
    pub events: &'c CopyEvents,
}

impl LogFetcher<'_> {
    /// Fetches what has been added to the log that follows the closed logs. Returns the number of bytes received.
    pub fn stream(&mut self, state: &CopyState) -> Result<u64> {
        if self.streamed.as_ref().is_some_and(|known| known.generation().0 != state.next) {
            *self.streamed = None;
        }
        let mut came = 0;
        for _ in 0..MAX_FETCHES_PER_STEP {
            let Some(known) = &mut *self.streamed else {
                *self.streamed = StreamedLog::begin(self.vfs, self.directory, self.source, state)?;
                if self.streamed.is_none() {
                    break;
                }
                continue;
            };
            match known.fetch(self.source)? {
                Some(0) => break,
                Some(bytes) => came += bytes,
                None => {
                    *self.streamed = None;
                    break;
                }
            }
        }
        Ok(came)
    }

    /// Completes a partially received log, which has since been closed, by fetching the rest. Returns `None` if the
    /// whole log must be fetched.
    fn complete_streamed(
        &mut self,
        state: &CopyState,
        generation: Generation,
        after: Option<&ClosedLogId>,
    ) -> Result<Option<ClosedLogId>> {
        let known = self.streamed.as_ref().filter(|known| known.generation() == generation);
        let Some(known) = known else { return Ok(None) };
        let Some(rest) = self.source.read_log(generation, known.last_segment_offset())? else {
            return Ok(None);
        };
        let Some(known) = self.streamed.take() else { return Ok(None) };
        known.complete(self.vfs, self.directory, state, after, &rest)
    }

    /// Copies up to `max_logs` further logs and records them in the state. Returns the number of logs copied. After
    /// three failed attempts to copy a damaged or missing log, the copy becomes unfit.
    pub fn copy_logs(&mut self, state: &mut CopyState, closed: Generation, max_logs: u32) -> Result<u32> {
        let before = state.clone();
        let copied = self.fetch_logs(state, closed, max_logs);
        if *state != before {
            state.store(&**self.vfs, self.directory)?;
        }
        copied
    }

    /// Copies logs like [`LogFetcher::copy_logs`], but does not store the state.
    pub fn fetch_logs(&mut self, state: &mut CopyState, closed: Generation, max_logs: u32) -> Result<u32> {
        let mut copied = 0;
        let result = loop {
            if copied == max_logs || state.next > closed.0 || state.phase != CopyPhase::Following {
                break Ok(());
            }
            match self.fetch(state, Generation(state.next), state.end, None) {
                Ok(Some(end)) => {
                    (state.next, state.end, state.tries) = (end.next().0, Some(end), 0);
                    copied += 1;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if copied > 0 {
            // The file names of the logs must be durable before the state names them.
            self.sync()?;
        }
        result.map(|()| copied)
    }

    /// Compares the copy's last log with the log of an active side that it has not followed before. If the logs
    /// differ, the copy becomes unfit.
    pub fn confirm(&self, state: &mut CopyState, available: AvailableLogs) -> Result<HistoryConfirmation> {
        let Some(end) = state.end else { return self.confirm_part(state) };
        let generation = Generation(end.generation);
        if generation < available.oldest {
            return self.confirm_by_next(state, end);
        }
        let is_open = generation == available.closed.next();
        let other_log = available.open_created.is_some_and(|created| created != end.created);
        if generation > available.closed && (!is_open || other_log) {
            if self.source.read_log(generation, 0)?.is_some() {
                // The list of available logs is outdated.
                return Ok(HistoryConfirmation::NotYet);
            }
            // The active side will never have this log.
            let what = format!(
                "the copy has logs up to generation {:X} (hexadecimal), which {} does not have: the copy \
                 belongs to an abandoned history; reseed the copy",
                end.generation,
                self.source.address()
            );
            self.record_failure(state, generation, -590, UnfitReason::Diverged, what);
            state.store(&**self.vfs, self.directory)?;
            return Ok(HistoryConfirmation::NotYet);
        }
        if generation > available.closed {
            let path = state.logs(self.vfs, self.directory).archived(generation);
            // If the copy's log is damaged, it is fetched again once the active side has closed it.
            let Ok(ours) = VerifiedLog::read(self.vfs, &path, true) else {
                return Ok(HistoryConfirmation::NotYet);
            };
            // If both logs start with the same segments, they may still become equal.
            return self.compare_with_open(state, &ours).map(|_| HistoryConfirmation::NotYet);
        }
        let Some(bytes) = self.source.read_log(generation, 0)? else {
            return Ok(HistoryConfirmation::NotYet);
        };
        let incoming = self.incoming_path(&state.logs(self.vfs, self.directory).archived(generation));
        self.write(&incoming, &bytes)?;
        let theirs = inspect(self.vfs, &incoming, generation, state.stream(), None, None)?;
        self.vfs.remove(&incoming).map_err(|error| CopyError::io(&incoming, &error))?;
        match theirs {
            Err(LogRejection::Damaged(_)) => Ok(HistoryConfirmation::NotYet),
            Ok(theirs) if ClosedLogId::from_log(&theirs) == end => self.confirm_part(state),
            _ => {
                let number =
                    format!("log generation {:X} (hexadecimal) of {}", end.generation, self.source.address());
                let what = format!(
                    "{number} differs from the log of the copy: their histories have diverged (-590); \
                     compare them with jetcell copies --with, then reseed the side with the unwanted history"
                );
                // A single response is not enough: it may be outdated and come from a side that used to be active.
                self.record_failure(state, generation, -590, UnfitReason::Diverged, what);
                state.store(&**self.vfs, self.directory)?;
                Ok(HistoryConfirmation::NotYet)
            }
        }
    }

    /// Handles an active side that no longer has the copy's last log. The header of the next log identifies the log
    /// that it continues.
    fn confirm_by_next(&self, state: &mut CopyState, end: ClosedLogId) -> Result<HistoryConfirmation> {
        let next = self.source.read_log(end.next(), 0)?;
        let header = next.and_then(|bytes| LogHeader::decode(&bytes).ok());
        let of_next =
            header.filter(|header| (header.generation, header.signature) == (end.next(), state.stream()));
        if of_next.is_some_and(|header| is_successor(&end, &header)) {
            self.confirm_part(state)
        } else {
            // The reason is reported when the log is fetched.
            Ok(HistoryConfirmation::ByNextLog)
        }
    }

    /// Compares the partial log whose changes are in the databases with the active side's log.
    fn confirm_part(&self, state: &mut CopyState) -> Result<HistoryConfirmation> {
        match read_partial_log(self.vfs, self.directory)?.filter(|part| part.generation.0 == state.next) {
            Some(part) => self.compare_with_open(state, &part),
            None => Ok(HistoryConfirmation::Yes),
        }
    }

    /// Compares a log with the log that the active side is writing. Only segments that both logs have are compared.
    fn compare_with_open(&self, state: &mut CopyState, part: &VerifiedLog) -> Result<HistoryConfirmation> {
        let (len, generation) = (records_end_offset(part).min(part.bytes.len()), part.generation);
        let mut at = 0;
        while at < len {
            let Some(mut bytes) = self.source.read_open_log(generation, at as u64)? else {
                // The active side has closed the log. When the closed log is inspected, it is compared with the
                // partial log.
                return Ok(HistoryConfirmation::ByNextLog);
            };
            let header = if at == 0 { SEGMENT_BYTES.min(bytes.len()) } else { 0 };
            let same_log = match (at, LogHeader::decode(&bytes)) {
                (0, Ok(header)) => header_matches(&header, part),
                (0, Err(_)) => return Ok(HistoryConfirmation::NotYet),
                _ => true,
            };
            let first = at.max(SEGMENT_BYTES) / SEGMENT_BYTES;
            let good = valid_len(&mut bytes[header..], generation, first as u64);
            let known = part.bytes.get(at + header..len).unwrap_or_default();
            let compared = good.min(known.len());
            if !same_log || bytes.get(header..header + compared) != known.get(..compared) {
                let what = format!(
                    "log generation {:X} (hexadecimal) of {} differs from the log of the copy: their \
                     histories have diverged (-590); reseed the copy",
                    generation.0,
                    self.source.address()
                );
                self.record_failure(state, generation, -590, UnfitReason::Diverged, what);
                state.store(&**self.vfs, self.directory)?;
                return Ok(HistoryConfirmation::NotYet);
            }
            if compared == 0 && !known.is_empty() {
                // The active side does not have these segments yet.
                return Ok(HistoryConfirmation::NotYet);
            }
            at += header + compared;
        }
        Ok(HistoryConfirmation::Yes)
    }

    /// Replaces a damaged log of the copy by fetching it again. The databases may contain its changes, so the content
    /// must be the same as before.
    pub fn replace(&mut self, state: &mut CopyState, generation: Generation) -> Result<bool> {
        let behind = state.logs(self.vfs, self.directory).archived(generation.next());
        let known = match read_log_header(&**self.vfs, &behind) {
            Ok(header) if header.generation.0 < state.next => Some(ClosedLogId {
                generation: generation.0,
                created: u64::from_be_bytes(header.previous_created.0),
                checksum: header.previous_checksum,
            }),
            _ => state.end.filter(|end| end.generation == generation.0),
        };
        let fetched = self.fetch(state, generation, None, known)?;
        self.sync()?;
        if fetched.is_some() {
            state.tries = 0;
        }
        state.store(&**self.vfs, self.directory)?;
        Ok(fetched.is_some())
    }

    /// Fetches and inspects one log. The log must continue `after` and, if `known` is given, be the log that `known`
    /// identifies. Returns `None` if this attempt failed.
    fn fetch(
        &mut self,
        state: &mut CopyState,
        generation: Generation,
        after: Option<ClosedLogId>,
        known: Option<ClosedLogId>,
    ) -> Result<Option<ClosedLogId>> {
        let logs = state.logs(self.vfs, self.directory);
        let place = logs.archived(generation);
        if let Some(end) = self.complete_streamed(state, generation, after.as_ref())? {
            return Ok(Some(end));
        }
        let Some(bytes) = self.source.read_log(generation, 0)? else {
            let what = format!(
                "the copy needs log generation {:X} (hexadecimal) next, but it no longer exists on the \
                 active side ({}); reseed the copy",
                generation.0,
                self.source.address()
            );
            return Ok(self.record_failure(state, generation, -528, UnfitReason::LogsGone, what));
        };
        let incoming = self.incoming_path(&place);
        self.write(&incoming, &bytes)?;
        let part = read_partial_log(self.vfs, self.directory)?;
        let inspected =
            inspect(self.vfs, &incoming, generation, state.stream(), after.as_ref(), part.as_ref())?;
        let what = match inspected {
            Ok(log) if known.is_some_and(|known| known != ClosedLogId::from_log(&log)) => {
                LogRejection::OtherContent
            }
            Ok(log) => {
                let end = ClosedLogId::from_log(&log);
                if *log.bytes != *bytes {
                    // A damaged segment was restored from its second copy. The damaged bytes must not remain in the
                    // file, which may be reused later.
                    self.write(&incoming, &log.bytes)?;
                }
                let moved = self.vfs.rename(&incoming, &place);
                moved.map_err(|error| CopyError::io(&place, &error))?;
                return Ok(Some(end));
            }
            Err(flaw) => flaw,
        };
        let number = format!("log generation {:X} (hexadecimal) of {}", generation.0, self.source.address());
        let (error, reason, what) = match what {
            LogRejection::Damaged(what) => {
                (-501, UnfitReason::BadLog, format!("{number}: {what}; reseed the copy"))
            }
            LogRejection::OtherStream => {
                let what = format!("{number} belongs to a different log stream; reseed the copy (-530)");
                (-530, UnfitReason::Diverged, what)
            }
            LogRejection::OtherHistory => (
                -515,
                UnfitReason::Diverged,
                divergence_message(&number, "was created at a different time", -515),
            ),
            LogRejection::OtherContent => {
                (-590, UnfitReason::Diverged, divergence_message(&number, "has different content", -590))
            }
        };
        Ok(self.record_failure(state, generation, error, reason, what))
    }

    /// Records a failed attempt, with the number of the corresponding ESE error.
    fn record_failure(
        &self,
        state: &mut CopyState,
        generation: Generation,
        error: i32,
        reason: UnfitReason,
        what: String,
    ) -> Option<ClosedLogId> {
        state.tries += 1;
        self.events.report(CopyEvent::LogRefused { generation: generation.0, error, what: what.clone() });
        if state.tries >= MAX_FETCH_ATTEMPTS {
            state.phase = CopyPhase::Unfit { reason, what };
        }
        None
    }

    fn incoming_path(&self, place: &Path) -> PathBuf {
        self.directory.join(INCOMING).join(place.file_name().unwrap_or_default())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let write_file = || {
            self.vfs.create_directory(&self.directory.join(INCOMING))?;
            let file = create_or_replace(&**self.vfs, path)?;
            file.write_at(0, bytes, IoReason::LogWrite)?;
            file.sync(IoReason::LogWrite)
        };
        write_file().map_err(|error| {
            let _ = self.vfs.remove(path);
            CopyError::Engine(Error::io(path, &error))
        })
    }

    fn sync(&self) -> Result<()> {
        for directory in [self.directory, &self.directory.join(INCOMING)] {
            self.vfs.sync_directory(directory).map_err(|error| CopyError::io(directory, &error))?;
        }
        Ok(())
    }
}

fn header_matches(header: &LogHeader, log: &VerifiedLog) -> bool {
    (header.generation, header.created, header.previous_created, header.previous_checksum)
        == (log.generation, log.created, log.previous_created, log.previous_checksum)
}

fn divergence_message(number: &str, how: &str, code: i32) -> String {
    format!(
        "{number} does not continue the copy, whose last log {how}: their histories have diverged ({code}); \
         compare them with jetcell copies --with, then reseed the side with the unwanted history"
    )
}
