//! Verifies databases and logs. The verification code shares only the byte formats with the engine.
//!
//! Databases on one spindle are verified sequentially. On other volumes, several databases are verified concurrently,
//! because small databases, and the end phase of a large one, do not keep a device busy. The processors are divided
//! among the verifications, so the memory for pages in flight does not grow with the number of databases.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ese_check::{
    Cancellation, CheckOptions, CheckPhase, Finding, FindingKind, Severity, check_database, check_logs,
    max_check_memory,
};
use ese_format::header::DatabaseState;
use jetcell_vfs::Vfs;
use parking_lot::Mutex;

use crate::engine::VerificationDepth;
use crate::layout::{InstancePlan, LOG_BASE_NAME, RunPlan};
use crate::measurement::{FileVerification, VerificationResult};
use jetcell_host::machine::{BlockDevice, DirectoryStorage};

/// Maximum number of findings kept for each file. The first ones are enough to identify the problem.
const MAX_FINDINGS: usize = 10;

/// Interval between two calls of `progress`. Each call may cancel the verification.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of databases that are verified concurrently on a volume that is not a single spindle.
const MAX_CONCURRENT_DATABASES: usize = 4;
/// Maximum number of databases that are verified concurrently if none is larger than [`SMALL_DATABASE_BYTES`].
/// Verifying a small database mostly means waiting for single pages.
const MAX_CONCURRENT_SMALL_DATABASES: usize = 12;
const SMALL_DATABASE_BYTES: u64 = 256 << 20;

/// Memory for the pages that a single-threaded check reads concurrently, excluding the data that the check keeps
/// about the whole database. Additional threads, regardless of their number, share [`MULTI_THREAD_PAGE_BYTES`]. All
/// checks together use at most as much memory as the cache, which is not allocated during verification.
const SINGLE_THREAD_PAGE_BYTES: u64 = 16 << 20;
const MULTI_THREAD_PAGE_BYTES: u64 = 8 << 20;

/// A database and its logs.
struct VerificationJob<'a> {
    instance: &'a InstancePlan,
    database_bytes: u64,
    log_bytes: u64,
    /// Number of bytes verified.
    done: Arc<AtomicU64>,
    checked: Mutex<Vec<FileVerification>>,
}

impl<'a> VerificationJob<'a> {
    fn new(files: &dyn Vfs, instance: &'a InstancePlan) -> VerificationJob<'a> {
        let (database_bytes, log_bytes) = file_sizes(files, instance);
        VerificationJob {
            instance,
            database_bytes,
            log_bytes,
            done: Arc::default(),
            checked: Mutex::default(),
        }
    }

    /// Returns the amount of work in bytes. At full depth the database is read twice, so its length counts twice.
    fn total(&self, depth: VerificationDepth) -> u64 {
        match depth {
            VerificationDepth::Full => 2 * self.database_bytes + self.log_bytes,
            VerificationDepth::Pages => self.database_bytes,
        }
    }
}

/// Databases on one volume that still await verification, and how many of them may be verified concurrently.
pub(super) struct VolumeQueue {
    jobs: Mutex<VecDeque<usize>>,
    at_a_time: usize,
}

/// Verifies every database and, at full depth, every log. `volumes` contains each database's volume number. Returns
/// `None` if `progress` returned `false`.
pub(super) fn verify(
    files: &Arc<dyn Vfs>,
    plan: &RunPlan,
    volumes: &[usize],
    depth: VerificationDepth,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Option<VerificationResult> {
    let jobs: Vec<VerificationJob<'_>> =
        plan.instances.iter().map(|instance| VerificationJob::new(&**files, instance)).collect();
    let total = jobs.iter().map(|job| job.total(depth)).sum();
    let database_bytes: Vec<u64> = jobs.iter().map(|job| job.database_bytes).collect();
    let queues = queues(plan, volumes, &database_bytes);
    let largest = database_bytes.iter().copied().max().unwrap_or(0);
    let kept = if depth == VerificationDepth::Full { max_check_memory(largest) } else { 0 };
    let lanes = lanes(&queues, plan.cache_bytes / (SINGLE_THREAD_PAGE_BYTES + kept));
    let at_a_time = lanes.len().max(1);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let room =
        plan.cache_bytes / at_a_time as u64 >= SINGLE_THREAD_PAGE_BYTES + kept + MULTI_THREAD_PAGE_BYTES;
    let threads = if room { (processors / at_a_time).max(1) } else { 1 };
    let cancel = Cancellation::default();
    let (ended, end) = channel::<()>();
    let went_on = std::thread::scope(|scope| {
        for lane in &lanes {
            let (jobs, cancel, ended) = (&jobs, &cancel, ended.clone());
            scope.spawn(move || {
                let _ended: Sender<()> = ended;
                run_jobs(lane, |job| verify_job(files, &jobs[job], depth, threads, cancel));
            });
        }
        drop(ended);
        loop {
            let done = jobs.iter().map(|job| job.done.load(Ordering::Relaxed)).sum();
            if !progress(done, total) {
                // The threads stop at their next page. Their findings are discarded.
                cancel.cancel();
                return false;
            }
            if end.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Disconnected) {
                return progress(total, total);
            }
        }
    });
    let files = jobs.into_iter().flat_map(|job| job.checked.into_inner()).collect();
    went_on.then(|| VerificationResult { files, ..VerificationResult::default() })
}

/// Groups the databases by volume.
pub(super) fn queues(plan: &RunPlan, volumes: &[usize], database_bytes: &[u64]) -> Vec<VolumeQueue> {
    let count = volumes.iter().max().map_or(0, |last| last + 1);
    let of_volume = |volume: usize| {
        let jobs: VecDeque<usize> = (0..volumes.len()).filter(|job| volumes[*job] == volume).collect();
        let first = jobs.front().map(|job| &plan.instances[*job].database);
        let spindle = first.is_some_and(|database| {
            let directory = database.parent().filter(|parent| *parent != Path::new(""));
            let device = DirectoryStorage::examine(directory.unwrap_or(Path::new("."))).device;
            device.is_some_and(|device| is_spindle(&device, Path::new("/sys/block")))
        });
        let small = jobs.iter().all(|job| database_bytes[*job] <= SMALL_DATABASE_BYTES);
        let most = match (spindle, small) {
            (true, _) => 1,
            (false, true) => MAX_CONCURRENT_SMALL_DATABASES,
            (false, false) => MAX_CONCURRENT_DATABASES,
        };
        let at_a_time = jobs.len().min(most);
        VolumeQueue { jobs: Mutex::new(jobs), at_a_time }
    };
    (0..count).map(of_volume).collect()
}

/// Returns true if the device is a single rotating disk. `block` is the kernel's `/sys/block` directory.
fn is_spindle(device: &BlockDevice, block: &Path) -> bool {
    let parts = fs::read_dir(block.join(&device.name).join("slaves"));
    // The kernel reports a virtual disk as rotational because it does not know the underlying device.
    let known = !device.name.starts_with("vd") && !device.name.starts_with("xvd");
    known && device.rotational == Some(true) && parts.map_or(0, Iterator::count) <= 1
}

/// Takes jobs from these queues and runs them until the queues are empty. Other threads may share the queues.
pub(super) fn run_jobs(lane: &[&VolumeQueue], mut verify: impl FnMut(usize)) {
    for queue in lane {
        // The lock is released before the job runs.
        let next = || queue.jobs.lock().pop_front();
        while let Some(job) = next() {
            verify(job);
        }
    }
}

/// Assigns queues to threads. Each thread processes its queues in order. A thread normally has one queue. If memory
/// allows only `most` concurrent checks, a thread may have several.
pub(super) fn lanes(queues: &[VolumeQueue], most: u64) -> Vec<Vec<&VolumeQueue>> {
    let wanted = queues.iter().flat_map(|queue| std::iter::repeat_n(queue, queue.at_a_time));
    let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
    let mut lanes: Vec<Vec<&VolumeQueue>> = Vec::new();
    for (number, queue) in wanted.enumerate() {
        match lanes.get_mut(number % most) {
            Some(lane) => lane.push(queue),
            None => lanes.push(vec![queue]),
        }
    }
    lanes
}

fn verify_job(
    files: &Arc<dyn Vfs>,
    job: &VerificationJob<'_>,
    depth: VerificationDepth,
    threads: usize,
    cancel: &Cancellation,
) {
    if cancel.is_cancelled() {
        return;
    }
    let mut checked = vec![verify_database(files, job, depth, threads, cancel)];
    if depth == VerificationDepth::Full {
        checked.push(verify_logs(&**files, &job.instance.log_dir, cancel));
    }
    job.done.store(job.total(depth), Ordering::Relaxed);
    *job.checked.lock() = checked;
}

/// Returns the sizes of the database and its logs in bytes.
fn file_sizes(files: &dyn Vfs, instance: &InstancePlan) -> (u64, u64) {
    let logs = files.list(&instance.log_dir).unwrap_or_default();
    let bytes = |path: &PathBuf| files.file_len(path).unwrap_or(0);
    (bytes(&instance.database), logs.iter().map(bytes).sum())
}

/// Verifies a database's pages and, at full depth, its trees.
fn verify_database(
    files: &Arc<dyn Vfs>,
    job: &VerificationJob<'_>,
    depth: VerificationDepth,
    threads: usize,
    cancel: &Cancellation,
) -> FileVerification {
    let (path, len, done) = (&job.instance.database, job.database_bytes, job.done.clone());
    let everything = depth == VerificationDepth::Full;
    let progress = move |progress: ese_check::CheckProgress| {
        let part = (u128::from(len) * u128::from(progress.done)).checked_div(u128::from(progress.total));
        let part = part.map_or(len, |part| part as u64);
        // At full depth, pages that belong to no tree are checked last.
        let before = if everything && progress.phase == CheckPhase::Pages { len } else { 0 };
        done.fetch_max(before + part, Ordering::Relaxed);
    };
    let options = CheckOptions {
        structure: everything,
        threads: Some(threads),
        progress: Some(Arc::new(progress)),
        cancel: cancel.clone(),
        ..CheckOptions::default()
    };
    let mut report = match check_database(&**files, path, &options) {
        Ok(report) => report,
        Err(error) => return unreadable(path, &error),
    };
    if !report.clean && everything {
        report.findings.insert(0, not_shut_down(path, report.state));
    }
    let pages = report.pages.unwrap_or_default();
    let damaged = pages.wrong_page + pages.bad + pages.unreadable;
    let lost_writes =
        report.findings.iter().filter(|finding| finding.kind == FindingKind::PageLostWrite).count() as u64;
    // Structural errors can occur without a damaged page, but the file must still fail the verification.
    let is_other = |finding: &&Finding| {
        !matches!(finding.kind, FindingKind::PageRepairable | FindingKind::PageLostWrite)
    };
    let bad = if damaged > 0 { damaged } else { report.errors().filter(is_other).count() as u64 };
    FileVerification {
        path: path.to_path_buf(),
        blocks: pages.examined(),
        bad,
        repaired: pages.repairable,
        lost_writes,
        findings: lines(report.errors()),
    }
}

fn not_shut_down(path: &Path, state: DatabaseState) -> Finding {
    let what = format!("the database is in state {state:?} after the run");
    Finding::for_file(path, FindingKind::DirtyDatabase, Severity::Error, what)
}

fn verify_logs(files: &dyn Vfs, directory: &Path, cancel: &Cancellation) -> FileVerification {
    let report = match check_logs(files, directory, &LOG_BASE_NAME, cancel) {
        Ok(report) => report,
        Err(error) => return unreadable(directory, &error),
    };
    let errors = || report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    FileVerification {
        path: directory.to_path_buf(),
        blocks: report.logs.iter().map(|log| u64::from(log.valid_segments)).sum(),
        bad: errors().count() as u64,
        findings: lines(errors()),
        ..FileVerification::default()
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> FileVerification {
    let findings = vec![error.to_string()];
    FileVerification { path: path.to_path_buf(), bad: 1, findings, ..FileVerification::default() }
}

fn lines<'a>(errors: impl Iterator<Item = &'a Finding>) -> Vec<String> {
    errors.take(MAX_FINDINGS).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn queue(jobs: usize, at_a_time: usize) -> VolumeQueue {
        VolumeQueue { jobs: Mutex::new((0..jobs).collect()), at_a_time }
    }

    #[test]
    fn low_memory_limits_parallel_checks_but_covers_all_volumes() {
        let queues = [queue(5, 1), queue(5, 3)];
        let places = |most| {
            let lanes = lanes(&queues, most);
            let place =
                |queue: &&VolumeQueue| queues.iter().position(|other| std::ptr::eq(other, *queue)).unwrap();
            lanes.iter().map(|lane| lane.iter().map(place).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(places(u64::MAX), [[0], [1], [1], [1]]);
        assert_eq!(places(2), [[0, 1], [1, 1]]);
        assert_eq!(places(0), [[0, 1, 1, 1]]);
    }

    #[test]
    fn only_a_single_rotational_disk_is_a_spindle() {
        let block = tempfile::tempdir().unwrap();
        for part in ["sda/slaves", "dm-0/slaves/sda", "md0/slaves/sda", "md0/slaves/sdb"] {
            fs::create_dir_all(block.path().join(part)).unwrap();
        }
        let counts_as_spindle = |name: &str, rotational| {
            let (model, scheduler, queue_requests, write_cache) = (None, None, None, None);
            let name = name.to_string();
            let device = BlockDevice { name, model, rotational, scheduler, queue_requests, write_cache };
            is_spindle(&device, block.path())
        };
        assert!(
            counts_as_spindle("sda", Some(true)) && counts_as_spindle("dm-0", Some(true)),
            "a disk, and a volume on one"
        );
        assert!(
            !counts_as_spindle("sda", Some(false)) && !counts_as_spindle("sda", None),
            "a device that is not rotational, or is unknown"
        );
        assert!(!counts_as_spindle("md0", Some(true)), "several disks");
        assert!(
            !counts_as_spindle("vda", Some(true)) && !counts_as_spindle("xvda", Some(true)),
            "virtual disks"
        );
    }

    /// Verifies that a spindle processes one database at a time, other volumes process several, and all volumes run
    /// concurrently.
    #[test]
    fn volumes_are_verified_in_parallel_and_spindles_serially() {
        let queues = [queue(3, 1), queue(4, 2)];
        let lanes = lanes(&queues, u64::MAX);
        // The barrier opens only if one database on the spindle and two on the other volume are verified
        // concurrently.
        let (together, first) = (Barrier::new(3), AtomicU64::new(0));
        let (busy, most) = ([AtomicU64::new(0), AtomicU64::new(0)], [AtomicU64::new(0), AtomicU64::new(0)]);
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for lane in &lanes {
                let volume = usize::from(std::ptr::eq(lane[0], &raw const queues[1]));
                let (busy, most, first, together, done) = (&busy, &most, &first, &together, &done);
                scope.spawn(move || {
                    run_jobs(lane, |_| {
                        let now = busy[volume].fetch_add(1, Ordering::SeqCst) + 1;
                        most[volume].fetch_max(now, Ordering::SeqCst);
                        if first.fetch_add(1, Ordering::SeqCst) < 3 {
                            together.wait();
                        }
                        std::thread::sleep(Duration::from_millis(5));
                        busy[volume].fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                    });
                });
            }
        });
        assert_eq!(most.map(AtomicU64::into_inner), [1, 2]);
        assert_eq!(done.into_inner(), 7);
    }
}
