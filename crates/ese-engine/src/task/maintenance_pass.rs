//! Interface between a maintenance task and its passes: their steps, state, and limits.

use std::time::Duration;

use jetcell_sync::Arc;

use super::pace::MaintenanceThrottle;
use super::turn::MaintenanceTurn;
use super::window::MaintenanceWindow;
use crate::events::EventKind;
use crate::{Error, Result};

/// A pass over one database, performed in steps. The same object performs pass after pass.
pub(crate) trait MaintenancePass: Send {
    /// Progress information for the owner of the task.
    type Progress: TaskProgress;

    /// Returns how often the state is stored, and what the pass waits for.
    fn limits(&self) -> PassLimits;
    /// Returns true if a pass is in progress. This cannot be derived from any other method.
    fn is_in_pass(&self) -> bool;
    /// Returns mutable access to the times in the report on the pass.
    fn times(&mut self) -> PassTimes<'_>;
    /// Returns the number of pages that the pass has visited.
    fn visited(&self) -> u64;

    /// Begins a pass. Afterwards a pass is in progress, unless this fails.
    fn begin(&mut self) -> Result<()>;
    /// Performs one step of the pass in progress.
    fn step(&mut self) -> Result<PassStep>;
    /// Stores the state of the pass in progress.
    fn save(&mut self) -> Result<()>;
    /// Stores the completion of the pass and updates its report. Afterwards no pass is in progress, unless this fails.
    fn end(&mut self) -> Result<()>;

    /// Updates the progress with the report on the pass.
    fn show(&self, progress: &mut Self::Progress);
    /// Returns the event to report, if any.
    fn event(&self, event: TaskEvent<'_>) -> Option<EventKind>;
    /// Releases memory before a pause of this length. `None` means that the task waits, and that data that was read
    /// ahead may be out of date afterwards.
    fn release_memory(&mut self, _pause: Option<Duration>) {}
}

/// Result of a step.
pub(crate) enum PassStep {
    /// The step was asked to stop, and will be repeated.
    Interrupted,
    /// The step read this number of bytes. The state is stored if that is due.
    Read(usize),
    /// The step read this number of bytes. The state must be stored now.
    ReadAndSave(usize),
    /// The step read this number of bytes, which were the last ones of the pass.
    ReadLast(usize),
}

/// Limits of a pass: how often its state is stored, and which conditions it waits for.
pub(crate) struct PassLimits {
    /// Number of pages after which the state is stored.
    pub pages_per_save: u64,
    /// Time after which the state is stored.
    pub save_after: Duration,
    /// Minimum pause after a step that failed.
    pub retry_after: Duration,
    /// Minimum time between the starts of two passes.
    pub pass_interval: Option<Duration>,
    /// Poll interval of a pass that waits for clean pages. `None`: the pass does not need clean pages.
    pub clean_page_poll: Option<Duration>,
    /// Whether the pass waits for the end of bulk loads.
    pub waits_for_bulk_loads: bool,
}

/// Times in the report on a pass.
pub(crate) struct PassTimes<'a> {
    pub began_unix_ms: i64,
    pub seconds: &'a mut u64,
    pub invocations: &'a mut u64,
    pub days: &'a mut u64,
}

/// Progress of a task.
pub(crate) trait TaskProgress: Clone + Default + Send {
    /// Returns the fields that the progress of every task has.
    fn status(&mut self) -> TaskStatus<'_>;
}

/// Whether a task is running, and the error from its last step, if the step failed.
pub(crate) struct TaskStatus<'a> {
    pub running: &'a mut bool,
    pub failure: &'a mut Option<String>,
}

/// A change in a task's state that the owner of the instance may want to know about.
pub(crate) enum TaskEvent<'a> {
    /// A pass has started.
    Started,
    /// A pass resumes after an interruption.
    Resumed,
    /// A pass was interrupted, and will resume later.
    Interrupted,
    /// A pass is complete.
    Completed,
    /// A pass waits because most of the cache is dirty.
    Paused,
    /// A pass continues after it has waited for clean pages.
    Continued,
    /// A step failed.
    Failed(&'a Error),
}

/// Loads and stores the state of a pass in its database.
pub(crate) trait StateStore<State>: Send + Sync {
    /// Returns the most recently stored state.
    fn load(&self) -> Result<Option<State>>;
    /// Stores the state.
    fn save(&self, state: &State) -> Result<()>;
}

/// When the steps of a task may run.
pub(crate) struct TaskSchedule {
    pub throttle: MaintenanceThrottle,
    pub window: Option<MaintenanceWindow>,
    pub turn: Option<Arc<MaintenanceTurn>>,
    /// Whether the task ends after one pass.
    pub single_pass: bool,
}
