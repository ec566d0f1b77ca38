//! Settings of a log stream, and the interface that the stream needs from its owner.

use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;
use std::path::Path;

use super::LogNames;
use crate::Result;

/// Settings of a log stream.
#[derive(Clone)]
pub struct LogOptions {
    /// File system of the log files.
    pub vfs: Arc<dyn Vfs>,
    /// Directory and names of the files.
    pub names: LogNames,
    /// Size in bytes of each file of a new stream, a multiple of 4096. An existing stream keeps its file size.
    pub file_size: u32,
    /// Page size of the databases, which is stored in the header.
    pub page_size: u32,
    /// Whether files before the checkpoint are recycled.
    pub circular: bool,
    /// Number of archived files that the stream retains before it removes obsolete ones. Up to this number it
    /// overwrites obsolete files instead, because blocks that were already written become durable faster.
    pub retained_files: usize,
    /// Maximum number of generations that a copy may lag. Logs are not retained for a copy that lags more.
    pub copy_lag_limit: u32,
    /// Number of generations before the newest one whose changes must not be written to pages yet; see
    /// [`InstanceOptions::waypoint_latency`](crate::InstanceOptions::waypoint_latency).
    pub waypoint_latency: u32,
    /// Whether the newest generations may be missing.
    pub accept_lost_logs: bool,
    /// Whether to start a new generation instead of appending to the newest existing file, even if that file has
    /// space.
    pub begin_generation: bool,
}

/// Interface that the log needs from its owner. During these calls, no lock is held that appends need.
pub trait LogListener: Send + Sync {
    /// Returns the list of attached databases for a new log header. The writer calls this, so the call must not wait
    /// for I/O.
    fn attachments(&self) -> Vec<u8>;
    /// Notifies the owner of the newest generation whose file has its final name. The headers of attached databases
    /// must name this generation durably before the call returns. The call may be repeated for the same generation.
    fn entered(&self, generation: Generation, created: LogTime) -> Result<()>;
    /// Returns the position at which redo would start now. The writer also calls this, so the call must not wait for
    /// I/O.
    fn checkpoint(&self) -> LogPosition;
    /// Notifies the owner that the disk is full. From now on the log uses its reserve, and ordinary work is refused.
    fn disk_full(&self, _next: &Path) {}
}

/// Counters of the log since it was opened.
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
    /// Number of segment bytes written, without shadows.
    pub written: u64,
    /// Number of flushes that had to wait for durability. On average, `flushes / writes` of them share one write.
    pub flushes: u64,
    /// Number of appends that had to wait because the buffer was full.
    pub stalls: u64,
    /// Number of generations begun.
    pub generations: u64,
}
