//! Activation: turns a copy into the active side.
//!
//! ```text
//!  active side is kept stopped ──> all closed logs copied, replayed ──> its current log copied, verified
//!    ──> copy.json: activating ──> the active side steps down ──> the log becomes current ──> undo
//!    ──> copy.json removed
//! ```
//!
//! Every step can be repeated. If an activation is interrupted before the step-down, the old active side can still be
//! restarted, and the next call starts from the beginning. After the step-down, no instance can be opened on the old
//! active side, and the next call completes the remaining steps.

use std::path::{Path, PathBuf};

use ese_engine::{CopyRegistration, Error, Instance, LogChanges, VerifiedLog};
use ese_format::header::DatabaseState;
use ese_format::{Generation, LogTime};
use jetcell_backup::text_file;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, Vfs};

use crate::copy_state::{COPY_FILE, CopyPhase, CopyState, LostHistory, database_header};
use crate::error::{CopyError, Refusal, Result};
use crate::handover::Handover;
use crate::incoming::{INCOMING, part_path, read_partial_log, store_log};
use crate::log_end::{ClosedLogId, begins_with, has_records, read_log_header};
use crate::log_replayer::{LogReplayer, ReplayOptions};
use crate::log_source::LogSource;
use crate::page_checks::CHECKS_FILE;
use crate::replay_pause::is_paused;
use crate::replicator::{Replicator, lock};
use crate::stream_directory::StreamDirectory;
use crate::streamed_log::{remove_streamed, streamed_part};
use crate::unfit_reason::UnfitReason;

/// Limit on the logs that may be lost when a copy is activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossLimit {
    /// No loss. The active side must be stopped, and its logs must be readable.
    Nothing,
    /// At most this many closed generations, in addition to the generation that was being written.
    Generations(u32),
    /// Any loss: all logs that did not arrive may be lost.
    Any,
}

/// The loss that is acceptable when a copy is activated without confirmation. The policies correspond to those of
/// Exchange's `AutoDatabaseMountDial`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPolicy {
    /// No log is lost.
    Lossless,
    /// Up to six closed logs are lost.
    GoodAvailability,
    /// Up to twelve closed logs are lost.
    BestAvailability,
}

impl LossPolicy {
    /// All policies, in order of increasing loss.
    pub const ALL: [LossPolicy; 3] =
        [LossPolicy::Lossless, LossPolicy::GoodAvailability, LossPolicy::BestAvailability];

    /// Returns the name of the policy as used in options.
    pub const fn name(self) -> &'static str {
        match self {
            LossPolicy::Lossless => "lossless",
            LossPolicy::GoodAvailability => "good-availability",
            LossPolicy::BestAvailability => "best-availability",
        }
    }

    /// Returns the loss limit of the policy.
    pub const fn limit(self) -> LossLimit {
        match self {
            LossPolicy::Lossless => LossLimit::Nothing,
            LossPolicy::GoodAvailability => LossLimit::Generations(6),
            LossPolicy::BestAvailability => LossLimit::Generations(12),
        }
    }
}

/// Result of activating a copy.
#[derive(Clone, Debug)]
pub struct ActivationResult {
    /// Last generation before the undo.
    pub last: Generation,
    /// The lost part of the history; `None` if nothing was lost.
    pub lost: Option<LostHistory>,
    /// Number of uncommitted transactions that were rolled back.
    pub rolled_back: usize,
    /// Paths of the databases, which are now clean.
    pub databases: Vec<PathBuf>,
    /// True if the old active side was reachable. It can no longer be opened as an instance.
    pub stepped_down: bool,
}

/// Makes a copy the active side. Afterwards its databases are clean, and an instance can be opened on the directory.
///
/// # Errors
///
/// Returns an error in these cases:
/// - The active side is running.
/// - The active side is unreachable or one of its logs is damaged, and more would be lost than `limit` allows.
/// - The logs that arrived are not enough to make the databases consistent.
///
/// After an error the copy is unchanged and can still follow the active side.
pub fn activate(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    source: Box<dyn LogSource>,
    limit: LossLimit,
    options: &ReplayOptions,
) -> Result<ActivationResult> {
    activate_as(vfs, directory, &directory.display().to_string(), source, limit, options)
}

/// Activates a copy like [`activate`], with an explicit address of the new active side.
///
/// `successor` is the address under which the old active side reaches the new one. It must be the same text in each
/// call until the activation completes.
pub fn activate_as(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    successor: &str,
    source: Box<dyn LogSource>,
    limit: LossLimit,
    options: &ReplayOptions,
) -> Result<ActivationResult> {
    let options = ReplayOptions { delay: std::time::Duration::ZERO, ..options.clone() };
    let held = lock(vfs, directory)?;
    if is_paused(vfs, directory) {
        return Err(Refusal::BackupRunning.at(directory));
    }
    let Some(mut state) = CopyState::read(&**vfs, directory)? else {
        return Err(Refusal::NotACopy.at(directory));
    };
    let logs = state.logs(vfs, directory);
    let activation = Activation { vfs, directory, logs, options: &options };
    if let CopyPhase::Activating { lost, steps_down } = state.phase
        && let Some(last) = activation.newest_written_generation()?
    {
        return activation.finish(&state, last, lost, steps_down, &*source, held);
    }
    let handover = hand_over(&*source, successor, limit)?;
    prepare_phase(&mut state, directory)?;
    state.store(&**vfs, directory)?;
    drop(held);
    let mut copy = Replicator::open(vfs, directory, source, options.clone())?;
    let completed = activation.fetch_and_replay(&mut copy, limit);
    if completed.is_err() && copy.state().phase == CopyPhase::Following {
        // If the copy is unfit for a reason that the limit permits, the next step sets this phase again.
        copy.state_mut().store(&**vfs, directory)?;
    }
    completed?;
    if (handover.is_some() || limit == LossLimit::Nothing) && !copy.is_confirmed() {
        return Err(Refusal::NotConfirmed(copy.state().source.clone()).at(directory));
    }
    let last = handover.as_deref().map(|handover| activation.last_log(copy.state(), handover));
    let arrived = match (last, limit) {
        (Some(Ok(end)), _) => end,
        (Some(Err(error)), LossLimit::Nothing) => return Err(error),
        (Some(Err(_)) | None, _) => None,
    };
    // A partial log reduces the loss. A newly seeded copy has no other log.
    let part = match arrived {
        Some(_) => None,
        None => activation.partial_log(copy.state())?,
    };
    let lost = activation.find_loss(copy.state(), handover.as_deref(), arrived.as_ref(), part.as_ref())?;
    let arrived = match arrived {
        Some(end) => Some((end, activation.incoming_path())),
        None => part.map(|part| (ClosedLogId::from_log(&part), part.path)),
    };
    check_limit(directory, lost.as_ref(), limit, copy.state())?;
    activation.check_consistent(copy.state(), arrived.as_ref().map(|(end, _)| end))?;
    let steps_down = handover.is_some();
    activation.remove_prepared()?;
    copy.state_mut().phase = CopyPhase::Activating { lost, steps_down };
    copy.state().store(&**vfs, directory)?;
    if let Some(handover) = &handover {
        step_down(&**handover, successor, arrived.as_ref().map(|(end, _)| *end), lost, copy.state())?;
        activation.adopt_registrations(copy.state(), handover.copies()?)?;
    }
    activation.make_current(copy.state(), arrived.map(|(_, path)| path))?;
    let state = copy.state().clone();
    let (source, held) = copy.into_parts();
    let last = read_log_header(&**vfs, &activation.logs.names.current())?.generation;
    activation.finish(&state, last, lost, steps_down, &*source, held)
}

/// Stops the active side and returns its handover. Returns `None` if it is unreachable and the limit allows that.
fn hand_over(source: &dyn LogSource, successor: &str, limit: LossLimit) -> Result<Option<Box<dyn Handover>>> {
    match source.hand_over(successor) {
        Ok(handover) => Ok(Some(handover)),
        Err(CopyError::Engine(Error::InUse { path })) => Err(Refusal::ActiveRunning.at(&path)),
        Err(error) if error.is_temporary() && limit == LossLimit::Nothing => {
            Err(CopyError::LossPossible(Box::new(error)))
        }
        Err(error) if error.is_temporary() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Prepares the phase of the copy for an activation. Fails if the copy cannot be activated from its current phase.
fn prepare_phase(state: &mut CopyState, directory: &Path) -> Result<()> {
    match &state.phase {
        CopyPhase::Following => {}
        // The active side did not step down, so it may have written more logs since the interrupted activation.
        CopyPhase::Activating { .. } => state.phase = CopyPhase::Following,
        // The databases are valid up to the log that could not be copied, which is now fetched again.
        CopyPhase::Unfit { reason: UnfitReason::BadLog | UnfitReason::LogsGone, .. } => {
            (state.phase, state.tries) = (CopyPhase::Following, 0);
        }
        CopyPhase::Unfit { reason, what } => {
            return Err(Refusal::Unfit { reason: *reason, what: what.clone() }.at(directory));
        }
        CopyPhase::Seeding => return Err(Refusal::SeedingIncomplete.at(directory)),
    }
    Ok(())
}

fn check_limit(
    directory: &Path,
    lost: Option<&LostHistory>,
    limit: LossLimit,
    state: &CopyState,
) -> Result<()> {
    let Some(lost) = lost else { return Ok(()) };
    if limit != LossLimit::Any && state.confirmed_with.as_ref() != Some(&state.source) {
        return Err(Refusal::LossUnknown(state.source.clone()).at(directory));
    }
    let closed = lost.last_known.saturating_sub(lost.first);
    let allowed = match limit {
        LossLimit::Nothing => false,
        LossLimit::Generations(most) => closed <= most,
        LossLimit::Any => true,
    };
    if allowed {
        return Ok(());
    }
    Err(Refusal::LossTooLarge { first: lost.first, last: lost.last_known }.at(directory))
}

fn step_down(
    handover: &dyn Handover,
    successor: &str,
    arrived: Option<ClosedLogId>,
    lost: Option<LostHistory>,
    state: &CopyState,
) -> Result<()> {
    let phase = match lost {
        None => CopyPhase::Following,
        Some(lost) => CopyPhase::Unfit {
            reason: UnfitReason::Diverged,
            what: format!(
                "{successor} has been the active side since generation {:X} (hexadecimal), and this side \
                 does not have the logs from that generation on; reseed this side from it",
                lost.first
            ),
        },
    };
    handover.step_down(successor, arrived.or(state.end), phase)
}

struct Activation<'a> {
    vfs: &'a Arc<dyn Vfs>,
    directory: &'a Path,
    logs: StreamDirectory,
    options: &'a ReplayOptions,
}

impl Activation<'_> {
    /// Copies and replays all closed logs that are available.
    fn fetch_and_replay(&self, copy: &mut Replicator, limit: LossLimit) -> Result<()> {
        match copy.copy_and_replay_all() {
            Err(CopyError::Refused {
                reason: Refusal::Unfit { reason: UnfitReason::BadLog | UnfitReason::LogsGone, .. },
                ..
            }) if limit != LossLimit::Nothing => {
                // A log is damaged or missing. The logs before it are still replayed.
                copy.state_mut().phase = CopyPhase::Following;
                copy.state_mut().tries = 0;
                copy.replay_remaining()
            }
            completed => completed,
        }
    }

    /// Copies and verifies the log that the active side was writing. Returns `None` if the active side has no log
    /// after the last log of the copy.
    fn last_log(&self, state: &CopyState, handover: &dyn Handover) -> Result<Option<ClosedLogId>> {
        let Some((newest, _)) = handover.logs().last_key_value() else { return Ok(None) };
        if newest.0 < state.next {
            return Ok(None);
        }
        if newest.0 > state.next {
            return Err(Refusal::ActiveLogMissing(Generation(state.next)).at(self.directory));
        }
        let bytes = handover.log(*newest)?;
        let incoming = self.incoming_path();
        store_log(&**self.vfs, &incoming, &bytes)?;
        let log = VerifiedLog::read(self.vfs, &incoming, false)?;
        let part =
            read_partial_log(self.vfs, self.directory)?.filter(|part| part.generation == log.generation);
        let has_part = part.is_none_or(|part| begins_with(&log, &part));
        if log.generation != *newest || !continues(state, &log) || !has_part {
            return Err(Refusal::Diverged.at(self.directory));
        }
        Ok(Some(ClosedLogId::from_log(&log)))
    }

    /// Returns the part of the last log that was streamed or came with the seed, if it extends past the closed logs.
    fn partial_log(&self, state: &CopyState) -> Result<Option<VerifiedLog>> {
        let last = self.logs.archived(Generation(state.next.saturating_sub(1)));
        let has_closed = self.exists(&last)?;
        let fits = |log: &VerifiedLog| {
            log.generation.0 == state.next && continues(state, log) && (has_records(log) || !has_closed)
        };
        let seeded = read_partial_log(self.vfs, self.directory)?.filter(fits);
        let streamed = streamed_part(self.vfs, self.directory, seeded.as_ref()).filter(fits);
        match streamed.or(seeded) {
            None if !has_closed => Err(Refusal::NoLog.at(self.directory)),
            part => Ok(part),
        }
    }

    fn incoming_path(&self) -> PathBuf {
        let current = self.logs.names.current();
        self.directory.join(INCOMING).join(current.file_name().unwrap_or_default())
    }

    /// Returns the lost part of the history, or `None` if nothing is lost.
    fn find_loss(
        &self,
        state: &CopyState,
        handover: Option<&dyn Handover>,
        arrived: Option<&ClosedLogId>,
        part: Option<&VerifiedLog>,
    ) -> Result<Option<LostHistory>> {
        let first = state.next;
        let newest_there =
            handover.and_then(|handover| handover.logs().last_key_value().map(|(newest, _)| newest.0));
        if arrived.is_some() || newest_there.is_some_and(|newest| newest < first) {
            return Ok(None);
        }
        // When the active side last responded, it was writing the generation after its newest closed one.
        let seen = state.active.map_or(first, |active| active.closed.saturating_add(1));
        let last_known = newest_there.unwrap_or(seen).max(first);
        let commits = handover.and_then(|handover| {
            let before = Generation(first.saturating_sub(1));
            let logs = handover.logs().range(before..).map(|(generation, path)| (*generation, path.clone()));
            let there = self.commits_from(first, logs.collect())?;
            let kept = part.map(|part| {
                let last = handover.logs().get(&before).map(|path| (before, path.clone()));
                self.commits_from(
                    first,
                    last.into_iter().chain([(part.generation, part.path.clone())]).collect(),
                )
            });
            there.checked_sub(kept.unwrap_or(Some(0))?)
        });
        let kept_until_unix_ms = match part {
            Some(part) => last_time(part),
            None => {
                let last = self.logs.archived(Generation(first.saturating_sub(1)));
                VerifiedLog::read(self.vfs, &last, true).ok().and_then(|log| last_time(&log))
            }
        };
        Ok(Some(LostHistory {
            first,
            first_in_part: part.is_some(),
            last_known,
            commits,
            kept_until_unix_ms,
        }))
    }

    /// Returns the number of transactions committed in the logs from generation `first` on, if these logs can be
    /// read.
    fn commits_from(&self, first: u32, logs: Vec<(Generation, PathBuf)>) -> Option<u64> {
        LogChanges::from_logs(self.vfs, &logs, Generation(first), true).ok().map(|changes| changes.commits)
    }

    /// Fails if a database needs logs that did not arrive.
    fn check_consistent(&self, state: &CopyState, arrived: Option<&ClosedLogId>) -> Result<()> {
        let newest = arrived.map_or(state.next.saturating_sub(1), |end| end.generation);
        for database in &state.databases {
            let path = self.directory.join(&database.file);
            let header = database_header(&**self.vfs, &path)?;
            let needed = match header.state {
                DatabaseState::CleanShutdown => continue,
                DatabaseState::DirtyShutdown => header.gen_max_required,
                other => return Err(Refusal::DatabaseState(other).at(&path)),
            };
            if needed.0 > newest {
                return Err(Refusal::NeedsLogs { first: Generation(newest.saturating_add(1)), last: needed }
                    .at(&path));
            }
        }
        Ok(())
    }

    /// Returns the newest generation if an instance on this side may already have written to its log.
    ///
    /// This is normally the current log. After a crash between the two renames that start a generation, it is the
    /// prepared log.
    fn newest_written_generation(&self) -> Result<Option<Generation>> {
        let (current, next) = (self.logs.names.current(), self.logs.names.next());
        if self.exists(&current)? {
            return Ok(Some(read_log_header(&**self.vfs, &current)?.generation));
        }
        if !self.exists(&next)? {
            return Ok(None);
        }
        let prepared = match read_log_header(&**self.vfs, &next) {
            Ok(header) => header.generation,
            Err(Error::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let closed = self.logs.closed()?;
        Ok(closed.last_key_value().map(|(newest, _)| *newest).filter(|newest| newest.next() == prepared))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.vfs.exists(path).map_err(|error| CopyError::io(path, &error))
    }

    /// Removes a prepared log left over from when this directory was the active side. Otherwise
    /// [`Activation::newest_written_generation`] could mistake it for a log of this activation.
    fn remove_prepared(&self) -> Result<()> {
        let next = self.logs.names.next();
        if self.exists(&next)? {
            self.vfs.remove(&next).map_err(|error| CopyError::io(&next, &error))?;
            self.logs.sync()?;
        }
        Ok(())
    }

    /// Gives the last log the name of the current log.
    fn make_current(&self, state: &CopyState, arrived: Option<PathBuf>) -> Result<()> {
        let current = self.logs.names.current();
        let last = match arrived {
            Some(path) => path,
            None => self.logs.archived(Generation(state.next.saturating_sub(1))),
        };
        self.vfs.rename(&last, &current).map_err(|error| CopyError::io(&last, &error))?;
        self.logs.sync()
    }

    /// Rolls back uncommitted transactions in a new generation, and turns the directory into an instance directory.
    fn finish(
        &self,
        state: &CopyState,
        last: Generation,
        lost: Option<LostHistory>,
        stepped_down: bool,
        source: &dyn LogSource,
        held: Box<dyn DirectoryLock>,
    ) -> Result<ActivationResult> {
        let replayer = LogReplayer::new(self.vfs.clone(), self.directory.to_path_buf(), self.options.clone());
        let mut options = replayer.engine_options(state);
        // The old active side may have written different records to the rest of the last log.
        options.recovery.begin_generation = true;
        options.recovery.accept_lost_logs = lost.is_some();
        let databases: Vec<PathBuf> =
            state.databases.iter().map(|database| self.directory.join(&database.file)).collect();
        for path in &databases {
            options.page_size = database_header(&**self.vfs, path)?.page_size;
        }
        let instance = Instance::open(options)?;
        let rolled_back = instance.recovery().rolled_back;
        instance.shutdown()?;
        for path in &databases {
            if database_header(&**self.vfs, path)?.state != DatabaseState::CleanShutdown {
                return Err(Refusal::StillDirty.at(path));
            }
        }
        // Ignore errors, because the old active side may be gone permanently.
        let _ = source.unregister(&state.id);
        remove_streamed(&**self.vfs, self.directory)?;
        // These files describe a copy, and the directory is no longer a copy.
        text_file::remove(&**self.vfs, &part_path(self.directory))?;
        text_file::remove(&**self.vfs, &self.directory.join(CHECKS_FILE))?;
        text_file::remove(&**self.vfs, &self.directory.join(COPY_FILE))?;
        drop(held);
        Ok(ActivationResult { last, lost, rolled_back, databases, stepped_down })
    }

    /// Takes over the other copies' registrations, so that the logs are kept until these copies follow this side.
    fn adopt_registrations(&self, state: &CopyState, copies: Vec<CopyRegistration>) -> Result<()> {
        for copy in copies.into_iter().filter(|copy| copy.id != state.id) {
            copy.store(&**self.vfs, self.directory, self.logs.names.base())?;
        }
        Ok(())
    }
}

/// Returns true if the log is the next log that the copy needs.
fn continues(state: &CopyState, log: &VerifiedLog) -> bool {
    let behind = (u64::from_be_bytes(log.previous_created.0), log.previous_checksum);
    log.signature == state.stream() && state.end.is_none_or(|end| (end.created, end.checksum) == behind)
}

/// Returns the time at which the last segment that contains records was started.
fn last_time(log: &VerifiedLog) -> Option<i64> {
    let segments = log.bytes.len() / 4096;
    let last = if log.end.generation == log.generation {
        usize::from(log.end.segment).saturating_sub(1)
    } else {
        segments.saturating_sub(2)
    };
    let time = log.bytes.get(last * 4096 + 16..)?.first_chunk()?;
    LogTime(*time).unix_ms()
}
