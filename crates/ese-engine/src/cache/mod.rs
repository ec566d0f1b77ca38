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
//! - Memory: frames, transfer buffers and deltas never exceed the configured bytes, except for frames that deltas
//!   return early because all others are in use ([`deltas`]).
//! - A pin keeps a page resident and a latch protects its bytes. No thread waits for I/O with a latch held.
//! - A page is written only when its undo information is logged, the log is durable up to its last change, and the
//!   waypoint has passed that change. If a page changes too often, a copy of it is retained and written later
//!   ([`retained_copies`]).
//! - A page has at most one write in flight. It is clean when that write completes, unless it has changed again.
//! - A dirty page whose deltas are known may be evicted without a write; the cache retains the deltas ([`deltas`]).
//! - A page is included in [`Cache::oldest_dirty`] until a sync follows its write: a written page is not yet durable.
//! - Locks nest in this order: page table shard, frame's modification, dirty page table. Completions of I/O acquire
//!   no other locks, and no thread submits I/O while it holds one of them.
//! - Without threads, and with a deterministic clock and deterministic files, the cache is deterministic.
//!
//! The cache does not decide when to checkpoint or which pages to read ahead, and it does not grow files.

mod announced_ranges;
mod attached_file;
mod cache_inner;
mod change_buffer;
mod cleaner;
mod cleaner_signal;
mod cleaner_thread;
mod counters;
mod damaged_pages;
mod deltas;
mod dirty_page_table;
mod disk_verification;
mod drop_pages;
mod fault;
mod flush;
mod flush_neighbours;
mod frame;
mod frame_memory;
mod frame_supply;
mod in_flight;
mod install_image;
mod latch;
mod load_buffers;
mod memory_grant;
mod new_pages;
mod options;
mod page_cache;
mod page_key;
mod page_table;
mod preread;
mod read_through;
mod released_pages;
mod replacement;
mod retained_copies;
mod retained_run;
mod transfer_buffers;
mod watched_read;
mod write_ahead;
mod write_back;

pub use counters::CacheCounters;
pub(crate) use deltas::{DbTimeMismatch, PageDelta};
pub use disk_verification::OnDiskVerification;
pub use latch::{PinnedPage, ReadLatch, WriteLatch};
pub use load_buffers::LoadBuffers;
pub(crate) use load_buffers::SortMemory;
pub use memory_grant::MemoryGrant;
pub(crate) use new_pages::NewPageWrites;
pub use options::{CacheOptions, EvictionPolicy};
pub use page_cache::Cache;
pub use page_key::{AttachedFileId, PageKey};
pub(crate) use read_through::PageReadResult;
pub(crate) use watched_read::WatchedRead;
pub use write_ahead::{DeferredUndo, ProtectedBatch, TornPageGuard, WriteAhead};

#[cfg(test)]
mod tests;
