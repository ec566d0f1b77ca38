//! Limit on the number of threads in the process.

use std::io;

use jetcell_sync::{Arc, Mutex, thread};

/// Checks that the process can start `count` threads, by starting them briefly.
///
/// Limits of users (`ulimit -u`), control groups (`pids.max`) and the machine apply in combination, so the result can
/// only be determined by a test. All threads end before the function returns.
///
/// # Errors
/// If a thread cannot be started, returns the number of threads that were started, and the error for this thread.
pub fn try_threads(count: usize) -> Result<(), (usize, io::Error)> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let mut threads = Vec::with_capacity(count);
    let started = start_all(count, || {
        let gate = gate.clone();
        threads.push(thread::Builder::new().spawn(move || drop(gate.lock()))?);
        Ok(())
    });
    drop(closed);
    for thread in threads {
        let _ = thread.join();
    }
    started
}

/// Starts `count` threads, or returns the number of threads that were started before the first error.
fn start_all(count: usize, mut start: impl FnMut() -> io::Result<()>) -> Result<(), (usize, io::Error)> {
    (0..count).try_for_each(|started| start().map_err(|error| (started, error)))
}

#[cfg(test)]
#[path = "thread_limit_tests.rs"]
mod tests;
