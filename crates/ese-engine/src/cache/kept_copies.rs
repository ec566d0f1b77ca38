//! Copies of pages that wait for the waypoint.
//!
//! No page may be written with changes behind the waypoint, and the waypoint follows the log at a distance. A page that
//! changes in each generation would never be old enough, and would hold the checkpoint for ever. So it is copied, and the
//! copy is written when the waypoint has passed its last change. The page can change meanwhile. ESE: versioned pages.
//!
//! Invariants: a page has at most one copy, and no other writer meanwhile; the copies use at most half of the transfer
//! buffers, so that other writes go on.

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::abort_on_panic;

use super::Cache;
use super::attached_file::AttachedFile;
use super::kept_run::KeptRun;
use super::write_back::{Keeping, Run, UnflushedLog, WriteReason};

impl Cache {
    /// How many more pages can be copied.
    pub(super) fn kept_room(&self, unflushed_log: UnflushedLog) -> usize {
        match unflushed_log {
            UnflushedLog::Keep => {
                (self.limits.transfer_pages / 2).saturating_sub(self.shared.kept.load(Ordering::Relaxed))
            }
            _ => 0,
        }
    }

    /// Copies pages, and keeps the copies. Their buffers are reserved.
    pub(super) fn keep_copies(&self, attached: &Arc<AttachedFile>, keeping: Keeping) {
        let Keeping { pages, needed, .. } = keeping;
        if pages.is_empty() {
            return;
        }
        self.shared.kept.fetch_add(pages.len(), Ordering::Relaxed);
        // A longer buffer would take what other writers need.
        let runs = self.copy(attached, pages, |pages| self.shared.transfer_buffers.take_exact(pages));
        // In the list before a page can be claimed again.
        let mut kept = self.kept_runs.lock();
        for Run { pages, buffer } in runs {
            pages.iter().for_each(|page| page.frame().keep());
            kept.push(KeptRun { file: attached.id, pages, buffer, needed });
        }
    }

    /// Starts to write the copies that the waypoint has passed.
    pub(super) fn write_kept(&self, attached: &Arc<AttachedFile>) {
        if self.shared.kept.load(Ordering::Relaxed) == 0 {
            return;
        }
        // A thread that discards the file drops the copies.
        let Some(_active) = attached.in_flight.enter() else { return };
        let durable = attached.wal.durable();
        let passed: Vec<KeptRun> = {
            let mut kept = self.kept_runs.lock();
            kept.extract_if(.., |run| run.file == attached.id && run.needed <= durable && run.claim())
                .collect()
        };
        abort_on_panic(|| {
            for KeptRun { pages, buffer, .. } in passed {
                self.shared.kept.fetch_sub(pages.len(), Ordering::Relaxed);
                let run = Run { pages, buffer };
                self.submit(attached, vec![run], WriteReason::Checkpoint, &Arc::default());
            }
        });
    }

    /// Gives up the copies of a file that is being discarded.
    pub(super) fn drop_kept(&self, attached: &AttachedFile) {
        let of_file = |run: &mut KeptRun| run.file == attached.id;
        let dropped: Vec<KeptRun> = self.kept_runs.lock().extract_if(.., of_file).collect();
        for KeptRun { pages, buffer, .. } in dropped {
            self.shared.kept.fetch_sub(pages.len(), Ordering::Relaxed);
            pages.iter().for_each(|page| page.frame().written(attached, false));
            self.shared.transfer_buffers.put_back(buffer);
        }
    }
}
