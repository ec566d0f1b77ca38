//! Selects the cache that holds an instance's pages.

use jetcell_sync::Arc;

use crate::cache::Cache;

/// Source of an instance's cache.
#[derive(Clone)]
#[non_exhaustive]
pub enum CacheSource {
    /// The instance creates its own cache.
    Own {
        /// Size of the cache in bytes. ESE: `JET_paramCacheSizeMax`.
        bytes: usize,
    },
    /// Several instances share this cache. The owner of the cache starts its threads and sets its size and checkpoint
    /// depth.
    Shared(Arc<Cache>),
}

impl Default for CacheSource {
    fn default() -> CacheSource {
        CacheSource::Own { bytes: 64 << 20 }
    }
}
