//! Rewrites files in a background thread during a run: the interim `result.json`, and the state of a stress test.
//! Neither the load nor the measurement waits for this thread. A job that is submitted while the thread is writing
//! replaces the pending job, if any.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The minimum interval between two writes to a file.
#[derive(Clone, Copy)]
pub(crate) struct WriteInterval {
    /// Minimum time between two jobs.
    pub(crate) every: Duration,
    /// Minimum time between two jobs, as a multiple of the last job's duration.
    pub(crate) idle: u32,
}

/// A job that writes a file. It owns copies of all data that it needs.
pub(crate) type WriteJob = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Runs write jobs on a background thread, with at most one job pending.
pub(crate) struct BackgroundWriter {
    slot: Arc<WriterSlot>,
    interval: WriteInterval,
    thread: Option<JoinHandle<io::Result<()>>>,
    put: Option<Instant>,
}

#[derive(Default)]
struct WriterSlot {
    state: Mutex<WriterState>,
    changed: Condvar,
}

#[derive(Default)]
struct WriterState {
    next: Option<WriteJob>,
    /// Duration of the last job. `None` while a job is running.
    took: Option<Duration>,
    ended: bool,
}

impl BackgroundWriter {
    /// Starts the thread.
    pub(crate) fn start(interval: WriteInterval) -> io::Result<BackgroundWriter> {
        let slot = Arc::<WriterSlot>::default();
        let work = {
            let slot = slot.clone();
            move || slot.work()
        };
        let thread = std::thread::Builder::new().name("jetcell-writer".into()).spawn(work)?;
        Ok(BackgroundWriter { slot, interval, thread: Some(thread), put: None })
    }

    /// Returns true if another job is due.
    pub(crate) fn is_due(&self) -> bool {
        let Some(put) = self.put else { return true };
        let state = self.slot.state.lock();
        let idle = state.took.filter(|_| state.next.is_none());
        idle.is_some_and(|took| {
            put.elapsed() >= self.interval.every.max(took.saturating_mul(self.interval.idle))
        })
    }

    /// Submits a job, replacing the pending job if there is one.
    pub(crate) fn submit(&mut self, job: WriteJob) {
        self.put = Some(Instant::now());
        self.slot.state.lock().next = Some(job);
        self.slot.changed.notify_one();
    }

    /// Completes the pending job and stops the thread. Returns an error if a job failed. No jobs are run after a
    /// failed job.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        self.slot.state.lock().ended = true;
        self.slot.changed.notify_one();
        let stopped = || Err(io::Error::other("the writer thread panicked"));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| stopped()))
    }
}

impl Drop for BackgroundWriter {
    /// Stops the thread, because no two writers of the same file may run concurrently.
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl WriterSlot {
    fn work(&self) -> io::Result<()> {
        loop {
            let job = {
                let mut state = self.state.lock();
                while state.next.is_none() && !state.ended {
                    self.changed.wait(&mut state);
                }
                match state.next.take() {
                    Some(job) => {
                        state.took = None;
                        job
                    }
                    None => return Ok(()),
                }
            };
            let began = Instant::now();
            job()?;
            self.state.lock().took = Some(began.elapsed());
        }
    }
}
