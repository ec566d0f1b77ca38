//! The page cache (buffer pool): pages of all attached databases in a fixed amount of memory.
//!
//! ```text
//!  fetch ── page table (key -> frame) ── hit: pin ──────────────────────────── PinnedPage ── ReadLatch
//!             └─ miss: frame from the available pool, read, verify ──┘              └─────── WriteLatch
//!                        ^ clean_step: evict clean victims, write dirty ones                   │ mark_dirty
//!  dirty page table of the file: by the log position of the first change <─────────────────────┘
//!             └─ write_below, flush_file: copy under a latch, seal, write in runs; sync_file makes it durable
//! ```
//!
//! Invariants:
//! - Memory: frames, transfer buffers and deltas never exceed the configured bytes, unless the cache has to take frames
//!   back from deltas because all others are in use ([`deltas`]).
//! - A pin keeps a page resident and a latch protects its bytes. No thread waits for I/O with a latch held.
//! - A page is written only when its undo information is logged, the log is durable up to its last change, and the
//!   waypoint has passed that change. If a page changes too often, a copy of it is retained and written later
//!   ([`write`](mod@write)).
//! - A page has at most one write in flight. It is clean when that write completes, unless it has changed again.
//! - A dirty page whose deltas are known may be evicted without a write; the cache retains the deltas ([`deltas`]).
//! - A page is included in [`Cache::oldest_dirty`] until a sync follows its write: a written page is not yet durable.
//! - Locks nest in this order: page table shard, frame's modification, dirty page table. Completions of I/O acquire
//!   no other locks, and no thread submits I/O while it holds one of them.
//! - Without threads, and with a deterministic clock and deterministic files, the cache is deterministic.
//!
//! The cache does not decide when to checkpoint or which pages to read ahead, and it does not grow files.

mod checkpoint_writes;
mod cleaner_thread;
mod deltas;
mod frame;
mod load_buffers;
mod new_pages;
mod options;
mod page_cache;
mod page_key;
mod read;
mod replacement;
mod shared;
mod supply;
mod write;
mod write_ahead;

pub(crate) use deltas::PageDelta;
pub use frame::latch::{PinnedPage, ReadLatch, WriteLatch};
pub use frame::memory_grant::MemoryGrant;
pub use load_buffers::LoadBuffers;
pub(crate) use load_buffers::SortMemory;
pub(crate) use new_pages::NewPageWrites;
pub use options::{CacheOptions, EvictionPolicy};
pub use page_cache::Cache;
pub use page_key::{AttachedFileId, PageKey};
pub(crate) use read::read_through::PageReadResult;
pub use read::uncached_read::OnDiskVerification;
pub(crate) use read::uncached_read::WatchedRead;
pub use shared::counters::CacheCounters;
pub use write_ahead::{DeferredUndo, ProtectedBatch, TornPageGuard, WriteAhead};

#[cfg(test)]
mod tests;
