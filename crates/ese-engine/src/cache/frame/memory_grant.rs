//! Memory that the cache temporarily lends to recovery. Recovery needs few pages, but a lot of memory for the log.

use jetcell_sync::{Arc, Mutex};

use super::pool::FramePool;
use crate::cache::shared::CacheInner;

/// A set of cache frames whose memory is on loan. The cache does not use them while the grant exists.
pub struct MemoryGrant {
    shared: Arc<CacheInner>,
    frames: Mutex<Vec<u32>>,
    page_bytes: usize,
}

impl MemoryGrant {
    /// Grants at most `bytes` of memory in frames that have never been used. Together, all grants use at most `most`
    /// frames.
    pub(in crate::cache) fn new(
        shared: &Arc<CacheInner>,
        pool: &FramePool,
        bytes: usize,
        most: usize,
    ) -> MemoryGrant {
        let page_bytes = shared.page_size.bytes();
        let mut frames = Vec::new();
        let most = shared.deltas.begin_recovery(bytes / page_bytes, most);
        while frames.len() < most
            && let Some(frame) = pool.take_unused()
        {
            frames.push(frame.index);
        }
        shared.deltas.return_withheld(most - frames.len());
        MemoryGrant { shared: shared.clone(), frames: Mutex::new(frames), page_bytes }
    }

    /// Returns the size of the grant in bytes.
    pub fn bytes(&self) -> usize {
        self.frames.lock().len() * self.page_bytes
    }

    /// Shrinks the grant to `bytes`, returning the rest to the cache.
    pub fn shrink(&self, bytes: usize) {
        let mut frames = self.frames.lock();
        let remaining = frames.len().min(bytes.div_ceil(self.page_bytes));
        let returned = frames.split_off(remaining);
        drop(frames);
        self.shared.deltas.return_withheld(returned.len());
        returned.into_iter().for_each(|frame| self.shared.put_free(frame));
    }
}

impl Drop for MemoryGrant {
    fn drop(&mut self) {
        self.shrink(0);
        self.shared.deltas.end_recovery();
    }
}
