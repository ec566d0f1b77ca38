//! Runs work on all databases in parallel while the calling thread monitors progress.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Interval at which the progress is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` for each database number below `count`, each in its own thread. Calls `look` repeatedly until all
/// threads have finished. Returns the duration in seconds and the outcome for each database.
pub(crate) fn run_with_progress(
    count: usize,
    work: impl Fn(usize) -> Result<(), Error> + Sync,
    mut look: impl FnMut(Duration),
) -> Vec<(f64, Result<(), Error>)> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let work = &work;
        let spawn_work = |database| scope.spawn(move || (work(database), began.elapsed().as_secs_f64()));
        let running: Vec<_> = (0..count).map(spawn_work).collect();
        while !running.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(POLL_INTERVAL);
            look(began.elapsed());
        }
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok((outcome, seconds)) => (seconds, outcome),
            Err(_) => (began.elapsed().as_secs_f64(), Err(Error::ThreadPanicked)),
        });
        ended.collect()
    })
}
