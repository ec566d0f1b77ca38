//! The database that a maintenance task works on, the task's progress, and the request to stop.

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex, MutexGuard};

use crate::storage::DatabaseFile;
use crate::transaction::Services;

/// State that a maintenance task shares with its pass. This state is kept when the task is stopped and started again.
pub(crate) struct TaskHost<Progress> {
    pub file: Arc<DatabaseFile>,
    pub services: Arc<Services>,
    /// Asks the current step to end early.
    pub(super) stop: AtomicBool,
    pub(super) progress: Mutex<Progress>,
}

impl<Progress> TaskHost<Progress> {
    /// Returns the progress since the database was attached.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// Returns true if the current step should end early.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
