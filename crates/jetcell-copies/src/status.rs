//! Queues, lag, contact and health of a copy at a point in time.

use std::path::Path;
use std::time::Duration;

use ese_engine::CopyRegistration;
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::copy_state::{CopyPhase, CopyState};
use crate::log_end::read_log_header;
use crate::stream_directory::StreamDirectory;

/// Time without a response from the active side after which a copy counts as having no contact. A copy that follows its
/// active side records a contact every ten seconds.
const CONTACT_TIMEOUT: Duration = Duration::from_secs(60);

/// How far a copy lags its active side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLag {
    /// Number of closed generations that have not been replayed.
    pub generations: u32,
    /// Size of these logs in bytes.
    pub bytes: u64,
    /// Age in seconds of the newest state that the copy is known to contain completely; `None` if it is unknown.
    pub seconds: Option<u64>,
}

/// Status of a copy at a point in time. Without contact, the lag is computed from the last contact, and from the active
/// side's logs if they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStatus {
    /// Number of closed generations that the copy does not have.
    pub copy_queue: u32,
    /// Number of generations that the copy has but has not yet replayed.
    pub replay_queue: u32,
    /// Lag of the copy.
    pub lag: CopyLag,
    /// Time of the last contact with the active side, in milliseconds since 1970 UTC; `None` before the first contact.
    pub contact_unix_ms: Option<i64>,
    /// True if the last contact is recent.
    pub is_in_contact: bool,
}

impl CopyStatus {
    /// Returns the status of a copy at a time in milliseconds since 1970 UTC.
    pub fn new(state: &CopyState, now_unix_ms: i64) -> CopyStatus {
        let queues = (state.copy_queue(), state.replay_queue());
        let contact = state.active.map(|active| active.at_unix_ms);
        CopyStatus::from_queues(queues, state.log_bytes, contact, state.replayed_unix_ms, now_unix_ms)
    }

    /// Like [`CopyStatus::new`], but also counts the logs in the active side's directory. `registered` is that directory
    /// and the time of the contact in the copy's registration. Without it, the directory that the copy last followed
    /// is used, if it is on this host.
    pub fn examine(
        vfs: &Arc<dyn Vfs>,
        state: &CopyState,
        registered: Option<(&Path, i64)>,
        now_unix_ms: i64,
    ) -> CopyStatus {
        let source = Path::new(&state.source);
        let active = registered.map(|(directory, _)| directory);
        let Some(directory) = active.or(source.is_absolute().then_some(source)) else {
            return CopyStatus::new(state, now_unix_ms);
        };
        let logs = StreamDirectory::new(vfs, directory, state.base_name, state.log_name_form());
        let closed = newest_closed(&logs).filter(|(_, stream)| *stream == state.stream());
        let missing_there = closed.map_or(0, |(closed, _)| missing(closed, state.next));
        let queues = (state.copy_queue().max(missing_there), state.replay_queue());
        let contact =
            state.active.map(|active| active.at_unix_ms).max(registered.map(|(_, contact)| contact));
        let first = created(&logs, Generation(state.replayed.saturating_add(1)));
        let current = state.replayed_unix_ms.or(first);
        CopyStatus::from_queues(queues, state.log_bytes, contact, current, now_unix_ms)
    }

    /// Returns the status of a registered copy whose state cannot be read. `logs` are the active side's logs.
    pub fn from_registration(
        registration: &CopyRegistration,
        logs: &StreamDirectory,
        now_unix_ms: i64,
    ) -> CopyStatus {
        let missing_there =
            newest_closed(logs).map_or(0, |(closed, _)| missing(closed, registration.needs.0));
        let contact = Some(registration.contact_unix_ms).filter(|contact| *contact > 0);
        let current = created(logs, registration.needs);
        let log = logs.archived(registration.needs);
        let bytes = logs.vfs.file_len(&log).unwrap_or_default();
        CopyStatus::from_queues((missing_there, 0), bytes, contact, current, now_unix_ms)
    }

    /// Computes a status. `current_unix_ms` is the time up to which the copy has all changes.
    fn from_queues(
        (copy_queue, replay_queue): (u32, u32),
        log_bytes: u64,
        contact_unix_ms: Option<i64>,
        current_unix_ms: Option<i64>,
        now_unix_ms: i64,
    ) -> CopyStatus {
        let age = |time: i64| now_unix_ms.saturating_sub(time).max(0).unsigned_abs();
        let contact_age = contact_unix_ms.map(age);
        let is_in_contact = contact_age.is_some_and(|age| u128::from(age) <= CONTACT_TIMEOUT.as_millis());
        let generations = copy_queue.saturating_add(replay_queue);
        let seconds = match generations {
            0 if is_in_contact => Some(0),
            0 => contact_age.map(|age| age / 1000),
            _ => current_unix_ms.map(|current| age(current).div_ceil(1000)),
        };
        let bytes = u64::from(generations).saturating_mul(log_bytes);
        let lag = CopyLag { generations, bytes, seconds };
        CopyStatus { copy_queue, replay_queue, lag, contact_unix_ms, is_in_contact }
    }

    /// Returns true if the lag is known and does not exceed `max`.
    pub fn is_within(&self, max: Duration) -> bool {
        self.lag.seconds.is_some_and(|seconds| Duration::from_secs(seconds) <= max)
    }

    /// Returns true if the lag is within the limit. Without a limit, returns true if the last contact is recent. Seeding
    /// counts as a contact.
    pub(crate) fn is_recent(&self, max_lag: Option<Duration>) -> bool {
        max_lag.map_or(self.is_in_contact, |max| self.is_within(max))
    }

    /// Returns true if the copy is fit. If the copy follows its active side, its lag must also be within the limit.
    /// Without a limit, its last contact must be recent.
    pub fn is_fit(&self, state: &CopyState, max_lag: Option<Duration>) -> bool {
        // The contact and the lag are meaningless unless the copy follows its active side.
        state.is_fit() && (state.phase != CopyPhase::Following || self.is_recent(max_lag))
    }

    /// Returns a copy's health as a word that both people and programs can read.
    pub fn health(&self, state: &CopyState) -> &'static str {
        match state.phase {
            CopyPhase::Seeding => "seeding",
            CopyPhase::Unfit { .. } => "unfit",
            CopyPhase::Activating { .. } => "activating",
            CopyPhase::Following if !self.is_in_contact => "no_contact",
            CopyPhase::Following if state.tries > 0 => "retrying",
            CopyPhase::Following if self.lag.generations == 0 => "healthy",
            CopyPhase::Following => "catching up",
        }
    }
}

/// Returns the number of generations up to `closed` that a copy lacks. `next` is the first generation that it lacks.
fn missing(closed: Generation, next: u32) -> u32 {
    closed.0.saturating_add(1).saturating_sub(next)
}

/// Returns the newest closed generation in a directory, and the signature of its stream. Returns `None` if there is no
/// closed log or it cannot be read.
fn newest_closed(logs: &StreamDirectory) -> Option<(Generation, ese_format::Signature)> {
    let (generation, path) = logs.closed().ok()?.pop_last()?;
    let header = read_log_header(&*logs.vfs, &path).ok()?;
    Some((generation, header.signature))
}

/// Returns the time at which a closed log was created.
fn created(logs: &StreamDirectory, generation: Generation) -> Option<i64> {
    read_log_header(&*logs.vfs, &logs.archived(generation)).ok()?.created.unix_ms()
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
