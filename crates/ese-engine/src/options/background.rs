//! The threads that run an instance's background work.

use jetcell_sync::Arc;

use crate::workers::WorkerGroup;

/// Threads for background work.
#[derive(Clone)]
#[non_exhaustive]
pub enum BackgroundThreads {
    /// No threads. The instance's owner must call [`Instance::step`](crate::Instance::step).
    None,
    /// The instance starts five threads of its own, plus one for each maintenance task.
    Own,
    /// Threads that several instances share.
    Shared(Arc<WorkerGroup>),
}

impl BackgroundThreads {
    /// Returns [`BackgroundThreads::Own`] if `threads` is true, and [`BackgroundThreads::None`] otherwise.
    pub fn own_if(threads: bool) -> BackgroundThreads {
        if threads { BackgroundThreads::Own } else { BackgroundThreads::None }
    }

    pub(crate) fn has_threads(&self) -> bool {
        !matches!(self, BackgroundThreads::None)
    }

    /// Returns the shared threads, if the instance uses them.
    pub(crate) fn shared(&self) -> Option<&Arc<WorkerGroup>> {
        if let BackgroundThreads::Shared(workers) = self { Some(workers) } else { None }
    }
}
