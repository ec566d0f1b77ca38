//! A copy that follows its active side. Logs are copied, inspected and replayed in bounded steps.
//!
//! Invariants:
//! - A log is inspected and durable under its final name before `copy.json` names it, and `copy.json` names it before
//!   it is replayed. All logs that the databases need are therefore in the copy's directory, even if the active side
//!   is lost.
//! - A log is removed from the directory only if neither the copy nor the active side needs it. After a failover,
//!   other copies may need it from this copy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{CopyEvent, CopyRegistration, Error};
use ese_format::Generation;
use jetcell_host::Cancellation;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, Vfs, remove_if_exists};

use crate::continuous_scan::ContinuousScan;
use crate::copy_events::CopyEvents;
use crate::copy_state::{ActiveSideStatus, CopyPhase, CopyState};
use crate::error::{CopyError, Refusal, Result};
use crate::incoming::read_partial_log;
use crate::log_end::{ClosedLogId, inspect};
use crate::log_fetcher::{HistoryConfirmation, LogFetcher};
use crate::log_replayer::{LogReplayer, ReplayAttempt, ReplayOptions, redo_start};
use crate::log_source::{AvailableLogs, LogSource};
use crate::page_repair::PageRepair;
use crate::replay_pause::is_paused;
use crate::replication_mode::ReplicationMode;
use crate::streamed_log::{StreamedLog, remove_streamed};
use crate::unfinished_states::remove_unfinished_states;
use crate::unfit_reason::UnfitReason;

/// Maximum number of generations to copy before replaying, or to replay before copying again.
const MAX_BATCH_GENERATIONS: u32 = 8;
/// Maximum interval between contacts with the active side, in milliseconds.
const CONTACT_INTERVAL_MS: i64 = 10_000;
/// Maximum number of logs to remove in one step.
const MAX_REMOVED_LOGS: usize = 16;
/// Name of the file that a process locks while it works on the copy.
pub(crate) const LOCK_FILE: &str = "copy.lock";

/// Result of one log replication step.
#[derive(Clone, Debug, Default)]
pub struct ReplicationStepReport {
    /// Number of generations copied and inspected.
    pub copied: u32,
    /// Number of bytes received from the log that is being written.
    pub streamed_bytes: u64,
    /// Number of generations replayed.
    pub replayed: u32,
    /// True if a log was damaged or missing. The next step tries again.
    pub retrying: bool,
    /// Reason why the active side did not respond, or why a log could not be stored or replayed. The next step tries
    /// again.
    pub waiting: Option<CopyError>,
}

impl ReplicationStepReport {
    /// Returns true if no log was copied or replayed. The next step can then wait.
    pub fn is_idle(&self) -> bool {
        self.copied == 0 && self.replayed == 0
    }
}

/// An event that is reported while a copy follows its active side.
#[derive(Clone, Copy, Debug)]
pub enum FollowEvent<'e> {
    /// The copy is waiting. Reported once for each new reason.
    Waiting(&'e CopyError),
    /// A step has completed.
    Step {
        /// True if the copy is waiting.
        is_waiting: bool,
    },
}

/// Keeps a copy up to date with its active side. Only one process at a time can do this for a copy.
pub struct Replicator {
    vfs: Arc<dyn Vfs>,
    directory: PathBuf,
    source: Box<dyn LogSource>,
    state: CopyState,
    replayer: LogReplayer,
    pages: PageRepair,
    events: CopyEvents,
    /// True if the log that is being written is also fetched.
    stream_log: bool,
    streamed: Option<StreamedLog>,
    mode: ReplicationMode,
    /// Reason why the last step could not complete all work.
    waiting: Option<String>,
    idle_wait: Duration,
    /// True if the history of the active side was found to match the history of the copy.
    confirmed: bool,
    /// The first needed generation most recently reported to the active side, and the time of that report.
    last_registration: Option<(u32, i64)>,
    lock: Box<dyn DirectoryLock>,
}

impl Replicator {
    /// Opens the copy in a directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory is not a copy, or if another process is working on it.
    pub fn open(
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        source: Box<dyn LogSource>,
        options: ReplayOptions,
    ) -> Result<Replicator> {
        let lock = lock(vfs, directory)?;
        let Some(mut state) = CopyState::read(&**vfs, directory)? else {
            return Err(Refusal::NotACopy.at(directory));
        };
        state.delay_seconds = options.delay.as_secs();
        let (streams, pause) = (options.stream_log, options.idle_wait());
        let events = CopyEvents::new(&**vfs, directory, options.events.clone());
        let replayer = LogReplayer::new(vfs.clone(), directory.to_path_buf(), options);
        let mut replicator = Replicator {
            vfs: vfs.clone(),
            directory: directory.to_path_buf(),
            source,
            state,
            replayer,
            pages: PageRepair::read(&**vfs, directory)?,
            events,
            stream_log: streams,
            streamed: None,
            mode: ReplicationMode::File,
            waiting: None,
            idle_wait: pause,
            last_registration: None,
            confirmed: false,
            lock,
        };
        replicator.adopt_received_logs()?;
        Ok(replicator)
    }

    /// Adds logs that are under their final names but not in the state, because of a crash.
    fn adopt_received_logs(&mut self) -> Result<()> {
        let before = self.state.clone();
        if self.state.phase == CopyPhase::Following {
            let logs = self.state.logs(&self.vfs, &self.directory);
            let closed = logs.closed()?;
            let part = read_partial_log(&self.vfs, &self.directory)?;
            while let Some(path) = closed.get(&Generation(self.state.next)) {
                let (next, end) = (Generation(self.state.next), self.state.end);
                let (vfs, stream) = (&self.vfs, self.state.stream());
                let Ok(log) = inspect(vfs, path, next, stream, end.as_ref(), part.as_ref())? else {
                    break;
                };
                let end = ClosedLogId::from_log(&log);
                logs.sync()?;
                (self.state.next, self.state.end) = (end.next().0, Some(end));
            }
        }
        if self.state != before { self.state.store(&*self.vfs, &self.directory) } else { Ok(()) }
    }

    /// Replays all logs that the copy has, and stops the replayer.
    pub(crate) fn replay_remaining(&mut self) -> Result<()> {
        let mut report = ReplicationStepReport::default();
        loop {
            let before = report.replayed;
            self.replay(&mut report)?;
            self.check_fit()?;
            if report.replayed == before {
                break;
            }
            report.replayed = 0;
        }
        self.replayer.replay_again(&self.state)?;
        self.replayer.stop()
    }

    /// Returns the active side and the lock of the copy.
    pub(crate) fn into_parts(self) -> (Box<dyn LogSource>, Box<dyn DirectoryLock>) {
        (self.source, self.lock)
    }

    /// Returns the state of the copy for modification.
    pub(crate) fn state_mut(&mut self) -> &mut CopyState {
        &mut self.state
    }

    /// Returns true if the active side has responded since the copy was opened and has the same history.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Returns the state of the copy.
    pub fn state(&self) -> &CopyState {
        &self.state
    }

    /// Returns the file system of the copy.
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// Returns how long to wait after a step that found no work.
    pub fn idle_wait(&self) -> Duration {
        self.idle_wait
    }

    /// Returns the number of bytes received from the generation that follows the closed logs.
    pub fn received_bytes(&self) -> u64 {
        let of_next = self.streamed.as_ref().filter(|streamed| streamed.generation().0 == self.state.next);
        of_next.map_or(0, StreamedLog::bytes)
    }

    /// Returns true if the copy receives the current log as it is written. ESE: block mode.
    pub fn is_in_block_mode(&self) -> bool {
        self.mode == ReplicationMode::Block
    }

    /// Copies, inspects and replays a limited number of logs.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy is unfit. [`CopyState::phase`] and `copy.json` contain the reason. A temporary
    /// problem is not an error; [`ReplicationStepReport::waiting`] contains it.
    pub fn step(&mut self) -> Result<ReplicationStepReport> {
        self.check_fit()?;
        let stepped = self.run_step();
        match &stepped {
            Ok(report) => self.report_waiting(report.waiting.as_ref().map(CopyError::full_text)),
            Err(_) => {
                if let CopyPhase::Unfit { what, .. } = &self.state.phase {
                    self.events.report(CopyEvent::Unfit { what: what.clone() });
                }
            }
        }
        stepped
    }

    /// Reports the reason why the copy is waiting, if it has changed. The active side is informed, too.
    fn report_waiting(&mut self, waiting: Option<String>) {
        if self.waiting == waiting {
            return;
        }
        self.events.report(match &waiting {
            Some(what) => CopyEvent::Waiting { what: what.clone() },
            None => CopyEvent::Continued,
        });
        (self.waiting, self.last_registration) = (waiting, None);
        // If the active side is unreachable, the next contact reports the reason.
        let _ = self.send_registration(self.vfs.clock().unix_ms());
    }

    fn run_step(&mut self) -> Result<ReplicationStepReport> {
        let (mut report, tries) = (ReplicationStepReport::default(), self.state.tries);
        let offer = match self.fetch_logs(&mut report) {
            Ok(offer) => Some(offer),
            Err(error) if error.is_temporary() => {
                self.mode.leave_block_mode(&error.full_text(), &self.events);
                report.waiting = Some(error);
                None
            }
            Err(error) => return Err(error),
        };
        self.check_fit()?;
        if is_paused(&self.vfs, &self.directory) {
            // During the pause, the files of the copy must not change and its logs must not be removed.
            self.replayer.stop()?;
            report.waiting.get_or_insert_with(|| CopyError::Paused(self.directory.clone()));
            return Ok(report);
        }
        if self.confirmed && offer.is_some() {
            let (vfs, directory, state) = (&self.vfs, &self.directory, &self.state);
            // Lost requests and pages are sent again.
            match self.pages.exchange(vfs, directory, state, &*self.source, &mut self.replayer) {
                Err(error) if error.is_temporary() => {
                    report.waiting.get_or_insert(error);
                }
                exchanged => exchanged?,
            }
        }
        match self.replay(&mut report) {
            Err(error) if error.is_temporary() => {
                report.waiting.get_or_insert(error);
            }
            replayed => replayed?,
        }
        self.check_fit()?;
        report.retrying = self.state.tries > tries;
        if let Some(offer) = offer
            && let Err(error) = self.remove_unneeded_logs(offer)
        {
            report.waiting.get_or_insert(error);
        }
        Ok(report)
    }

    fn fetch_logs(&mut self, report: &mut ReplicationStepReport) -> Result<AvailableLogs> {
        let offer = self.source.available_logs()?;
        let now = self.vfs.clock().unix_ms();
        self.state.active =
            Some(ActiveSideStatus { oldest: offer.oldest.0, closed: offer.closed.0, at_unix_ms: now });
        // Report what the copy needs before fetching logs, so that the active side keeps the logs for a new copy from
        // the start.
        self.send_registration(now)?;
        let mut fetcher = LogFetcher {
            vfs: &self.vfs,
            directory: &self.directory,
            source: &*self.source,
            streamed: &mut self.streamed,
            events: &self.events,
        };
        let place = Some(self.source.address());
        // The side at this address may have been reseeded and activated again in the meantime.
        let is_ahead = self.state.next > offer.closed.0.saturating_add(1);
        if !self.confirmed || is_ahead || self.state.confirmed_with != place {
            self.confirmed = false;
            let confirmed = fetcher.confirm(&mut self.state, offer)?;
            if confirmed == HistoryConfirmation::NotYet {
                return Ok(offer);
            }
            // The streamed log may belong to an abandoned history.
            *fetcher.streamed = None;
            remove_streamed(&*self.vfs, &self.directory)?;
            if confirmed == HistoryConfirmation::ByNextLog {
                report.copied = fetcher.copy_logs(&mut self.state, offer.closed, 1)?;
                if report.copied == 0 {
                    return Ok(offer);
                }
            }
            self.confirmed = true;
            (self.state.confirmed_with, self.state.tries) = (place, 0);
            self.state.source = self.source.address();
            self.state.store(&*self.vfs, &self.directory)?;
        }
        report.copied += fetcher.copy_logs(&mut self.state, offer.closed, MAX_BATCH_GENERATIONS)?;
        if self.stream_log && ReplicationMode::can_be_block(&self.state, offer) {
            report.streamed_bytes = fetcher.stream(&self.state)?;
            self.mode.enter_block_mode(self.streamed.as_ref(), &self.events);
        } else if self.state.next <= offer.closed.0 {
            self.mode.leave_block_mode("closed logs are waiting to be copied", &self.events);
        }
        self.send_registration(now)?;
        Ok(offer)
    }

    /// Reports to the active side which logs the copy needs, if they have changed or the contact interval has passed.
    fn send_registration(&mut self, now: i64) -> Result<()> {
        let recent = |(needs, at): (u32, i64)| {
            needs == self.state.next && now.saturating_sub(at) < CONTACT_INTERVAL_MS
        };
        if self.last_registration.is_some_and(recent) {
            return Ok(());
        }
        let registration = self.state.registration(&self.directory, now);
        self.source.register(&CopyRegistration { waiting: self.waiting.clone(), ..registration })?;
        self.last_registration = Some((self.state.next, now));
        self.state.store(&*self.vfs, &self.directory)
    }

    fn replay(&mut self, report: &mut ReplicationStepReport) -> Result<()> {
        let before = self.state.clone();
        let result = self.replay_batch(report);
        if self.state != before {
            self.state.store(&*self.vfs, &self.directory)?;
        }
        result?;
        if self.state.replay_queue() == 0 { self.replayer.end_batch() } else { Ok(()) }
    }

    fn replay_batch(&mut self, report: &mut ReplicationStepReport) -> Result<()> {
        while report.replayed < MAX_BATCH_GENERATIONS {
            match self.replayer.replay_next(&self.state)? {
                ReplayAttempt::Nothing => break,
                ReplayAttempt::Done(generation) => {
                    report.replayed += 1;
                    self.record_replay(generation);
                    let (findings, bad) = self.replayer.findings()?;
                    let (vfs, directory) = (&self.vfs, &self.directory);
                    self.pages.record_findings(vfs, directory, &self.state, generation, findings, bad)?;
                }
                ReplayAttempt::BadLog(generation) => {
                    let mut copier = LogFetcher {
                        vfs: &self.vfs,
                        directory: &self.directory,
                        source: &*self.source,
                        streamed: &mut self.streamed,
                        events: &self.events,
                    };
                    if !copier.replace(&mut self.state, generation)? {
                        break;
                    }
                }
                ReplayAttempt::Unfit(reason, what) => {
                    self.state.phase = CopyPhase::Unfit { reason, what };
                    break;
                }
            }
        }
        if let Some(path) = self.replayer.missing_database() {
            let what = format!(
                "the active side has a database that the copy does not have ({path}), because it was \
                 created after the copy was seeded; reseed the copy"
            );
            self.state.phase = CopyPhase::Unfit { reason: UnfitReason::DatabaseMissing, what };
        }
        Ok(())
    }

    fn record_replay(&mut self, generation: Generation) {
        if generation.0 < self.state.replayed {
            return;
        }
        self.state.replayed = generation.0;
        let logs = self.state.logs(&self.vfs, &self.directory);
        let behind = crate::log_end::read_log_header(&*self.vfs, &logs.archived(generation.next()));
        let last = self.state.end.filter(|end| end.generation == generation.0);
        self.state.replayed_unix_ms = match behind {
            Ok(header) if generation.next().0 < self.state.next => header.created.unix_ms(),
            _ => last.and_then(|end| end.created_unix_ms()),
        };
    }

    /// Removes logs that neither the copy nor the active side needs.
    fn remove_unneeded_logs(&self, offer: AvailableLogs) -> Result<()> {
        let logs = self.state.logs(&self.vfs, &self.directory);
        let closed = logs.closed()?;
        let is_old = |generation: &Generation| *generation < offer.oldest;
        if closed.first_key_value().is_none_or(|(oldest, _)| !is_old(oldest)) {
            return Ok(());
        }
        let redo = redo_start(&self.vfs, &self.directory, &self.state)?;
        let newest = Generation(self.state.next.saturating_sub(1));
        let below = redo.min(newest).min(offer.oldest);
        let removed: Vec<_> = closed.range(..below).take(MAX_REMOVED_LOGS).collect();
        for (_, path) in &removed {
            remove_if_exists(&*self.vfs, path).map_err(|error| CopyError::io(*path, &error))?;
        }
        if removed.is_empty() { Ok(()) } else { logs.sync() }
    }

    fn check_fit(&self) -> Result<()> {
        let refusal = match &self.state.phase {
            CopyPhase::Following => return Ok(()),
            CopyPhase::Seeding => Refusal::SeedingIncomplete,
            CopyPhase::Unfit { reason, what } => Refusal::Unfit { reason: *reason, what: what.clone() },
            CopyPhase::Activating { .. } => Refusal::ActivationIncomplete,
        };
        Err(refusal.at(&self.directory))
    }

    /// Copies all available logs from the active side and replays all logs without a delay. Afterwards, the databases
    /// lack only the undo and the logs that did not arrive.
    ///
    /// # Errors
    ///
    /// Returns an error in the cases listed for [`Replicator::step`], and if these logs are not enough to make the
    /// databases consistent.
    pub(crate) fn copy_and_replay_all(&mut self) -> Result<()> {
        loop {
            let step = self.step()?;
            if step.is_idle() && (!step.retrying || step.waiting.is_some()) {
                break;
            }
        }
        self.replayer.replay_again(&self.state)?;
        self.replayer.stop()
    }

    /// Follows the active side until `cancel` is cancelled. With `once`, returns when a step finds no more work and the
    /// scan, if there is one, has finished its pass.
    ///
    /// # Errors
    ///
    /// Returns an error in the cases listed for [`Replicator::step`]. With `once`, also returns the reason why the
    /// copy waits.
    pub fn follow(
        &mut self,
        cancel: &Cancellation,
        once: bool,
        scan: Option<&ContinuousScan>,
        observe: &mut dyn FnMut(&Replicator, FollowEvent<'_>),
    ) -> Result<()> {
        let mut reported = String::new();
        while !cancel.is_cancelled() {
            let step = self.step()?;
            match &step.waiting {
                Some(error) if once => return Err(error.clone()),
                Some(error) if error.to_string() != reported => {
                    reported = error.to_string();
                    observe(self, FollowEvent::Waiting(error));
                }
                Some(_) => {}
                None => reported.clear(),
            }
            observe(self, FollowEvent::Step { is_waiting: step.waiting.is_some() });
            if step.is_idle() {
                if once && !step.retrying && scan.is_none_or(ContinuousScan::is_finished) {
                    return Ok(());
                }
                cancel.wait(&*self.vfs.clock(), self.idle_wait);
            }
        }
        Ok(())
    }

    /// Stops replication. The databases are left dirty and ready for more logs.
    pub fn stop(mut self) -> Result<CopyState> {
        self.replayer.stop()?;
        Ok(self.state)
    }
}

/// Locks a copy, so that only one process works on it.
pub(crate) fn lock(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Box<dyn DirectoryLock>> {
    let path = directory.join(LOCK_FILE);
    let lock = vfs.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::InUse { path: directory.to_path_buf() }.into(),
        _ => CopyError::io(path, &error),
    })?;
    remove_unfinished_states(&**vfs, directory);
    Ok(lock)
}
