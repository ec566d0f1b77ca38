//! Memory of the cache that somebody else uses for a while: recovery, which has few pages in its hands but much log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Cache;
use super::files::Books;
use super::frame::Frame;

/// Frames without memory that no page gets while this exists.
pub struct Lent {
    books: Arc<Books>,
    frames: Vec<u32>,
    page_bytes: usize,
}

impl Lent {
    /// Bytes that may be used instead of the cache.
    pub fn bytes(&self) -> usize {
        self.frames.len() * self.page_bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.frames.drain(..).for_each(|frame| self.books.put_free(frame));
    }
}

impl Cache {
    /// Lends at most `bytes`, of what no page ever used: that takes memory from nobody.
    pub fn lend(&self, bytes: usize) -> Lent {
        let page_bytes = self.page_size.bytes();
        let mut frames = Vec::new();
        let take = |used: usize| (used < self.limits.frames).then_some(used + 1);
        while frames.len() < bytes / page_bytes
            && let Ok(index) = self.used_frames.fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
        {
            self.frames[index].get_or_init(|| Arc::new(Frame::new(index as u32, self.books.clone())));
            frames.push(index as u32);
        }
        Lent { books: self.books.clone(), frames, page_bytes }
    }
}
