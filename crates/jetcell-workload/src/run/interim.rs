//! `result.json` while the run goes on: rewritten now and then by a thread of its own, so that a killed run leaves what
//! was known. Neither the load nor its measurement waits for it: what comes while it writes replaces what waits.
//!
//! The file is written aside and renamed, but not synced: a sync may make the tested file system write everything it
//! holds back. A killed process loses nothing by that; after a power cut the file may be an older one or empty.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::result::RunResult;

/// Least time between two states.
const EVERY: Duration = Duration::from_secs(10);

/// Least time between two states, in times of what the last one took: a long run has much to write.
const IDLE: u32 = 100;

/// Puts a result together from copies of what it needs.
pub(crate) type Assembly = Box<dyn FnOnce() -> RunResult + Send>;

/// The thread and what waits for it.
pub(crate) struct Interim {
    slot: Arc<Slot>,
    thread: Option<JoinHandle<io::Result<()>>>,
    put: Option<Instant>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: Option<Assembly>,
    /// What the last one took; `None` while it is written.
    took: Option<Duration>,
    ended: bool,
}

impl Interim {
    /// Starts the thread, which writes `path`.
    pub(crate) fn start(path: PathBuf) -> io::Result<Interim> {
        let slot = Arc::<Slot>::default();
        let work = {
            let slot = slot.clone();
            move || slot.work(&path)
        };
        let thread = std::thread::Builder::new().name("jetcell-interim".into()).spawn(work)?;
        Ok(Interim { slot, thread: Some(thread), put: None })
    }

    /// Whether it is time for another state.
    pub(crate) fn is_due(&self) -> bool {
        let Some(put) = self.put else { return true };
        let state = self.slot.state.lock();
        let idle = state.took.filter(|_| state.next.is_none());
        idle.is_some_and(|took| put.elapsed() >= EVERY.max(took.saturating_mul(IDLE)))
    }

    /// Hands a state over, in place of one that waits; the next is due a while later.
    pub(crate) fn put(&mut self, assembly: Assembly) {
        self.put = Some(Instant::now());
        self.slot.state.lock().next = Some(assembly);
        self.slot.changed.notify_one();
    }

    /// Writes what waits and ends; the error is that of the write that failed, after which none was tried.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        self.slot.state.lock().ended = true;
        self.slot.changed.notify_one();
        let stopped = || Err(io::Error::other("its thread ended"));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| stopped()))
    }
}

impl Drop for Interim {
    /// Whoever writes the file next must be the last to do so.
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Slot {
    fn work(&self, path: &std::path::Path) -> io::Result<()> {
        loop {
            let assembly = {
                let mut state = self.state.lock();
                while state.next.is_none() && !state.ended {
                    self.changed.wait(&mut state);
                }
                match state.next.take() {
                    Some(assembly) => {
                        state.took = None;
                        assembly
                    }
                    None => return Ok(()),
                }
            };
            let began = Instant::now();
            assembly().write_unsynced(path)?;
            self.state.lock().took = Some(began.elapsed());
        }
    }
}
