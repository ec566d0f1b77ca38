//! Maintenance of an array while it is in use: paced rebuilds, and handling of failed members.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jetcell_array::{
    Array, ArrayError, ArrayIoCounters, ArrayMaintenanceThrottle, ArrayState, ArrayStatus, BLOCK, ZONE_ROWS,
};
use jetcell_host::{Cancellation, Pacer};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, Mutex};
use serde_json::json;

use super::activity::ConcurrentActivity;
use super::owner::{ArrayGuard, ArrayOwner, with_exclusive_access};
use crate::directory::{ArrayEventSeverity, ArrayFiles};
use crate::environment::ServiceEnvironment;

/// Target for the mean duration of the load's reads and flushes, including their waits for the array. If the mean is
/// higher, concurrent maintenance pauses longer.
const TARGET_LATENCY: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// Pause when there is nothing to rebuild.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// Minimum pause between two steps. During the pause, an operation that is waiting for the array can acquire it.
pub(crate) const MIN_PAUSE: Duration = Duration::from_millis(1);
/// Size in bytes of a zone on one member.
pub const ZONE_BYTES: u64 = ZONE_ROWS * BLOCK as u64;
/// Interval between two consistency points of LUNs.
const CONSISTENCY_POINT_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the throttle for maintenance that runs alongside a load.
pub(crate) fn maintenance_throttle() -> ArrayMaintenanceThrottle {
    ArrayMaintenanceThrottle::new(TARGET_LATENCY, MAX_PAUSE)
}

/// An array in use, with the state needed by its maintainer and by commands in other processes.
pub(crate) struct ArrayInUse {
    pub owner: Arc<dyn ArrayOwner>,
    pub files: Arc<Mutex<ArrayFiles>>,
    pub environment: ServiceEnvironment,
    pub concurrent_activity: ConcurrentActivity,
    /// State of the array after the maintainer's last step.
    snapshot: Mutex<ArraySnapshot>,
}

/// A snapshot of an array's state that can be read without waiting for the array.
#[derive(Clone, Copy, Default)]
pub struct ArraySnapshot {
    /// Counters since the start of the array.
    pub counters: ArrayIoCounters,
    /// Number of zones completed by all running rebuilds.
    pub zones_done: u64,
    /// Number of zones of all running rebuilds.
    pub zones: u64,
    /// Number of slots without a complete member.
    pub missing: usize,
}

impl ArraySnapshot {
    fn from_array(array: &Array) -> ArraySnapshot {
        let progress = array.rebuild_progress();
        let missing = match array.status().state {
            ArrayState::Optimal => 0,
            ArrayState::Degraded(missing) => missing,
            ArrayState::Stopped => array.layout().slots,
        };
        ArraySnapshot {
            counters: array.counters(),
            zones_done: progress.zones_done,
            zones: progress.zones,
            missing,
        }
    }
}

impl ArrayInUse {
    pub fn new(
        owner: Arc<dyn ArrayOwner>,
        files: Arc<Mutex<ArrayFiles>>,
        environment: ServiceEnvironment,
        concurrent_activity: ConcurrentActivity,
    ) -> ArrayInUse {
        let snapshot = Mutex::new(
            with_exclusive_access(&*owner, |held| ArraySnapshot::from_array(held.array()))
                .unwrap_or_default(),
        );
        ArrayInUse { owner, files, environment, concurrent_activity, snapshot }
    }

    /// Returns the state of the array after the maintainer's last step.
    pub fn snapshot(&self) -> ArraySnapshot {
        *self.snapshot.lock()
    }

    /// Rebuilds the array, records failures and makes consistency points until `cancellation` is requested. The load
    /// has exclusive use of the array during the pauses between steps. If `longest_uncommitted` is given, writes to
    /// an array without LUNs are committed after that time at the latest.
    ///
    /// # Errors
    /// Returns an error if the array failed. The load also receives this error.
    pub fn maintain_until_stopped(
        &self,
        longest_uncommitted: Option<Duration>,
        cancellation: &Cancellation,
    ) -> Result<(), ArrayError> {
        let mut maintainer = ArrayMaintainer::new();
        let mut committed = Instant::now();
        while !cancellation.is_cancelled() {
            let step = |mut held: ArrayGuard<'_>| -> Result<MaintenanceStepResult, ArrayError> {
                match &mut held {
                    ArrayGuard::Luns(volume) if committed.elapsed() >= CONSISTENCY_POINT_INTERVAL => {
                        volume.consistency_point()?;
                        committed = Instant::now();
                    }
                    ArrayGuard::Array(array)
                        if longest_uncommitted.is_some_and(|longest| committed.elapsed() >= longest) =>
                    {
                        array.flush()?;
                        committed = Instant::now();
                    }
                    _ => {}
                }
                let array = held.array();
                let maintainer = maintainer.step(array, &self.concurrent_activity);
                *self.snapshot.lock() = ArraySnapshot::from_array(array);
                maintainer
            };
            let Some(care) = with_exclusive_access(&*self.owner, step) else { return Ok(()) };
            let MaintenanceStepResult { changes, pause } = care?;
            self.record_changes(&changes);
            cancellation.sleep(pause.max(MIN_PAUSE));
        }
        let last =
            with_exclusive_access(&*self.owner, |held| maintainer.new_failures(&held.array().status()));
        self.record_changes(&last.unwrap_or_default());
        Ok(())
    }

    fn record_changes(&self, changes: &[ArrayChange]) {
        if changes.is_empty() {
            return;
        }
        let mut files = self.files.lock();
        changes.iter().for_each(|change| change.record(&mut files));
        // The status is read while the file is locked, so an older status never replaces a newer one.
        let status = with_exclusive_access(&*self.owner, |held| held.array().status());
        if let Some(Err(failure)) = status.map(|status| files.save_members(&status)) {
            self.environment.note(failure.full_text());
        }
    }
}

/// Maintenance of an array that other threads read and write.
struct ArrayMaintainer {
    throttle: ArrayMaintenanceThrottle,
    /// Number of failed members that have already been recorded.
    recorded_failures: usize,
    rebuild: Option<RunningRebuild>,
}

/// A running rebuild.
struct RunningRebuild {
    began: Instant,
    /// Number of bytes written to replacements.
    bytes: u64,
    rows_lost: u64,
}

/// A change that a maintainer step detected or caused.
#[derive(Debug)]
enum ArrayChange {
    MemberFailed(PathBuf),
    RebuildStarted,
    /// A rebuild completed. Its duration includes the pauses for the load.
    RebuildCompleted {
        rows_lost: u64,
        bytes: u64,
        time: Duration,
    },
}

/// Result of a maintainer step.
struct MaintenanceStepResult {
    changes: Vec<ArrayChange>,
    /// Time during which the load should have exclusive use of the array.
    pause: Duration,
}

impl ArrayMaintainer {
    fn new() -> ArrayMaintainer {
        ArrayMaintainer { throttle: maintenance_throttle(), recorded_failures: 0, rebuild: None }
    }

    /// Returns the members that failed since the last call.
    fn new_failures(&mut self, status: &ArrayStatus) -> Vec<ArrayChange> {
        let failed = status.failed.iter().skip(self.recorded_failures).cloned();
        let changes = failed.map(ArrayChange::MemberFailed).collect();
        self.recorded_failures = status.failed.len();
        changes
    }

    /// Records failed members, and rebuilds some rows if there is something to rebuild.
    ///
    /// # Errors
    /// Returns an error if the array has stopped.
    fn step(
        &mut self,
        array: &mut Array,
        beside: &ConcurrentActivity,
    ) -> Result<MaintenanceStepResult, ArrayError> {
        let status = array.status();
        let mut changes = self.new_failures(&status);
        if status.state == ArrayState::Stopped {
            // If the array has stopped, this returns the error that stopped it.
            array.flush()?;
        }
        let before = array.rebuild_progress();
        if before.is_complete() {
            return Ok(MaintenanceStepResult { changes, pause: IDLE_PAUSE });
        }
        let mut rebuild = self.rebuild.take().unwrap_or_else(|| {
            changes.push(ArrayChange::RebuildStarted);
            RunningRebuild { began: Instant::now(), bytes: 0, rows_lost: 0 }
        });
        let meter = array.load_meter();
        let (progress, pause) = self.throttle.step(&meter, |rows| array.rebuild_rows(rows));
        let progress = progress?;
        rebuild.rows_lost += progress.rows_lost;
        beside.rows_lost.fetch_add(progress.rows_lost, Ordering::Relaxed);
        let bytes = progress.zones_since(&before) * ZONE_BYTES;
        rebuild.bytes += bytes;
        if progress.is_complete() {
            *beside.rate.lock() = None;
            let RunningRebuild { began, bytes, rows_lost } = rebuild;
            changes.push(ArrayChange::RebuildCompleted { rows_lost, bytes, time: began.elapsed() });
            return Ok(MaintenanceStepResult { changes, pause: IDLE_PAUSE });
        }
        self.rebuild = Some(rebuild);
        let at_rate = beside.rate.lock().map_or(Duration::ZERO, |rate| Pacer::transfer_time(bytes, rate));
        Ok(MaintenanceStepResult { changes, pause: pause.max(at_rate) })
    }
}

impl ArrayChange {
    /// Adds an event for the change to the array's event file.
    fn record(&self, files: &mut ArrayFiles) {
        let (name, severity, text, figures) = match self {
            ArrayChange::MemberFailed(path) => {
                let text = format!("{} failed and was removed.", path.display());
                (
                    "member_failed",
                    ArrayEventSeverity::Warning,
                    text,
                    json!({ "member": jetcell_input::json_path(path) }),
                )
            }
            ArrayChange::RebuildStarted => (
                "rebuild_started",
                ArrayEventSeverity::Information,
                "A rebuild has started.".into(),
                json!({}),
            ),
            ArrayChange::RebuildCompleted { rows_lost, bytes, time } => {
                return files.rebuild_completed(*bytes, time.as_secs_f64(), *rows_lost);
            }
        };
        files.event(name, severity, &text, figures);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jetcell_array::{AssembleOptions, CreateArrayOptions, RaidLevel};
    use jetcell_vfs::{OpenMode, SimVfs, Vfs};

    use super::*;

    const LENGTH: u64 = 16 << 20;

    #[test]
    fn a_rebuild_under_load_reports_bytes_written_and_duration() {
        let disk = SimVfs::new();
        let file = |number: usize| {
            let path = PathBuf::from(format!("/a/m{number}"));
            disk.open(&path, OpenMode::CreateNew).unwrap().grow(LENGTH).unwrap();
            path
        };
        let members: Vec<PathBuf> = (0..3).map(file).collect();
        let options =
            CreateArrayOptions { journal_images: 64, ..CreateArrayOptions::new(RaidLevel::Raid5, 7) };
        Array::create(&disk, &members, &options).unwrap();
        let mut array =
            Array::assemble(Arc::new(disk.clone()), &members, AssembleOptions::default()).unwrap();
        let zones = array.layout().zones();
        let (mut caretaker, beside) = (ArrayMaintainer::new(), ConcurrentActivity::default());
        assert!(caretaker.step(&mut array, &beside).unwrap().changes.is_empty());
        array.add_spare(&file(3), false).unwrap();
        array.fail(1).unwrap();
        // Several rebuilds run in sequence: each counts only its own writes.
        for number in [4, 5] {
            let mut found = vec![];
            while !matches!(found.last(), Some(ArrayChange::RebuildCompleted { .. })) {
                found.extend(caretaker.step(&mut array, &beside).unwrap().changes);
            }
            assert_eq!(
                found.iter().filter(|change| matches!(change, ArrayChange::RebuildStarted)).count(),
                1
            );
            let Some(ArrayChange::RebuildCompleted { rows_lost: 0, bytes, time }) = found.last() else {
                panic!("{found:?}")
            };
            assert!(*bytes == zones * ZONE_BYTES && *time > Duration::ZERO, "{found:?}");
            assert!(caretaker.step(&mut array, &beside).unwrap().changes.is_empty());
            array.add_spare(&file(number), false).unwrap();
            array.fail(0).unwrap();
        }
    }
}
