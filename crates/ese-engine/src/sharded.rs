//! A value per group of threads, so that threads do not write to the same cache line.

use crossbeam_utils::CachePadded;
use jetcell_sync::thread;

/// Number of shards. Usually more than the threads that run at the same time.
const SHARDS: usize = 16;

/// One value of `T` per shard, each on its own cache line. A thread always uses the same shard.
#[derive(Debug)]
pub(crate) struct Sharded<T>(Box<[CachePadded<T>]>);

impl<T: Default> Default for Sharded<T> {
    fn default() -> Sharded<T> {
        Sharded((0..SHARDS).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Sharded<T> {
    /// The shard of the calling thread.
    pub fn own_shard(&self) -> ShardIndex {
        ShardIndex((thread::ordinal() % SHARDS) as u8)
    }

    /// The value of one shard.
    pub fn shard(&self, index: ShardIndex) -> &T {
        &self.0[usize::from(index.0) % SHARDS]
    }

    /// The values of all shards.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &**shard)
    }
}

/// Index of a shard in a [`Sharded`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardIndex(u8);
