//! Threads that repeat bounded steps until they are stopped.

use std::time::Duration;

use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Condvar, Mutex};
use jetcell_vfs::abort_on_panic;

use crate::Result;

/// The threads of one instance.
#[derive(Default)]
pub(crate) struct Background {
    signal: Arc<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Background {
    /// Starts a thread that repeats `step`: at once if there is more to do, otherwise after `pause`.
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

    /// Starts a thread that repeats `step` after the pause that each call returns, until a call returns `None`.
    pub fn repeat_after(&self, name: &str, mut step: impl FnMut() -> Option<Duration> + Send + 'static) {
        let signal = self.signal.clone();
        let body = move || {
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

    /// Ends the pauses of all threads.
    pub fn wake(&self) {
        self.signal.changed.notify_all();
    }

    /// Stops all threads after their current step. Waits for them, unless the calling thread is one of them.
    pub fn stop(&self) {
        *self.signal.stop.lock() = true;
        self.wake();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.thread().id() != jetcell_sync::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
