//! A value with one shard per group of threads. Threads in different groups do not write to the same cache line.

use crossbeam_utils::CachePadded;
use jetcell_sync::thread;

/// Number of shards. It is usually greater than the number of threads running at the same time.
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
    /// Returns the index of the calling thread's shard.
    pub fn own_shard(&self) -> ShardIndex {
        ShardIndex((thread::ordinal() % SHARDS) as u8)
    }

    /// Returns the value of one shard.
    pub fn shard(&self, index: ShardIndex) -> &T {
        &self.0[usize::from(index.0) % SHARDS]
    }

    /// Returns an iterator over the values of all shards.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &**shard)
    }
}

/// Index of a shard in a [`Sharded`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardIndex(u8);
