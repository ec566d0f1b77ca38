//! Page copies that are waiting for the waypoint.
//!
//! A page must not be written if it contains changes after the waypoint, and the waypoint lags behind the log. A page
//! that changes in every generation could therefore never be written, and would block the checkpoint forever. To
//! avoid this, such a page is copied, and the copy is written once the waypoint has passed its last change. The page
//! itself can change in the meantime. ESE: versioned pages.
//!
//! Invariants:
//!
//! - A page has at most one copy. While the copy exists, no other writer writes the page.
//! - The copies use at most half of the transfer buffers, so that other writes can proceed.

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::abort_on_panic;

use super::retained_run::RetainedRun;
use super::write_back::{PageRun, PagesToRetain, UnflushedPagePolicy, WriteBack, WriteReason};
use crate::cache::shared::AttachedFile;

impl WriteBack {
    /// Returns the number of further pages whose copies can be retained.
    pub(in crate::cache) fn retained_capacity(&self, unflushed_log: UnflushedPagePolicy) -> usize {
        match unflushed_log {
            UnflushedPagePolicy::RetainCopy => {
                (self.limits.transfer_pages / 2).saturating_sub(self.shared.retained.load(Ordering::Relaxed))
            }
            _ => 0,
        }
    }

    /// Copies pages and retains the copies. The buffers for them must already be reserved.
    pub(in crate::cache) fn retain_copies(&self, attached: &Arc<AttachedFile>, keeping: PagesToRetain) {
        let PagesToRetain { pages, needed, .. } = keeping;
        if pages.is_empty() {
            return;
        }
        self.shared.retained.fetch_add(pages.len(), Ordering::Relaxed);
        // A longer buffer would take space that other writers need.
        let runs = self.copy(attached, pages, |pages| self.shared.transfer_buffers.take_exact(pages));
        // The copies must be in the list before any of the pages can be claimed again.
        let mut kept = self.retained_runs.lock();
        for PageRun { pages, buffer } in runs {
            pages.iter().for_each(|page| page.frame().retain());
            kept.push(RetainedRun { file: attached.id, pages, buffer, needed });
        }
    }

    /// Starts writing the copies that the waypoint has passed.
    pub(in crate::cache) fn write_retained(&self, attached: &Arc<AttachedFile>) {
        if self.shared.retained.load(Ordering::Relaxed) == 0 {
            return;
        }
        // If the file is being discarded, the discarding thread drops the copies.
        let Some(_active) = attached.in_flight.enter() else { return };
        let durable = attached.wal.durable();
        let passed: Vec<RetainedRun> = {
            let mut kept = self.retained_runs.lock();
            kept.extract_if(.., |run| run.file == attached.id && run.needed <= durable && run.claim())
                .collect()
        };
        abort_on_panic(|| {
            for RetainedRun { pages, buffer, .. } in passed {
                self.shared.retained.fetch_sub(pages.len(), Ordering::Relaxed);
                let run = PageRun { pages, buffer };
                self.submit(attached, vec![run], WriteReason::Checkpoint, &Arc::default());
            }
        });
    }

    /// Drops the copies of a file that is being discarded.
    pub(in crate::cache) fn drop_retained(&self, attached: &AttachedFile) {
        let of_file = |run: &mut RetainedRun| run.file == attached.id;
        let dropped: Vec<RetainedRun> = self.retained_runs.lock().extract_if(.., of_file).collect();
        for RetainedRun { pages, buffer, .. } in dropped {
            self.shared.retained.fetch_sub(pages.len(), Ordering::Relaxed);
            pages.iter().for_each(|page| page.frame().written(attached, false));
            self.shared.transfer_buffers.return_buffer(buffer);
        }
    }
}
