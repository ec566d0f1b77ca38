//! The page cache: pages of all attached databases in a fixed amount of memory.
//!
//! ```text
//!  fetch ── table (shard: key -> frame) ── hit: pin ──────────────────────────── PinnedPage ── ReadLatch
//!             └─ miss: frame from the available pool, read, verify ──┘                └─────── WriteLatch
//!                        ^ clean_step: evict clean victims, write dirty ones                     │ mark_dirty
//!  ledger of the file: dirty pages by the log position of their first change <───────────────────┘
//!             └─ write_below, flush_file: copy under a latch, seal, write in runs; sync_file makes it durable
//! ```
//!
//! Invariants:
//! - Memory: frames, the copies being written and kept edits never exceed the configured bytes, but for frames that
//!   come back early because all others are in use ([`kept`]).
//! - A pin keeps a page resident and a latch protects its bytes; nobody waits for I/O under a latch.
//! - A page is written only when its undo information is logged and the log is durable up to its last change.
//! - A page has at most one write in flight. It turns clean when that write completes, unless it changed since.
//! - A dirty page whose edits are known may go without being written; its edits stay ([`kept`]).
//! - A page counts for [`Cache::oldest_dirty`] until its write has been followed by a sync: written is not durable.
//! - Locks nest in this order: table shard, frame's change, ledger. Completions of I/O take no others, and nobody
//!   submits I/O holding one of them.
//! - Without threads, and with a clock and files that repeat, the cache repeats itself exactly.
//!
//! Left out: when to checkpoint, which pages to read ahead, growing files.

mod change;
mod cleaner;
mod copies;
mod counters;
mod edit;
mod examine;
mod fault;
mod files;
mod frame;
mod kept;
mod latch;
mod ledger;
mod lent;
mod memory;
mod neighbours;
mod options;
mod page_cache;
mod page_key;
mod preread;
mod replacement;
mod table;
mod threads;
mod write_ahead;
mod write_back;

pub use counters::CacheCounters;
pub(crate) use edit::{PageDelta, db_time_mismatch};
pub use examine::OnDiskPage;
pub use latch::{PinnedPage, ReadLatch, WriteLatch};
pub use lent::MemoryGrant;
pub use options::{CacheOptions, EvictionPolicy};
pub use page_cache::Cache;
pub use page_key::{FileId, PageKey};
pub use write_ahead::{DeferredUndo, Protection, WriteAhead};

#[cfg(test)]
mod tests;
