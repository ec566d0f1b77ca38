//! Decides when the next step of a maintenance pass runs, and when its state is stored.

use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex};

use super::host::TaskHost;
use super::maintenance_pass::{MaintenancePass, PassStep, TaskEvent, TaskProgress, TaskSchedule, TaskStatus};
use super::pace::{CleanPageWait, CleanPageWaitEvent, MaintenancePacer};
use crate::storage::DatabaseFile;
use crate::transaction::Services;
use crate::{Error, Result};

/// Poll interval of a task that is waiting for its database's turn, or for the end of a backup or a bulk load.
const TURN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum poll interval of a task that is waiting for its window.
const MAX_WINDOW_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of page writes that the task starts each time it finds that most of the cache is dirty.
const CLEANED_PAGES: usize = 256;

const DAY_MS: i64 = 86_400_000;

/// A maintenance task of one database.
pub(crate) struct MaintenanceTask<P: MaintenancePass> {
    host: Arc<TaskHost<P::Progress>>,
    /// Locked during a step. `None`: the task is not running.
    running: Mutex<Option<RunningTask<P>>>,
}

struct RunningTask<P> {
    pass: P,
    schedule: TaskSchedule,
    pacer: MaintenancePacer,
    /// Earliest time at which the next step may begin.
    due: Duration,
    /// Running time of the pass.
    ran: Duration,
    /// Number of pages and running time of the pass when its state was last stored.
    saved: (u64, Duration),
    clean_pages: CleanPageWait,
    /// True until the pass performs its first step in this window.
    suspended: bool,
    has_turn: bool,
}

impl<P: MaintenancePass> MaintenanceTask<P> {
    pub fn new(file: Arc<DatabaseFile>, services: Arc<Services>) -> MaintenanceTask<P> {
        let (stop, progress) = (AtomicBool::default(), Mutex::default());
        let host = Arc::new(TaskHost { file, services, stop, progress });
        MaintenanceTask { host, running: Mutex::default() }
    }

    /// Returns the progress since the database was attached.
    pub fn progress(&self) -> P::Progress {
        self.host.progress().clone()
    }

    /// Starts the task with the pass that `create` returns. Returns `false` if the task is already running.
    pub fn begin(
        &self,
        schedule: TaskSchedule,
        create: impl FnOnce(&Arc<TaskHost<P::Progress>>) -> Result<P>,
    ) -> Result<bool> {
        let mut running = self.running.lock();
        if running.is_some() {
            return Ok(false);
        }
        let mut pass = create(&self.host)?;
        let (ran, visited) = (Duration::from_secs(*pass.times().seconds), pass.visited());
        let file = &self.host.file;
        *running = Some(RunningTask {
            pass,
            schedule,
            pacer: MaintenancePacer::new(file.cache.fault_times()),
            due: file.vfs.clock().monotonic(),
            ran,
            saved: (visited, ran),
            clean_pages: CleanPageWait::default(),
            suspended: true,
            has_turn: false,
        });
        self.host.stop.store(false, Ordering::Release);
        let mut progress = self.host.progress();
        let TaskStatus { running, failure } = progress.status();
        (*running, *failure) = (true, None);
        Ok(true)
    }

    /// Prevents further steps until the returned guard is dropped. Waits for the current step to finish.
    pub fn paused(&self) -> impl Sized + '_ {
        self.running.lock()
    }

    /// Waits for the current step, if any. Later steps see all changes that the caller made before this call.
    pub fn wait_for_step(&self) {
        drop(self.running.lock());
    }

    /// Stops the task, waits for the current step, and stores the state.
    pub fn stop(&self) {
        self.host.stop.store(true, Ordering::Release);
        let mut running = self.running.lock();
        let Some(mut task) = running.take() else { return };
        self.suspend(&mut task);
        let mut progress = self.host.progress();
        task.pass.show(&mut progress);
        *progress.status().running = false;
    }

    /// Performs one step if it is due. Returns the time until the next step, or `None` if the task is not running.
    pub fn step(&self) -> Result<Option<Duration>> {
        let mut running = self.running.lock();
        let Some(task) = running.as_mut() else { return Ok(None) };
        let (cache, clock) = (&self.host.file.cache, self.host.file.vfs.clock());
        let began = clock.monotonic();
        let early = task.due.saturating_sub(began);
        if !early.is_zero() {
            return Ok(Some(early));
        }
        if let Some(wait) = self.must_wait(task) {
            task.pass.release_memory(None);
            return Ok(Some(wait));
        }
        self.resume(task);
        let outcome = self.run_step(task);
        let took = clock.monotonic().saturating_sub(began);
        task.ran = task.ran.saturating_add(took);
        let limits = task.pass.limits();
        let bytes = match outcome {
            Ok(bytes) => bytes,
            Err(error) => {
                let pause = task.schedule.throttle.pause.max(limits.retry_after);
                task.due = clock.monotonic().saturating_add(pause);
                return Err(self.failed(task, error));
            }
        };
        let mut pause = task.pacer.pause(&task.schedule.throttle, bytes, took, cache.fault_times());
        task.ran = task.ran.saturating_add(pause);
        if !task.pass.is_in_pass() {
            if task.schedule.single_pass {
                *running = None;
                *self.host.progress().status().running = false;
                return Ok(None);
            }
            if let Some(interval) = limits.pass_interval {
                let next = task.pass.times().began_unix_ms + interval.as_millis() as i64;
                pause = pause.max(Duration::from_millis((next - clock.unix_ms()).max(0) as u64));
            }
        }
        task.due = clock.monotonic().saturating_add(pause);
        task.pass.release_memory(Some(pause));
        Ok(Some(pause))
    }

    /// Performs one step, and begins or ends the pass if necessary. Returns the number of bytes read.
    fn run_step(&self, task: &mut RunningTask<P>) -> Result<usize> {
        if !task.pass.is_in_pass() {
            task.pass.begin()?;
            (task.ran, task.saved) = (Duration::ZERO, (0, Duration::ZERO));
            self.report(task, TaskEvent::Started);
        }
        let bytes = match task.pass.step()? {
            PassStep::Interrupted => return Ok(0),
            PassStep::Read(bytes) => {
                let limits = task.pass.limits();
                let (pages, ran) = task.saved;
                let many = task.pass.visited() >= pages + limits.pages_per_save;
                if many || task.ran >= ran.saturating_add(limits.save_after) {
                    self.save(task)?;
                }
                bytes
            }
            PassStep::ReadAndSave(bytes) => {
                self.save(task)?;
                bytes
            }
            PassStep::ReadLast(bytes) => {
                self.describe(task);
                task.pass.end()?;
                self.report(task, TaskEvent::Completed);
                self.release_turn(task);
                bytes
            }
        };
        *self.host.progress().status().failure = None;
        Ok(bytes)
    }

    /// Returns how long the task must wait, or `None` if it need not wait.
    ///
    /// A task waits when it is outside its window, while another database has the turn, and while a backup is
    /// running, because the backup also reads and verifies all pages. A pass that changes pages also waits while too
    /// much of the cache is dirty.
    fn must_wait(&self, task: &mut RunningTask<P>) -> Option<Duration> {
        let (file, services, limits) = (&self.host.file, &self.host.services, task.pass.limits());
        let clock = file.vfs.clock();
        let closed = task.schedule.window.map_or(Duration::ZERO, |window| window.wait(clock.unix_ms()));
        if !closed.is_zero() {
            self.suspend(task);
            return Some(closed.min(MAX_WINDOW_POLL_INTERVAL));
        }
        if limits.waits_for_bulk_loads && services.bulk_loads.load(Ordering::SeqCst) > 0 {
            return Some(TURN_POLL_INTERVAL);
        }
        if let Some(turn) = &task.schedule.turn {
            task.has_turn = turn.acquire(self.cache_id(), file.file_id);
            if !task.has_turn {
                return Some(TURN_POLL_INTERVAL);
            }
        }
        if services.backup_running.load(Ordering::Acquire) {
            return Some(TURN_POLL_INTERVAL);
        }
        let poll = limits.clean_page_poll?;
        let counters = file.cache.counters();
        let mostly_dirty = counters.dirty * 2 > counters.frames;
        match task.clean_pages.note(mostly_dirty, clock.monotonic()) {
            Some(CleanPageWaitEvent::Paused) => self.report(task, TaskEvent::Paused),
            Some(CleanPageWaitEvent::Continued) => self.report(task, TaskEvent::Continued),
            None => {}
        }
        // The pass must not fill the cache with dirty pages: sessions would have to wait for page writes.
        if !task.clean_pages.wait(mostly_dirty) {
            return None;
        }
        // The result is ignored because the cache reports a failed write to all its users.
        let _ = file.cache.write_below(file.file_id, file.log.tail(), CLEANED_PAGES);
        Some(poll)
    }

    /// Begins work in a window, resuming an interrupted pass.
    fn resume(&self, task: &mut RunningTask<P>) {
        if !std::mem::take(&mut task.suspended) || !task.pass.is_in_pass() {
            return;
        }
        *task.pass.times().invocations += 1;
        self.describe(task);
        self.report(task, TaskEvent::Resumed);
    }

    /// Ends work in a window. Interrupts the pass if one is in progress.
    fn suspend(&self, task: &mut RunningTask<P>) {
        // A task that waits for its first step may also hold the turn.
        self.release_turn(task);
        if std::mem::replace(&mut task.suspended, true) || !task.pass.is_in_pass() {
            return;
        }
        // If this fails, the pass resumes from the state that was stored last.
        let _ = self.save(task);
        self.report(task, TaskEvent::Interrupted);
    }

    fn save(&self, task: &mut RunningTask<P>) -> Result<()> {
        self.describe(task);
        task.pass.save()?;
        task.saved = (task.pass.visited(), task.ran);
        Ok(())
    }

    /// Records a failure. Reports it unless the previous step failed in the same way.
    fn failed(&self, task: &RunningTask<P>, error: Error) -> Error {
        let what = Some(error.full_text());
        let mut progress = self.host.progress();
        let failure = progress.status().failure;
        if *failure != what {
            *failure = what;
            self.report(task, TaskEvent::Failed(&error));
        }
        error
    }

    /// Updates the seconds and days in the report on the pass.
    fn describe(&self, task: &mut RunningTask<P>) {
        let now = self.host.file.vfs.clock().unix_ms();
        let times = task.pass.times();
        *times.seconds = task.ran.as_secs();
        *times.days = (now - times.began_unix_ms).max(0) as u64 / DAY_MS as u64 + 1;
    }

    fn report(&self, task: &RunningTask<P>, event: TaskEvent<'_>) {
        if let Some(kind) = task.pass.event(event) {
            self.host.file.events.report(kind);
        }
    }

    fn release_turn(&self, task: &mut RunningTask<P>) {
        if let Some(turn) = &task.schedule.turn
            && std::mem::take(&mut task.has_turn)
        {
            turn.release(self.cache_id(), self.host.file.file_id);
        }
    }

    /// Returns a number that distinguishes instances with separate caches.
    fn cache_id(&self) -> usize {
        Arc::as_ptr(&self.host.file.cache) as usize
    }
}
