//! Simulated drives, their accesses in progress, and completion times. All times are model times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_disk_simulation::disk::{Disk, DiskCounters, OperationId, Started};
use jetcell_disk_simulation::drive::{Access, Drive};

/// Minimum size of a drive in bytes. An empty file would leave no room for the drive's cylinders.
const MIN_DRIVE_BYTES: u64 = 1 << 20;

/// Number of a drive.
pub(crate) type DriveId = usize;

/// Function that is called once an access has taken its time.
pub(crate) type Completion = Box<dyn FnOnce() + Send>;

/// A drive that has the size of its file.
struct SimulatedDrive {
    model: Drive,
    disk: Disk,
}

/// All simulated drives.
pub(crate) struct Drives {
    model: Drive,
    drives: Vec<SimulatedDrive>,
    by_path: BTreeMap<PathBuf, DriveId>,
    /// Completion times of the accesses in progress, with sequence numbers that preserve the order of simultaneous
    /// completions.
    ends: BinaryHeap<Reverse<(Duration, u64, DriveId, Started)>>,
    started: u64,
    completions: BTreeMap<OperationId, Completion>,
    next_operation: OperationId,
}

impl Drives {
    pub fn new(model: Drive) -> Drives {
        Drives {
            model,
            drives: vec![],
            by_path: BTreeMap::new(),
            ends: BinaryHeap::new(),
            started: 0,
            completions: BTreeMap::new(),
            next_operation: 0,
        }
    }

    /// Returns a file's drive. The file currently has this many bytes.
    pub fn of(&mut self, path: &Path, bytes: u64) -> DriveId {
        let new = self.drives.len();
        let id = *self.by_path.entry(path.to_path_buf()).or_insert(new);
        if id == new {
            self.drives.push(SimulatedDrive { model: self.model.clone(), disk: Disk::default() });
        }
        self.resize(id, bytes);
        id
    }

    /// Adjusts a drive to a new file length.
    pub fn resize(&mut self, id: DriveId, bytes: u64) {
        self.drives[id].model = self.model.with_capacity(bytes.max(MIN_DRIVE_BYTES));
    }

    /// Returns true if writes may complete while they are only in a drive's cache.
    pub fn hold_writes_back(&self) -> bool {
        self.model.cache().is_some_and(|cache| cache.writes)
    }

    /// Starts accesses. [`Drives::advance`] must have been called for the same time first.
    pub fn begin(&mut self, id: DriveId, now: Duration, accesses: Vec<(Access, Completion)>) {
        for (access, completion) in accesses {
            let operation = self.operation(completion);
            let SimulatedDrive { model, disk } = &mut self.drives[id];
            disk.push(model, now, operation, access, false);
        }
        self.start(id, now);
    }

    /// Starts a flush. It completes when all cached writes are on the platters.
    pub fn flush(&mut self, id: DriveId, now: Duration, completion: Completion) {
        let operation = self.operation(completion);
        self.drives[id].disk.flush(operation);
        self.start(id, now);
    }

    fn operation(&mut self, completion: Completion) -> OperationId {
        self.next_operation += 1;
        self.completions.insert(self.next_operation, completion);
        self.next_operation
    }

    fn start(&mut self, id: DriveId, now: Duration) {
        let SimulatedDrive { model, disk } = &mut self.drives[id];
        while let Some(started) = disk.start(model, now, Duration::ZERO) {
            self.started += 1;
            self.ends.push(Reverse((now + started.time, self.started, id, started)));
        }
    }

    /// Returns true if a caller is waiting for an access or a flush. Background activity of drives does not count.
    pub fn is_awaited(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Returns the time of the next completion.
    pub fn next_end(&self) -> Option<Duration> {
        self.ends.peek().map(|Reverse((end, ..))| *end)
    }

    /// Completes the accesses that have ended by now. Each drive starts its next access at the moment the previous
    /// one ended, even if this function is called later. Returns the completions, which must be called without
    /// holding a lock.
    pub fn advance(&mut self, now: Duration) -> Vec<Completion> {
        let mut ended = vec![];
        while let Some(end) = self.next_end().filter(|end| *end <= now) {
            let Some(Reverse((_, _, id, started))) = self.ends.pop() else { break };
            self.drives[id].disk.ended(started);
            ended.extend(started.operation.and_then(|operation| self.completions.remove(&operation)));
            self.start(id, end);
        }
        ended
    }

    /// Returns the counters of each drive.
    pub fn counters(&self) -> BTreeMap<PathBuf, DiskCounters> {
        let of = |(path, id): (&PathBuf, &DriveId)| (path.clone(), self.drives[*id].disk.counters);
        self.by_path.iter().map(of).collect()
    }
}
