//! Tests of merges as ESE logs them: one record for each page on the path, and nodes flagged deleted, which do not
//! move.
//!
//! None of the available logs contains a merge by ESE. The tests follow ESE's published source.

use std::collections::BTreeMap;

use ese_format::log::record::{BeforeImageFlags, LogRecord, Merge, MergeFlags};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::{DbTime, PageNumber};

use super::redo_fixture::{ROOT, RedoFixture, SIZE, TREE, change, in_macro, keys, nodes, page_of, parent_of};
use crate::pages::merge::merge_type;

const NONE: u64 = u64::MAX;
const TIME: u64 = 100;
const LEFT: u32 = 9;
const MERGED: u32 = 10;
const RIGHT: u32 = 11;
const PARENT: u32 = 20;

type Pages = BTreeMap<u32, Vec<u8>>;

fn merge(page: u32, before: u64, line: u16, flags: MergeFlags) -> Merge {
    Merge {
        change: change(page, [before, TIME], line),
        right: None,
        right_before: DbTime(NONE),
        left: None,
        left_before: DbTime(NONE),
        parent: None,
        parent_before: DbTime(NONE),
        root: PageNumber::fixed(ROOT),
        tree: TREE,
        moved: 0,
        moved_max: 0,
        destination_uncommitted: 0,
        merge_line: 0,
        flags,
        merge_type: merge_type::PATH,
        separator: Vec::new(),
        image_flags: BeforeImageFlags::empty(),
        before_image: Vec::new(),
    }
}

/// Creates three leaves below a parent, which is below a root. One node in the middle leaf is flagged deleted.
fn tree() -> Pages {
    let leaf = |page: u32, time: u64, keys: &[&str]| {
        let nodes: Vec<_> = keys.iter().map(|key| (*key, "data")).collect();
        let mut bytes = page_of(page, time, PageFlags::LEAF, &[], &nodes);
        let mut built = PageMut::new(&mut bytes, SIZE);
        built.set_prev(Some(page - 1).filter(|prev| *prev >= LEFT).and_then(PageNumber::new));
        built.set_next(Some(page + 1).filter(|next| *next <= RIGHT).and_then(PageNumber::new));
        bytes
    };
    let mut merged = leaf(MERGED, 51, &["d1", "d2", "d3", "d4"]);
    PageMut::new(&mut merged, SIZE).set_node_flags(2, NodeFlags::DELETED);
    [
        (LEFT, leaf(LEFT, 50, &["b1", "b2"])),
        (MERGED, merged),
        (RIGHT, leaf(RIGHT, 52, &["f1"])),
        (PARENT, parent_of(PARENT, 40, PageFlags::empty(), &[("c", LEFT), ("e", MERGED), ("g", RIGHT)])),
        (ROOT, parent_of(ROOT, 30, PageFlags::ROOT, &[("g", PARENT), ("", 21)])),
    ]
    .into()
}

/// Creates the records for a merge of the middle leaf. `flags` are the flags in the record of the leaf's parent.
fn records(kind: u8, line: u16, flags: MergeFlags, separator: &[u8]) -> Vec<LogRecord> {
    let partial = matches!(kind, merge_type::PARTIAL_LEFT | merge_type::PARTIAL_RIGHT);
    let of_leaf = if partial { MergeFlags::empty() } else { MergeFlags::EMPTY_PAGE };
    let mut leaf = Merge {
        left: PageNumber::new(LEFT),
        left_before: DbTime(50),
        right: PageNumber::new(RIGHT),
        right_before: DbTime(52),
        parent: PageNumber::new(PARENT),
        parent_before: DbTime(40),
        merge_type: kind,
        merge_line: line,
        separator: separator.to_vec(),
        ..merge(MERGED, 51, 0, of_leaf)
    };
    if kind != merge_type::EMPTY_PAGE {
        leaf.set_before_page(&tree()[&MERGED], SIZE);
    }
    in_macro(TIME, [merge(PARENT, 40, 1, flags), leaf].map(LogRecord::Merge2))
}

fn replay(pages: &Pages, records: &[LogRecord]) -> Result<Pages, String> {
    let mut fixture = RedoFixture::new(64);
    pages.iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
    fixture.replay(records).map_err(|error| error.full_text())?;
    Ok(pages.keys().map(|page| (*page, fixture.page(*page))).collect())
}

fn links(pages: &Pages, page: u32) -> [u32; 2] {
    let view = Page::new(&pages[&page], SIZE);
    [view.prev(), view.next()].map(PageNumber::to_raw)
}

#[test]
fn each_type_of_merge_moves_the_nodes_that_are_not_deleted() {
    use merge_type::{EMPTY_PAGE, FULL_LEFT, FULL_RIGHT, PARTIAL_LEFT, PARTIAL_RIGHT};
    let (delete, key) = (MergeFlags::DELETE_NODE, MergeFlags::KEY_CHANGE);
    for (kind, line, flags, separator, expected) in [
        (EMPTY_PAGE, 0, delete, "", ["b1 b2", "", "f1", "c g"]),
        (FULL_RIGHT, 0, delete, "", ["b1 b2", "", "d1 d2 d4 f1", "c g"]),
        (FULL_LEFT, 3, delete | key, "", ["b1 b2 d1 d2 d4", "", "f1", "e g"]),
        (PARTIAL_RIGHT, 1, key, "d2", ["b1 b2", "d1", "d2 d4 f1", "c d2 g"]),
        (PARTIAL_LEFT, 2, key, "d4", ["b1 b2 d1 d2", "d4", "f1", "d4 e g"]),
    ] {
        let (old, records) = (tree(), records(kind, line, flags, separator.as_bytes()));
        let pages = replay(&old, &records).unwrap();
        let found = [LEFT, MERGED, RIGHT, PARENT].map(|page| keys(&pages[&page]));
        assert_eq!(found, expected, "type {kind}");
        let partial = matches!(kind, PARTIAL_LEFT | PARTIAL_RIGHT);
        let [next, prev] = if partial { [MERGED, MERGED] } else { [RIGHT, LEFT] };
        assert_eq!((links(&pages, LEFT)[1], links(&pages, RIGHT)[0]), (next, prev), "type {kind}");
        assert_eq!(Page::new(&pages[&MERGED], SIZE).flags().contains(PageFlags::EMPTY), !partial);
        let left_entry = nodes(&pages[&PARENT]).into_iter().find(|(_, page)| *page == LEFT.to_string());
        let left_key = match kind {
            FULL_LEFT => "e",
            PARTIAL_LEFT => "d4",
            _ => "c",
        };
        assert_eq!(left_entry.unwrap().0, left_key);
        assert!(
            [LEFT, MERGED, RIGHT, PARENT]
                .iter()
                .all(|page| { Page::new(&pages[page], SIZE).db_time() == DbTime(TIME) })
        );
        // Each page has either all changes or no changes, independently of the other pages.
        for subset in 0..16u32 {
            let is_in_subset = |at: u32| subset >> at & 1 == 1;
            let mixed = old.iter().map(|(page, bytes)| {
                let at = [LEFT, MERGED, RIGHT, PARENT, ROOT].iter().position(|p| p == page).unwrap();
                (*page, if is_in_subset(at as u32) { pages[page].clone() } else { bytes.clone() })
            });
            assert!(replay(&mixed.collect(), &records).unwrap() == pages, "type {kind}, subset {subset:b}");
        }
    }
}

/// The parent has no other children, so it leaves the tree together with its leaf. The entry of the last page has no
/// key.
#[test]
fn parent_pages_can_be_removed_together_with_a_leaf() {
    let mut pages = tree();
    pages.insert(PARENT, parent_of(PARENT, 40, PageFlags::empty(), &[("", MERGED)]));
    pages.insert(ROOT, parent_of(ROOT, 30, PageFlags::ROOT, &[("c", 21), ("", PARENT)]));
    let root = merge(ROOT, 30, 1, MergeFlags::DELETE_NODE);
    let parent = merge(PARENT, 40, 0, MergeFlags::EMPTY_PAGE);
    let leaf = Merge {
        left: PageNumber::new(LEFT),
        left_before: DbTime(50),
        merge_type: merge_type::EMPTY_PAGE,
        ..merge(MERGED, 51, 0, MergeFlags::EMPTY_PAGE)
    };
    let records = in_macro(TIME, [root, parent, leaf].map(LogRecord::Merge2));
    let pages = replay(&pages, &records).unwrap();
    assert_eq!(nodes(&pages[&ROOT]), [(String::new(), "21".to_string())]);
    assert_eq!((keys(&pages[&PARENT]), keys(&pages[&MERGED])), (String::new(), String::new()));
    assert_eq!(links(&pages, LEFT)[1], 0);
    for page in [PARENT, MERGED] {
        assert!(Page::new(&pages[&page], SIZE).flags().contains(PageFlags::EMPTY));
    }
}

#[test]
fn inconsistent_merge_records_are_rejected() {
    let delete = MergeFlags::DELETE_NODE;
    let refused = |records: &[LogRecord]| replay(&tree(), records).err().unwrap();
    assert!(refused(&records(4, 0, delete, b"")).contains("unknown type"));
    let right = records(merge_type::FULL_RIGHT, 0, delete, b"");
    assert!(refused(&[&right[..2], &right[3..]].concat()).contains("do not match"));
    assert!(refused(&[&right[..3], &right[2..]].concat()).contains("do not match"));
    let change = |change: fn(&mut Merge)| -> Vec<LogRecord> {
        let mut records = right.clone();
        records.iter_mut().for_each(|record| {
            if let LogRecord::Merge2(merge) = record {
                change(merge);
            }
        });
        records
    };
    assert!(refused(&change(|merge| merge.merge_line = 900)).contains("does not contain the nodes"));
    assert!(refused(&change(|merge| merge.before_image.truncate(50))).contains("image"));
    assert!(refused(&change(|merge| merge.change.line = 77)).contains("does not have the entry"));
}

/// Earlier versions of Jetcell logged a merge as one record without a record for the parent.
#[test]
fn merge_records_from_earlier_versions_are_rejected() {
    let records = records(merge_type::FULL_RIGHT, 0, MergeFlags::DELETE_NODE, b"");
    let old = [&records[..1], &records[2..]].concat();
    assert!(replay(&tree(), &old).err().unwrap().contains("with the version that wrote the log"));
    // If redo starts inside the macro, the parent's record may be missing.
    let after = replay(&tree(), &records).unwrap();
    for from in 1..records.len() {
        assert!(replay(&after, &records[from..]).unwrap() == after, "from record {from}");
    }
}
