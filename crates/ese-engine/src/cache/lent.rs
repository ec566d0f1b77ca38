//! Memory of the cache that somebody else uses for a while: recovery, which has few pages in its hands but much log.

use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, Mutex};

use super::Cache;
use super::files::Books;
use super::frame::Frame;

/// Frames without memory that no page gets while this exists.
pub struct MemoryGrant {
    books: Arc<Books>,
    frames: Mutex<Vec<u32>>,
    page_bytes: usize,
}

impl MemoryGrant {
    /// Bytes that may be used instead of the cache.
    pub fn bytes(&self) -> usize {
        self.frames.lock().len() * self.page_bytes
    }

    /// Gives back what is not needed for so many bytes.
    pub fn shrink(&self, bytes: usize) {
        let mut frames = self.frames.lock();
        let stays = frames.len().min(bytes.div_ceil(self.page_bytes));
        let back = frames.split_off(stays);
        drop(frames);
        self.books.kept.release(back.len());
        back.into_iter().for_each(|frame| self.books.put_free(frame));
    }
}

impl Drop for MemoryGrant {
    fn drop(&mut self) {
        self.shrink(0);
        self.books.kept.end_recovery();
    }
}

impl Cache {
    /// Lends at most `bytes`, of what no page ever used: that takes memory from nobody.
    pub fn grant_memory(&self, bytes: usize) -> MemoryGrant {
        let page_bytes = self.page_size.bytes();
        let mut frames = Vec::new();
        let take = |used: usize| (used < self.limits.frames).then_some(used + 1);
        while frames.len() < bytes / page_bytes
            && let Ok(index) = self.used_frames.fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
        {
            self.frames[index].get_or_init(|| Arc::new(Frame::new(index as u32, self.books.clone())));
            frames.push(index as u32);
        }
        self.books.kept.begin_recovery(frames.len());
        MemoryGrant { books: self.books.clone(), frames: Mutex::new(frames), page_bytes }
    }
}
