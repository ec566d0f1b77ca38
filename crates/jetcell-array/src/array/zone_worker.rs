//! A thread that brings data to the transfers of zones, and computes their parity and records, while their writer fills the next one.

use std::io;

use jetcell_sync::mpsc::{Receiver, Sender, channel};
use jetcell_sync::thread;

use super::zone_write::{Coding, FreeRow, ZoneWrite};

struct Job {
    write: ZoneWrite,
    coding: Coding,
    rows: Vec<FreeRow>,
}

/// Ends when it is dropped.
pub(super) struct ZoneWorker {
    jobs: Sender<Job>,
    filled: Receiver<(ZoneWrite, Vec<FreeRow>)>,
}

impl ZoneWorker {
    /// # Errors
    /// The thread cannot be started.
    pub fn start() -> io::Result<ZoneWorker> {
        let (jobs, waiting) = channel::<Job>();
        let (done, filled) = channel();
        let work = move || {
            for Job { mut write, coding, rows } in waiting {
                write.fill(&coding, &rows);
                if done.send((write, rows)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("parity".into()).spawn(work)?;
        Ok(ZoneWorker { jobs, filled })
    }

    /// Starts to fill a write, which [`ZoneWorker::next_filled`] returns after those that were given before.
    ///
    /// # Panics
    /// Computing an earlier one panicked.
    pub fn fill(&self, write: ZoneWrite, coding: Coding, rows: Vec<FreeRow>) {
        self.jobs.send(Job { write, coding, rows }).expect("the thread lives as long as this");
    }

    /// Waits for the next write. Returns its rows, too.
    ///
    /// # Panics
    /// Computing it panicked.
    pub fn next_filled(&self) -> (ZoneWrite, Vec<FreeRow>) {
        self.filled.recv().expect("the thread lives as long as this")
    }
}
