//! Drives, what they are doing, and when it ends. Times are those of the model.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_disk_simulation::disk::{Disk, DiskCounters, OperationId, Started};
use jetcell_disk_simulation::drive::{Access, Drive};

/// The least number of bytes of a drive: an empty file has no place for its cylinders.
const SMALLEST: u64 = 1 << 20;

/// Number of a drive.
pub(crate) type DriveId = usize;

/// Called when an access has taken its time.
pub(crate) type Completion = Box<dyn FnOnce() + Send>;

/// A drive as large as its file.
struct SimulatedDrive {
    model: Drive,
    disk: Disk,
}

/// All drives.
pub(crate) struct Drives {
    model: Drive,
    drives: Vec<SimulatedDrive>,
    by_path: BTreeMap<PathBuf, DriveId>,
    /// Ends of what was started, with numbers that keep the order of equal ones.
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

    /// The drive of a file, which has this many bytes now.
    pub fn of(&mut self, path: &Path, bytes: u64) -> DriveId {
        let new = self.drives.len();
        let id = *self.by_path.entry(path.to_path_buf()).or_insert(new);
        if id == new {
            self.drives.push(SimulatedDrive { model: self.model.clone(), disk: Disk::default() });
        }
        self.resize(id, bytes);
        id
    }

    /// The file of a drive has another length.
    pub fn resize(&mut self, id: DriveId, bytes: u64) {
        self.drives[id].model = self.model.with_capacity(bytes.max(SMALLEST));
    }

    /// Whether writes may wait in the memory of the drives.
    pub fn hold_writes_back(&self) -> bool {
        self.model.cache().is_some_and(|cache| cache.writes)
    }

    /// Begins accesses. [`Drives::advance`] to the same time must come before.
    pub fn begin(&mut self, id: DriveId, now: Duration, accesses: Vec<(Access, Completion)>) {
        for (access, completion) in accesses {
            let operation = self.operation(completion);
            let SimulatedDrive { model, disk } = &mut self.drives[id];
            disk.push(model, now, operation, access, false);
        }
        self.start(id, now);
    }

    /// Begins a flush, which ends when everything that was held back is on the plates.
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

    /// Whether anyone waits for an access or a flush. What drives do of themselves is not awaited.
    pub fn is_awaited(&self) -> bool {
        !self.completions.is_empty()
    }

    /// When the next thing ends.
    pub fn next_end(&self) -> Option<Duration> {
        self.ends.peek().map(|Reverse((end, ..))| *end)
    }

    /// Ends what has ended by now. Each drive begins its next access at the time at which the last one ended, however late this is
    /// called. Returns what is to be called, without a lock.
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

    /// What each drive did.
    pub fn counters(&self) -> BTreeMap<PathBuf, DiskCounters> {
        let of = |(path, id): (&PathBuf, &DriveId)| (path.clone(), self.drives[*id].disk.counters);
        self.by_path.iter().map(of).collect()
    }
}
