//! Logs what the scan has read, so that copies compare their pages with it. ESE: divergence check.
//!
//! A record has the time of a page, its logical checksum and the highest time of the database. The page is latched until the record is
//! in the log, so it has exactly the changes that stand before the record, and later changes get later times.

use ese_format::PageNumber;
use ese_format::log::record::{DatabaseIdInLog, LogRecord, ScanCheck2};
use ese_format::page::{Page, PageFlags, fold_logical_checksum, logical_checksum};
use ese_format::{DbTime, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, IoReason};

use crate::cache::OnDiskPage;
use crate::log::RecordBatch;
use crate::storage::DatabaseFile;
use crate::transaction::Services;
use crate::{Error, Result};

/// A page of zeros, as the scan has read it.
#[derive(Clone, Copy)]
pub(super) struct ZeroPage {
    /// The highest time of the database before it was read.
    pub time: DbTime,
    /// It is in the cache because of this read, so nothing newer was there.
    pub is_newest: bool,
}

/// Logs the state of good pages. As in ESE, the scan goes on if that fails: the pages are good on this side.
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

/// Logs the state of a page that has one. Nothing is logged if the page cannot be read, or was given back.
fn log_page(file: &Arc<DatabaseFile>, page: PageNumber) -> Result<()> {
    if file.cache.are_given_back(file.file_id, page.get(), page.get()) {
        return Ok(());
    }
    // The page is needed once, so it does not displace pages that sessions use.
    let pinned = match file.cache.fetch_cold(file.page_key(page)) {
        Err(Error::Corrupt { .. }) => return Ok(()),
        fetched => fetched?,
    };
    let latch = pinned.read();
    append(file, &check_of(file, page, &latch)).map(|_| ())
}

/// The record about a page with these bytes. The caller holds a latch of the page until the record is in the log.
pub(crate) fn check_of(file: &DatabaseFile, page: PageNumber, bytes: &[u8]) -> ScanCheck2 {
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

/// Logs that a page was never written, unless that is not certain.
fn log_zero_page(file: &Arc<DatabaseFile>, page: PageNumber, zero: ZeroPage) -> Result<()> {
    let mut time = zero.time;
    if !zero.is_newest {
        // What is created from now on has a later time.
        time = file.db_time();
        let mut bytes = IoBuffer::zeroed(file.page_size.bytes());
        let read = file.cache.verify_on_disk(file.page_key(page), &mut bytes, IoReason::Scan)?;
        if !matches!(read, OnDiskPage::Verified(ese_format::checksum::PageIntegrity::Zero)) {
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

/// Appends a record. Returns where it starts.
pub(crate) fn append(file: &DatabaseFile, record: &ScanCheck2) -> Result<LogPosition> {
    let mut batch = RecordBatch::new();
    batch.push(&LogRecord::ScanCheck2(*record));
    Ok(file.log.append(&batch)?.start)
}
