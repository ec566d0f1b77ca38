//! Work on an array beside its load: rebuilds with pauses, and what becomes of its members.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jetcell_array::{Array, ArrayError, ArrayState, Throttle};
use serde_json::json;

use super::maintenance::ZONE_BYTES;
use super::running_array::{ArrayFiles, Severity};

/// Mean time of reads and commits of the load above which a rebuild beside it pauses longer.
const TARGET_LATENCY: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Pause while nothing is to be rebuilt.
const IDLE_PAUSE: Duration = Duration::from_millis(100);

/// Looks after an array that others read and write.
pub struct Caretaker {
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
pub enum Change {
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
pub struct Care {
    pub changes: Vec<Change>,
    /// How long the load should have the array for itself now.
    pub pause: Duration,
}

impl Caretaker {
    pub fn new() -> Caretaker {
        let throttle = Throttle::new(TARGET_LATENCY, LONGEST_PAUSE);
        Caretaker { throttle, failed: 0, rebuild: None }
    }

    /// Notes members that failed, and rebuilds one zone if there is something to rebuild.
    ///
    /// # Errors
    /// The array has stopped.
    pub fn step(&mut self, array: &mut Array) -> Result<Care, ArrayError> {
        let status = array.status();
        let failed = status.failed.iter().skip(self.failed).cloned();
        let mut changes: Vec<Change> = failed.map(Change::MemberFailed).collect();
        self.failed = status.failed.len();
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
        let progress = array.rebuild_step()?;
        rebuild.rows_lost += progress.rows_lost;
        rebuild.bytes += progress.zones_since(&before) * ZONE_BYTES;
        if progress.is_complete() {
            let Rebuild { began, bytes, rows_lost } = rebuild;
            changes.push(Change::RebuildCompleted { rows_lost, bytes, time: began.elapsed() });
            return Ok(Care { changes, pause: IDLE_PAUSE });
        }
        self.rebuild = Some(rebuild);
        Ok(Care { changes, pause: self.throttle.pause(array.take_load_latency()) })
    }
}

impl Change {
    /// Adds the change to the events of the array.
    pub fn note(&self, files: &mut ArrayFiles) {
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
        let mut caretaker = Caretaker::new();
        assert!(caretaker.step(&mut array).unwrap().changes.is_empty());
        array.add_spare(&file(3), false).unwrap();
        array.fail(1).unwrap();
        // More than one rebuild: none counts what another one wrote.
        for number in [4, 5] {
            let mut found = vec![];
            while !matches!(found.last(), Some(Change::RebuildCompleted { .. })) {
                found.extend(caretaker.step(&mut array).unwrap().changes);
            }
            assert_eq!(found.iter().filter(|change| matches!(change, Change::RebuildStarted)).count(), 1);
            let Some(Change::RebuildCompleted { rows_lost: 0, bytes, time }) = found.last() else {
                panic!("{found:?}")
            };
            assert!(*bytes == zones * ZONE_BYTES && *time > Duration::ZERO, "{found:?}");
            assert!(caretaker.step(&mut array).unwrap().changes.is_empty());
            array.add_spare(&file(number), false).unwrap();
            array.fail(0).unwrap();
        }
    }
}
