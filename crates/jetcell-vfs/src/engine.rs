//! The interface of engines that run asynchronous transfers on real files: `io_uring`, or threads where the kernel
//! forbids `io_uring`.

use std::cell::Cell;
use std::io;

use jetcell_sync::Arc;

use crate::descriptor::Descriptor;
use crate::{Transfer, abort_on_panic};

/// Number of queued transfers at which `submit` blocks its caller.
pub(crate) const BACKLOG: usize = 1024;

/// An engine that accepts transfer batches from any thread. Dropping it waits for all accepted transfers.
pub(crate) trait TransferEngine: Send + Sync {
    fn name(&self) -> &'static str;
    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>);
}

/// A transfer with the file that it accesses. The file stays open while this value exists.
pub(crate) struct QueuedTransfer {
    pub file: Arc<Descriptor>,
    pub transfer: Transfer,
}

impl QueuedTransfer {
    /// Runs the completion with the buffer. A panic in the completion aborts the process, because other threads wait
    /// for the completion's effect.
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

/// Marks the current thread as one that runs completions.
pub(crate) fn mark_completion_thread() {
    COMPLETES.set(true);
}

/// Returns true if `submit` may block this thread until the queue has room. Threads that run completions must not
/// block, because only completions free space in the queue.
pub(crate) fn may_wait() -> bool {
    !COMPLETES.get()
}
