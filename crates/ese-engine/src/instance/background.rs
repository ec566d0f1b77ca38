//! Steps that run repeatedly until stopped, either on an instance's own threads or on threads shared by several
//! instances.

use std::time::Duration;

use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Condvar, Mutex};
use jetcell_vfs::abort_on_panic;

use crate::Result;
use crate::background_thread::become_background_thread;
use crate::workers::{StepKind, TaskHandle, WorkerGroup};

/// Runs the background work of one instance.
#[derive(Default)]
pub(crate) struct BackgroundWork {
    /// Shared threads. If `None`, the instance starts its own threads.
    workers: Option<Arc<WorkerGroup>>,
    tasks: Mutex<Vec<TaskHandle>>,
    signal: Arc<BackgroundSignal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct BackgroundSignal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl BackgroundWork {
    /// Creates the background work. It runs on shared threads if `workers` is given, and on new threads otherwise.
    pub fn new(workers: Option<Arc<WorkerGroup>>) -> BackgroundWork {
        BackgroundWork { workers, ..BackgroundWork::default() }
    }

    /// Returns the shared threads, if the instance uses them.
    pub fn workers(&self) -> Option<&Arc<WorkerGroup>> {
        self.workers.as_ref()
    }

    /// Runs `step` repeatedly on shared threads.
    pub fn spawn_shared(
        &self,
        workers: &WorkerGroup,
        kind: StepKind,
        step: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> TaskHandle {
        let task = workers.add(kind, Box::new(step));
        self.tasks.lock().push(task.clone());
        task
    }

    /// Repeats a step that may wait for pages. The step runs again immediately if it has more to do, and after
    /// `pause` otherwise.
    pub fn repeat(
        &self,
        name: &str,
        pause: Duration,
        mut step: impl FnMut() -> Result<bool> + Send + 'static,
    ) {
        // The log and the cache store their errors, and report them to the next session that uses them.
        let step = move || Some(if step().unwrap_or(false) { Duration::ZERO } else { pause });
        self.repeat_after(name, step);
    }

    /// Repeats a step that may wait for pages and returns the amount of work that it did.
    ///
    /// The step runs again immediately if it returned at least `many`, and after `pause` otherwise. While there is
    /// nothing to do, the pause doubles, up to eight times `pause`. With a constant pause, a large number of idle
    /// instances would keep a processor busy.
    pub fn repeat_less_when_idle(
        &self,
        name: &str,
        pause: Duration,
        many: usize,
        mut step: impl FnMut() -> Result<usize> + Send + 'static,
    ) {
        let mut idle = 1;
        let step = move || {
            // The log and the cache store their errors, as in `repeat`.
            let done = step().unwrap_or(0);
            idle = if done > 0 { 1 } else { (idle * 2).min(8) };
            Some(if done >= many { Duration::ZERO } else { pause * idle })
        };
        self.repeat_after(name, step);
    }

    /// Repeats a step that may wait for pages. Each call returns the pause before the next call; `None` ends the
    /// task.
    pub fn repeat_after(&self, name: &str, mut step: impl FnMut() -> Option<Duration> + Send + 'static) {
        if let Some(workers) = &self.workers {
            self.spawn_shared(workers, StepKind::Pages, step);
            return;
        }
        let signal = self.signal.clone();
        let body = move || {
            become_background_thread();
            while let Some(pause) = step() {
                let mut stop = signal.stop.lock();
                if !*stop && !pause.is_zero() {
                    signal.changed.wait_for(&mut stop, pause);
                }
                if *stop {
                    return;
                }
            }
        };
        let thread = jetcell_sync::thread::Builder::new().name(format!("jetcell-{name}"));
        let thread = thread.spawn(|| abort_on_panic(body)).expect("threads can be started");
        self.threads.lock().push(thread);
    }

    /// Ends the current pause of every step.
    pub fn wake(&self) {
        self.signal.changed.notify_all();
        self.tasks.lock().iter().for_each(TaskHandle::wake);
    }

    /// Stops all steps. Waits for running steps to finish, except for one that runs on the calling thread.
    pub fn stop(&self) {
        *self.signal.stop.lock() = true;
        self.wake();
        TaskHandle::remove_all(&std::mem::take(&mut *self.tasks.lock()));
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.thread().id() != jetcell_sync::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
