//! Threads that the background work of many instances shares.
//!
//! Without them each instance has threads of its own. A pool of [`Workers`] has as many threads as it was given, for any
//! number of instances. Each task of an instance is a bounded step that is repeated when it is due, or when it is woken.
//!
//! Invariants: a task runs on one thread at a time; the lock is a leaf, and no step runs and no step is dropped under it.
//!
//! Two rules keep tasks from waiting for each other. Steps that may wait for pages leave some threads to the tasks of the
//! log, because a page may wait for the log before it is written. And the tasks of one volume use at most its share of the
//! threads, so a volume that stands still holds up no other one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::thread::{self, JoinHandle, ThreadId};
use jetcell_sync::{Arc, Condvar, Mutex, MutexGuard};
use jetcell_vfs::{Clock, abort_on_panic};

use crate::background_thread::become_background_thread;
use crate::{Error, Result};

/// What a step may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// Only for its own transfers: a step of the log.
    Log,
    /// Also for pages, and so for steps of logs.
    Pages,
}

/// Longer pauses end at multiples of this, so that a thread that wakes finds many tasks due. With a moment for each task, the tasks of
/// many idle instances wake threads thousands of times a second.
const TICK: Duration = Duration::from_millis(5);

/// How long a task that is due waits for a thread that runs steps already. Most steps are over in microseconds, and each further
/// thread that wakes for them costs more.
const GRACE: Duration = Duration::from_millis(1);

/// When a task is due that ended a step now.
fn due_after(now: Duration, pause: Duration) -> Duration {
    let due = now.saturating_add(pause);
    if pause < 2 * TICK {
        return due;
    }
    let beyond = due.as_nanos() % TICK.as_nanos();
    if beyond == 0 { due } else { due.saturating_add(TICK - Duration::from_nanos(beyond as u64)) }
}

/// The alarm of a thread that was woken and has not looked for work yet.
const WOKEN: Duration = Duration::ZERO;

/// Calls again after the time; `None`: never.
type Step = Box<dyn FnMut() -> Option<Duration> + Send>;

/// Threads for the background work of instances.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The share of a volume in [`Workers`]: instances whose files are on it.
pub struct WorkerGroup {
    workers: Arc<Workers>,
    id: usize,
}

/// Wakes a task.
#[derive(Clone)]
pub(crate) struct TaskHandle {
    shared: Arc<Shared>,
    task: usize,
    woken: Arc<AtomicBool>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    threads: usize,
    state: Mutex<State>,
    /// Signalled when a task may be due.
    work: Condvar,
    /// Signalled when a step of a task that is being removed has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    tasks: BTreeMap<usize, Task>,
    /// Tasks that are not running, by the time at which they are due.
    queue: BTreeSet<(Duration, usize)>,
    groups: BTreeMap<usize, Running>,
    all: Running,
    next_id: usize,
    idle: usize,
    /// The moment until which an idle thread waits; zero for one that was woken to find out.
    alarm: Option<Duration>,
    closed: bool,
}

struct Task {
    group: usize,
    kind: StepKind,
    /// `None` while it runs.
    step: Option<Step>,
    due: Duration,
    runs_on: Option<ThreadId>,
    woken: Arc<AtomicBool>,
    removed: bool,
}

/// Steps that are running.
#[derive(Clone, Copy, Default)]
struct Running {
    steps: usize,
    of_pages: usize,
}

impl Running {
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
    /// The least number of threads: one for logs and one for pages.
    pub const LEAST: usize = 2;

    /// Starts `threads` threads, at least [`Workers::LEAST`].
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(threads: usize, clock: Arc<dyn Clock>) -> Result<Arc<Workers>> {
        let threads = threads.max(Workers::LEAST);
        let shared =
            Shared { clock, threads, state: Mutex::default(), work: Condvar::new(), ended: Condvar::new() };
        let workers = Arc::new(Workers { shared: Arc::new(shared), threads: Mutex::default() });
        for number in 0..threads {
            let shared = workers.shared.clone();
            let thread = thread::Builder::new().name(format!("jetcell-work-{number}"));
            let thread = thread.spawn(move || abort_on_panic(|| shared.work()));
            workers.threads.lock().push(thread.map_err(|error| Error::io("jetcell-work", &error))?);
        }
        Ok(workers)
    }

    /// A share for one more volume.
    pub fn group(self: &Arc<Workers>) -> Arc<WorkerGroup> {
        let mut state = self.shared.state.lock();
        let id = state.new_id();
        state.groups.insert(id, Running::default());
        Arc::new(WorkerGroup { workers: self.clone(), id })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
        let own = thread::current().id();
        for thread in self.threads.lock().drain(..).filter(|thread| thread.thread().id() != own) {
            // A panic ends the process.
            let _ = thread.join();
        }
    }
}

impl WorkerGroup {
    /// Repeats a step, now for the first time.
    pub(crate) fn add(&self, kind: StepKind, step: Step) -> TaskHandle {
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
        // The step that follows sees everything that was done before, so one call for all is enough.
        if self.woken.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut state = self.shared.state.lock();
        if state.make_due(self.task, self.shared.clock.monotonic()) {
            drop(state);
            self.shared.work.notify_one();
        }
    }

    /// Removes tasks. Waits for their steps, except for one that this thread runs.
    pub fn remove_all(tasks: &[TaskHandle]) {
        let Some(shared) = tasks.first().map(|task| task.shared.clone()) else { return };
        let mut dropped = Vec::new();
        let mut state = shared.state.lock();
        for task in tasks {
            dropped.push(state.remove(task.task));
        }
        let own = thread::current().id();
        let runs = |state: &State| {
            let runner = |task: &TaskHandle| state.tasks.get(&task.task)?.runs_on;
            tasks.iter().filter_map(runner).any(|runner| runner != own)
        };
        while runs(&state) {
            shared.ended.wait(&mut state);
        }
        drop(state);
    }
}

impl Shared {
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

    /// Waits until a task may be due. One of the idle threads waits for the next moment, the others for a signal.
    fn wait(&self, state: &mut MutexGuard<'_, State>, now: Duration) {
        let next = state.next_moment(now).filter(|next| state.alarm.is_none_or(|alarm| *next < alarm));
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
        mut state: MutexGuard<'a, State>,
        id: usize,
        mut step: Step,
    ) -> MutexGuard<'a, State> {
        // Another thread waits for the next moment, and runs what is due by then if this step takes long.
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
            // Its fields may do anything when they are dropped.
            drop(state);
            drop(step);
            state = self.state.lock();
        }
        state
    }
}

impl State {
    fn new_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    /// When a thread should look for work again, apart from the end of a step.
    fn next_moment(&self, now: Duration) -> Option<Duration> {
        let first = |from: Duration| self.queue.range((from, usize::MAX)..).next().map(|(due, _)| *due);
        let due =
            first(now.saturating_sub(GRACE)).filter(|due| *due <= now).map(|due| due.saturating_add(GRACE));
        due.into_iter().chain(first(now)).min()
    }

    /// The step of the first task that is due and may run.
    fn take_due(&mut self, now: Duration, threads: usize) -> Option<(usize, Step)> {
        let share = (threads / self.groups.len().max(1)).max(Workers::LEAST);
        let most_of_pages = threads - (threads / 4).max(1);
        let may_run = |(due, id): &&(Duration, usize)| {
            let Some(task) = self.tasks.get(id) else { return true };
            let is_late = due.saturating_add(GRACE) <= now || task.woken.load(Ordering::SeqCst);
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

    /// Ends a step. Takes it back, unless the task has ended: then the caller drops it. Returns whether a thread may wait for
    /// that.
    fn end_step(&mut self, id: usize, due: Option<Duration>, now: Duration, step: &mut Option<Step>) -> bool {
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

    /// Whether the task was waiting.
    fn make_due(&mut self, id: usize, now: Duration) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        if !self.queue.remove(&(task.due, id)) {
            return false;
        }
        task.due = task.due.min(now);
        self.queue.insert((task.due, id))
    }

    /// Takes a task that does not run out. One that runs ends with its step.
    fn remove(&mut self, id: usize) -> Option<Step> {
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
