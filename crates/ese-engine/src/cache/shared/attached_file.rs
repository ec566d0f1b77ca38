//! State of a file that is attached to the cache.

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::File;

use super::announced_ranges::AnnouncedRanges;
use super::damaged_pages::DamagedPages;
use super::dirty_page_table::DirtyPageTable;
use super::in_flight::InFlightCounter;
use super::released_pages::ReleasedPages;
use crate::cache::{AttachedFileId, WriteAhead};
use crate::events::EventReporter;

/// An attached file with its dirty pages.
pub(in crate::cache) struct AttachedFile {
    pub id: AttachedFileId,
    pub file: Arc<dyn File>,
    pub wal: Arc<dyn WriteAhead>,
    /// Receiver of reports about damaged pages.
    pub events: EventReporter,
    pub dirty_pages: Mutex<DirtyPageTable>,
    /// Serialises syncs. The dirty page table can then tell which writes a sync covered.
    pub sync: Mutex<()>,
    /// Active writers and incomplete transfers. Closed before the file is detached.
    pub in_flight: InFlightCounter,
    /// Page ranges that are being read without going through the cache.
    pub announced: AnnouncedRanges,
    pub released: ReleasedPages,
    /// Pages that could not be read.
    pub damaged: DamagedPages,
}

impl AttachedFile {
    pub fn new(
        id: AttachedFileId,
        file: Arc<dyn File>,
        wal: Arc<dyn WriteAhead>,
        events: EventReporter,
    ) -> AttachedFile {
        AttachedFile {
            events,
            id,
            file,
            wal,
            dirty_pages: Mutex::default(),
            sync: Mutex::default(),
            in_flight: InFlightCounter::default(),
            announced: AnnouncedRanges::default(),
            released: ReleasedPages::default(),
            damaged: DamagedPages::default(),
        }
    }
}
