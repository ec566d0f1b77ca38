//! What the cache keeps of a dirty page that has no frame.

use ese_format::LogPosition;

/// A dirty page without a frame: the changes that the disk does not have.
pub(in crate::cache) struct EvictedDirtyPage {
    /// Where the log position of its first change is.
    pub first: LogPosition,
    /// Position up to which the log must be durable before the page may be written.
    pub last: LogPosition,
    /// The changes, as [`PageDelta::encode`](super::PageDelta::encode) writes them.
    pub deltas: Vec<u8>,
    /// Digest of the page when it was evicted. `None`: the page was not in memory for all of its changes.
    #[cfg(debug_assertions)]
    pub digest: Option<u64>,
}

impl EvictedDirtyPage {
    /// A page that was not in memory when it changed.
    pub fn unread(first: LogPosition) -> EvictedDirtyPage {
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
