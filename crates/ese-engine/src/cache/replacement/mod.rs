//! Decides which pages stay in memory, and which are evicted or written next.

mod eviction;
mod flush_neighbours;
mod page_table;
mod resident_pages;

pub(super) use self::page_table::PageTable;
pub(super) use self::resident_pages::ResidentPages;
