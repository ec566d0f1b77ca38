//! Work on an array beside its load: rebuilds with pauses, and what becomes of its members.

use std::path::PathBuf;
use std::time::Duration;

use jetcell_array::{Array, ArrayError, ArrayState, Throttle};
use serde_json::json;

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
    is_rebuilding: bool,
    rows_lost: u64,
}

/// What a step found or did.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    MemberFailed(PathBuf),
    RebuildStarted,
    RebuildCompleted { rows_lost: u64 },
}

/// A step.
pub struct Care {
    pub changes: Vec<Change>,
    /// How long the load should have the array for itself now.
    pub pause: Duration,
    /// Whether nothing is left to rebuild.
    pub is_whole: bool,
}

impl Caretaker {
    pub fn new() -> Caretaker {
        let throttle = Throttle::new(TARGET_LATENCY, LONGEST_PAUSE);
        Caretaker { throttle, failed: 0, is_rebuilding: false, rows_lost: 0 }
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
        let mut is_whole = array.rebuild_progress().is_complete();
        if !is_whole {
            if !self.is_rebuilding {
                changes.push(Change::RebuildStarted);
            }
            let progress = array.rebuild_step()?;
            self.rows_lost += progress.rows_lost;
            is_whole = progress.is_complete();
            if is_whole {
                changes.push(Change::RebuildCompleted { rows_lost: std::mem::take(&mut self.rows_lost) });
            }
            self.is_rebuilding = !is_whole;
        }
        let pause = if is_whole { IDLE_PAUSE } else { self.throttle.pause(array.take_load_latency()) };
        Ok(Care { changes, pause, is_whole })
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
            Change::RebuildCompleted { rows_lost: 0 } => {
                ("rebuild_completed", Severity::Information, "The rebuild is complete.".into(), json!({}))
            }
            Change::RebuildCompleted { rows_lost } => {
                let text = format!(
                    "The rebuild is complete; {rows_lost} rows had lost too many blocks and stay lost."
                );
                ("rebuild_completed", Severity::Error, text, json!({ "rows_lost": rows_lost }))
            }
        };
        files.event(name, severity, &text, figures);
    }
}
