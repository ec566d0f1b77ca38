//! Changes to pages that are not in memory, stored without reading the pages. InnoDB calls this a change buffer.
//!
//! Redo uses this buffer: a page that was changed in the log is read only when a session needs it or when it must be
//! written.

use std::ops::Range;

use ese_format::LogPosition;

use super::{Cache, PageKey};

impl Cache {
    /// Returns true if [`Cache::buffer_change`] can ever succeed.
    pub(crate) fn buffers_changes(&self) -> bool {
        self.shared.deltas.is_enabled()
    }

    /// Buffers the changes that the log records at `positions` make to a page that is not in memory. The changes are
    /// applied when the page is read.
    ///
    /// Together, the new and the already buffered changes must include all changes that the disk may lack. `deltas`
    /// are encoded with [`PageDelta::encode_for_unread`](super::PageDelta::encode_for_unread). Returns false if the
    /// page is in memory, or if there is no room for the deltas.
    pub(crate) fn buffer_change(&self, key: PageKey, positions: Range<LogPosition>, deltas: &[u8]) -> bool {
        self.reserve_delta_memory();
        self.shared.find_file(key.file).is_some_and(|attached| {
            self.page_table.buffer_change(key, &attached, &self.shared.deltas, positions, deltas)
        })
    }
}
