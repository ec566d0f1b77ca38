//! Steps that are repeated until they are stopped: by threads of the instance, or by threads that instances share.

use std::time::Duration;

use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Condvar, Mutex};
use jetcell_vfs::abort_on_panic;

use crate::Result;
use crate::background_thread::become_background_thread;
use crate::workers::{StepKind, TaskHandle, WorkerGroup};

/// The background work of one instance.
#[derive(Default)]
pub(crate) struct Background {
    /// `None`: the instance has threads of its own.
    workers: Option<Arc<WorkerGroup>>,
    tasks: Mutex<Vec<TaskHandle>>,
    signal: Arc<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Background {
    /// Work of shared threads, or of threads of its own.
    pub fn new(workers: Option<Arc<WorkerGroup>>) -> Background {
        Background { workers, ..Background::default() }
    }

    /// The threads that the instance shares.
    pub fn workers(&self) -> Option<&Arc<WorkerGroup>> {
        self.workers.as_ref()
    }

    /// Repeats `step` on shared threads.
    pub fn share(
        &self,
        workers: &WorkerGroup,
        kind: StepKind,
        step: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> TaskHandle {
        let task = workers.add(kind, Box::new(step));
        self.tasks.lock().push(task.clone());
        task
    }

    /// Repeats a step that may wait for pages: at once if there is more to do, otherwise after `pause`.
    pub fn repeat(
        &self,
        name: &str,
        pause: Duration,
        mut step: impl FnMut() -> Result<bool> + Send + 'static,
    ) {
        // Log and cache keep their errors: the next session that needs them gets the error.
        let step = move || Some(if step().unwrap_or(false) { Duration::ZERO } else { pause });
        self.repeat_after(name, step);
    }

    /// Repeats a step that may wait for pages and returns how much it did: at once after `many`, otherwise after `pause`, which
    /// doubles up to eight times as long while there is nothing to do. Many idle instances would keep a processor busy.
    pub fn repeat_less_when_idle(
        &self,
        name: &str,
        pause: Duration,
        many: usize,
        mut step: impl FnMut() -> Result<usize> + Send + 'static,
    ) {
        let mut idle = 1;
        let step = move || {
            // Log and cache keep their errors, as in `repeat`.
            let done = step().unwrap_or(0);
            idle = if done > 0 { 1 } else { (idle * 2).min(8) };
            Some(if done >= many { Duration::ZERO } else { pause * idle })
        };
        self.repeat_after(name, step);
    }

    /// Repeats a step that may wait for pages after the pause that each call returns, until a call returns `None`.
    pub fn repeat_after(&self, name: &str, mut step: impl FnMut() -> Option<Duration> + Send + 'static) {
        if let Some(workers) = &self.workers {
            self.share(workers, StepKind::Pages, step);
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

    /// Ends the pauses of all steps.
    pub fn wake(&self) {
        self.signal.changed.notify_all();
        self.tasks.lock().iter().for_each(TaskHandle::wake);
    }

    /// Stops everything after the current steps. Waits for them, unless the calling thread runs one of them.
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
