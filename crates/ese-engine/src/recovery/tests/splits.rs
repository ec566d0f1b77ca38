//! Tests of splits as ESE logs them, redone on pages that already have the changes and on pages that lack them.

use std::collections::BTreeMap;

use ese_format::log::record::{
    BeforeImageFlags, DatabaseIdInLog, FlagInsertAndReplaceData, LogRecord, NewPage, RecoveryUndo, Replace,
    Split, Trace, split_operation,
};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::{DbTime, LogTime, PageNumber};

use super::redo_fixture::{
    PROCID, ROOT, RedoFixture, SIZE, TREE, change, in_macro, insert, keys, node, nodes, page_of, parent_of,
};
use crate::pages::apply::split_type;

const NONE: u64 = u64::MAX;
const LEAF: PageFlags = PageFlags::LEAF;
/// Number of the page that the tests split.
const SPLIT: u32 = 10;
const RIGHT: u32 = 11;
const NEW: u32 = 12;
const TIME: u64 = 100;

type Pages = BTreeMap<u32, Vec<u8>>;

/// Creates a Split2 record for a page with `count` lines, without images, prefixes or neighbours.
fn split(kind: u8, page: u32, new: u32, before: u64, [line, count]: [u16; 2]) -> Split {
    Split {
        change: change(page, [before, TIME], 0),
        new_page: PageNumber::new(new),
        right: None,
        right_before: DbTime(NONE),
        parent: None,
        parent_before: DbTime(NONE),
        root: PageNumber::fixed(ROOT),
        tree: TREE,
        split_type: kind,
        operation: split_operation::INSERT,
        operation_line: 0,
        split_line: line,
        line_count: count,
        new_flags: LEAF.bits(),
        split_flags: LEAF.bits(),
        split_uncommitted: 0,
        new_uncommitted: 0,
        split_prefix_line: -1,
        new_prefix_line: -1,
        parent_key: Vec::new(),
        old_prefix: Vec::new(),
        new_prefix: Vec::new(),
        image_flags: BeforeImageFlags::empty(),
        before_image: Vec::new(),
    }
}

/// Creates the record that ESE logs for a parent when only the parent's time changes.
fn stamp(page: u32, before: u64) -> LogRecord {
    let none = split_operation::NONE;
    LogRecord::Split2(Split { new_page: None, operation: none, ..split(0, page, 0, before, [0, 0]) })
}

/// Creates a leaf of six nodes under a root, with a right neighbour.
fn leaves() -> Pages {
    let nodes: Vec<_> = ["aaa1", "aaa3", "aaa5", "bbb1", "bbb3", "bbb5"].map(|key| (key, "old")).into();
    let mut split = page_of(SPLIT, 50, LEAF, b"aaa", &nodes);
    PageMut::new(&mut split, SIZE).set_next(PageNumber::new(RIGHT));
    let mut right = page_of(RIGHT, 40, LEAF, &[], &[("ccc", "old")]);
    PageMut::new(&mut right, SIZE).set_prev(PageNumber::new(SPLIT));
    let root = parent_of(ROOT, 30, PageFlags::ROOT, &[("bbb9", SPLIT), ("", RIGHT)]);
    [(SPLIT, split), (RIGHT, right), (ROOT, root)].into()
}

/// Creates the records for a split of [`leaves`] before `line`, for a node with this key.
fn right_split(key: &str, operation_line: u16, split_line: u16) -> Vec<LogRecord> {
    let pages = leaves();
    let mut record = Split {
        right: PageNumber::new(RIGHT),
        right_before: DbTime(40),
        parent: PageNumber::new(ROOT),
        parent_before: DbTime(30),
        operation_line,
        parent_key: b"bb".to_vec(),
        old_prefix: b"aaa".to_vec(),
        ..split(split_type::RIGHT, SPLIT, NEW, 50, [split_line, 7])
    };
    record.set_before_page(&pages[&SPLIT], SIZE);
    let operation = insert(SPLIT, [NONE, TIME], operation_line, key);
    in_macro(TIME, [stamp(ROOT, 30), LogRecord::Split2(record), operation])
}

fn replayed(pages: &Pages, records: &[LogRecord]) -> Pages {
    let mut fixture = RedoFixture::new(64);
    pages.iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
    fixture.replay(records).unwrap();
    [SPLIT, RIGHT, NEW, ROOT].into_iter().map(|page| (page, fixture.page(page))).collect()
}

fn refused(pages: &Pages, records: &[LogRecord]) -> String {
    let mut fixture = RedoFixture::new(64);
    pages.iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
    fixture.replay(records).unwrap_err().full_text()
}

#[test]
fn right_split_line_numbers_include_the_incoming_node() {
    for (key, line, split_line, left, new) in [
        // The incoming node is the last node of the split page, or the first node of the new page.
        ("aaa7", 3, 4, "aaa1 aaa3 aaa5 aaa7", "bbb1 bbb3 bbb5"),
        ("aaa7", 3, 3, "aaa1 aaa3 aaa5", "aaa7 bbb1 bbb3 bbb5"),
        ("aaa0", 0, 2, "aaa0 aaa1", "aaa3 aaa5 bbb1 bbb3 bbb5"),
        ("bbb7", 6, 2, "aaa1 aaa3", "aaa5 bbb1 bbb3 bbb5 bbb7"),
    ] {
        let pages = replayed(&leaves(), &right_split(key, line, split_line));
        assert_eq!((keys(&pages[&SPLIT]), keys(&pages[&NEW])), (left.into(), new.into()), "{key}");
        let entries = [("bb", SPLIT), ("bbb9", NEW), ("", RIGHT)].map(|(k, p)| (k.into(), p.to_string()));
        assert_eq!(nodes(&pages[&ROOT]), entries);
        let view = |page: u32| Page::new(&pages[&page], SIZE);
        assert_eq!(view(SPLIT).next(), PageNumber::new(NEW));
        assert_eq!((view(NEW).prev(), view(NEW).next()), (PageNumber::new(SPLIT), PageNumber::new(RIGHT)));
        assert_eq!(view(RIGHT).prev(), PageNumber::new(NEW));
        assert!([SPLIT, NEW, RIGHT, ROOT].iter().all(|page| view(*page).db_time() == DbTime(TIME)));
    }
}

/// ESE calls this a hotpoint split: only the incoming node goes to the new page.
#[test]
fn a_right_split_that_moves_no_node_needs_no_image() {
    let records: Vec<_> = right_split("bbb7", 6, 6)
        .into_iter()
        .map(|record| match record {
            LogRecord::Split2(split) => LogRecord::Split2(Split { before_image: Vec::new(), ..split }),
            other => other,
        })
        .collect();
    let pages = replayed(&leaves(), &records);
    let expected = ("aaa1 aaa3 aaa5 bbb1 bbb3 bbb5".into(), "bbb7".into());
    assert_eq!((keys(&pages[&SPLIT]), keys(&pages[&NEW])), expected);
}

/// Checks that both pages count the bytes that may be needed to undo uncommitted changes.
#[test]
fn a_split_sets_the_reserved_bytes_of_both_pages() {
    for reserved in [0, 17] {
        let mut records = right_split("bbb7", 6, 2);
        for record in &mut records {
            if let LogRecord::Split2(split) = record
                && split.new_page.is_some()
            {
                (split.split_uncommitted, split.new_uncommitted) = (reserved, 2 * reserved);
            }
        }
        let pages = replayed(&leaves(), &records);
        let found = [SPLIT, NEW].map(|page| Page::new(&pages[&page], SIZE).uncommitted_free());
        assert_eq!(found, [reserved as usize, 2 * reserved as usize]);
    }
}

/// The new page of a split can be formatted by a separate log record inside the split's macro.
#[test]
fn a_page_can_be_formatted_inside_a_macro() {
    let records = right_split("bbb7", 6, 2);
    let expected = replayed(&leaves(), &records);
    let (database, page) = (DatabaseIdInLog(1), PageNumber::fixed(NEW));
    let format = NewPage { procid: PROCID, database, page, tree: TREE, after: DbTime(60) };
    for at in 1..records.len() {
        let (before, behind) = records.split_at(at);
        let records = [before, &[LogRecord::NewPage(format)], behind].concat();
        assert!(replayed(&leaves(), &records) == expected, "in front of record {at}");
    }
}

/// Each page has either all of a macro's changes or none, independently of the other pages.
#[test]
fn each_page_gets_all_macro_changes_or_none() {
    let (old, records) = (leaves(), right_split("bbb7", 6, 2));
    let new = replayed(&old, &records);
    for subset in 0..16u32 {
        let subset_bit =
            |page: &u32| subset >> [SPLIT, RIGHT, NEW, ROOT].iter().position(|p| p == page).unwrap() & 1;
        let pages = new.iter().filter(|(page, _)| subset_bit(page) == 1).chain(old.iter());
        let mut mixed = Pages::new();
        for (page, bytes) in pages {
            mixed.entry(*page).or_insert_with(|| bytes.clone());
        }
        for (page, bytes) in replayed(&mixed, &records) {
            assert!(bytes == new[&page], "subset {subset:b}, page {page}");
        }
    }
}

#[test]
fn prefix_lines_are_relative_to_the_first_line_per_page() {
    let records = right_split("aaa4", 2, 4).into_iter().map(|record| match record {
        LogRecord::Split2(split) if split.new_page.is_some() => LogRecord::Split2(Split {
            // The prefix lines are those of aaa4 on the split page and bbb3 on the new page.
            split_prefix_line: 2,
            new_prefix: b"aaa4".to_vec(),
            new_prefix_line: 1,
            ..split
        }),
        other => other,
    });
    let pages = replayed(&leaves(), &records.collect::<Vec<_>>());
    assert_eq!(keys(&pages[&SPLIT]), "aaa1 aaa3 aaa4 aaa5");
    assert_eq!(keys(&pages[&NEW]), "bbb1 bbb3 bbb5");
    for (page, prefix) in [(SPLIT, "aaa4"), (NEW, "bbb3")] {
        let view = Page::new(&pages[&page], SIZE);
        assert_eq!(view.external_header(), prefix.as_bytes());
        assert!(view.nodes().all(|node| node.flags.contains(NodeFlags::COMPRESSED)));
    }
}

#[test]
fn an_append_split_needs_no_image_and_accepts_incoming_prefixes() {
    let mut pages = leaves();
    PageMut::new(pages.get_mut(&SPLIT).unwrap(), SIZE).set_next(None);
    let record = Split {
        parent: PageNumber::new(ROOT),
        parent_before: DbTime(30),
        operation_line: 6,
        parent_key: b"bbb6".to_vec(),
        new_prefix_line: 0,
        ..split(split_type::APPEND, SPLIT, NEW, 50, [6, 7])
    };
    let operation = insert(SPLIT, [NONE, TIME], 6, "bbb7");
    let records = in_macro(TIME, [stamp(ROOT, 30), LogRecord::Split2(record), operation]);
    let pages = replayed(&pages, &records);
    assert_eq!((keys(&pages[&SPLIT]), keys(&pages[&NEW])), (keys(&leaves()[&SPLIT]), "bbb7".into()));
    assert_eq!(Page::new(&pages[&NEW], SIZE).external_header(), b"bbb7");
    assert_eq!(Page::new(&pages[&SPLIT], SIZE).external_header(), b"aaa");
    assert_eq!(Page::new(&pages[&SPLIT], SIZE).next(), PageNumber::new(NEW));
}

#[test]
fn a_vertical_split_moves_all_nodes_and_keeps_the_external_header_of_the_root() {
    let header = *b"sixteen bytes...";
    let root = page_of(ROOT, 30, LEAF | PageFlags::ROOT, &header, &[("a", "old"), ("c", "old")]);
    let mut record = Split {
        operation_line: 1,
        split_flags: (PageFlags::ROOT | PageFlags::PARENT_OF_LEAF).bits(),
        ..split(split_type::VERTICAL, ROOT, NEW, 30, [0, 3])
    };
    record.set_before_page(&root, SIZE);
    let operation = insert(ROOT, [NONE, TIME], 1, "b");
    let mut old = leaves();
    old.insert(ROOT, root);
    let pages = replayed(&old, &in_macro(TIME, [LogRecord::Split2(record), operation]));
    assert_eq!(keys(&pages[&NEW]), "a b c");
    assert_eq!(nodes(&pages[&ROOT]), [(String::new(), NEW.to_string())]);
    assert_eq!(Page::new(&pages[&ROOT], SIZE).external_header(), header);
    assert!(!Page::new(&pages[&ROOT], SIZE).is_leaf());
}

#[test]
fn a_split_can_make_room_for_a_replace() {
    let replace = |node| Replace { node, wide_diff: false, old_len: 3, new_len: 6, data: b"longer".into() };
    let revive = |node| FlagInsertAndReplaceData {
        node,
        replace_rceid: 0,
        key: b"bbb3".to_vec(),
        data: b"longer".to_vec(),
    };
    let node = node(SPLIT, [NONE, TIME], 4);
    for (operation, record) in [
        (split_operation::REPLACE, LogRecord::Replace(replace(node))),
        (split_operation::FLAG_INSERT_AND_REPLACE, LogRecord::FlagInsertAndReplaceData(revive(node))),
    ] {
        let records = right_split("", 4, 3).into_iter().map(|other| match other {
            LogRecord::Split2(split) if split.new_page.is_some() => {
                LogRecord::Split2(Split { operation, line_count: 6, ..split })
            }
            LogRecord::Insert(_) => record.clone(),
            other => other,
        });
        let pages = replayed(&leaves(), &records.collect::<Vec<_>>());
        let expected = [("bbb1", "old"), ("bbb3", "longer"), ("bbb5", "old")];
        assert_eq!(nodes(&pages[&NEW]), expected.map(|(k, d)| (k.to_string(), d.to_string())));
    }
}

/// A leaf is split together with its parent, which is split to make room for the separator. If the separator belongs
/// between the halves of the parent, the leaf's old entry can be on the other half.
#[test]
fn a_macro_can_split_both_a_child_and_the_parent() {
    let [upper_page, parent_page, parent_new] = [20, 21, 22];
    let entries = [("a", 30), ("bbb9", SPLIT), ("c", 31), ("", 32)];
    for (split_line, left, right) in [
        (1, vec![("a", 30)], vec![("bb", SPLIT), ("bbb9", NEW), ("c", 31), ("", 32)]),
        (2, vec![("a", 30), ("bb", SPLIT)], vec![("bbb9", NEW), ("c", 31), ("", 32)]),
        (3, vec![("a", 30), ("bb", SPLIT), ("bbb9", NEW)], vec![("c", 31), ("", 32)]),
    ] {
        let parent = parent_of(parent_page, 30, PageFlags::empty(), &entries);
        let upper = parent_of(upper_page, 20, PageFlags::ROOT, &[("", parent_page)]);
        let mut above = Split {
            operation_line: 1,
            new_flags: PageFlags::PARENT_OF_LEAF.bits(),
            split_flags: PageFlags::PARENT_OF_LEAF.bits(),
            parent: PageNumber::new(upper_page),
            parent_before: DbTime(20),
            parent_key: b"k".to_vec(),
            ..split(split_type::RIGHT, parent_page, parent_new, 30, [split_line, 5])
        };
        above.set_before_page(&parent, SIZE);
        let mut records = right_split("bbb7", 6, 2);
        for record in &mut records {
            match record {
                LogRecord::Split2(below) if below.new_page.is_none() => {
                    *record = LogRecord::Split2(above.clone());
                }
                LogRecord::Split2(below) => below.parent = PageNumber::new(parent_page),
                _ => {}
            }
        }
        records.insert(1, stamp(upper_page, 20));
        let mut fixture = RedoFixture::new(64);
        leaves().iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
        fixture.put(parent_page, &parent);
        fixture.put(upper_page, &upper);
        fixture.replay(&records).unwrap();
        let entries = |expected: &[(&str, u32)]| -> Vec<_> {
            expected.iter().map(|(key, page)| (key.to_string(), page.to_string())).collect()
        };
        assert_eq!(nodes(&fixture.page(parent_page)), entries(&left), "{split_line}");
        assert_eq!(nodes(&fixture.page(parent_new)), entries(&right), "{split_line}");
        assert_eq!(nodes(&fixture.page(upper_page)), entries(&[("k", parent_page), ("", parent_new)]));
        assert_eq!(keys(&fixture.page(NEW)), "aaa5 bbb1 bbb3 bbb5 bbb7");
    }
}

#[test]
fn inconsistent_macros_are_rejected() {
    let (pages, records) = (leaves(), right_split("bbb7", 6, 2));
    let without = |at: usize| {
        let mut records = records.clone();
        records.remove(at);
        records
    };
    // Either the insert or the split is missing.
    assert!(refused(&pages, &without(3)).contains("does not contain the change"));
    assert!(refused(&pages, &without(2)).contains("its page was not split"));
    // The records of a second macro lack its MacroBegin.
    let doubled = [in_macro(90, []), without(0)].concat();
    assert!(refused(&pages, &doubled).contains("outside a macro"));
    // The record has a different number of lines than the page.
    let mut shorter = pages.clone();
    shorter.insert(SPLIT, page_of(SPLIT, 50, LEAF, &[], &[("a", "old")]));
    assert!(refused(&shorter, &records).contains("different node counts"));
    // The line numbers are damaged.
    for lines in [[9, 7], [7, 0], [u16::MAX, u16::MAX]] {
        let records = records.iter().cloned().map(|record| match record {
            LogRecord::Split2(split) if split.new_page.is_some() => {
                LogRecord::Split2(Split { split_line: lines[0], line_count: lines[1], ..split })
            }
            other => other,
        });
        assert!(refused(&pages, &records.collect::<Vec<_>>()).contains("page"), "{lines:?}");
    }
}

/// A macro whose end is not in the log has no effect.
#[test]
fn an_unfinished_macro_changes_nothing() {
    let (pages, mut records) = (leaves(), right_split("bbb7", 6, 2));
    records.pop();
    let mut fixture = RedoFixture::new(64);
    pages.iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
    fixture.replay(&records).unwrap();
    assert_eq!(fixture.applied(), 0);
    assert!(pages.iter().all(|(page, bytes)| fixture.page(*page) == *bytes));
}

/// The checkpoint can be inside a macro if all pages have the macro's changes.
#[test]
fn redo_can_start_inside_a_macro() {
    let (old, records) = (leaves(), right_split("bbb7", 6, 2));
    let new = replayed(&old, &records);
    for from in 1..records.len() {
        assert!(replayed(&new, &records[from..]) == new, "from record {from}");
    }
    // The Insert record cannot be redone by itself.
    assert!(refused(&old, &records[3..]).contains("dbtime"));
}

/// Records after a mark take effect either all or not at all.
#[test]
fn a_group_without_its_last_record_changes_nothing() {
    let mut pages = leaves();
    pages.insert(NEW, page_of(NEW, 1, LEAF, &[], &[]));
    let mut records = vec![insert(RIGHT, [40, 90], 1, "ccd")];
    records.extend(right_split("bbb7", 6, 2).into_iter().map(|record| match record {
        LogRecord::Split2(split) => LogRecord::Split2(Split { right_before: DbTime(90), ..split }),
        other => other,
    }));
    let mark = LogRecord::group_mark(records.len() as u32);
    let group: Vec<_> = [mark].into_iter().chain(records).collect();
    let filler = LogRecord::Nop2(vec![0; 20]);
    let undo = LogRecord::RecoveryUndo2(RecoveryUndo { time: LogTime::NONE });
    let rollover = LogRecord::ForceLogRollover(Trace { procid: 0, text: Vec::new() });
    for cut in 1..group.len() {
        // After an interrupted group, recovery has filled the segment, ended generations to write pages, and
        // continued the log.
        let mut interrupted = [&group[..cut], std::slice::from_ref(&filler)].concat();
        interrupted.resize(interrupted.len() + group.len(), rollover.clone());
        interrupted.push(undo.clone());
        assert!(replayed(&pages, &interrupted)[&RIGHT] == pages[&RIGHT], "{cut}");
        let again = [&interrupted[..], &group].concat();
        assert_eq!(keys(&replayed(&pages, &again)[&RIGHT]), "ccc ccd", "{cut}");
    }
    let filled = [&group[..3], &[filler], &group[3..]].concat();
    let pages = replayed(&pages, &filled);
    assert_eq!((keys(&pages[&RIGHT]), keys(&pages[&SPLIT])), ("ccc ccd".into(), "aaa1 aaa3".into()));
}

/// Macros of earlier versions are refused: each record in a macro had its own time, and line numbers did not include
/// the incoming node.
#[test]
fn macros_from_earlier_versions_are_rejected() {
    let mut records = right_split("bbb7", 6, 2);
    for record in &mut records {
        if let LogRecord::Split2(split) = record {
            split.change.after = DbTime(TIME - 1);
        }
    }
    assert!(refused(&leaves(), &records).contains("with the version that wrote the log"));
}
