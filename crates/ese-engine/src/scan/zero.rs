//! Which pages are overwritten, and with what.
//!
//! | page | what is overwritten |
//! | --- | --- |
//! | not in use (emptied and freed) | everything behind its header, with `U` |
//! | page of a tree | all bytes that no node uses, with `Z` |
//! | node of a leaf that is flagged deleted, while no transaction runs | its data, with `D`; a long-value chunk with `L` |
//!
//! Skipped, as in ESE: pages of zeros, space trees, the root of the database, empty roots, and pages with before-images
//! that are not logged yet. ESE skips two more kinds of pages:
//! - Internal pages. Here the root of a tree that has grown still holds the records that it had as a leaf.
//! - Pages that changed after the oldest transaction began. The engine does not need that: the state that a snapshot sees is
//!   in the version store, and the node that it needs stays on the page, because a deleted node is overwritten only while
//!   no transaction runs.

use ese_format::PageNumber;
use ese_format::log::record::{LogRecord, NodeChange, PageChangeFlags, Scrub};
use ese_format::page::{NodeFlags, Page, PageFlags};
use jetcell_sync::Arc;

use crate::Result;
use crate::pages::{AtomicGroup, Attempt, group, scrub};
use crate::storage::DatabaseFile;
use crate::transaction::Services;

/// What became of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zeroed {
    /// It has not changed since it was overwritten.
    pub unchanged: bool,
    /// It is not in use, and was overwritten.
    pub unused: bool,
    /// It is in use.
    pub used: bool,
    /// It was changed.
    pub changed: bool,
    /// Deleted records that were overwritten.
    pub records: u64,
    /// Long-value chunks that were overwritten.
    pub chunks: u64,
}

/// Overwrites what is left of deleted data on a page.
pub(super) fn zero_page(services: &Services, file: &Arc<DatabaseFile>, page: PageNumber) -> Result<Zeroed> {
    // The page is needed once, so it does not displace pages that sessions use.
    let _pinned = file.cache.fetch_cold(file.page_key(page))?;
    let mut zeroed = Zeroed::default();
    group::run(file, false, |group| {
        zeroed = Zeroed::default();
        zero_latched(services, group, page, &mut zeroed)
    })?;
    Ok(zeroed)
}

fn zero_latched(
    services: &Services,
    group: &mut AtomicGroup,
    number: PageNumber,
    zeroed: &mut Zeroed,
) -> Attempt<()> {
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
    // The latch keeps transactions that begin now away from the page, so it has no version if none runs and no history
    // is left.
    let no_transaction = !services.transactions.any_running() && services.ended.is_empty();
    let operations: Vec<u8> = match unused {
        true => Vec::new(),
        false => (0..count).map(|line| operation(&page, line, no_transaction)).collect(),
    };
    let change = group.change(number, 0, PageChangeFlags::empty())?;
    let record = Scrub {
        node: NodeChange { page: change, rceid: 0, root: None, tree },
        flags: if unused { scrub::NOT_IN_USE } else { 0 },
        count: operations.len() as u32,
        operations,
    };
    zeroed.changed = true;
    let number_of = |wanted: u8| record.operations.iter().filter(|one| **one == wanted).count() as u64;
    zeroed.records = number_of(scrub::SCRUB_DATA);
    zeroed.chunks = number_of(scrub::SCRUB_LONG_VALUE);
    let applied = scrub::scrub(&mut group.page_mut(number)?, &record);
    group.done(number, applied, LogRecord::Scrub(record))
}

/// What is done with a node.
fn operation(page: &Page<'_>, line: usize, no_transaction: bool) -> u8 {
    let flags = page.flags();
    let deleted = page.node(line).is_some_and(|node| node.flags.contains(NodeFlags::DELETED));
    // In other trees the data are part of the order of the nodes.
    if !deleted || !no_transaction || flags.contains(PageFlags::NON_UNIQUE) {
        return scrub::KEEP;
    }
    match flags.contains(PageFlags::LONG_VALUE) {
        true => scrub::SCRUB_LONG_VALUE,
        false => scrub::SCRUB_DATA,
    }
}
