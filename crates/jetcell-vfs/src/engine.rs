//! The interface of engines for asynchronous transfers of real files: io_uring, or threads where the kernel forbids it.

use std::cell::Cell;
use std::io;

use jetcell_sync::Arc;

use crate::descriptor::Descriptor;
use crate::{Transfer, abort_on_panic};

/// Transfers that may wait in an engine before `submit` makes its caller wait.
pub(crate) const BACKLOG: usize = 1024;

/// Accepts batches from any thread. Its drop waits for all accepted transfers.
pub(crate) trait Engine: Send + Sync {
    fn name(&self) -> &'static str;
    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>);
}

/// A transfer and its file, which it keeps open.
pub(crate) struct Job {
    pub file: Arc<Descriptor>,
    pub transfer: Transfer,
}

impl Job {
    /// Runs the completion with the buffer. A panic in it ends the process, because other threads wait for its effect.
    pub fn finish(self, result: io::Result<()>) {
        let Transfer { buffer, done, .. } = self.transfer;
        abort_on_panic(|| {
            done(result, buffer);
            drop(self.file);
        });
    }
}

thread_local! {
    static COMPLETES: Cell<bool> = const { Cell::new(false) };
}

/// Declares that this thread runs completions.
pub(crate) fn this_thread_completes() {
    COMPLETES.set(true);
}

/// Whether `submit` may make this thread wait for room. A thread that runs completions must not: they make the room.
pub(crate) fn may_wait() -> bool {
    !COMPLETES.get()
}
