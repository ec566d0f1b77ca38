//! Overwrites remnants of deleted data on pages.
//!
//! | page | bytes that are overwritten |
//! | --- | --- |
//! | not in use (emptied and freed) | everything after its header, with `U` |
//! | page of a tree | all bytes that no node uses, with `Z` |
//! | leaf node that is flagged deleted, while no transaction runs | its data, with `D`; a long-value chunk with `L` |
//!
//! The following are skipped, as in ESE: all-zero pages, space trees, the database root, empty roots, and pages with
//! before-images that are not logged yet. ESE skips two more kinds of pages:
//! - Internal pages. This engine does not skip them, because the root of a tree that has grown still contains
//!   remnants of the records that it had as a leaf.
//! - Pages that changed after the oldest transaction began. This engine does not need to skip them. The state that a
//!   snapshot sees is in the version store. The node that the snapshot needs stays on the page, because a deleted node
//!   is overwritten only while no transaction runs.

use ese_format::log::record::{LogRecord, NodeChange, PageChangeFlags, Scrub};
use ese_format::page::{NodeFlags, Page, PageFlags};
use ese_format::{PageNumber, PageSize};
use jetcell_sync::Arc;

use crate::Result;
use crate::pages::{AtomicGroup, GroupResult, group, scrub};
use crate::storage::DatabaseFile;
use crate::transaction::Services;

/// Result of zeroing a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ZeroingResult {
    /// Whether the page has not changed since it was last overwritten.
    pub unchanged: bool,
    /// Whether the page was not in use and was overwritten.
    pub unused: bool,
    /// Whether the page is in use.
    pub used: bool,
    /// Whether the page was changed.
    pub changed: bool,
    /// Number of deleted records that were overwritten.
    pub records: u64,
    /// Number of long-value chunks that were overwritten.
    pub chunks: u64,
}

/// Number of page bytes that one mebibyte of log may cover if the whole cache is clean. The number falls in proportion
/// to the clean part of the cache, within the limits of the next constant.
const NAMED_IN_CLEAN_CACHE: u64 = 100_000 << 10;
const NAMED: std::ops::RangeInclusive<u64> = (20_000 << 10)..=(80_000 << 10);

/// Returns the number of log bytes to use for each page, including padding.
///
/// ESE also pads its records. The checkpoint stays within a certain number of log bytes of the end of the log.
/// Therefore the record size also limits how many dirty pages the pass adds to the cache.
pub(super) fn log_bytes_of_page(page_size: PageSize, dirty: u64, frames: u64) -> usize {
    let clean = frames.saturating_sub(dirty);
    let named = NAMED_IN_CLEAN_CACHE / frames.max(1) * clean;
    let pages = named.clamp(*NAMED.start(), *NAMED.end()) / page_size.bytes() as u64;
    (1 << 20) / pages.max(1) as usize
}

/// Size of a page's records in bytes, without operations and padding. Each page is changed in a separate transaction.
const FIXED_BYTES: usize = 54 + 8 + 8;

/// Overwrites remnants of deleted data on a page. The page's records take `log_bytes` bytes, or more if they need
/// more.
pub(super) fn zero_page(
    services: &Services,
    file: &Arc<DatabaseFile>,
    page: PageNumber,
    log_bytes: usize,
) -> Result<ZeroingResult> {
    // The page is needed only once, so the fetch must not evict pages that sessions use.
    let _pinned = file.cache.fetch_cold(file.page_key(page))?;
    let mut zeroed = ZeroingResult::default();
    group::run(file, false, |group| {
        zeroed = ZeroingResult::default();
        zero_latched(services, group, page, log_bytes, &mut zeroed)
    })?;
    Ok(zeroed)
}

fn zero_latched(
    services: &Services,
    group: &mut AtomicGroup,
    number: PageNumber,
    log_bytes: usize,
    zeroed: &mut ZeroingResult,
) -> GroupResult<()> {
    let has_undo = group.has_deferred_undo(number)?;
    let page = group.page(number)?;
    let flags = page.flags();
    if flags.contains(PageFlags::SCRUBBED) {
        zeroed.unchanged = true;
        return Ok(());
    }
    let unused = flags.contains(PageFlags::EMPTY);
    let (tree, count) = (page.tree(), page.node_count());
    let root = flags.contains(PageFlags::ROOT);
    let skipped = flags.intersects(PageFlags::SPACE | PageFlags::PRE_INIT)
        || root && (count == 0 || number == PageNumber::fixed(1));
    zeroed.unused = unused;
    zeroed.used = !unused;
    if has_undo || !unused && skipped {
        zeroed.unused = false;
        zeroed.used = true;
        return Ok(());
    }
    // The latch prevents new transactions from accessing the page. Therefore, if no transaction is running and no
    // history is left, the page has no versions.
    let no_transaction = !services.transactions.any_running() && services.ended.is_empty();
    let operations: Vec<u8> = if unused {
        Vec::new()
    } else {
        (0..count).map(|line| operation(&page, line, no_transaction)).collect()
    };
    let number_of = |wanted: u8| operations.iter().filter(|one| **one == wanted).count() as u64;
    zeroed.records = number_of(scrub::SCRUB_DATA);
    zeroed.chunks = number_of(scrub::SCRUB_LONG_VALUE);
    let change = group.change(number, 0, PageChangeFlags::empty())?;
    let record = Scrub {
        node: NodeChange { page: change, rceid: 0, root: None, tree },
        flags: if unused { scrub::NOT_IN_USE } else { 0 },
        count: operations.len() as u32,
        data: padded(operations, log_bytes),
    };
    zeroed.changed = true;
    let applied = scrub::scrub(&mut group.page_mut(number)?, &record);
    group.record_if_applied(number, applied, LogRecord::Scrub(record))
}

fn padded(mut operations: Vec<u8>, log_bytes: usize) -> Vec<u8> {
    operations.resize(operations.len().max(log_bytes.saturating_sub(FIXED_BYTES)), 0);
    operations
}

/// Returns the operation byte that the log record stores for a node.
fn operation(page: &Page<'_>, line: usize, no_transaction: bool) -> u8 {
    let flags = page.flags();
    let deleted = page.node(line).is_some_and(|node| node.flags.contains(NodeFlags::DELETED));
    // In non-unique trees, the data is part of the sort order.
    if !deleted || !no_transaction || flags.contains(PageFlags::NON_UNIQUE) {
        return scrub::KEEP;
    }
    if flags.contains(PageFlags::LONG_VALUE) { scrub::SCRUB_LONG_VALUE } else { scrub::SCRUB_DATA }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the values from Exchange 2007 SP1, which has 8 KiB pages: a mebibyte of log covers 2,500 to 10,000
    /// pages.
    #[test]
    fn scan_records_cover_more_pages_while_the_cache_is_clean() {
        let pages = |dirty| (1 << 20) / log_bytes_of_page(PageSize::KIB_8, dirty, 1000);
        assert_eq!([0, 100, 200].map(pages), [10_082; 3]);
        assert_eq!([800, 900, 1000].map(pages), [2_502; 3]);
        assert!((6_200..=6_300).contains(&pages(500)), "{}", pages(500));
        // With larger pages, the number of page bytes per mebibyte of log stays the same.
        assert_eq!(log_bytes_of_page(PageSize::KIB_32, 0, 1000), 419);
        assert_eq!(log_bytes_of_page(PageSize::KIB_32, 5, 0), 1677);
    }
}
