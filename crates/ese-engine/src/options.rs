//! What can be set when an instance is opened and a database created.

use std::path::PathBuf;

use ese_format::PageSize;
use ese_format::log::header::SEGMENT_BYTES;
use jetcell_sync::Arc;
use jetcell_vfs::{RealOptions, RealVfs, Vfs};

use crate::cache::{Cache, CacheOptions};
use crate::storage::TornPageProtection;
use crate::{Error, Result};

/// Settings of an instance.
#[derive(Clone)]
pub struct InstanceOptions {
    /// Where files are: the file system of the machine, or a simulated one.
    pub vfs: Arc<dyn Vfs>,
    /// Where the logs are. ESE: `JET_paramLogFilePath`.
    pub log_directory: PathBuf,
    /// Where the checkpoint file is. ESE: `JET_paramSystemPath`.
    pub system_directory: PathBuf,
    /// First three letters of log names. ESE: `JET_paramBaseName`.
    pub base_name: String,
    /// Page size of all databases. A shared cache must have the same.
    pub page_size: PageSize,
    /// Memory of the instance's own cache, in bytes. ESE: `JET_paramCacheSizeMax`.
    pub cache_bytes: usize,
    /// A cache that instances share. Its owner starts its threads and sets its size and checkpoint depth.
    pub shared_cache: Option<Arc<Cache>>,
    /// Bytes of one log file of a new log stream: a multiple of 4096, from 65,536 (64 KiB) to 268,431,360 (4 KiB less than
    /// 256 MiB). An existing stream keeps the size that it has. ESE: `JET_paramLogFileSize`.
    pub log_file_size: u32,
    /// Delete logs that recovery no longer needs. ESE: `JET_paramCircularLog`.
    pub circular: bool,
    /// Bytes of log that redo may have to read. ESE: `JET_paramCheckpointDepthMax`.
    pub checkpoint_depth: u64,
    /// Limit of the version store in bytes. ESE: `JET_paramMaxVerPages`.
    pub version_store_bytes: usize,
    /// Protection against page writes that a power cut interrupts.
    pub torn_page_protection: TornPageProtection,
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

    /// Options for an instance whose files are in `directory`, which must exist. They are on the file system of the
    /// machine, and the instance makes a cache of its own.
    ///
    /// Defaults: 64 MiB of cache with pages of 8 KiB; 1 MiB logs named E00, kept; 20 MiB checkpoint depth; 64 MiB of
    /// versions; pages protected; work in the background done by threads. Each option is a field.
    ///
    /// # Errors
    /// [`Error::Io`] if the operating system lacks what the engine needs to transfer pages.
    pub fn new(directory: impl Into<PathBuf>) -> Result<InstanceOptions> {
        let directory = directory.into();
        let vfs = RealVfs::new(RealOptions::default()).map_err(|error| Error::io(&directory, &error))?;
        Ok(InstanceOptions::with_vfs(Arc::new(vfs), directory))
    }

    /// The same, on files that `vfs` gives.
    pub fn with_vfs(vfs: Arc<dyn Vfs>, directory: PathBuf) -> InstanceOptions {
        InstanceOptions {
            vfs,
            system_directory: directory.clone(),
            log_directory: directory,
            base_name: "E00".to_string(),
            page_size: PageSize::KIB_8,
            cache_bytes: 64 << 20,
            shared_cache: None,
            log_file_size: 1 << 20,
            circular: false,
            checkpoint_depth: 20 << 20,
            version_store_bytes: 64 << 20,
            torn_page_protection: TornPageProtection::DoubleWrite,
            threads: true,
            seed: None,
        }
    }

    /// The same, with a cache that other instances may use, too. It gives the page size.
    pub fn with_cache(vfs: Arc<dyn Vfs>, directory: PathBuf, cache: Arc<Cache>) -> InstanceOptions {
        InstanceOptions {
            page_size: cache.page_size(),
            shared_cache: Some(cache),
            ..InstanceOptions::with_vfs(vfs, directory)
        }
    }

    /// The cache of the instance: the shared one, or a new one with the options of the instance.
    pub(crate) fn cache(&self) -> Result<Arc<Cache>> {
        if let Some(cache) = &self.shared_cache {
            return Ok(cache.clone());
        }
        let options = CacheOptions::new(self.cache_bytes, self.page_size, self.vfs.clock());
        let cache = Cache::new(CacheOptions { checkpoint_depth: self.checkpoint_depth, ..options });
        if self.threads {
            cache.start_threads()?;
        }
        Ok(cache)
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
