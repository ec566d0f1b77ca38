//! Logs the state of the pages that the scan has read, so that copies can compare their pages with it. ESE:
//! divergence check.
//!
//! A record contains a page's time, its logical checksum, and the highest time in the database. The page is latched
//! until the record is in the log. Therefore it has exactly the changes that precede the record, and later changes
//! get later times.

use ese_format::PageNumber;
use ese_format::log::record::{DatabaseIdInLog, LogRecord, ScanCheck2};
use ese_format::page::{Page, PageFlags, fold_logical_checksum, logical_checksum};
use ese_format::{DbTime, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, IoReason};

use crate::cache::OnDiskVerification;
use crate::log::RecordBatch;
use crate::storage::DatabaseFile;
use crate::transaction::Services;
use crate::{Error, Result};

/// A page that contained only zeros when the scan read it.
#[derive(Clone, Copy)]
pub(super) struct ZeroPage {
    /// Highest time in the database before the page was read.
    pub time: DbTime,
    /// Whether this read brought the page into the cache. If so, the cache did not contain a newer version.
    pub is_newest: bool,
}

/// Logs the state of good pages. If this fails, the scan continues, as in ESE, because the pages are good on this
/// side.
pub(super) fn log_pages(
    services: &Services,
    file: &Arc<DatabaseFile>,
    pages: Vec<(PageNumber, Option<ZeroPage>)>,
) {
    if services.check_writable().is_err() {
        return;
    }
    for (page, zero) in pages {
        let in_memory = file.cache.has_verified(file.page_key(page));
        let _ = match zero.filter(|_| !in_memory) {
            Some(zero) => log_zero_page(file, page, zero),
            None => log_page(file, page),
        };
    }
}

/// Logs the state of a page. Logs nothing if the page cannot be read or was returned to the file system.
fn log_page(file: &Arc<DatabaseFile>, page: PageNumber) -> Result<()> {
    if file.cache.are_released(file.file_id, page.get(), page.get()) {
        return Ok(());
    }
    // The page is needed only once, so the fetch must not evict pages that sessions use.
    let pinned = match file.cache.fetch_cold(file.page_key(page)) {
        Err(Error::Corrupt { .. }) => return Ok(()),
        fetched => fetched?,
    };
    let latch = pinned.read();
    append(file, &check_record(file, page, &latch)).map(|_| ())
}

/// Creates the check record for a page with these bytes. The caller must hold a latch on the page until the record is
/// in the log.
pub(crate) fn check_record(file: &DatabaseFile, page: PageNumber, bytes: &[u8]) -> ScanCheck2 {
    let view = Page::new(bytes, file.page_size);
    let current = file.db_time();
    let empty = view.flags().contains(PageFlags::EMPTY);
    ScanCheck2 {
        database: DatabaseIdInLog(file.log_id),
        page,
        flags: ScanCheck2::SCAN | if empty { ScanCheck2::EMPTY_PAGE } else { 0 },
        page_db_time: view.db_time(),
        current_db_time: current,
        checksum: fold_logical_checksum(logical_checksum(bytes, file.page_size), current),
    }
}

/// Logs that a page was never written, unless this is uncertain.
fn log_zero_page(file: &Arc<DatabaseFile>, page: PageNumber, zero: ZeroPage) -> Result<()> {
    let mut time = zero.time;
    if !zero.is_newest {
        // Pages created from now on have a later time.
        time = file.db_time();
        let mut bytes = IoBuffer::zeroed(file.page_size.bytes());
        let read = file.cache.verify_on_disk(file.page_key(page), &mut bytes, IoReason::Scan)?;
        if !matches!(read, OnDiskVerification::Verified(ese_format::checksum::PageIntegrity::Zero)) {
            return Ok(());
        }
    }
    let record = ScanCheck2 {
        database: DatabaseIdInLog(file.log_id),
        page,
        flags: ScanCheck2::SCAN | ScanCheck2::UNKNOWN_TREE,
        page_db_time: DbTime(0),
        current_db_time: time,
        checksum: fold_logical_checksum(0, time),
    };
    append(file, &record).map(|_| ())
}

/// Logs that a pass has reached the end of the file.
pub(super) fn log_end(file: &DatabaseFile) -> Result<()> {
    let record = ScanCheck2 {
        database: DatabaseIdInLog(file.log_id),
        page: ScanCheck2::END_OF_PASS,
        flags: ScanCheck2::SCAN,
        page_db_time: DbTime(0),
        current_db_time: DbTime(0),
        checksum: 0,
    };
    append(file, &record).map(|_| ())
}

/// Appends a record to the log. Returns the position at which it starts.
pub(crate) fn append(file: &DatabaseFile, record: &ScanCheck2) -> Result<LogPosition> {
    let mut batch = RecordBatch::new();
    batch.push(&LogRecord::ScanCheck2(*record));
    Ok(file.log.append(&batch)?.start)
}
