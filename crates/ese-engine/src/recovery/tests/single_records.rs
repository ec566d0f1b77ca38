//! Tests the redo of each type of log record that changes pages, except for splits and merges.
//!
//! `Delta`, `Delta64`, `ReplaceD`, `Scrub` and `PageMove` do not occur in any available log. Their tests follow the
//! published source of ESE.

use std::path::Path;

use ese_format::log::record::{
    Begin0, BeginLevels, Commit0, ConvertFdp, CreateSingleExtentFdp, DatabaseIdInLog, Delta, Delta64,
    EmptiedPage, EmptyTree, LogRecord, NewPage, NodeChange, Opaque, PageChange, PageChangeFlags, PageMove,
    PageMoveFlags, Replace, Scrub, SetExternalHeader, Undo, operation,
};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::space::{Extent, SpaceHeader};
use ese_format::{DbTime, PageNumber, TreeId};
use jetcell_vfs::SimVfs;

use super::redo_fixture::{
    PROCID, ROOT, RedoFixture, SIZE, TREE, change, insert, keys, node, nodes, page_of, parent_of,
};
use super::{DATABASES, database};
use crate::btree::tests::{create_tree, open};

const LEAF: PageFlags = PageFlags::LEAF;
const PAGE: u32 = 10;

/// Redoes the records on a database with these pages, and returns the database.
fn redone(pages: &[(u32, Vec<u8>)], records: &[LogRecord]) -> RedoFixture {
    let mut fixture = RedoFixture::new(64);
    pages.iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
    fixture.replay(records).unwrap();
    fixture
}

fn leaf(keys: &[(&str, &str)]) -> Vec<u8> {
    page_of(PAGE, 50, LEAF, &[], keys)
}

fn refused(pages: &[(u32, Vec<u8>)], record: LogRecord) -> String {
    let mut fixture = RedoFixture::new(64);
    pages.iter().for_each(|(page, bytes)| fixture.put(*page, bytes));
    fixture.replay(&[record]).unwrap_err().to_string()
}

fn versioned(page: u32, times: [u64; 2], line: u16, rceid: u32) -> NodeChange {
    let mut node = NodeChange { rceid, ..node(page, times, line) };
    node.page.flags |= PageChangeFlags::VERSIONED;
    node.page.level = 1;
    node
}

#[test]
fn a_difference_record_replaces_data() {
    let replace = |data: &[u8], new_len| {
        let node = node(PAGE, [50, 60], 1);
        let data = data.to_vec();
        LogRecord::ReplaceD(Replace { node, wide_diff: false, old_len: 10, new_len, data })
    };
    let pages = [(PAGE, leaf(&[("a", "0123456789"), ("b", "0123456789")]))];
    let fixture = redone(&pages, &[replace(&[0x04, 0x00, 3, 2, b'a', b'b', b'c'], 11)]);
    let expected = [("a", "0123456789"), ("b", "0123abc6789")].map(|(k, d)| (k.into(), d.into()));
    assert_eq!(nodes(&fixture.page(PAGE)), expected);
    assert_eq!(Page::new(&fixture.page(PAGE), SIZE).db_time(), DbTime(60));
    assert!(refused(&pages, replace(&[0x0b, 0x40, 1, b'x'], 11)).contains("differences"));
}

/// Counters wrap around. Undoing one change preserves the changes of other sessions.
#[test]
fn counter_deltas_are_applied_and_undone() {
    let narrow = |times, line, rceid, delta| {
        let node = versioned(PAGE, times, line, rceid);
        let (key, bookmark_data) = (Vec::new(), Vec::new());
        LogRecord::Delta(Delta { node, delta, offset: 2, key, bookmark_data })
    };
    let wide = |times, delta| {
        let node = node(PAGE, times, 0);
        let (key, bookmark_data) = (Vec::new(), Vec::new());
        LogRecord::Delta64(Delta64 { node, delta, offset: 0, key, bookmark_data })
    };
    let undo = |times, rceid| {
        let node = versioned(PAGE, times, 0, rceid);
        let (key, bookmark_data) = (Vec::new(), Vec::new());
        LogRecord::Undo(Undo { node, operation: operation::DELTA, level: 1, key, bookmark_data })
    };
    let levels = BeginLevels::new(0, 1);
    let begin = LogRecord::Begin0(Begin0 { procid: PROCID, levels, begin0: 8 });
    let data = "\0\0\0\0\0\0\0\0";
    let pages = [(PAGE, leaf(&[("a", data)]))];
    let counter = |fixture: &RedoFixture| {
        let page = fixture.page(PAGE);
        let node = Page::new(&page, SIZE).node(0).map(|node| (node.data.to_vec(), node.flags)).unwrap();
        (i32::from_le_bytes(node.0[2..6].try_into().unwrap()), node.1)
    };
    let records = [
        begin,
        narrow([50, 60], 0, 7, 5),
        narrow([60, 61], 0, 8, -9),
        undo([61, 62], 7),
        wide([62, 63], 1 << 16),
    ];
    let fixture = redone(&pages, &records[..3]);
    assert_eq!(counter(&fixture), (-4, NodeFlags::VERSIONED));
    let fixture = redone(&pages, &records);
    assert_eq!(counter(&fixture).0, -8);
    // The transaction has not ended, and one of its changes has not been undone.
    assert!(fixture.finish().unwrap_err().to_string().contains("leave the database dirty"));
    let commit = LogRecord::Commit0(Commit0 { procid: PROCID, level: 0, commit0: 12 });
    let fixture = redone(&pages, &[&records[..3], &[commit]].concat());
    assert_eq!(fixture.finish().unwrap(), 0);

    let short = [(PAGE, leaf(&[("a", "12345")]))];
    assert!(refused(&short, narrow([50, 60], 0, 7, 1)).contains("outside the data"));
    assert!(refused(&pages, narrow([50, 60], 3, 7, 1)).contains("does not have the node"));
    assert!(refused(&pages, undo([50, 60], 7)).contains("not in the log"));
}

#[test]
fn deleted_data_is_scrubbed_unless_the_page_is_newer() {
    let scrub = |flags, operations: &[u8]| {
        let node = NodeChange { root: None, ..node(PAGE, [50, 60], 0) };
        let count = operations.len() as u32;
        LogRecord::Scrub(Scrub { node, flags, count, data: operations.to_vec() })
    };
    // ESE pads the record to limit the number of pages per log.
    let padded = |record: LogRecord| match record {
        LogRecord::Scrub(record) => {
            LogRecord::Scrub(Scrub { data: [&record.data[..], &[0; 300]].concat(), ..record })
        }
        other => other,
    };
    let mut page = leaf(&[("a", "kept"), ("b", "data"), ("c", "long")]);
    let gone = NodeFlags::DELETED | NodeFlags::VERSIONED;
    (1..3).for_each(|line| PageMut::new(&mut page, SIZE).set_node_flags(line, gone));
    let pages = [(PAGE, page)];
    let fixture = redone(&pages, &[scrub(0, &[0, 1, 2])]);
    let found = fixture.page(PAGE);
    let data: Vec<_> = Page::new(&found, SIZE).nodes().map(|node| node.data).collect();
    assert_eq!(data, [&b"kept"[..], b"DDDD", b"\x20LLL"]);
    let flags: Vec<_> = Page::new(&found, SIZE).nodes().map(|node| node.flags).collect();
    assert_eq!(flags, [NodeFlags::empty(), NodeFlags::DELETED, NodeFlags::DELETED]);
    assert!(Page::new(&found, SIZE).flags().contains(PageFlags::SCRUBBED));
    assert!(!found.windows(4).any(|bytes| bytes == b"data" || bytes == b"long"));

    let fixture = redone(&pages, &[scrub(0, &[0, 1, 2]), insert(PAGE, [60, 61], 3, "d")]);
    assert!(!Page::new(&fixture.page(PAGE), SIZE).flags().contains(PageFlags::SCRUBBED));
    assert!(redone(&pages, &[padded(scrub(0, &[0, 1, 2]))]).page(PAGE) == found);
    let unused = redone(&pages, &[scrub(1, &[])]).page(PAGE);
    assert!(redone(&pages, &[padded(scrub(1, &[]))]).page(PAGE) == unused);
    let fixture = redone(&pages, &[scrub(1, &[])]);
    assert_eq!(keys(&fixture.page(PAGE)), "");
    assert!(!fixture.page(PAGE).windows(4).any(|bytes| bytes == b"kept"));
    assert!(refused(&pages, scrub(0, &[0, 1])).contains("different node counts"));
    assert!(refused(&pages, scrub(0, &[0, 1, 9])).contains("unknown operation"));
    let node = NodeChange { root: None, ..node(PAGE, [50, 60], 0) };
    let short = Scrub { node, flags: 0, count: u32::MAX, data: vec![0; 3] };
    assert!(refused(&pages, LogRecord::Scrub(short)).contains("different node counts"));
}

#[test]
fn a_page_move_updates_the_parent_and_sibling_links() {
    const LEFT: u32 = 9;
    const RIGHT: u32 = 11;
    const NEW: u32 = 30;
    let mut source = leaf(&[("b", "1"), ("c", "2")]);
    let mut left = page_of(LEFT, 40, LEAF, &[], &[("a", "0")]);
    let mut right = page_of(RIGHT, 41, LEAF, &[], &[("d", "3")]);
    PageMut::new(&mut source, SIZE).set_prev(PageNumber::new(LEFT));
    PageMut::new(&mut source, SIZE).set_next(PageNumber::new(RIGHT));
    PageMut::new(&mut left, SIZE).set_next(PageNumber::new(PAGE));
    PageMut::new(&mut right, SIZE).set_prev(PageNumber::new(PAGE));
    let parent = parent_of(ROOT, 42, PageFlags::ROOT, &[("b", LEFT), ("d", PAGE), ("", RIGHT)]);
    let (head, tail) = source.split_at(SIZE.bytes() / 2);
    let moved = PageMove {
        change: change(PAGE, [50, 60], 0),
        destination: PageNumber::fixed(NEW),
        left: PageNumber::new(LEFT),
        right: PageNumber::new(RIGHT),
        parent: PageNumber::new(ROOT),
        left_before: DbTime(40),
        right_before: DbTime(41),
        parent_before: DbTime(42),
        root: PageNumber::fixed(ROOT),
        tree: TREE,
        parent_line: 1,
        flags: PageMoveFlags::empty(),
        head: head.to_vec(),
        tail: tail.to_vec(),
    };
    let pages = [(PAGE, source.clone()), (LEFT, left), (RIGHT, right), (ROOT, parent)];
    let fixture = redone(&pages, &[LogRecord::PageMove(moved.clone())]);
    assert_eq!(keys(&fixture.page(NEW)), "b c");
    let found = fixture.page(NEW);
    assert_eq!(Page::new(&found, SIZE).db_time(), DbTime(60));
    assert_eq!(Page::new(&found, SIZE).prev(), PageNumber::new(LEFT));
    assert_eq!(Page::new(&fixture.page(LEFT), SIZE).next(), PageNumber::new(NEW));
    assert_eq!(Page::new(&fixture.page(RIGHT), SIZE).prev(), PageNumber::new(NEW));
    assert_eq!(nodes(&fixture.page(ROOT))[1], ("d".to_string(), NEW.to_string()));
    assert!(Page::new(&fixture.page(PAGE), SIZE).flags().contains(PageFlags::EMPTY));
    assert_eq!(keys(&fixture.page(PAGE)), "");
    let too_long = PageMove { head: vec![0; SIZE.bytes()], ..moved };
    assert!(refused(&pages, LogRecord::PageMove(too_long)).contains("image"));
}

#[test]
fn the_pages_of_an_emptied_tree_lose_their_nodes() {
    let root = parent_of(ROOT, 30, PageFlags::ROOT, &[("", PAGE)]);
    let entries = [EmptiedPage { before: DbTime(50), page: PAGE, flags: 2 }];
    let pages = EmptyTree::encode_entries(&entries);
    let record = LogRecord::EmptyTree(EmptyTree { node: node(ROOT, [30, 60], 0), pages });
    let fixture = redone(&[(PAGE, leaf(&[("a", "1")])), (ROOT, root)], &[record]);
    let [page, root] = [PAGE, ROOT].map(|page| fixture.page(page));
    assert_eq!((keys(&page), keys(&root)), (String::new(), String::new()));
    assert!(Page::new(&page, SIZE).flags().contains(PageFlags::EMPTY));
    assert!(Page::new(&root, SIZE).is_leaf());
}

#[test]
fn a_new_page_has_no_lines_until_first_use() {
    let (database, page, tree) = (DatabaseIdInLog(1), PageNumber::fixed(PAGE), TreeId(6));
    let record = LogRecord::NewPage(NewPage { procid: PROCID, database, page, tree, after: DbTime(60) });
    let fixture = redone(&[], std::slice::from_ref(&record));
    let found = fixture.page(PAGE);
    let view = Page::new(&found, SIZE);
    assert_eq!((view.db_time(), view.tree(), view.node_count()), (DbTime(60), TreeId(6), 0));
    assert_eq!(view.flags(), PageFlags::PRE_INIT | PageFlags::NEW_RECORD);
    assert_eq!(view.free_bytes(), SIZE.bytes() - SIZE.header_len());
    // If the page on disk is newer than the record, it stays unchanged.
    let newer = page_of(PAGE, 61, LEAF, &[], &[("a", "1")]);
    let fixture = redone(&[(PAGE, newer)], &[record]);
    assert_eq!(keys(&fixture.page(PAGE)), "a");
}

/// Creates a tree in one extent and converts it to space trees, as ESE's source does. Covers a unique and a non-unique
/// tree.
#[test]
fn a_tree_in_one_extent_is_created_and_converted() {
    for non_unique in [false, true] {
        let kind = if non_unique { PageFlags::NON_UNIQUE } else { PageFlags::empty() };
        let page_flags = (kind | PageFlags::NEW_RECORD).bits();
        let create = CreateSingleExtentFdp {
            change: change(PAGE, [0, 60], 0),
            tree: TREE,
            parent_root: PageNumber::new(1),
            primary_pages: 4,
            page_flags,
        };
        let fixture = redone(&[], &[LogRecord::CreateSingleExtentFdp(create)]);
        let root = fixture.page(PAGE);
        let word =
            |external: &[u8], at: usize| u32::from_le_bytes(external[4 * at..][..4].try_into().unwrap());
        let words = |page: &[u8]| -> Vec<u32> {
            (0..4).map(|at| word(Page::new(page, SIZE).external_header(), at)).collect()
        };
        assert_eq!(words(&root), [4, 1, if non_unique { 2 } else { 0 }, 0b111]);
        assert_eq!(Page::new(&root, SIZE).flags(), kind | PageFlags::NEW_RECORD | PageFlags::ROOT | LEAF);

        let convert = ConvertFdp {
            change: change(PAGE, [60, 70], 0),
            tree: TREE,
            owned_root: PageNumber::fixed(20),
            available_root: PageNumber::fixed(21),
            parent_root: PageNumber::new(1),
            secondary_first: PageNumber::fixed(20),
            primary_pages: 4,
            secondary_pages: 5,
            available_bits: 0b100,
            page_flags,
        };
        let fixture = redone(&[(PAGE, root)], &[LogRecord::ConvertFdp2(convert)]);
        assert_eq!(words(&fixture.page(PAGE)), [4, 1, if non_unique { 3 } else { 1 }, 20]);
        let header = fixture.page(PAGE);
        let header = SpaceHeader::decode(Page::new(&header, SIZE).external_header()).unwrap();
        assert_eq!((header.multiple, header.non_unique), (true, non_unique));
        let extents = |page: u32| -> Vec<(u32, u32)> {
            let bytes = fixture.page(page);
            let page = Page::new(&bytes, SIZE);
            let extent =
                |node: ese_format::page::Node<'_>| Extent::decode(&node.key_to_vec(), node.data).unwrap().0;
            page.nodes().map(extent).map(|extent| (extent.last.get(), extent.count)).collect()
        };
        assert_eq!(extents(20), [(13, 4), (24, 5)]);
        assert_eq!(extents(21), [(13, 1), (24, 3)]);
    }
}

/// Redo raises the last tree id in the header. Otherwise, the next table would get an id that is in use.
#[test]
fn a_tree_that_redo_creates_keeps_its_id() {
    let disk = SimVfs::new();
    let instance = open(&disk, SIZE, 256).unwrap();
    let (db, _) = database(&instance, DATABASES[0]);
    let id = TreeId(db.file.header().last_tree.0 + 7);
    let (page, time) = (db.file.file_pages().unwrap(), db.file.next_time());
    let create = CreateSingleExtentFdp {
        change: PageChange { database: DatabaseIdInLog(db.file.log_id), ..change(page, [0, time.0], 0) },
        tree: id,
        parent_root: PageNumber::new(1),
        primary_pages: 1,
        page_flags: PageFlags::NEW_RECORD.bits(),
    };
    instance.core().append(&[LogRecord::CreateSingleExtentFdp(create)]).unwrap();
    instance.flush().unwrap();
    drop((db, instance));
    let instance = open(&disk.process_kill(), SIZE, 256).unwrap();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    assert_eq!(Page::new(&db.file.pin(PageNumber::fixed(page)).unwrap().read(), SIZE).tree(), id);
    create_tree(&instance, &db, PageFlags::empty());
    assert_eq!(db.file.header().last_tree, TreeId(id.0 + 1));
}

/// Damaged sizes must not lead to long run times or high memory use.
#[test]
fn sizes_of_new_trees_are_not_trusted() {
    let convert = ConvertFdp {
        change: change(PAGE, [50, 60], 0),
        tree: TREE,
        owned_root: PageNumber::fixed(20),
        available_root: PageNumber::fixed(21),
        parent_root: None,
        secondary_first: PageNumber::fixed(u32::MAX),
        primary_pages: i32::MAX,
        secondary_pages: i32::MIN,
        available_bits: u32::MAX,
        page_flags: 0,
    };
    let mut root = page_of(PAGE, 50, LEAF | PageFlags::ROOT, &[], &[]);
    PageMut::new(&mut root, SIZE).set_external_header(&SpaceHeader::single(4, None, false).encode()).unwrap();
    redone(&[(PAGE, root)], &[LogRecord::ConvertFdp2(convert)]);
    let create = CreateSingleExtentFdp {
        change: change(PAGE, [0, 60], 0),
        tree: TREE,
        parent_root: None,
        primary_pages: i32::MIN,
        page_flags: u32::MAX,
    };
    redone(&[], &[LogRecord::CreateSingleExtentFdp(create)]);
}

/// Later records may depend on an unsupported record, so redo does not continue past it.
#[test]
fn an_unsupported_record_stops_redo_with_name_and_position() {
    for (record, name) in [
        (LogRecord::Obsolete(Opaque { kind: 26, body: vec![0; 59] }), "Obsolete"),
        (LogRecord::Ignored(Opaque { kind: 68, body: vec![0; 9] }), "Ignored"),
    ] {
        let mut fixture = RedoFixture::new(64);
        fixture.put(PAGE, &leaf(&[("a", "1")]));
        let error = fixture.replay(&[insert(PAGE, [50, 60], 1, "b"), record]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("(1,2,0)"), "{error}");
        assert_eq!(keys(&fixture.page(PAGE)), "a");
    }
    // ESE skips unknown records of this family, and so does redo.
    redone(&[], &[LogRecord::Ignored(Opaque { kind: 82, body: vec![1, 2] })]);
}

#[test]
fn an_external_header_of_any_length_is_set() {
    let root = page_of(PAGE, 50, LEAF | PageFlags::ROOT, &[7; 16], &[("a", "1")]);
    let set = |len: usize| SetExternalHeader { node: node(PAGE, [50, 60], 0), data: vec![3; len] };
    let fixture = redone(&[(PAGE, root.clone())], &[LogRecord::SetExternalHeader(set(25))]);
    assert_eq!(Page::new(&fixture.page(PAGE), SIZE).external_header(), [3; 25]);
    assert!(
        refused(&[(PAGE, root)], LogRecord::SetExternalHeader(set(5000)))
            .contains("enough space for its external header")
    );
}
