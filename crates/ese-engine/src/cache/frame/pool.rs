//! All frames of the cache, and the number of frames that have ever been used.

use jetcell_sync::atomic::{AtomicUsize, Ordering};
use jetcell_sync::{Arc, OnceLock};

use super::Frame;
use crate::cache::shared::CacheInner;

/// The frames of a cache. A frame is created when it is first used.
pub(in crate::cache) struct FramePool {
    shared: Arc<CacheInner>,
    frames: Box<[OnceLock<Arc<Frame>>]>,
    /// Number of `frames` that have ever been used.
    used: AtomicUsize,
}

impl FramePool {
    pub fn new(shared: Arc<CacheInner>, count: usize) -> FramePool {
        let frames = (0..count).map(|_| OnceLock::new()).collect();
        FramePool { shared, frames, used: AtomicUsize::new(0) }
    }

    /// Returns the number of frames that can be used without an eviction.
    pub fn available(&self) -> usize {
        self.shared.free_count() + self.frames.len()
            - self.used.load(Ordering::Relaxed).min(self.frames.len())
    }

    /// Returns the number of frames that have ever been used.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire).min(self.frames.len())
    }

    /// Returns the frame with this index, or `None` if it has never been used.
    pub fn get(&self, index: usize) -> Option<&Arc<Frame>> {
        self.frames[index].get()
    }

    /// Takes a frame that has never been used. Returns `None` if there is none.
    pub fn take_unused(&self) -> Option<&Arc<Frame>> {
        let take = |used: usize| (used < self.frames.len()).then_some(used + 1);
        let index = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
        Some(self.frames[index].get_or_init(|| Arc::new(Frame::new(index as u32, self.shared.clone()))))
    }
}
