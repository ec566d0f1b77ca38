//! Selects which log records to show.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use ese_format::PageNumber;
use ese_format::log::record::LogRecord;

/// Conditions for selecting the log records to dump. A record must match at least one entry in every non-empty list.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Numbers that identify databases in the log.
    pub databases: Vec<u8>,
    /// Pages that a record changes or names.
    pub pages: Vec<RangeInclusive<u32>>,
    /// Numbers of the sessions that wrote the records. ESE: `procid`.
    pub procids: Vec<u16>,
    /// Begin numbers of transactions.
    pub transactions: Vec<u32>,
    /// Type bytes of the records.
    pub kinds: Vec<u8>,
}

impl LogFilter {
    pub(super) fn matches(&self, record: &LogRecord, transaction: Option<u32>) -> bool {
        fn any<T: PartialEq>(list: &[T], value: Option<T>) -> bool {
            list.is_empty() || value.is_some_and(|value| list.contains(&value))
        }
        any(&self.kinds, Some(record.kind()))
            && any(&self.databases, record.database().map(|database| database.0))
            && any(&self.procids, record.session())
            && any(&self.transactions, transaction)
            && (self.pages.is_empty() || self.names_page(record))
    }

    fn names_page(&self, record: &LogRecord) -> bool {
        let wanted = |first: u32, last: u32| {
            self.pages.iter().any(|range| *range.start() <= last && *range.end() >= first)
        };
        let mut found = false;
        visit_pages(record, &mut |first, last| found |= wanted(first, last));
        found
    }
}

/// Calls `visit` with the first and last page of every page range that a record changes or names.
fn visit_pages(record: &LogRecord, visit: &mut dyn FnMut(u32, u32)) {
    let mut pages = |list: &[Option<PageNumber>]| {
        list.iter().flatten().for_each(|page| visit(page.get(), page.get()));
    };
    if let Some(change) = record.page_change() {
        pages(&[Some(change.page)]);
    }
    if let Some(node) = record.node_change() {
        pages(&[node.root]);
    }
    match record {
        LogRecord::Split2(split) => pages(&[split.new_page, split.right, split.parent, Some(split.root)]),
        LogRecord::Merge2(merge) => pages(&[merge.right, merge.left, merge.parent, Some(merge.root)]),
        LogRecord::PageMove(moved) => {
            pages(&[Some(moved.destination), moved.left, moved.right, moved.parent, Some(moved.root)]);
        }
        LogRecord::CreateMultiExtentFdp(tree) => {
            pages(&[Some(tree.owned_root), Some(tree.available_root), tree.parent_root]);
        }
        LogRecord::CreateSingleExtentFdp(tree) => pages(&[tree.parent_root]),
        LogRecord::ConvertFdp2(tree) => {
            pages(&[Some(tree.owned_root), Some(tree.available_root), tree.parent_root]);
        }
        LogRecord::NewPage(new) => pages(&[Some(new.page)]),
        LogRecord::FreeFdp(tree) => pages(&[Some(tree.root)]),
        LogRecord::ScanCheck(check) => pages(&[Some(check.page)]),
        LogRecord::ScanCheck2(check) => pages(&[Some(check.page)]),
        LogRecord::PagePatchRequest(request) => pages(&[Some(request.page)]),
        LogRecord::EmptyTree(tree) => tree.entries().for_each(|entry| visit(entry.page, entry.page)),
        LogRecord::MacroInfo(pages) => {
            let pages = pages.as_chunks::<4>().0.iter().map(|page| u32::from_le_bytes(*page));
            pages.for_each(|page| visit(page, page));
        }
        LogRecord::MacroInfo2(info) => info.pages.iter().for_each(|&page| visit(page, page)),
        LogRecord::TrimDb(trim) => visit(trim.first.get(), last_page(trim.first, trim.count)),
        LogRecord::ExtentFreed(freed) => {
            visit(freed.first.get(), last_page(freed.first, freed.count.max(0) as u32));
        }
        LogRecord::ExtentFreed2(freed) => {
            let freed = freed.freed;
            visit(freed.first.get(), last_page(freed.first, freed.count.max(0) as u32));
        }
        _ => {}
    }
}

fn last_page(first: PageNumber, count: u32) -> u32 {
    first.get().saturating_add(count.saturating_sub(1))
}

/// The running transaction of each session. Records without a begin number belong to their session's running
/// transaction.
#[derive(Debug, Default)]
pub(super) struct RunningTransactions {
    /// Begin number of the running transaction, by session. There are at most 65536 sessions.
    running: HashMap<u16, u32>,
}

impl RunningTransactions {
    /// Returns the begin number of the transaction to which a record belongs, if it is known.
    pub(super) fn begin_number(&mut self, record: &LogRecord) -> Option<u32> {
        let session = record.session()?;
        match record {
            LogRecord::Begin0(begin) => {
                self.running.insert(session, begin.begin0);
                Some(begin.begin0)
            }
            LogRecord::Commit0(_) => self.running.remove(&session),
            LogRecord::Refresh(refresh) => Some(refresh.begin0),
            record => match record.page_change() {
                Some(change) => Some(change.begin0).filter(|&begin0| begin0 != 0),
                None => self.running.get(&session).copied(),
            },
        }
    }
}
