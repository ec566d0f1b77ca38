//! Interim results: a thread rewrites `result.json` during the run, so that a killed run leaves its figures so far. Neither
//! the load nor the measurement waits for the thread: a state that arrives while it writes replaces the waiting one.
//!
//! The file is written under another name and renamed, but not synced, because a sync may make the tested file system
//! write all its dirty data. A killed process loses nothing; after a power failure the file may be an older one or empty.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::result::RunResult;

/// Shortest time between two states.
const EVERY: Duration = Duration::from_secs(10);

/// Shortest time between two states, as a multiple of the time that the last one took: a long run has much to write.
const IDLE: u32 = 100;

/// Assembles a result from its own copies of the inputs.
pub(crate) type Assembly = Box<dyn FnOnce() -> RunResult + Send>;

/// The thread and the state that waits for it.
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
    /// Time that the last state took; `None` while one is being written.
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

    /// Hands a state over, and replaces one that waits.
    pub(crate) fn put(&mut self, assembly: Assembly) {
        self.put = Some(Instant::now());
        self.slot.state.lock().next = Some(assembly);
        self.slot.changed.notify_one();
    }

    /// Writes the waiting state and ends the thread. After a write error no further write was tried.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        self.slot.state.lock().ended = true;
        self.slot.changed.notify_one();
        let stopped = || Err(io::Error::other("the writer thread panicked"));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| stopped()))
    }
}

impl Drop for Interim {
    /// Ends the thread, so that the next writer of the file is the only one.
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
