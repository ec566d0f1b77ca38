//! Work on all databases at the same time, while this thread watches.

use std::time::{Duration, Instant};

use ese_engine::Error;

/// Interval between two looks at the progress.
const TICK: Duration = Duration::from_millis(50);

/// Runs `work` on databases 0 to `count` in a thread each, and calls `look` until all have ended. Returns the seconds and
/// the outcome of each.
pub(crate) fn in_parallel(
    count: usize,
    work: impl Fn(usize) -> Result<(), Error> + Sync,
    mut look: impl FnMut(Duration),
) -> Vec<(f64, Result<(), Error>)> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let work = &work;
        let one = |database| scope.spawn(move || (work(database), began.elapsed().as_secs_f64()));
        let running: Vec<_> = (0..count).map(one).collect();
        while !running.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(TICK);
            look(began.elapsed());
        }
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok((outcome, seconds)) => (seconds, outcome),
            Err(_) => (began.elapsed().as_secs_f64(), Err(Error::Internal("a thread panicked".into()))),
        });
        ended.collect()
    })
}
