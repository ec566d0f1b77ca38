//! Sources of the pages for a backup: the file of an attached database, or a file that no engine uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ese_format::checksum::verify_page;
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{Clock, File, IoReason, OpenMode, Vfs, is_disconnected};

use crate::cache::{OnDiskVerification, WatchedRead};
use crate::storage::double_write::{DoubleWriteImage, page_images};
use crate::storage::{DatabaseFile, read_header};
use crate::{Error, Result};

/// A database whose pages are read directly, bypassing the cache.
pub(super) enum PageSource {
    /// An attached database. The engine may write its pages while they are read.
    Attached(Arc<DatabaseFile>),
    /// A database that no engine uses.
    Offline(OfflineDatabase),
}

/// The file of a database that is not in use by any engine.
pub(super) struct OfflineDatabase {
    file: Arc<dyn File>,
    page_size: PageSize,
    clock: Arc<dyn Clock>,
    /// Page images that recovery would use to replace torn pages.
    images: BTreeMap<PageNumber, DoubleWriteImage>,
}

impl OfflineDatabase {
    /// Opens a database whose log ends at `end_of_log`, and reads its header.
    pub fn open(
        vfs: &dyn Vfs,
        path: &Path,
        end_of_log: LogPosition,
    ) -> Result<(OfflineDatabase, DatabaseHeader)> {
        let file = vfs.open(path, OpenMode::Read).map_err(|e| Error::io(path, &e))?;
        let (header, _) = read_header(&*file)?;
        let images = match header.state {
            DatabaseState::DirtyShutdown => page_images(vfs, path, &header, end_of_log)?,
            _ => BTreeMap::new(),
        };
        let still = OfflineDatabase { file, page_size: header.page_size, clock: vfs.clock(), images };
        Ok((still, header))
    }
}

impl PageSource {
    pub fn page_size(&self) -> PageSize {
        match self {
            PageSource::Attached(database) => database.page_size,
            PageSource::Offline(still) => still.page_size,
        }
    }

    pub fn file(&self) -> &Arc<dyn File> {
        match self {
            PageSource::Attached(database) => &database.file,
            PageSource::Offline(still) => &still.file,
        }
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        match self {
            PageSource::Attached(database) => database.vfs.clock(),
            PageSource::Offline(still) => still.clock.clone(),
        }
    }

    /// Returns the number of pages in the file.
    pub fn pages(&self) -> Result<u32> {
        let io_error = |e: std::io::Error| Error::io(self.file().path(), &e);
        let pages = self.file().len().map_err(io_error)? / self.page_size().bytes() as u64;
        Ok(pages.saturating_sub(2).min(u64::from(u32::MAX)) as u32)
    }

    /// Registers a read of these pages, to detect concurrent writes.
    pub fn watch(&self, first: PageNumber, count: u32) -> Result<Option<WatchedRead>> {
        match self {
            PageSource::Attached(database) => {
                database.cache.watch_read(database.file_id, first, count).map(Some)
            }
            PageSource::Offline(_) => Ok(None),
        }
    }

    /// Replaces an extent's torn pages as recovery would. Returns the pages that were replaced.
    pub fn replace_torn(&self, first: PageNumber, bytes: &mut [u8]) -> BTreeSet<PageNumber> {
        let PageSource::Offline(still) = self else { return BTreeSet::new() };
        let size = still.page_size;
        let count = (bytes.len() / size.bytes()) as u32;
        let mut replaced = BTreeSet::new();
        for (page, image) in still.images.range(first..first.plus(count)) {
            let at = (page.get() - first.get()) as usize * size.bytes();
            let Some(stored) = bytes.get_mut(at..at + size.bytes()) else { continue };
            if image.replaces(&mut stored.to_vec(), size, *page) {
                stored.copy_from_slice(&image.bytes);
                replaced.insert(*page);
            }
        }
        replaced
    }

    /// Rereads one page while it is not being written.
    pub fn reread_page(&self, page: PageNumber, bytes: &mut [u8]) -> Result<OnDiskVerification> {
        match self {
            PageSource::Attached(database) => {
                database.cache.read_under_claim(database.page_key(page), bytes, IoReason::Backup)
            }
            PageSource::Offline(still) => {
                Ok(match still.file.read_at(still.page_size.offset_of(page), bytes, IoReason::Backup) {
                    Ok(()) => OnDiskVerification::Verified(verify_page(bytes, still.page_size, page)),
                    // If the device is unreachable, the page is not necessarily damaged.
                    Err(error) if is_disconnected(error.kind()) => {
                        return Err(Error::io(still.file.path(), &error));
                    }
                    Err(error) => OnDiskVerification::Unreadable(error),
                })
            }
        }
    }
}
