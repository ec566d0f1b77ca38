//! Memory that the cache temporarily grants to another user. That user is recovery, which needs few pages but a large
//! amount of log.

use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, Mutex};

use super::Cache;
use super::cache_inner::CacheInner;
use super::frame::Frame;

/// A set of cache frames whose memory is on loan. The cache does not use them while the grant exists.
pub struct MemoryGrant {
    shared: Arc<CacheInner>,
    frames: Mutex<Vec<u32>>,
    page_bytes: usize,
}

impl MemoryGrant {
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

impl Cache {
    /// Grants at most `bytes` of memory. Only frames that have never been used are granted, so no page is evicted.
    ///
    /// Together, all grants use at most half of the frames, so that concurrent recoveries still have frames for their
    /// pages. Until the grant is dropped, the admission budget does not limit evictions with deltas.
    pub fn grant_memory(&self, bytes: usize) -> MemoryGrant {
        let page_bytes = self.page_size.bytes();
        let mut frames = Vec::new();
        let most = self.shared.deltas.begin_recovery(bytes / page_bytes, self.limits.frames / 2);
        let take = |used: usize| (used < self.limits.frames).then_some(used + 1);
        while frames.len() < most
            && let Ok(index) = self.used_frames.fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
        {
            self.frames[index].get_or_init(|| Arc::new(Frame::new(index as u32, self.shared.clone())));
            frames.push(index as u32);
        }
        self.shared.deltas.return_withheld(most - frames.len());
        MemoryGrant { shared: self.shared.clone(), frames: Mutex::new(frames), page_bytes }
    }
}
