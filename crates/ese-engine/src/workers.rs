//! A thread pool that many instances share for their background work.
//!
//! Without a pool, each instance starts its own threads. A pool ([`Workers`]) has a fixed number of threads for any
//! number of instances. Each task of an instance is a bounded step. The step runs again when it is due, or when the
//! task is woken.
//!
//! Invariants: a task runs on at most one thread at a time. The lock is a leaf: no step runs and no step is dropped
//! while it is held.
//!
//! Two rules prevent tasks from blocking each other. First, steps that may wait for pages leave some threads for log
//! tasks: a page may have to wait for the log before it is written. Second, the tasks of one volume use at most that
//! volume's share of the threads. A volume that stalls therefore does not block other volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::thread::{self, JoinHandle, ThreadId};
use jetcell_sync::{Arc, Condvar, Mutex, MutexGuard};
use jetcell_vfs::{Clock, abort_on_panic};

use crate::background_thread::become_background_thread;
use crate::{Error, Result};

/// Kind of a step. The kind determines which events the step may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// A step of the log, which waits only for its own transfers.
    Log,
    /// A step that may also wait for pages, and therefore for steps of logs.
    Pages,
}

/// Granularity of due times after longer pauses.
///
/// Due times are rounded up to multiples of this value, so a thread that wakes up finds many tasks due. Without
/// rounding, the tasks of many idle instances would wake threads thousands of times per second.
const DUE_RESOLUTION: Duration = Duration::from_millis(5);

/// Time that a due task waits for a thread that is already running steps. Most steps take microseconds, so waking
/// another thread would cost more than waiting.
const DUE_GRACE_PERIOD: Duration = Duration::from_millis(1);

/// Returns when a task is due again if its step ended at `now` and requested `pause`.
fn due_after(now: Duration, pause: Duration) -> Duration {
    let due = now.saturating_add(pause);
    if pause < 2 * DUE_RESOLUTION {
        return due;
    }
    let beyond = due.as_nanos() % DUE_RESOLUTION.as_nanos();
    if beyond == 0 { due } else { due.saturating_add(DUE_RESOLUTION - Duration::from_nanos(beyond as u64)) }
}

/// Value of `alarm` while a thread has been woken but has not checked for work yet.
const WOKEN: Duration = Duration::ZERO;

/// Function that performs a step. It returns the pause before the next call, or `None` if it must not be called again.
type StepFunction = Box<dyn FnMut() -> Option<Duration> + Send>;

/// A pool of threads for the background work of instances.
pub struct Workers {
    shared: Arc<WorkersInner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// One volume's share of the threads in [`Workers`]. It is used by the instances whose files are on that volume.
pub struct WorkerGroup {
    workers: Arc<Workers>,
    id: usize,
}

/// Handle to a task, used to wake and remove it.
#[derive(Clone)]
pub(crate) struct TaskHandle {
    shared: Arc<WorkersInner>,
    task: usize,
    woken: Arc<AtomicBool>,
}

struct WorkersInner {
    clock: Arc<dyn Clock>,
    threads: usize,
    state: Mutex<WorkersState>,
    /// Signalled when a task may be due.
    work: Condvar,
    /// Signalled when a step of a task that is being removed has ended.
    ended: Condvar,
}

#[derive(Default)]
struct WorkersState {
    tasks: BTreeMap<usize, Task>,
    /// Tasks that are not running, ordered by due time.
    queue: BTreeSet<(Duration, usize)>,
    groups: BTreeMap<usize, RunningSteps>,
    all: RunningSteps,
    next_id: usize,
    idle: usize,
    /// Time until which an idle thread waits. Zero means that a thread has been woken but has not checked for work
    /// yet.
    alarm: Option<Duration>,
    closed: bool,
}

struct Task {
    group: usize,
    kind: StepKind,
    /// The task's step; `None` while it runs.
    step: Option<StepFunction>,
    due: Duration,
    runs_on: Option<ThreadId>,
    woken: Arc<AtomicBool>,
    removed: bool,
}

/// Numbers of running steps, in total and of kind [`StepKind::Pages`].
#[derive(Clone, Copy, Default)]
struct RunningSteps {
    steps: usize,
    of_pages: usize,
}

impl RunningSteps {
    fn may_run(self, kind: StepKind, most: usize, most_of_pages: usize) -> bool {
        self.steps < most && (kind == StepKind::Log || self.of_pages < most_of_pages)
    }

    fn begin(&mut self, kind: StepKind) {
        self.steps += 1;
        self.of_pages += usize::from(kind == StepKind::Pages);
    }

    fn end(&mut self, kind: StepKind) {
        self.steps -= 1;
        self.of_pages -= usize::from(kind == StepKind::Pages);
    }
}

impl Workers {
    /// Minimum number of threads: one for logs and one for pages.
    pub const MIN_THREADS: usize = 2;

    /// Starts `threads` threads, but at least [`Workers::MIN_THREADS`].
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn start(threads: usize, clock: Arc<dyn Clock>) -> Result<Arc<Workers>> {
        let threads = threads.max(Workers::MIN_THREADS);
        let shared = WorkersInner {
            clock,
            threads,
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
        };
        let workers = Arc::new(Workers { shared: Arc::new(shared), threads: Mutex::default() });
        for number in 0..threads {
            let shared = workers.shared.clone();
            let thread = thread::Builder::new().name(format!("jetcell-work-{number}"));
            let thread = thread.spawn(move || abort_on_panic(|| shared.work()));
            workers.threads.lock().push(thread.map_err(|error| Error::io("jetcell-work", &error))?);
        }
        Ok(workers)
    }

    /// Creates a share for one more volume.
    pub fn group(self: &Arc<Workers>) -> Arc<WorkerGroup> {
        let mut state = self.shared.state.lock();
        let id = state.new_id();
        state.groups.insert(id, RunningSteps::default());
        Arc::new(WorkerGroup { workers: self.clone(), id })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
        let own = thread::current().id();
        for thread in self.threads.lock().drain(..).filter(|thread| thread.thread().id() != own) {
            // The result is ignored because a panic aborts the process.
            let _ = thread.join();
        }
    }
}

impl WorkerGroup {
    /// Adds a task that repeats a step. The first run is due immediately.
    pub(crate) fn add(&self, kind: StepKind, step: StepFunction) -> TaskHandle {
        let shared = self.workers.shared.clone();
        let woken = Arc::new(AtomicBool::new(false));
        let mut state = shared.state.lock();
        let (id, due) = (state.new_id(), shared.clock.monotonic());
        let task = Task {
            group: self.id,
            kind,
            step: Some(step),
            due,
            runs_on: None,
            woken: woken.clone(),
            removed: false,
        };
        state.tasks.insert(id, task);
        state.queue.insert((due, id));
        drop(state);
        shared.work.notify_one();
        TaskHandle { shared, task: id, woken }
    }
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        self.workers.shared.state.lock().groups.remove(&self.id);
    }
}

impl TaskHandle {
    /// Makes the task due.
    pub fn wake(&self) {
        // The step's next run sees everything that was done before it started. Therefore one wake-up covers all
        // requests made until then.
        if self.woken.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut state = self.shared.state.lock();
        if state.make_due(self.task, self.shared.clock.monotonic()) {
            drop(state);
            self.shared.work.notify_one();
        }
    }

    /// Removes tasks. Waits for their running steps to finish, except for one that runs on the calling thread.
    pub fn remove_all(tasks: &[TaskHandle]) {
        let Some(shared) = tasks.first().map(|task| task.shared.clone()) else { return };
        let mut dropped = Vec::new();
        let mut state = shared.state.lock();
        for task in tasks {
            dropped.push(state.remove(task.task));
        }
        let own = thread::current().id();
        let runs = |state: &WorkersState| {
            let runner = |task: &TaskHandle| state.tasks.get(&task.task)?.runs_on;
            tasks.iter().filter_map(runner).any(|runner| runner != own)
        };
        while runs(&state) {
            shared.ended.wait(&mut state);
        }
        drop(state);
    }
}

impl WorkersInner {
    /// Runs steps until the pool is closed.
    fn work(&self) {
        become_background_thread();
        let mut state = self.state.lock();
        while !state.closed {
            let now = self.clock.monotonic();
            match state.take_due(now, self.threads) {
                Some((id, step)) => state = self.run(state, id, step),
                None => self.wait(&mut state, now),
            }
        }
    }

    /// Waits until a task may be due. One idle thread waits until the next due time; the others wait to be signalled.
    fn wait(&self, state: &mut MutexGuard<'_, WorkersState>, now: Duration) {
        let next = state.next_due_time(now).filter(|next| state.alarm.is_none_or(|alarm| *next < alarm));
        state.idle += 1;
        match next {
            Some(next) => {
                state.alarm = Some(next);
                self.work.wait_for(state, next.saturating_sub(now));
            }
            None => self.work.wait(state),
        }
        if state.alarm == next || state.alarm == Some(WOKEN) {
            state.alarm = None;
        }
        state.idle -= 1;
    }

    fn run<'a>(
        &'a self,
        mut state: MutexGuard<'a, WorkersState>,
        id: usize,
        mut step: StepFunction,
    ) -> MutexGuard<'a, WorkersState> {
        // Have another thread wait for the next due time. If this step takes a long time, that thread runs the tasks
        // that become due.
        let hand_over = state.idle > 0 && state.alarm.is_none() && !state.queue.is_empty();
        if hand_over {
            state.alarm = Some(WOKEN);
        }
        drop(state);
        if hand_over {
            self.work.notify_one();
        }
        let pause = step();
        let mut step = Some(step);
        let mut state = self.state.lock();
        let now = self.clock.monotonic();
        if state.end_step(id, pause.map(|pause| due_after(now, pause)), now, &mut step) {
            self.ended.notify_all();
        }
        if step.is_some() {
            // Release the lock first: dropping the captured values of the step may run arbitrary code.
            drop(state);
            drop(step);
            state = self.state.lock();
        }
        state
    }
}

impl WorkersState {
    fn new_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    /// Returns the next time at which a thread should check for work, aside from checks when a step ends.
    fn next_due_time(&self, now: Duration) -> Option<Duration> {
        let first = |from: Duration| self.queue.range((from, usize::MAX)..).next().map(|(due, _)| *due);
        let due = first(now.saturating_sub(DUE_GRACE_PERIOD))
            .filter(|due| *due <= now)
            .map(|due| due.saturating_add(DUE_GRACE_PERIOD));
        due.into_iter().chain(first(now)).min()
    }

    /// Removes and returns the step of the first task that is due and may run.
    fn take_due(&mut self, now: Duration, threads: usize) -> Option<(usize, StepFunction)> {
        let share = (threads / self.groups.len().max(1)).max(Workers::MIN_THREADS);
        let most_of_pages = threads - (threads / 4).max(1);
        let may_run = |(due, id): &&(Duration, usize)| {
            let Some(task) = self.tasks.get(id) else { return true };
            let is_late = due.saturating_add(DUE_GRACE_PERIOD) <= now || task.woken.load(Ordering::SeqCst);
            if self.all.steps > 0 && !is_late {
                return false;
            }
            let group = self.groups.get(&task.group).copied().unwrap_or_default();
            self.all.may_run(task.kind, threads, most_of_pages) && group.may_run(task.kind, share, share - 1)
        };
        let entry = *self.queue.range(..=(now, usize::MAX)).find(may_run)?;
        self.queue.remove(&entry);
        let task = self.tasks.get_mut(&entry.1)?;
        let step = task.step.take()?;
        task.runs_on = Some(thread::current().id());
        task.woken.store(false, Ordering::SeqCst);
        self.all.begin(task.kind);
        if let Some(group) = self.groups.get_mut(&task.group) {
            group.begin(task.kind);
        }
        Some((entry.1, step))
    }

    /// Records the end of a step and puts the step back. If the task was removed or does not repeat, the step is left
    /// for the caller to drop. Returns whether a thread may be waiting for the step to end.
    fn end_step(
        &mut self,
        id: usize,
        due: Option<Duration>,
        now: Duration,
        step: &mut Option<StepFunction>,
    ) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        task.runs_on = None;
        let (kind, removed) = (task.kind, task.removed);
        self.all.end(kind);
        if let Some(group) = self.groups.get_mut(&task.group) {
            group.end(kind);
        }
        match due.filter(|_| !removed) {
            Some(due) => {
                task.step = step.take();
                task.due = if task.woken.load(Ordering::SeqCst) { now } else { due };
                self.queue.insert((task.due, id));
            }
            None => drop(self.tasks.remove(&id)),
        }
        removed
    }

    /// Makes a task due if it is waiting. Returns whether it was waiting.
    fn make_due(&mut self, id: usize, now: Duration) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        if !self.queue.remove(&(task.due, id)) {
            return false;
        }
        task.due = task.due.min(now);
        self.queue.insert((task.due, id))
    }

    /// Removes a task that is not running, and returns its step. A running task is removed when its step ends.
    fn remove(&mut self, id: usize) -> Option<StepFunction> {
        let task = self.tasks.get_mut(&id)?;
        self.queue.remove(&(task.due, id));
        task.removed = true;
        match task.runs_on {
            Some(_) => None,
            None => self.tasks.remove(&id)?.step,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
#[path = "workers_tests.rs"]
mod tests;
