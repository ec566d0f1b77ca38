//! All drives with their clock, and the thread that completes accesses.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_disk_simulation::disk::DiskCounters;
use jetcell_disk_simulation::drive::{DriveAccess, DriveModel};
use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Condvar, Mutex};
use jetcell_vfs::{Clock, RealClock, SimClock, abort_on_panic};

use crate::drives::{AccessCompletion, DriveId, FileDrives};

/// Source of the drives' time.
enum TimeSource {
    Real { clock: RealClock, scale: f64 },
    Simulated(Arc<SimClock>),
}

struct SchedulerState {
    drives: FileDrives,
    /// Whether the drives were closed. After that, no further accesses are started.
    is_closed: bool,
}

struct SharedScheduler {
    state: Mutex<SchedulerState>,
    /// Signalled when the next completion moves to an earlier time, or when the drives are closed.
    changed: Condvar,
    time: TimeSource,
}

/// Schedules accesses to all drives on a background thread. Dropping it waits for the accesses in progress.
pub(crate) struct DriveScheduler {
    shared: Arc<SharedScheduler>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl DriveScheduler {
    /// Creates drives in real time. Model time passes `scale` times as fast as real time.
    pub fn in_real_time(drive: DriveModel, scale: f64) -> io::Result<DriveScheduler> {
        let time = TimeSource::Real { clock: RealClock::new(), scale: scale.max(1e-3) };
        let shared = Arc::new(SharedScheduler::new(drive, time));
        let works = shared.clone();
        let thread = jetcell_sync::thread::Builder::new().name("drives".into());
        let thread = thread.spawn(move || abort_on_panic(|| works.end_accesses()))?;
        Ok(DriveScheduler { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Creates drives that follow a simulated clock and advance it.
    pub fn in_simulated_time(drive: DriveModel, clock: Arc<SimClock>) -> DriveScheduler {
        let shared = Arc::new(SharedScheduler::new(drive, TimeSource::Simulated(clock)));
        DriveScheduler { shared, thread: Mutex::new(None) }
    }

    /// Returns the drive of a file whose current length is `bytes`.
    pub fn drive_for(&self, path: &Path, bytes: u64) -> DriveId {
        self.shared.state.lock().drives.drive_for(path, bytes)
    }

    /// Returns the counters of each drive.
    pub fn counters(&self) -> BTreeMap<PathBuf, DiskCounters> {
        self.shared.state.lock().drives.counters()
    }

    /// Starts accesses on a drive.
    pub fn begin(&self, id: DriveId, accesses: Vec<(DriveAccess, AccessCompletion)>) {
        self.shared.begin(|drives, now| drives.begin(id, now, accesses));
    }

    /// Starts a flush of a drive.
    pub fn flush(&self, id: DriveId, completion: AccessCompletion) {
        self.shared.begin(|drives, now| drives.flush(id, now, completion));
    }

    /// Returns true if a sync must wait for a drive flush.
    pub fn has_flushes(&self) -> bool {
        self.shared.state.lock().drives.caches_writes()
    }

    /// Adjusts a drive to a new file length.
    pub fn resize(&self, id: DriveId, bytes: u64) {
        self.shared.state.lock().drives.resize(id, bytes);
    }
}

impl Drop for DriveScheduler {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().take();
        let myself = jetcell_sync::thread::current().id();
        // A completion may drop the last file. In that case, this code runs on the drives' own thread, which cannot
        // join itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != myself) {
            let _ = thread.join();
        }
    }
}

impl SharedScheduler {
    fn new(drive: DriveModel, time: TimeSource) -> SharedScheduler {
        let state = SchedulerState { drives: FileDrives::new(drive), is_closed: false };
        SharedScheduler { state: Mutex::new(state), changed: Condvar::new(), time }
    }

    /// Returns the model time.
    fn now(&self) -> Duration {
        match &self.time {
            TimeSource::Real { clock, scale } => clock.monotonic().mul_f64(*scale),
            TimeSource::Simulated(clock) => clock.monotonic(),
        }
    }

    fn begin(&self, begin: impl FnOnce(&mut FileDrives, Duration)) {
        let mut state = self.state.lock();
        let now = self.now();
        let mut ended = state.drives.advance(now);
        let before = state.drives.next_completion_time();
        begin(&mut state.drives, now);
        match &self.time {
            TimeSource::Real { .. } => {
                // Accesses that take no time have completed already.
                ended.extend(state.drives.advance(now));
                let next = state.drives.next_completion_time();
                if next.is_some_and(|next| before.is_none_or(|before| next < before)) {
                    self.changed.notify_all();
                }
            }
            TimeSource::Simulated(clock) => {
                while let Some(end) =
                    state.drives.next_completion_time().filter(|_| state.drives.has_waiting_callers())
                {
                    clock.advance(end.saturating_sub(clock.monotonic()));
                    let completions = state.drives.advance(end);
                    drop(state);
                    completions.into_iter().for_each(|completion| completion());
                    state = self.state.lock();
                }
            }
        }
        drop(state);
        ended.into_iter().for_each(|completion| completion());
    }

    /// Completes accesses on the drives' thread.
    fn end_accesses(&self) {
        let TimeSource::Real { scale, .. } = &self.time else { return };
        let mut state = self.state.lock();
        loop {
            let now = self.now();
            let ended = state.drives.advance(now);
            if !ended.is_empty() {
                drop(state);
                ended.into_iter().for_each(|completion| completion());
                state = self.state.lock();
                continue;
            }
            match state.drives.next_completion_time() {
                // A timer may fire slightly too early, so the time is checked again.
                Some(end) => {
                    self.changed.wait_for(&mut state, end.saturating_sub(now).div_f64(*scale));
                }
                None if state.is_closed => return,
                None => self.changed.wait(&mut state),
            }
        }
    }
}
