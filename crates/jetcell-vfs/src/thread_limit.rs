//! Limit on the number of threads in the process.

use std::io;

use jetcell_sync::{Arc, Mutex, thread};

/// Checks that the process can start `count` threads, by starting them briefly.
///
/// Limits of users (`ulimit -u`), control groups (`pids.max`) and the machine apply in combination, so the result can
/// only be determined by a test. All threads end before the function returns.
///
/// # Errors
/// Returns the number of threads that were started, and the error for the next thread, if a thread cannot be started.
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
mod tests {
    use super::*;

    #[test]
    fn the_number_of_startable_threads_is_measured() {
        assert!(try_threads(40).is_ok());
        let mut left = 7;
        let failed = start_all(9, || {
            left -= 1;
            if left < 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        assert_eq!(failed.unwrap_err().0, 7);
    }
}
