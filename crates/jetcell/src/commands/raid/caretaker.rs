//! Work on an array beside its load: rebuilds with pauses, and what becomes of its members.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jetcell_array::{Array, ArrayError, ArrayState, Counters, Status, Throttle};
use jetcell_vfs::{Pacer, Vfs};
use serde_json::json;

use super::maintenance::ZONE_BYTES;
use super::operated::{Beside, Held, Holder, held};
use super::running_array::{ArrayFiles, Severity};
use crate::console;

/// Mean time of reads and flushes of the load, with their waits for the array, above which work beside it pauses longer.
const TARGET_LATENCY: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Pause while nothing is to be rebuilt.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// The least pause between two steps, in which an operation that waits for the array gets it.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// Time between two consistency points of LUNs.
pub const POINT_INTERVAL: Duration = Duration::from_secs(10);

/// The pauses of work beside a load.
pub fn throttle() -> Throttle {
    Throttle::new(TARGET_LATENCY, LONGEST_PAUSE)
}

/// An array that others use, with what its caretaker and the commands of other processes need.
pub struct UsedArray {
    pub holder: Arc<dyn Holder>,
    pub files: Arc<Mutex<ArrayFiles>>,
    pub vfs: Arc<dyn Vfs>,
    pub beside: Beside,
    /// The array as the caretaker saw it last.
    seen: Mutex<Seen>,
}

/// What can be read of an array without waiting for it.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    pub counters: Counters,
    /// Of all rebuilds that go on.
    pub zones_done: u64,
    pub zones: u64,
    /// Slots without a whole member.
    pub missing: usize,
}

impl Seen {
    fn of(array: &Array) -> Seen {
        let progress = array.rebuild_progress();
        let missing = match array.status().state {
            ArrayState::Optimal => 0,
            ArrayState::Degraded(missing) => missing,
            ArrayState::Stopped => array.layout().slots,
        };
        Seen { counters: array.counters(), zones_done: progress.zones_done, zones: progress.zones, missing }
    }
}

impl UsedArray {
    pub fn new(
        holder: Arc<dyn Holder>,
        files: Arc<Mutex<ArrayFiles>>,
        vfs: Arc<dyn Vfs>,
        beside: Beside,
    ) -> UsedArray {
        let seen = Mutex::new(held(&*holder, |held| Seen::of(held.array())).unwrap_or_default());
        UsedArray { holder, files, vfs, beside, seen }
    }

    /// The array as it was a moment ago.
    pub fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, ArrayFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rebuilds, notes failures and makes consistency points until it is to stop, with pauses in which the load has the array for
    /// itself. If `longest_uncommitted` is given, writes to an array without LUNs are committed after that time at the latest.
    ///
    /// # Errors
    /// The array failed. The load meets the error as well.
    pub fn look_after(
        &self,
        longest_uncommitted: Option<Duration>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), ArrayError> {
        let mut caretaker = Caretaker::new();
        let mut committed = Instant::now();
        while !is_stopped() {
            let step = |mut held: Held<'_>| -> Result<Care, ArrayError> {
                match &mut held {
                    Held::Luns(volume) if committed.elapsed() >= POINT_INTERVAL => {
                        volume.consistency_point()?;
                        committed = Instant::now();
                    }
                    Held::Array(array)
                        if longest_uncommitted.is_some_and(|longest| committed.elapsed() >= longest) =>
                    {
                        array.flush()?;
                        committed = Instant::now();
                    }
                    _ => {}
                }
                let array = held.array();
                let care = caretaker.step(array, &self.beside);
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::of(array);
                care
            };
            let Some(care) = held(&*self.holder, step) else { return Ok(()) };
            let Care { changes, pause } = care?;
            self.note(&changes);
            thread::sleep(pause.max(SHORTEST_PAUSE));
        }
        let last = held(&*self.holder, |held| caretaker.failures(&held.array().status()));
        self.note(&last.unwrap_or_default());
        Ok(())
    }

    fn note(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let mut files = self.files();
        changes.iter().for_each(|change| change.note(&mut files));
        // The state is taken while no other thread writes the file, so that an older one never replaces it.
        let status = held(&*self.holder, |held| held.array().status());
        if let Some(Err(failure)) = status.map(|status| files.save_members(&status)) {
            console::note(&failure.to_string());
        }
    }
}

/// Looks after an array that others read and write.
struct Caretaker {
    throttle: Throttle,
    /// Members that failed, as far as they were noted.
    failed: usize,
    rebuild: Option<Rebuild>,
}

/// A rebuild that goes on.
struct Rebuild {
    began: Instant,
    /// Written to replacements.
    bytes: u64,
    rows_lost: u64,
}

/// What a step found or did.
#[derive(Debug)]
enum Change {
    MemberFailed(PathBuf),
    RebuildStarted,
    /// Pauses for the load count as time of the rebuild.
    RebuildCompleted {
        rows_lost: u64,
        bytes: u64,
        time: Duration,
    },
}

/// A step.
struct Care {
    changes: Vec<Change>,
    /// How long the load should have the array for itself now.
    pause: Duration,
}

impl Caretaker {
    fn new() -> Caretaker {
        Caretaker { throttle: throttle(), failed: 0, rebuild: None }
    }

    /// Members that failed since the last call.
    fn failures(&mut self, status: &Status) -> Vec<Change> {
        let failed = status.failed.iter().skip(self.failed).cloned();
        let changes = failed.map(Change::MemberFailed).collect();
        self.failed = status.failed.len();
        changes
    }

    /// Notes members that failed, and rebuilds some rows if there is something to rebuild.
    ///
    /// # Errors
    /// The array has stopped.
    fn step(&mut self, array: &mut Array, beside: &Beside) -> Result<Care, ArrayError> {
        let status = array.status();
        let mut changes = self.failures(&status);
        if status.state == ArrayState::Stopped {
            // Says why.
            array.flush()?;
        }
        let before = array.rebuild_progress();
        if before.is_complete() {
            return Ok(Care { changes, pause: IDLE_PAUSE });
        }
        let mut rebuild = self.rebuild.take().unwrap_or_else(|| {
            changes.push(Change::RebuildStarted);
            Rebuild { began: Instant::now(), bytes: 0, rows_lost: 0 }
        });
        let meter = array.load_meter();
        let (progress, pause) = self.throttle.step(&meter, |rows| array.rebuild_rows(rows));
        let progress = progress?;
        rebuild.rows_lost += progress.rows_lost;
        beside.add_rows_lost(progress.rows_lost);
        let bytes = progress.zones_since(&before) * ZONE_BYTES;
        rebuild.bytes += bytes;
        if progress.is_complete() {
            beside.set_rate(None);
            let Rebuild { began, bytes, rows_lost } = rebuild;
            changes.push(Change::RebuildCompleted { rows_lost, bytes, time: began.elapsed() });
            return Ok(Care { changes, pause: IDLE_PAUSE });
        }
        self.rebuild = Some(rebuild);
        let at_rate = beside.rate().map_or(Duration::ZERO, |rate| Pacer::time_of(bytes, rate));
        Ok(Care { changes, pause: pause.max(at_rate) })
    }
}

impl Change {
    /// Adds the change to the events of the array.
    fn note(&self, files: &mut ArrayFiles) {
        let (name, severity, text, figures) = match self {
            Change::MemberFailed(path) => {
                let text = format!("{} has failed and was taken out.", path.display());
                ("member_failed", Severity::Warning, text, json!({ "member": path }))
            }
            Change::RebuildStarted => {
                ("rebuild_started", Severity::Information, "A rebuild has started.".into(), json!({}))
            }
            Change::RebuildCompleted { rows_lost, bytes, time } => {
                return files.rebuild_completed(*bytes, time.as_secs_f64(), *rows_lost);
            }
        };
        files.event(name, severity, &text, figures);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jetcell_array::{AssembleOptions, CreateOptions, Level};
    use jetcell_vfs::{OpenMode, SimVfs, Vfs};

    use super::*;

    const LENGTH: u64 = 16 << 20;

    #[test]
    fn a_rebuild_beside_the_load_says_what_it_wrote_and_how_long_it_took() {
        let disk = SimVfs::new();
        let file = |number: usize| {
            let path = PathBuf::from(format!("/a/m{number}"));
            disk.open(&path, OpenMode::CreateNew).unwrap().grow(LENGTH).unwrap();
            path
        };
        let members: Vec<PathBuf> = (0..3).map(file).collect();
        let options = CreateOptions { journal_images: 64, ..CreateOptions::new(Level::Raid5, 7) };
        Array::create(&disk, &members, &options).unwrap();
        let mut array =
            Array::assemble(Arc::new(disk.clone()), &members, AssembleOptions::default()).unwrap();
        let zones = array.layout().zones();
        let (mut caretaker, beside) = (Caretaker::new(), Beside::default());
        assert!(caretaker.step(&mut array, &beside).unwrap().changes.is_empty());
        array.add_spare(&file(3), false).unwrap();
        array.fail(1).unwrap();
        // More than one rebuild: none counts what another one wrote.
        for number in [4, 5] {
            let mut found = vec![];
            while !matches!(found.last(), Some(Change::RebuildCompleted { .. })) {
                found.extend(caretaker.step(&mut array, &beside).unwrap().changes);
            }
            assert_eq!(found.iter().filter(|change| matches!(change, Change::RebuildStarted)).count(), 1);
            let Some(Change::RebuildCompleted { rows_lost: 0, bytes, time }) = found.last() else {
                panic!("{found:?}")
            };
            assert!(*bytes == zones * ZONE_BYTES && *time > Duration::ZERO, "{found:?}");
            assert!(caretaker.step(&mut array, &beside).unwrap().changes.is_empty());
            array.add_spare(&file(number), false).unwrap();
            array.fail(0).unwrap();
        }
    }
}
