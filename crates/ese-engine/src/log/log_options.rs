//! Settings of a log stream, and the interface that the stream needs from its owner.

use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;
use std::path::Path;

use super::LogNames;
use crate::Result;

/// Settings for a log stream.
#[derive(Clone)]
pub struct LogStreamOptions {
    /// File system that contains the log files.
    pub vfs: Arc<dyn Vfs>,
    /// Directory and names of the log files.
    pub names: LogNames,
    /// Size in bytes of each file in a new stream, a multiple of 4096. An existing stream keeps its file size.
    pub file_size: u32,
    /// Page size of the databases, which is stored in the header.
    pub page_size: u32,
    /// Whether log files before the checkpoint are recycled.
    pub circular: bool,
    /// Number of archived files that the stream retains before it removes obsolete ones. Up to this number, it
    /// overwrites obsolete files instead of removing them, because data becomes durable faster in blocks that were
    /// already written.
    pub retained_files: usize,
    /// Maximum number of generations that a copy may lag. No logs are retained for a copy that lags more.
    pub copy_lag_limit: u32,
    /// Number of newest generations whose changes must not be written to pages yet; see
    /// [`LogOptions::waypoint_latency`](crate::LogOptions::waypoint_latency).
    pub waypoint_latency: u32,
    /// Whether recovery may proceed if the newest generations are missing.
    pub accept_lost_logs: bool,
    /// Whether to start a new generation instead of appending to the newest existing file, even if that file has
    /// room.
    pub begin_generation: bool,
}

/// Interface through which the log calls its owner. While the log makes these calls, it holds no lock that
/// appends need.
pub trait LogListener: Send + Sync {
    /// Returns the list of attached databases for a new log header. The writer calls this, so the call must not wait
    /// for I/O.
    fn attachments(&self) -> Vec<u8>;
    /// Notifies the owner of the newest generation whose file has its final name. Before the call returns, the
    /// headers of attached databases must durably name this generation. The call may be repeated for the same
    /// generation.
    fn entered(&self, generation: Generation, created: LogTime) -> Result<()>;
    /// Returns the position where redo would start if a crash occurred now. The writer also calls this, so the call
    /// must not wait for I/O.
    fn checkpoint(&self) -> LogPosition;
    /// Notifies the owner that the disk is full. From now on the log uses its reserve, and ordinary work is refused.
    fn disk_full(&self, _next: &Path) {}
}

/// Log counters, accumulated since the log was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogCounters {
    /// Number of records appended.
    pub records: u64,
    /// Number of record bytes appended.
    pub bytes: u64,
    /// Number of filler bytes.
    pub wasted: u64,
    /// Number of writes. Each write includes one sync.
    pub writes: u64,
    /// Number of segment bytes written, excluding shadows.
    pub written: u64,
    /// Number of flushes that had to wait for durability. On average, `flushes / writes` flushes shared one write.
    pub flushes: u64,
    /// Number of appends that had to wait because the buffer was full.
    pub stalls: u64,
    /// Number of generations begun.
    pub generations: u64,
}
