//! Information that the cache retains about a dirty page without a frame.

use ese_format::LogPosition;

/// A dirty page without a frame, and those of its changes that are not on disk yet.
pub(in crate::cache) struct EvictedDirtyPage {
    /// Log position of the first change.
    pub first: LogPosition,
    /// Log position that must be durable before the page may be written.
    pub last: LogPosition,
    /// The changes, in the encoding of [`PageDelta::encode`](super::PageDelta::encode).
    pub deltas: Vec<u8>,
    /// Digest of the page when it was evicted. `None` if the page was not in memory for some of its changes.
    #[cfg(debug_assertions)]
    pub digest: Option<u64>,
}

impl EvictedDirtyPage {
    /// Creates the entry for a page that was not in memory when it changed.
    pub fn for_unread_page(first: LogPosition) -> EvictedDirtyPage {
        EvictedDirtyPage {
            first,
            last: first,
            deltas: Vec::new(),
            #[cfg(debug_assertions)]
            digest: None,
        }
    }

    /// Appends changes that were made while the page was not in memory.
    pub fn append(&mut self, last: LogPosition, deltas: &[u8]) {
        self.last = self.last.max(last);
        self.deltas.reserve_exact(deltas.len());
        self.deltas.extend_from_slice(deltas);
        #[cfg(debug_assertions)]
        {
            self.digest = None;
        }
    }
}
