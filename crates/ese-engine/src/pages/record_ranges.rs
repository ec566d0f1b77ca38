//! The ranges in which the records of an atomic group are logged, and the database times of its pages.
//!
//! ESE logs a split or a merge as a macro, and everything else record by record. A group does the same: each range is
//! a macro or a single record, and has a separate database time.

use std::collections::BTreeMap;
use std::ops::Range;

use ese_format::log::record::{EmptyTree, LogRecord};
use ese_format::{DbTime, PageNumber};

use super::merge_type;

/// Value that a record stores as the database time of an absent page. ESE: `dbtimeInvalid`.
pub(crate) const NO_TIME: DbTime = DbTime(u64::MAX);

/// A range of records that are logged as one macro, or a single record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecordRange {
    pub records: Range<usize>,
    pub in_macro: bool,
}

impl RecordRange {
    /// Returns the number of log records for the range, including the two that enclose a macro.
    pub fn record_count(&self) -> u32 {
        self.records.len() as u32 + if self.in_macro { 2 } else { 0 }
    }
}

/// Divides the records of a group into ranges.
pub(super) fn record_ranges(records: &[LogRecord]) -> Vec<RecordRange> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(first) = records.get(start) {
        let mut end = start + 1;
        let in_macro = matches!(first, LogRecord::Split2(_) | LogRecord::Merge2(_));
        // The parent's record precedes the split's record. The insert that needs the room follows the split.
        if matches!(first, LogRecord::Split2(split) if split.new_page.is_none()) {
            end += 1;
        }
        // The records for internal pages precede the record for the leaf.
        let path = records[start..].iter().take_while(|record| is_path_of_merge(record)).count();
        end += path;
        if in_macro && records.get(end).is_some_and(is_split_operation) {
            end += 1;
        }
        let end = end.min(records.len());
        pieces.push(RecordRange { records: start..end, in_macro });
        start = end;
    }
    pieces
}

fn is_path_of_merge(record: &LogRecord) -> bool {
    matches!(record, LogRecord::Merge2(merge) if merge.merge_type == merge_type::PATH)
}

/// Returns true if the record is the change that made the split in its macro necessary. Such a record stores no
/// previous time.
pub(crate) fn is_split_operation(record: &LogRecord) -> bool {
    record.node_change().is_some_and(|node| node.page.before == NO_TIME)
}

/// New database times for the pages in a group.
#[derive(Default)]
pub(super) struct PageTimes {
    times: BTreeMap<PageNumber, DbTime>,
}

impl PageTimes {
    /// Assigns a time to the records of a range. `time` is later than all previous times.
    pub fn assign(&mut self, records: &mut [LogRecord], time: DbTime) {
        for record in records.iter_mut() {
            self.set_before(record);
            if let Some(change) = record.page_change_mut() {
                change.after = time;
            }
        }
        for page in records.iter().flat_map(changed_pages) {
            self.times.insert(page, time);
        }
    }

    /// Returns the time of a page after the group, if a record changes the page.
    pub fn time_after_group(&self, page: PageNumber) -> Option<DbTime> {
        self.times.get(&page).copied()
    }

    /// Sets the previous times in a record. For a page that an earlier range changes, this is the time of that range.
    fn set_before(&self, record: &mut LogRecord) {
        let set = |page: Option<PageNumber>, before: &mut DbTime| {
            if let Some(time) =
                page.and_then(|page| self.time_after_group(page)).filter(|_| *before != NO_TIME)
            {
                *before = time;
            }
        };
        if let Some(change) = record.page_change_mut() {
            set(Some(change.page), &mut change.before);
        }
        match record {
            LogRecord::Split2(split) => {
                set(split.right, &mut split.right_before);
                set(split.parent, &mut split.parent_before);
            }
            LogRecord::Merge2(merge) => {
                set(merge.right, &mut merge.right_before);
                set(merge.left, &mut merge.left_before);
                set(merge.parent, &mut merge.parent_before);
            }
            LogRecord::PageMove(moved) => {
                set(moved.right, &mut moved.right_before);
                set(moved.left, &mut moved.left_before);
                set(moved.parent, &mut moved.parent_before);
            }
            LogRecord::EmptyTree(empty) => {
                let mut entries: Vec<_> = empty.entries().collect();
                entries.iter_mut().for_each(|entry| set(PageNumber::new(entry.page), &mut entry.before));
                empty.pages = EmptyTree::encode_entries(&entries);
            }
            _ => {}
        }
    }
}

fn changed_pages(record: &LogRecord) -> Vec<PageNumber> {
    let mut pages: Vec<_> = record.page_change().map(|change| change.page).into_iter().collect();
    match record {
        LogRecord::Split2(split) => {
            pages.extend([split.new_page, split.right, split.parent].iter().flatten());
        }
        LogRecord::Merge2(merge) => pages.extend([merge.right, merge.left, merge.parent].iter().flatten()),
        LogRecord::PageMove(moved) => {
            pages.push(moved.destination);
            pages.extend([moved.left, moved.right, moved.parent].iter().flatten());
        }
        LogRecord::EmptyTree(empty) => {
            pages.extend(empty.entries().filter_map(|entry| PageNumber::new(entry.page)));
        }
        LogRecord::CreateMultiExtentFdp(create) => pages.extend([create.owned_root, create.available_root]),
        LogRecord::ConvertFdp2(convert) => pages.extend([convert.owned_root, convert.available_root]),
        _ => {}
    }
    pages
}

#[cfg(test)]
mod tests {
    use ese_format::TreeId;
    use ese_format::log::record::{
        BeforeImageFlags, DatabaseIdInLog, Delete, Merge, MergeFlags, NodeChange, PageChange,
        PageChangeFlags, Split,
    };

    use super::*;

    fn change(page: u32, before: u64) -> PageChange {
        PageChange {
            procid: 1,
            database: DatabaseIdInLog(1),
            page: PageNumber::fixed(page),
            after: DbTime(0),
            before: DbTime(before),
            begin0: 0,
            level: 0,
            line: 0,
            flags: PageChangeFlags::empty(),
        }
    }

    fn delete(page: u32, before: u64) -> LogRecord {
        let node = NodeChange { page: change(page, before), rceid: 0, root: None, tree: TreeId(1) };
        LogRecord::Delete(Delete { node })
    }

    fn split(page: u32, before: u64, new: Option<u32>, parent: Option<u32>) -> LogRecord {
        LogRecord::Split2(Split {
            change: change(page, before),
            new_page: new.and_then(PageNumber::new),
            right: None,
            right_before: NO_TIME,
            parent: parent.and_then(PageNumber::new),
            parent_before: if parent.is_some() { DbTime(7) } else { NO_TIME },
            root: PageNumber::fixed(1),
            tree: TreeId(1),
            split_type: 1,
            operation: 0,
            operation_line: 0,
            split_line: 0,
            line_count: 0,
            new_flags: 0,
            split_flags: 0,
            split_uncommitted: 0,
            new_uncommitted: 0,
            split_prefix_line: -1,
            new_prefix_line: -1,
            parent_key: Vec::new(),
            old_prefix: Vec::new(),
            new_prefix: Vec::new(),
            image_flags: BeforeImageFlags::empty(),
            before_image: Vec::new(),
        })
    }

    fn merge(page: u32, kind: u8, [left, parent]: [Option<u32>; 2]) -> LogRecord {
        LogRecord::Merge2(Merge {
            change: change(page, 4),
            right: None,
            right_before: NO_TIME,
            left: left.and_then(PageNumber::new),
            left_before: DbTime(3),
            parent: parent.and_then(PageNumber::new),
            parent_before: DbTime(4),
            root: PageNumber::fixed(1),
            tree: TreeId(1),
            moved: 0,
            moved_max: 0,
            destination_uncommitted: 0,
            merge_line: 0,
            flags: MergeFlags::empty(),
            merge_type: kind,
            separator: Vec::new(),
            image_flags: BeforeImageFlags::empty(),
            before_image: Vec::new(),
        })
    }

    #[test]
    fn a_merge_and_parent_changes_form_one_macro() {
        let mut records = vec![
            merge(2, merge_type::PATH, [None, None]),
            merge(3, merge_type::PATH, [None, Some(2)]),
            merge(4, merge_type::EMPTY_PAGE, [Some(5), Some(3)]),
            merge(3, merge_type::PATH, [None, None]),
            merge(5, merge_type::FULL_RIGHT, [None, Some(3)]),
            delete(20, 5),
        ];
        let found = record_ranges(&records);
        let expected = [(0..3, true), (3..5, true), (5..6, false)]
            .map(|(records, in_macro)| RecordRange { records, in_macro });
        assert_eq!(found, expected);
        let mut times = PageTimes::default();
        for (piece, time) in found.into_iter().zip(100..) {
            times.assign(&mut records[piece.records], DbTime(time));
        }
        let change_times = |record: &LogRecord| match record {
            LogRecord::Merge2(merge) => (merge.change.before.0, merge.change.after.0, merge.parent_before.0),
            _ => panic!("{record:?}"),
        };
        let expected = [(4, 100, 4), (4, 100, 4), (4, 100, 4), (100, 101, 4), (100, 101, 100)];
        assert_eq!(records[..5].iter().map(change_times).collect::<Vec<_>>(), expected);
        assert_eq!(times.time_after_group(PageNumber::fixed(5)), Some(DbTime(101)));
    }

    #[test]
    fn splits_form_macros_with_consecutive_times() {
        let mut records = vec![
            delete(20, 5),
            split(3, 7, None, None),
            split(4, 6, Some(9), Some(3)),
            delete(4, u64::MAX),
            delete(20, 5),
            split(3, 7, Some(10), None),
        ];
        let found = record_ranges(&records);
        let expected = [(0..1, false), (1..4, true), (4..5, false), (5..6, true)]
            .map(|(records, in_macro)| RecordRange { records, in_macro });
        assert_eq!(found, expected);
        assert_eq!(found.iter().map(RecordRange::record_count).sum::<u32>(), 10);
        let mut times = PageTimes::default();
        for (piece, time) in found.into_iter().zip(100..) {
            times.assign(&mut records[piece.records], DbTime(time));
        }
        let change_times = |record: &LogRecord| {
            record.page_change().map(|change| (change.before.0, change.after.0)).unwrap()
        };
        let expected = [(5, 100), (7, 101), (6, 101), (u64::MAX, 101), (100, 102), (101, 103)];
        assert_eq!(records.iter().map(change_times).collect::<Vec<_>>(), expected);
        assert!(matches!(&records[2], LogRecord::Split2(split) if split.parent_before == DbTime(7)));
        for (page, time) in [(20, 102), (3, 103), (4, 101), (9, 101), (10, 103)] {
            assert_eq!(times.time_after_group(PageNumber::fixed(page)), Some(DbTime(time)), "page {page}");
        }
        // A group that ends with a parent's record can still be divided.
        assert_eq!(record_ranges(&records[..2]).len(), 2);
    }
}
