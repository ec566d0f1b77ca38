//! What can be set when an instance is opened and a database created.

use std::path::PathBuf;

use ese_format::PageSize;
use ese_format::log::header::SEGMENT_BYTES;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::cache::Cache;
use crate::{Error, Result};

/// Settings of an instance.
#[derive(Clone)]
pub struct InstanceOptions {
    /// The world of files.
    pub vfs: Arc<dyn Vfs>,
    /// Where the logs are. ESE: `JET_paramLogFilePath`.
    pub log_directory: PathBuf,
    /// Where the checkpoint file is. ESE: `JET_paramSystemPath`.
    pub system_directory: PathBuf,
    /// First three letters of log names. ESE: `JET_paramBaseName`.
    pub base_name: String,
    /// Page size of all databases; that of the cache.
    pub page_size: PageSize,
    /// The cache; instances may share one.
    pub cache: Arc<Cache>,
    /// Bytes of one log file of a new log stream: a multiple of 4096, from 65,536 (64 KiB) to 268,431,360 (4 KiB less than
    /// 256 MiB). An existing stream keeps the size that it has. ESE: `JET_paramLogFileSize`.
    pub log_file_size: u32,
    /// Delete logs that recovery no longer needs. ESE: `JET_paramCircularLog`.
    pub circular: bool,
    /// Bytes of log that redo may have to read. ESE: `JET_paramCheckpointDepthMax`.
    pub checkpoint_depth: u64,
    /// Limit of the version store in bytes. ESE: `JET_paramMaxVerPages`.
    pub version_store_bytes: usize,
    /// Write page images to a side file first, so that a page write torn by a power cut can be repaired. Off, the
    /// engine trusts the device to write a page as a whole, as ESE does.
    pub page_protection: bool,
    /// Run background work in threads. Off, the owner calls [`crate::Instance::step`].
    pub threads: bool,
    /// Makes signatures repeatable; for simulations.
    pub seed: Option<u64>,
}

/// Smaller files hold too little beside the largest records.
const SMALLEST_LOG_FILE: u32 = 64 << 10;
/// Log headers and positions count segments with 16 bits.
const LARGEST_LOG_FILE: u32 = u16::MAX as u32 * SEGMENT_BYTES as u32;

impl InstanceOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let size = self.log_file_size;
        let possible = (SMALLEST_LOG_FILE..=LARGEST_LOG_FILE).contains(&size);
        if possible && size.is_multiple_of(SEGMENT_BYTES as u32) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "log files of {size} bytes: the size must be a multiple of {SEGMENT_BYTES} from {SMALLEST_LOG_FILE} to \
             {LARGEST_LOG_FILE}"
        )))
    }

    /// Defaults: 1 MiB logs named E00, kept; 20 MiB checkpoint depth; 64 MiB of versions; pages protected.
    pub fn new(vfs: Arc<dyn Vfs>, log_directory: PathBuf, cache: Arc<Cache>) -> InstanceOptions {
        InstanceOptions {
            vfs,
            system_directory: log_directory.clone(),
            log_directory,
            base_name: "E00".to_string(),
            page_size: cache.page_size(),
            cache,
            log_file_size: 1 << 20,
            circular: false,
            checkpoint_depth: 20 << 20,
            version_store_bytes: 64 << 20,
            page_protection: true,
            threads: true,
            seed: None,
        }
    }
}

/// Settings of a new database.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Pages of the new file; at least 256.
    pub initial_pages: u32,
    /// Pages by which it grows. ESE: `JET_paramDbExtensionSize`.
    pub extension_pages: u32,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions { initial_pages: 256, extension_pages: 256 }
    }
}
