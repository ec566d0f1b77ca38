//! Deltas of evicted dirty pages. A dirty page can be evicted without a write if the cache retains its changes.
//!
//! ```text
//!  dirty frame, all changes known ──evict_dirty──> EvictedDirtyPage: log positions, deltas ──restore_evicted──┐
//!        ^                                                                                                    v
//!        └───────────────────── apply_pending_deltas: deltas applied to the bytes <───────────── frame being read
//! ```
//!
//! If one in thirty records on a page has changed, the changes take up about a thirtieth of the page's memory. One
//! frame's memory can then hold the changes to many pages, and a page is written only when several of its records have
//! changed. LLAMA does the same with its delta chains (Levandoski, Lomet, Sengupta: LLAMA, a cache/storage subsystem
//! for modern hardware, PVLDB 6, 2013). InnoDB's change buffer does it for secondary indexes.
//!
//! This module is the interface: the rest of the cache calls [`DeltaStore`] and does not depend on the policy. With
//! [`EvictionPolicy::WriteBack`](super::EvictionPolicy::WriteBack), the store has no memory, no deltas are recorded,
//! and every dirty page must be written before it is evicted.
//!
//! Invariants:
//! - An evicted dirty page stays in the dirty page table at the position of its first change. Redo and the checkpoint
//!   treat it like any other dirty page.
//! - Deltas use the memory of frames that the cache gives to the store. If all other frames are in use, the cache
//!   takes frames back even though deltas still use their memory.
//! - An evicted page that is read again only to be written costs an extra read. The admission budget limits the
//!   number of such pages.

mod admission;
mod evicted_page;
mod page_delta;
mod store;

pub(super) use evicted_page::EvictedDirtyPage;
pub(crate) use page_delta::PageDelta;
#[cfg(debug_assertions)]
pub(super) use page_delta::digest;
pub(super) use page_delta::replay;
pub(super) use store::DeltaStore;
