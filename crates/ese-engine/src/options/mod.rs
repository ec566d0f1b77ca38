//! Settings for instances and for new databases, grouped by area.

mod background;
mod cache_source;
mod copies;
mod database;
mod events;
mod log;
mod recovery;

use std::io;
use std::path::PathBuf;

use ese_format::PageSize;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, RealOptions, RealVfs, Vfs};

pub use self::background::BackgroundThreads;
pub use self::cache_source::CacheSource;
pub use self::copies::CopyOptions;
pub use self::database::DatabaseOptions;
pub use self::events::EventOptions;
pub use self::log::{CheckpointOptions, LogOptions};
pub use self::recovery::RecoveryOptions;
use crate::cache::{Cache, CacheOptions};
use crate::events::{EventReporter, EventSink};
use crate::storage::TornPageProtection;
use crate::{Error, Result};

/// Settings for an instance.
///
/// Related settings are grouped into structures. The settings that most programs need also have methods, which are
/// named after the settings and can be chained:
///
/// ```
/// # use ese_engine::*;
/// # fn options(directory: &std::path::Path) -> Result<InstanceOptions> {
/// Ok(InstanceOptions::new(directory)?.cache_bytes(256 << 20).circular_log(true))
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
#[must_use]
pub struct InstanceOptions {
    /// File system that contains the instance's files: the machine's own, or a simulated one.
    pub vfs: Arc<dyn Vfs>,
    /// Page size of all databases. A shared cache must use the same page size.
    pub page_size: PageSize,
    /// Cache of the instance.
    pub cache: CacheSource,
    /// Threads for background work.
    pub background: BackgroundThreads,
    /// Settings for log files.
    pub log: LogOptions,
    /// Settings for checkpoints.
    pub checkpoint: CheckpointOptions,
    /// Settings for recovery.
    pub recovery: RecoveryOptions,
    /// Settings for passive copies of the databases.
    pub copies: CopyOptions,
    /// Settings for events.
    pub events: EventOptions,
    /// Maximum size of the version store in bytes. ESE: `JET_paramMaxVerPages`.
    pub version_store_bytes: usize,
    /// Protection against pages that are torn when a power failure interrupts a write.
    pub torn_page_protection: TornPageProtection,
    /// Seed for signatures. Simulations set it to make their runs repeatable.
    pub seed: Option<u64>,
}

/// Defines methods that set one option each.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) => $($field:ident).+ = $new:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $value: $type) -> InstanceOptions {
            self.$($field).+ = $new;
            self
        })*
    };
}

impl InstanceOptions {
    /// Creates options for an instance whose files are in `directory`, which must exist in the machine's file system.
    /// The instance creates its own cache.
    ///
    /// Defaults: a cache of 64 MiB with 8 KiB pages; 1 MiB log files with the base name E00, which are not deleted;
    /// copies may lag up to 10,000 generations; a checkpoint depth of 20 MiB; a version store of 64 MiB; torn-page
    /// protection on; background work in threads.
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
            page_size: PageSize::KIB_8,
            cache: CacheSource::default(),
            background: BackgroundThreads::Own,
            checkpoint: CheckpointOptions::new(directory.clone()),
            log: LogOptions::new(directory),
            recovery: RecoveryOptions::default(),
            copies: CopyOptions::default(),
            events: EventOptions::default(),
            version_store_bytes: 64 << 20,
            torn_page_protection: TornPageProtection::DoubleWrite,
            seed: None,
        }
    }

    /// Creates options like [`InstanceOptions::new`], but for a cache that other instances may share. The cache
    /// determines the page size.
    pub fn with_cache(vfs: Arc<dyn Vfs>, directory: PathBuf, cache: Arc<Cache>) -> InstanceOptions {
        InstanceOptions {
            page_size: cache.page_size(),
            cache: CacheSource::Shared(cache),
            ..InstanceOptions::with_vfs(vfs, directory)
        }
    }

    setters! {
        /// Sets the page size of all databases.
        page_size(page_size: PageSize) => page_size = page_size;
        /// Sets the size of the instance's own cache in bytes.
        cache_bytes(bytes: usize) => cache = CacheSource::Own { bytes };
        /// Sets the threads for background work.
        background(threads: BackgroundThreads) => background = threads;
        /// Sets the size in bytes of each log file in a new log stream.
        log_file_size(bytes: u32) => log.file_size = bytes;
        /// Sets whether logs that recovery no longer needs are deleted.
        circular_log(circular: bool) => log.circular = circular;
        /// Sets the maximum number of log bytes that redo should need to read.
        checkpoint_depth(bytes: u64) => checkpoint.depth = bytes;
        /// Sets the protection against pages that are torn when a power failure interrupts a write.
        torn_page_protection(protection: TornPageProtection) => torn_page_protection = protection;
        /// Sets the receiver of the instance's events.
        event_sink(sink: Option<Arc<dyn EventSink>>) => events.sink = sink;
        /// Sets the seed for signatures.
        seed(seed: u64) => seed = Some(seed);
    }

    /// Acquires the lock on the log directory. Only one instance or replayer can hold it.
    pub(crate) fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let path = self.log.directory.join(format!("{}.lock", self.log.base_name));
        self.vfs.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::InUse { path: self.log.directory.clone() },
            _ => Error::io(&path, &error),
        })
    }

    /// Returns the reporter for the instance's events.
    pub(crate) fn reporter(&self) -> EventReporter {
        let EventOptions { sink, profile } = &self.events;
        EventReporter::new(sink.clone(), self.vfs.clock(), &self.log.directory, *profile)
    }

    /// Returns the instance's cache: the shared cache, or a new one created from these options.
    pub(crate) fn open_cache(&self) -> Result<Arc<Cache>> {
        let cache = match &self.cache {
            CacheSource::Shared(cache) => cache.clone(),
            CacheSource::Own { bytes } => {
                let cache = Cache::new(CacheOptions::new(*bytes, self.page_size, self.vfs.clock()));
                if self.background.has_threads() {
                    cache.start_threads()?;
                }
                cache
            }
        };
        cache.bound_checkpoint_depth(self.checkpoint.depth);
        Ok(cache)
    }
}
