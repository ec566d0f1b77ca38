//! Simulated drives, their accesses in progress, and completion times. All times are model times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_disk_simulation::disk::{DiskCounters, OperationId, SimulatedDisk, StartedActivity};
use jetcell_disk_simulation::drive::{DriveAccess, DriveModel};

/// Minimum size of a drive in bytes. An empty file would leave no room for the drive's cylinders.
const MIN_DRIVE_BYTES: u64 = 1 << 20;

/// A drive number.
pub(crate) type DriveId = usize;

/// A callback invoked when a simulated access completes.
pub(crate) type AccessCompletion = Box<dyn FnOnce() + Send>;

/// A drive that has the size of its file.
struct FileDrive {
    model: DriveModel,
    disk: SimulatedDisk,
}

/// All simulated drives, with the accesses in progress on them.
pub(crate) struct FileDrives {
    model: DriveModel,
    drives: Vec<FileDrive>,
    by_path: BTreeMap<PathBuf, DriveId>,
    /// Completion times of the accesses in progress, with sequence numbers that preserve the order of simultaneous
    /// completions.
    completion_times: BinaryHeap<Reverse<(Duration, u64, DriveId, StartedActivity)>>,
    started: u64,
    completions: BTreeMap<OperationId, AccessCompletion>,
    next_operation: OperationId,
}

impl FileDrives {
    pub fn new(model: DriveModel) -> FileDrives {
        FileDrives {
            model,
            drives: vec![],
            by_path: BTreeMap::new(),
            completion_times: BinaryHeap::new(),
            started: 0,
            completions: BTreeMap::new(),
            next_operation: 0,
        }
    }

    /// Returns the drive of a file whose current length is `bytes`.
    pub fn drive_for(&mut self, path: &Path, bytes: u64) -> DriveId {
        let new = self.drives.len();
        let id = *self.by_path.entry(path.to_path_buf()).or_insert(new);
        if id == new {
            self.drives.push(FileDrive { model: self.model.clone(), disk: SimulatedDisk::default() });
        }
        self.resize(id, bytes);
        id
    }

    /// Adjusts a drive to a new file length.
    pub fn resize(&mut self, id: DriveId, bytes: u64) {
        self.drives[id].model = self.model.with_capacity(bytes.max(MIN_DRIVE_BYTES));
    }

    /// Returns true if writes may complete while they are only in a drive's cache.
    pub fn caches_writes(&self) -> bool {
        self.model.cache().is_some_and(|cache| cache.writes)
    }

    /// Starts accesses. [`FileDrives::advance`] must have been called for the same time first.
    pub fn begin(&mut self, id: DriveId, now: Duration, accesses: Vec<(DriveAccess, AccessCompletion)>) {
        for (access, completion) in accesses {
            let operation = self.operation(completion);
            let FileDrive { model, disk } = &mut self.drives[id];
            disk.push(model, now, operation, access, false);
        }
        self.start(id, now);
    }

    /// Starts a flush. It completes when all cached writes are on the platters.
    pub fn flush(&mut self, id: DriveId, now: Duration, completion: AccessCompletion) {
        let operation = self.operation(completion);
        self.drives[id].disk.flush(operation);
        self.start(id, now);
    }

    fn operation(&mut self, completion: AccessCompletion) -> OperationId {
        self.next_operation += 1;
        self.completions.insert(self.next_operation, completion);
        self.next_operation
    }

    fn start(&mut self, id: DriveId, now: Duration) {
        let FileDrive { model, disk } = &mut self.drives[id];
        while let Some(started) = disk.start(model, now, Duration::ZERO) {
            self.started += 1;
            self.completion_times.push(Reverse((now + started.time, self.started, id, started)));
        }
    }

    /// Returns true if a caller is waiting for an access or a flush. Background activity of drives does not count.
    pub fn has_waiting_callers(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Returns the time of the next completion.
    pub fn next_completion_time(&self) -> Option<Duration> {
        self.completion_times.peek().map(|Reverse((end, ..))| *end)
    }

    /// Completes the accesses that have ended by now. Each drive starts its next access at the moment the previous
    /// one ended, even if this function is called later. Returns the completions, which must be called without
    /// holding a lock.
    pub fn advance(&mut self, now: Duration) -> Vec<AccessCompletion> {
        let mut ended = vec![];
        while let Some(end) = self.next_completion_time().filter(|end| *end <= now) {
            let Some(Reverse((_, _, id, started))) = self.completion_times.pop() else { break };
            self.drives[id].disk.finish(started);
            ended.extend(started.operation.and_then(|operation| self.completions.remove(&operation)));
            self.start(id, end);
        }
        ended
    }

    /// Returns the counters of each drive.
    pub fn counters(&self) -> BTreeMap<PathBuf, DiskCounters> {
        let drive_counters =
            |(path, id): (&PathBuf, &DriveId)| (path.clone(), self.drives[*id].disk.counters);
        self.by_path.iter().map(drive_counters).collect()
    }
}
