//! A thread that copies data into the transfer buffers of zones, and computes parity and records. While it works, the
//! writer can supply the next zone.

use std::io;

use jetcell_sync::mpsc::{Receiver, Sender, channel};
use jetcell_sync::thread;

use crate::array::rows::{FreeRowWrite, RowEncoder, ZoneWrite};

struct ZoneFillJob {
    write: ZoneWrite,
    coding: RowEncoder,
    rows: Vec<FreeRowWrite>,
}

/// A worker thread, which ends when this value is dropped.
pub(super) struct ZoneWorker {
    jobs: Sender<ZoneFillJob>,
    filled: Receiver<(ZoneWrite, Vec<FreeRowWrite>)>,
}

impl ZoneWorker {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start() -> io::Result<ZoneWorker> {
        let (jobs, waiting) = channel::<ZoneFillJob>();
        let (done, filled) = channel();
        let work = move || {
            for ZoneFillJob { mut write, coding, rows } in waiting {
                write.fill(&coding, &rows);
                if done.send((write, rows)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("parity".into()).spawn(work)?;
        Ok(ZoneWorker { jobs, filled })
    }

    /// Starts filling the buffers of a write on the worker thread. [`ZoneWorker::next_filled`] returns the writes in
    /// the order in which they were started.
    ///
    /// # Panics
    /// Panics if the computation of an earlier write panicked.
    pub fn fill(&self, write: ZoneWrite, coding: RowEncoder, rows: Vec<FreeRowWrite>) {
        self.jobs.send(ZoneFillJob { write, coding, rows }).expect("the thread lives as long as this");
    }

    /// Waits for the next filled write. Returns the write and its rows.
    ///
    /// # Panics
    /// Panics if the computation of the write panicked.
    pub fn next_filled(&self) -> (ZoneWrite, Vec<FreeRowWrite>) {
        self.filled.recv().expect("the thread lives as long as this")
    }
}
