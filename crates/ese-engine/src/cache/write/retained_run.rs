//! Copies of adjacent pages, waiting for the waypoint.

use ese_format::LogPosition;
use jetcell_vfs::IoBuffer;

use crate::cache::frame::latch::PinnedPage;
use crate::cache::page_key::AttachedFileId;

/// A copy of a run of adjacent pages, which may be written once the waypoint has passed `needed`.
pub(in crate::cache) struct RetainedRun {
    pub file: AttachedFileId,
    pub pages: Vec<PinnedPage>,
    pub buffer: IoBuffer,
    pub needed: LogPosition,
}

impl RetainedRun {
    /// Claims all pages of the run. If a reader has claimed one of them, no page is claimed.
    pub fn claim(&self) -> bool {
        for (index, page) in self.pages.iter().enumerate() {
            if !page.frame().claim_retained() {
                self.pages.iter().take(index).for_each(|page| page.frame().retain());
                return false;
            }
        }
        true
    }
}
