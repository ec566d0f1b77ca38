//! Interface between the cache and the log. It ensures that no page is written to disk before the log records for its
//! changes.

use ese_format::{LogPosition, PageNumber};

use crate::Result;

/// Interface through which the cache uses the log. Only `durable` and `waypoint` may be called while cache
/// latches or locks are held.
pub trait WriteAhead: Send + Sync {
    /// Returns the position up to which the log survives a crash. Never decreases; must not block.
    fn durable(&self) -> LogPosition;
    /// Blocks until everything before `upto` is durable.
    fn flush(&self, upto: LogPosition) -> Result<()>;
    /// Returns the waypoint: a page with changes after this position must not be written, even if their log records
    /// are durable.
    ///
    /// Never decreases; must not block. [`WriteAhead::flush`] advances the waypoint if necessary, at the cost of new
    /// log generations.
    fn waypoint(&self) -> LogPosition {
        LogPosition::MAX
    }
    /// Requests a flush up to `upto` without waiting for it.
    fn request_flush(&self, upto: LogPosition);
    /// Returns the guard that protects page writes against tearing, or `None` if the device writes pages atomically.
    fn torn_page_guard(&self) -> Option<&dyn TornPageGuard> {
        None
    }
}

/// Interface for protecting the cache's in-place page writes against tearing. InnoDB: the doublewrite buffer.
pub trait TornPageGuard: Send + Sync {
    /// Returns the maximum number of pages per call to [`TornPageGuard::protect`].
    fn batch_limit(&self) -> usize;
    /// Protects sealed page images before they are written in place. Called without latches. The cache drops the
    /// result when the writes have completed.
    fn protect(&self, pages: &[(PageNumber, &[u8])]) -> Result<ProtectedBatch>;
}

/// Guard that is held while a batch of protected pages is being written in place.
pub type ProtectedBatch = Box<dyn Send + Sync>;

/// A before-image that is not in the log yet. It is attached to the page and needs to be logged only if the page is
/// written before the transaction ends. ESE: the undo-info chain of a buffer, `lrtypUndoInfo`.
#[doc(alias = "lrtypUndoInfo")]
pub trait DeferredUndo: Send + Sync {
    /// Returns true if [`DeferredUndo::log`] can write to the log. This is not possible during redo of a log that
    /// another engine writes. In that case, the page is not written before [`DeferredUndo::resolved_at`] returns a
    /// position.
    fn can_log(&self) -> bool {
        true
    }
    /// Logs the before-image if the change is still uncommitted. Returns the log position that must be durable before
    /// the page is written. Called without latches. May be called again if a later step fails.
    fn log(&self) -> Result<Option<LogPosition>>;
    /// Returns `None` while the before-image may be needed. Otherwise returns the end of the commit record. Once the
    /// log is durable up to this position, the before-image is no longer needed; until then, recovery would still
    /// undo the change.
    fn resolved_at(&self) -> Option<LogPosition>;
}
