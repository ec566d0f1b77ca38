//! What the cache needs from the log, so that no page reaches the disk before the log records of its changes.

use ese_format::{LogPosition, PageNumber};

use crate::Result;

/// The log, as the cache uses it. Only `durable` and `waypoint` may be called with latches
/// and locks of the cache held.
pub trait WriteAhead: Send + Sync {
    /// Everything before this position survives a crash. Never decreases; must not block.
    fn durable(&self) -> LogPosition;
    /// Blocks until everything before `upto` is durable.
    fn flush(&self, upto: LogPosition) -> Result<()>;
    /// No page is written with changes behind this position, although the log of them is durable. Never decreases; must not
    /// block. [`WriteAhead::flush`] moves it if it has to, at the cost of new log generations.
    fn waypoint(&self) -> LogPosition {
        LogPosition::MAX
    }
    /// Requests the same as `flush` without waiting.
    fn request(&self, upto: LogPosition);
    /// Protection of page writes against tearing. `None`: the device writes each page as a whole.
    fn torn_page_guard(&self) -> Option<&dyn TornPageGuard> {
        None
    }
}

/// Protects pages that the cache writes in place against torn writes. InnoDB: the doublewrite buffer.
pub trait TornPageGuard: Send + Sync {
    /// Largest number of pages in one call of [`TornPageGuard::protect`].
    fn batch_limit(&self) -> usize;
    /// Called with sealed page images before they are written in place, without latches. The cache drops the result when
    /// the writes have completed.
    fn protect(&self, pages: &[(PageNumber, &[u8])]) -> Result<ProtectedBatch>;
}

/// Exists while a batch of protected pages is written in place.
pub type ProtectedBatch = Box<dyn Send + Sync>;

/// A change whose before-image is not in the log yet. It is attached to the page, because it must be logged only if the
/// page is written before the transaction ends. ESE: the undo-info chain of a buffer, `lrtypUndoInfo`.
#[doc(alias = "lrtypUndoInfo")]
pub trait DeferredUndo: Send + Sync {
    /// Whether [`DeferredUndo::log`] can write into the log. If not, the page is not written before
    /// [`DeferredUndo::resolved_at`] has an answer: redo of a log that another engine writes.
    fn can_log(&self) -> bool {
        true
    }
    /// Logs the before-image if the change is still uncommitted; returns the log position that must be durable
    /// before the page is written. Called without latches; may be called again after a failure elsewhere.
    fn log(&self) -> Result<Option<LogPosition>>;
    /// `None`: the before-image may be needed. Otherwise it is not needed once the log is durable up to the position,
    /// the end of the commit record. Without the commit record, recovery would still undo the change.
    fn resolved_at(&self) -> Option<LogPosition>;
}
