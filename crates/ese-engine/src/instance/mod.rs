//! An instance: one log stream, the databases attached to it, and their background work.
//!
//! Only this module connects the parts and starts threads. Each thread repeats a bounded step. The steps also work
//! without threads (see [`Instance::step`]), so a simulation can run the same code on one thread.

mod attachment;
mod background;
mod backup;
mod defrag_table;
mod layout_table;
mod listener;
mod maintenance;
mod release_space;
mod replay_end;
mod scan_table;
mod state_table;

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ese_format::log::record::{LogRecord, Termination};
use ese_format::{LogPosition, LogTime, Signature};
use jetcell_sync::Mutex;
use jetcell_vfs::DirectoryLock;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use self::background::BackgroundWork;
pub(crate) use self::listener::InstanceListener;
use crate::core::Core;
use crate::defrag::DefragKind;
use crate::events::EventKind;
use crate::log::WakeCallback;
use crate::maintenance::checkpoint::{self, Checkpointer};
use crate::maintenance::cleanup;
use crate::options::InstanceOptions;
use crate::page_exchange::PageExchange;
use crate::recovery::{self, RecoverySummary};
use crate::session::{Session, SessionNumbers};
use crate::workers::{StepKind, TaskHandle, WorkerGroup};
use crate::{InstanceFailure, Result, UsageError};

/// Maximum time that the background thread waits for log work before it checks again.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Poll interval for log file work on shared threads. The log wakes the task earlier if it needs a file.
const LOG_FILES_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A running instance of the storage engine. ESE: `INST`.
#[doc(alias = "INST")]
pub struct Instance {
    core: Arc<Core>,
    options: InstanceOptions,
    checkpointer: Arc<Checkpointer>,
    signature: Signature,
    random: Mutex<ChaCha8Rng>,
    numbers: Arc<SessionNumbers>,
    pages: Arc<PageExchange>,
    /// Held while a database is attached or detached. Before the attach completes, other calls cannot see which file
    /// and log id the database will use. During a detach, no call may return the database.
    attaching: Mutex<()>,
    /// Summary of the recovery that ran when the instance was opened.
    recovery: RecoverySummary,
    background: BackgroundWork,
    closed: AtomicBool,
    _lock: Box<dyn DirectoryLock>,
}

impl Instance {
    /// Opens the log stream in a directory, and recovers its databases if they were not shut down. Recovered
    /// databases stay attached, with changes that exist only in the log, until [`Instance::detach`] or
    /// [`Instance::shutdown`].
    ///
    /// Returns an error if an option is invalid, if the directory is in use, if logs are damaged or missing, or if a
    /// database that was not detached before the crash is missing. After an error, nothing is changed, except that
    /// recovery may already have redone page changes.
    pub fn open(mut options: InstanceOptions) -> Result<Arc<Instance>> {
        options.log.check()?;
        let lock = options.lock()?;
        let began = options.vfs.clock().monotonic();
        let core = Core::new(
            options.vfs.clone(),
            options.open_cache()?,
            options.version_store_bytes,
            options.reporter(),
        );
        core.events.report(EventKind::InstanceStarting);
        options.vfs = core.vfs.clone();
        let clock = options.vfs.clock();
        let mut random = ChaCha8Rng::seed_from_u64(options.seed.unwrap_or_else(|| seed_of(&*clock)));
        let fresh = Signature::new(random.next_u32(), LogTime::from_unix_ms(clock.unix_ms()));
        let opened = recovery::open_log(&core, &options, fresh, Arc::new(InstanceListener::new(&core)))
            .inspect_err(|error| {
                let (error, what) = (error.jet_code(), error.full_text());
                core.events.report(EventKind::RecoveryFailed { error, what });
                core.abandon();
            })?;
        opened.checkpoint_file.reserve().inspect_err(|_| core.abandon())?;
        let checkpointer = Checkpointer {
            depth: options.checkpoint.depth,
            file: opened.checkpoint_file,
            signature: opened.signature,
            circular: options.log.circular,
        };
        *core.checkpoint.lock() = opened.checkpoint;
        if options.log.circular {
            checkpoint::truncate(&core, opened.checkpoint).inspect_err(|_| core.abandon())?;
        }
        let instance = Arc::new(Instance {
            // If the instance has no threads, nothing repairs a page while a session waits for it.
            pages: Arc::new(PageExchange::new(
                core.clone(),
                if options.background.has_threads() {
                    options.copies.page_repair_wait
                } else {
                    Duration::ZERO
                },
            )),
            core,
            checkpointer: Arc::new(checkpointer),
            signature: opened.signature,
            random: Mutex::new(random),
            numbers: Arc::default(),
            attaching: Mutex::default(),
            recovery: opened.summary,
            background: BackgroundWork::new(options.background.shared().cloned()),
            closed: AtomicBool::new(false),
            options,
            _lock: lock,
        });
        if instance.options.background.has_threads() {
            instance.start_background();
        }
        let seconds = clock.monotonic().saturating_sub(began).as_secs_f64();
        instance.core.events.report(EventKind::InstanceStarted { seconds });
        Ok(instance)
    }

    /// Returns a summary of the recovery that ran when the instance was opened.
    pub fn recovery(&self) -> &RecoverySummary {
        &self.recovery
    }

    /// Returns the shared state, for access to counters and maintenance.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Opens a session for use by one thread.
    ///
    /// # Panics
    /// Panics if 65,519 sessions are open, because the log has no more session numbers.
    pub fn session(&self) -> Session {
        Session::new(self.core.clone(), self.numbers.take())
    }

    /// Makes all earlier commits durable. Returns the position up to which the log is durable.
    pub fn flush(&self) -> Result<LogPosition> {
        self.core.log().flush(self.core.log().tail())?;
        Ok(self.core.log().durable())
    }

    /// Returns the position up to which the log is durable. All commits with an id up to this position are durable.
    pub fn durable(&self) -> LogPosition {
        let log = self.core.log();
        match log.waypoint_latency() {
            0 => log.durable(),
            // Recovery would not notice the loss of a generation that no header names.
            _ => log.durable().min(log.named_in_headers()),
        }
    }

    /// Runs one round of all background work. A simulation calls this instead of starting threads.
    pub fn step(&self) -> Result<()> {
        self.core.log().step()?;
        cleanup::step(&self.core, 256)?;
        self.core.cache.clean_step()?;
        self.checkpointer.step(&self.core, 256)?;
        for database in self.core.databases() {
            // A failed step is reported as an event and in the task's progress information.
            let _ = database.scan.step();
            for kind in [DefragKind::Compaction, DefragKind::SequentialLayout] {
                let _ = database.defragmentation(kind).step();
            }
        }
        Ok(())
    }

    /// Repairs damaged pages using pages from copies, and sends pages to copies that need them. Returns the number of
    /// pages repaired or sent. If the instance has threads, this happens in the background once per second.
    #[doc(alias = "JET_paramEnableExternalAutoHealing")]
    pub fn exchange_pages(&self) -> Result<usize> {
        self.pages.step()
    }

    /// Advances the checkpoint to the latest possible position.
    pub fn checkpoint(&self) -> Result<LogPosition> {
        self.core.log().flush(self.core.log().tail())?;
        self.checkpointer.advance(&self.core)
    }

    /// Shuts down the instance, cleanly detaching all databases. All sessions must have ended; an open transaction is
    /// an error. If the instance refuses changes, shutdown fails with [`crate::Error::ReadOnly`]. In that case, drop
    /// the instance; its databases stay dirty, and the next open recovers them.
    pub fn shutdown(&self) -> Result<()> {
        let _one = self.attaching.lock();
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.core.check_no_backup()?;
        // Maintenance tasks run transactions. If the shutdown is refused, all threads except the maintenance threads
        // keep running.
        self.core.databases().iter().for_each(|database| database.stop_maintenance());
        self.clean_up_all().inspect_err(|_| self.restore_waypoint_latency())?;
        self.background.stop();
        self.pages.end();
        self.clean_up_all()?;
        let now = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        for database in self.core.databases() {
            self.core.detach(&database, now)?;
        }
        let tip = self.core.log().tail();
        let redo_from = *self.core.checkpoint.lock();
        let end = self.core.append(&[LogRecord::Term2(Termination {
            last: tip,
            redo_from,
            hard: 0,
            time: now,
        })])?;
        self.core.log().flush(end.1)?;
        self.checkpointer.write(&self.core, end.0)?;
        if self.options.log.circular {
            self.core.log().truncate_below(end.0.generation)?;
        }
        self.core.log().close()?;
        self.closed.store(true, Ordering::Release);
        self.core.events.report(EventKind::InstanceStopped { dirty: false });
        Ok(())
    }

    /// Restores the waypoint latency. Databases that stay attached require all generations up to the current one.
    pub(crate) fn restore_waypoint_latency(&self) {
        self.core.databases().iter().for_each(|database| database.file.restore_waypoint_latency());
    }

    fn clean_up_all(&self) -> Result<()> {
        // A transaction's pin stays until the waypoint has passed the transaction's cleanup. A detach cannot wait
        // that long.
        for database in self.core.databases() {
            database.file.end_waypoint_latency()?;
        }
        loop {
            self.core.log().flush(self.core.log().tail())?;
            let cleaned = cleanup::clean_all(&self.core)?;
            if self.core.ended.is_empty() && self.core.pins.oldest().is_none() {
                return Ok(());
            }
            if cleaned == 0 && self.core.transactions.any_running() {
                return Err(UsageError::OpenTransaction.into());
            }
            // If a transaction could not be rolled back, its pin remains until recovery.
            self.core.check_writable()?;
            self.options.vfs.clock().sleep(Duration::from_millis(1));
        }
    }

    fn start_background(&self) {
        match self.background.workers() {
            Some(workers) => self.start_log_tasks(workers),
            None => self.start_log_threads(),
        }
        let core = self.core.clone();
        self.background.repeat_less_when_idle("cleanup", Duration::from_millis(10), 512, move || {
            cleanup::step(&core, 512)
        });
        // The threads do not hold references to the instance itself. If they did, dropping the instance would not stop
        // it.
        let (core, checkpointer) = (self.core.clone(), self.checkpointer.clone());
        self.background
            .repeat("checkpoint", Duration::from_millis(50), move || checkpointer.step(&core, 512));
        let pages = self.pages.clone();
        self.background.repeat_after("pages", move || {
            // Errors can be ignored here, because the log stores them.
            let _ = pages.step();
            Some(pages.pause())
        });
    }

    fn start_log_threads(&self) {
        let core = self.core.clone();
        self.background.repeat("log", LOG_POLL_INTERVAL, move || {
            let written = if core.log().wait_for_segments(LOG_POLL_INTERVAL) {
                core.log().write_full()
            } else {
                core.log().step()
            };
            written.map(|()| true)
        });
        let core = self.core.clone();
        self.background.repeat("log-files", LOG_POLL_INTERVAL, move || {
            if core.log().wait_for_file_work(LOG_POLL_INTERVAL) {
                core.log().prepare_files()
            } else {
                Ok(true)
            }
        });
    }

    /// Runs the log's background work on shared threads. The tasks do not block; the log wakes them.
    fn start_log_tasks(&self, workers: &WorkerGroup) {
        let core = self.core.clone();
        let clock = self.options.vfs.clock();
        let mut last = clock.monotonic();
        let segments = self.background.spawn_shared(workers, StepKind::Log, move || {
            let waited = clock.monotonic().saturating_sub(last);
            // Errors can be ignored here, because the log stores them.
            if core.log().has_enough_to_write() {
                drop(core.log().write_full());
            } else if waited >= LOG_POLL_INTERVAL {
                drop(core.log().step());
            } else {
                return Some(LOG_POLL_INTERVAL - waited);
            }
            last = clock.monotonic();
            Some(LOG_POLL_INTERVAL)
        });
        let core = self.core.clone();
        let files = self.background.spawn_shared(workers, StepKind::Log, move || {
            if !core.log().needs_files() {
                return Some(LOG_FILES_POLL_INTERVAL);
            }
            let prepared = core.log().prepare_files().unwrap_or(false);
            Some(if prepared { Duration::ZERO } else { LOG_POLL_INTERVAL })
        });
        let wake = |task: TaskHandle| -> WakeCallback { Box::new(move || task.wake()) };
        self.core.log().wake_background(wake(segments), wake(files));
    }
}

impl Drop for Instance {
    /// Stops the instance without a shutdown. The databases stay dirty, and the next open recovers them. Sessions may
    /// outlive the instance, but they can no longer change anything.
    fn drop(&mut self) {
        self.background.stop();
        self.pages.end();
        self.core.fail(InstanceFailure::Ended);
        // Page writes in flight may need the log until they complete.
        self.core.abandon();
        self.core.log().stop();
        // A session may have committed after [`Core::abandon`] cleared the list.
        self.core.ended.clear();
        if !self.closed.load(Ordering::Acquire) {
            self.core.events.report(EventKind::InstanceStopped { dirty: true });
        }
    }
}

fn seed_of(clock: &dyn jetcell_vfs::Clock) -> u64 {
    clock.unix_ms() as u64 ^ clock.monotonic().as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}
