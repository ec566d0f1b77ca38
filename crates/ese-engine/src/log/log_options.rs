//! Settings of a log stream, and what the stream asks of its owner.

use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;
use std::path::Path;

use super::LogNames;
use crate::Result;

/// Settings of a log stream.
#[derive(Clone)]
pub struct LogOptions {
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// Directory and names of the files.
    pub names: LogNames,
    /// Bytes of one file of a new stream, a multiple of 4096. An existing stream keeps its file size.
    pub file_size: u32,
    /// Page size of the databases, for the header.
    pub page_size: u32,
    /// Recycle files below the checkpoint.
    pub circular: bool,
    /// Number of archived files that the stream keeps before it removes obsolete ones. Until then it overwrites obsolete
    /// files: blocks that were written before are quicker to make durable.
    pub retained_files: usize,
    /// A copy keeps no log if it needs one that is more generations behind the newest.
    pub copy_lag_limit: u32,
    /// How many generations behind the newest one pages may be written; see
    /// [`InstanceOptions::waypoint_latency`](crate::InstanceOptions::waypoint_latency).
    pub waypoint_latency: u32,
    /// The newest generations may be missing.
    pub accept_lost_logs: bool,
    /// Nothing is appended to the newest existing file, even if it has room.
    pub begin_generation: bool,
}

/// What the log asks of its owner. The calls hold no lock of the log that appending needs.
pub trait LogListener: Send + Sync {
    /// The list of attached databases for a new log header. The writer asks: must not wait for I/O.
    fn attachments(&self) -> Vec<u8>;
    /// The newest generation whose file has its name. Headers of attached databases must name it durably before this
    /// returns. May be called several times with the same generation.
    fn entered(&self, generation: Generation, created: LogTime) -> Result<()>;
    /// Where redo would start now. The writer asks, too: must not wait for I/O.
    fn checkpoint(&self) -> LogPosition;
    /// The disk is full: from now on the log is written into its reserve, and ordinary work is refused.
    fn disk_full(&self, _next: &Path) {}
}

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogCounters {
    /// Records appended.
    pub records: u64,
    /// Bytes of records appended.
    pub bytes: u64,
    /// Bytes of filler.
    pub wasted: u64,
    /// Writes; each is one sync.
    pub writes: u64,
    /// Bytes of segments written, without their shadows.
    pub written: u64,
    /// Flushes that found records not yet durable: `flushes / writes` of them share one write.
    pub flushes: u64,
    /// Appends that found the buffer full.
    pub stalls: u64,
    /// Generations begun.
    pub generations: u64,
}
