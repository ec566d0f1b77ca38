//! Settings for an instance's log files and its checkpoint.

use std::path::PathBuf;

use ese_format::log::header::SEGMENT_BYTES;
use jetcell_vfs::FileStem;

use crate::log::LogNameFormat;
use crate::{Result, UsageError};

/// Minimum size of a log file. A smaller file would have too little space for the largest records.
const MIN_LOG_FILE: u32 = 64 << 10;
/// Maximum size of a log file. Log headers and positions count segments with 16 bits.
const MAX_LOG_FILE: u32 = u16::MAX as u32 * SEGMENT_BYTES as u32;

/// Settings for the log files of an instance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// Directory that contains the logs. ESE: `JET_paramLogFilePath`.
    pub directory: PathBuf,
    /// Base name of the log files. ESE: `JET_paramBaseName`.
    pub base_name: FileStem,
    /// Format of log file names. An existing stream keeps its format.
    pub names: LogNameFormat,
    /// Size in bytes of each log file in a new log stream: a multiple of 4096, from 65,536 (64 KiB) to 268,431,360 (4
    /// KiB less than 256 MiB). An existing stream keeps its size. ESE: `JET_paramLogFileSize`.
    pub file_size: u32,
    /// Whether to delete logs that recovery no longer needs. ESE: `JET_paramCircularLog`.
    pub circular: bool,
    /// Number of newest generations that may be lost without making a database inconsistent: 0 to
    /// [`LogOptions::MAX_WAYPOINT_LATENCY`].
    ///
    /// A page is not written while it contains changes from one of these generations. The only exception is the
    /// generation that attaches a database, which is always required. The amount of log that redo may have to read
    /// grows by the same number of generations. ESE: `JET_paramWaypointLatency`, lost log resilience.
    #[doc(alias = "JET_paramWaypointLatency")]
    pub waypoint_latency: u32,
}

impl LogOptions {
    /// Maximum for [`LogOptions::waypoint_latency`].
    pub const MAX_WAYPOINT_LATENCY: u32 = 10;

    pub(super) fn new(directory: PathBuf) -> LogOptions {
        LogOptions {
            directory,
            base_name: FileStem::E00,
            names: LogNameFormat::default(),
            file_size: 1 << 20,
            circular: false,
            waypoint_latency: 0,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.waypoint_latency > LogOptions::MAX_WAYPOINT_LATENCY {
            return Err(UsageError::WaypointLatency(self.waypoint_latency).into());
        }
        let size = self.file_size;
        let possible = (MIN_LOG_FILE..=MAX_LOG_FILE).contains(&size);
        if possible && size.is_multiple_of(SEGMENT_BYTES as u32) {
            return Ok(());
        }
        Err(UsageError::LogFileSize { bytes: size, min: MIN_LOG_FILE, max: MAX_LOG_FILE }.into())
    }
}

/// Settings for the checkpoint of an instance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointOptions {
    /// Directory that contains the checkpoint file. ESE: `JET_paramSystemPath`.
    pub directory: PathBuf,
    /// Maximum number of log bytes that redo should need to read. ESE: `JET_paramCheckpointDepthMax`.
    pub depth: u64,
}

impl CheckpointOptions {
    pub(super) fn new(directory: PathBuf) -> CheckpointOptions {
        CheckpointOptions { directory, depth: 20 << 20 }
    }
}
