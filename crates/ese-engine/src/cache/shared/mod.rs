//! State that all frames, readers and writers of the cache share: attached files, memory, counters and signals. It
//! contains no frames.

mod announced_ranges;
mod attached_file;
mod cache_inner;
mod cleaner_signal;
pub(super) mod counters;
mod damaged_pages;
mod dirty_page_table;
mod frame_memory;
mod in_flight;
mod released_pages;
mod transfer_buffers;

pub(super) use self::announced_ranges::AnnouncedRange;
pub(super) use self::attached_file::AttachedFile;
pub(super) use self::cache_inner::{CacheInner, MIN_BATCH, WRITES_IN_FLIGHT};
pub(super) use self::damaged_pages::RepairWaitResult;
pub(super) use self::frame_memory::FrameMemory;
pub(super) use self::in_flight::InFlightCounter;
pub(super) use self::released_pages::unused_page;
pub(super) use self::transfer_buffers::TransferBuffers;
