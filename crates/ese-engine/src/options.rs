//! Settings of instances and of new databases.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ese_format::PageSize;
use ese_format::log::header::SEGMENT_BYTES;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, FileStem, RealOptions, RealVfs, Vfs};

use crate::cache::{Cache, CacheOptions};
use crate::events::{EventProfile, EventReporter, EventSink};
use crate::log::LogNameFormat;
use crate::storage::{DatabasePaths, TornPageProtection};
use crate::workers::WorkerGroup;
use crate::{Error, Result};

/// Settings for an instance.
#[derive(Clone)]
pub struct InstanceOptions {
    /// File system that contains the instance's files: the machine's own, or a simulated one.
    pub vfs: Arc<dyn Vfs>,
    /// Directory that contains the logs. ESE: `JET_paramLogFilePath`.
    pub log_directory: PathBuf,
    /// Directory that contains the checkpoint file. ESE: `JET_paramSystemPath`.
    pub system_directory: PathBuf,
    /// Base name of the log files. ESE: `JET_paramBaseName`.
    pub base_name: FileStem,
    /// Page size of all databases. A shared cache must use the same page size.
    pub page_size: PageSize,
    /// Size of the instance's own cache in bytes. ESE: `JET_paramCacheSizeMax`.
    pub cache_bytes: usize,
    /// Cache shared by several instances. The cache's owner starts its threads and sets its size and checkpoint
    /// depth.
    pub shared_cache: Option<Arc<Cache>>,
    /// Size in bytes of each log file in a new log stream: a multiple of 4096, from 65,536 (64 KiB) to 268,431,360 (4
    /// KiB less than 256 MiB). An existing stream keeps its size. ESE: `JET_paramLogFileSize`.
    pub log_file_size: u32,
    /// Whether to delete logs that recovery no longer needs. ESE: `JET_paramCircularLog`.
    pub circular: bool,
    /// Maximum number of generations that a copy may lag. If it lags more, logs that it still needs are removed (see
    /// [`CopyRegistration`](crate::CopyRegistration)).
    pub copy_lag_limit: u32,
    /// Maximum time that a session waits for a copy to repair a damaged page, measured from the detection of the
    /// damage.
    ///
    /// After this time, the session gets the page's error (-1018). Until the page is repaired, other sessions get the
    /// error immediately. Sessions do not wait without [`InstanceOptions::threads`], or if the last contact with
    /// every copy is more than half a minute ago. If this is zero, sessions never wait. This is how ESE behaves: it
    /// repairs a page while sessions that read it get errors.
    pub page_repair_wait: Duration,
    /// Number of newest generations that may be lost without making a database inconsistent: 0 to
    /// [`InstanceOptions::MAX_WAYPOINT_LATENCY`].
    ///
    /// A page is not written while it contains changes from one of these generations. The only exception is the
    /// generation that attaches a database, which is always required. The amount of log that redo may have to read
    /// grows by the same number of generations. ESE: `JET_paramWaypointLatency`, lost log resilience.
    #[doc(alias = "JET_paramWaypointLatency")]
    pub waypoint_latency: u32,
    /// Whether recovery may continue if the newest generations are missing but no database needs them to be
    /// consistent. The commits in these generations are lost;
    /// [`RecoverySummary::lost_generations`](crate::RecoverySummary::lost_generations) names the generations. ESE:
    /// `JET_bitReplayIgnoreLostLogs`.
    #[doc(alias = "JET_bitReplayIgnoreLostLogs")]
    pub accept_lost_logs: bool,
    /// Maximum number of log bytes that redo should need to read. ESE: `JET_paramCheckpointDepthMax`.
    pub checkpoint_depth: u64,
    /// Maximum size of the version store in bytes. ESE: `JET_paramMaxVerPages`.
    pub version_store_bytes: usize,
    /// Protection against page writes that a power failure interrupts.
    pub torn_page_protection: TornPageProtection,
    /// Whether threads run the background work. If not, the instance's owner must call [`crate::Instance::step`].
    pub threads: bool,
    /// Threads for background work, shared with other instances. If `None`, the instance starts five threads of its
    /// own, plus one for each maintenance task.
    pub workers: Option<Arc<WorkerGroup>>,
    /// Format of log file names. An existing stream keeps its format.
    pub log_names: LogNameFormat,
    /// Paths of databases that are not at the paths recorded in the log. Used by recovery.
    pub database_paths: DatabasePaths,
    /// Whether recovery accepts databases in a format that the engine cannot write. Such databases can only be
    /// recovered.
    pub recover_newer_formats: bool,
    /// Whether recovery skips databases that it cannot find. ESE: `JET_bitReplayIgnoreMissingDB`.
    pub ignore_missing_databases: bool,
    /// Whether the first record after recovery starts a new log file, even if the newest file has room. A restored
    /// stream needs this, because in another history, different records may have been written to the rest of that
    /// file.
    pub begin_generation: bool,
    /// Seed for signatures. Simulations set it to make their runs repeatable.
    pub seed: Option<u64>,
    /// Receives the events of the instance.
    pub events: Option<Arc<dyn EventSink>>,
    /// Event numbering scheme for maintenance events.
    pub event_profile: EventProfile,
}

/// Minimum size of a log file. A smaller file would have too little space for the largest records.
const MIN_LOG_FILE: u32 = 64 << 10;
/// Maximum size of a log file. Log headers and positions count segments with 16 bits.
const MAX_LOG_FILE: u32 = u16::MAX as u32 * SEGMENT_BYTES as u32;

impl InstanceOptions {
    /// Default for [`InstanceOptions::copy_lag_limit`].
    pub const COPY_LAG_LIMIT: u32 = 10_000;
    /// Default for [`InstanceOptions::page_repair_wait`]. A repair takes two to three seconds if the copy keeps up.
    pub const PAGE_REPAIR_WAIT: Duration = Duration::from_secs(10);
    /// Maximum for [`InstanceOptions::waypoint_latency`].
    pub const MAX_WAYPOINT_LATENCY: u32 = 10;

    /// Acquires the lock on the log directory. Only one instance or replayer can hold it.
    pub(crate) fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let path = self.log_directory.join(format!("{}.lock", self.base_name));
        self.vfs.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::InUse { path: self.log_directory.clone() },
            _ => Error::io(&path, &error),
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.waypoint_latency > InstanceOptions::MAX_WAYPOINT_LATENCY {
            return Err(Error::Usage(format!(
                "invalid waypoint latency of {} generations; it must be between 0 and {}",
                self.waypoint_latency,
                InstanceOptions::MAX_WAYPOINT_LATENCY
            )));
        }
        let size = self.log_file_size;
        let possible = (MIN_LOG_FILE..=MAX_LOG_FILE).contains(&size);
        if possible && size.is_multiple_of(SEGMENT_BYTES as u32) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "invalid log file size of {size} bytes; the size must be a multiple of {SEGMENT_BYTES} between \
             {MIN_LOG_FILE} and {MAX_LOG_FILE}"
        )))
    }

    /// Creates options for an instance whose files are in `directory`, which must exist in the machine's file system.
    /// The instance creates its own cache.
    ///
    /// Defaults: a cache of 64 MiB with 8 KiB pages; 1 MiB log files with the base name E00, which are not deleted;
    /// copies may lag up to 10,000 generations; a checkpoint depth of 20 MiB; a version store of 64 MiB; torn-page
    /// protection on; background work in threads. Each option is a field.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the operating system lacks a feature that the engine needs to transfer pages.
    pub fn new(directory: impl Into<PathBuf>) -> Result<InstanceOptions> {
        let directory = directory.into();
        let vfs = RealVfs::new(RealOptions::default()).map_err(|error| Error::io(&directory, &error))?;
        Ok(InstanceOptions::with_vfs(Arc::new(vfs), directory))
    }

    /// Creates options like [`InstanceOptions::new`], but for files in the file system `vfs`.
    pub fn with_vfs(vfs: Arc<dyn Vfs>, directory: PathBuf) -> InstanceOptions {
        InstanceOptions {
            vfs,
            system_directory: directory.clone(),
            log_directory: directory,
            base_name: FileStem::E00,
            page_size: PageSize::KIB_8,
            cache_bytes: 64 << 20,
            shared_cache: None,
            log_file_size: 1 << 20,
            circular: false,
            copy_lag_limit: InstanceOptions::COPY_LAG_LIMIT,
            page_repair_wait: InstanceOptions::PAGE_REPAIR_WAIT,
            waypoint_latency: 0,
            accept_lost_logs: false,
            checkpoint_depth: 20 << 20,
            version_store_bytes: 64 << 20,
            torn_page_protection: TornPageProtection::DoubleWrite,
            threads: true,
            workers: None,
            log_names: LogNameFormat::default(),
            database_paths: DatabasePaths::default(),
            recover_newer_formats: false,
            ignore_missing_databases: false,
            begin_generation: false,
            seed: None,
            events: None,
            event_profile: EventProfile::default(),
        }
    }

    /// Creates options like [`InstanceOptions::new`], but for a cache that other instances may share. The cache
    /// determines the page size.
    pub fn with_cache(vfs: Arc<dyn Vfs>, directory: PathBuf, cache: Arc<Cache>) -> InstanceOptions {
        InstanceOptions {
            page_size: cache.page_size(),
            shared_cache: Some(cache),
            ..InstanceOptions::with_vfs(vfs, directory)
        }
    }

    /// Returns the reporter for the instance's events.
    pub(crate) fn reporter(&self) -> EventReporter {
        EventReporter::new(self.events.clone(), self.vfs.clock(), &self.log_directory, self.event_profile)
    }

    /// Returns the instance's cache: the shared cache, or a new one created from these options.
    pub(crate) fn cache(&self) -> Result<Arc<Cache>> {
        let cache = match &self.shared_cache {
            Some(cache) => cache.clone(),
            None => {
                let cache = Cache::new(CacheOptions::new(self.cache_bytes, self.page_size, self.vfs.clock()));
                if self.threads {
                    cache.start_threads()?;
                }
                cache
            }
        };
        cache.bound_checkpoint_depth(self.checkpoint_depth);
        Ok(cache)
    }
}

/// Settings for a new database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Initial file size in pages; at least 256.
    pub initial_pages: u32,
    /// Number of pages by which the file grows. ESE: `JET_paramDbExtensionSize`.
    pub extension_pages: u32,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions { initial_pages: 256, extension_pages: 256 }
    }
}
