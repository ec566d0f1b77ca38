//! Tests with records from real logs, and property tests for all record types.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{DbTime, PageNumber, TreeId};

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// Checks that `text` decodes to `expected` and that `expected` encodes to the same bytes.
fn golden(text: &str, expected: LogRecord) {
    let bytes = hex(text);
    assert_eq!(LogRecord::decode(&bytes), Ok((expected.clone(), bytes.len())));
    assert_eq!(expected.to_bytes(), bytes);
    for cut in 0..bytes.len() {
        assert!(LogRecord::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

fn change(page: u32, after: u64, before: u64, begin0: u32, level: u8, flags: PageChangeFlags) -> PageChange {
    PageChange {
        procid: 5,
        database: DatabaseIdInLog(1),
        page: PageNumber::fixed(page),
        after: DbTime(after),
        before: DbTime(before),
        begin0,
        level,
        line: 0,
        flags,
    }
}

#[test]
fn golden_transaction_records() {
    golden(
        "08 0500 10 04000000",
        LogRecord::Begin0(Begin0 { procid: 5, levels: BeginLevels::new(0, 1), begin0: 4 }),
    );
    golden("05 0500 11", LogRecord::Begin(Begin { procid: 5, levels: BeginLevels::new(1, 1) }));
    golden("06 0500 01", LogRecord::Commit(Commit { procid: 5, level: 1 }));
    golden("09 0500 00 08000000", LogRecord::Commit0(Commit0 { procid: 5, level: 0, commit0: 8 }));
    golden("0b 0500 0d01000000000000", LogRecord::MacroBegin(Macro { procid: 5, db_time: DbTime(269) }));
    golden("17", LogRecord::ShutDownMark);
}

#[test]
fn golden_insert() {
    golden(
        "1d 0500 01 04000000 7200000000000000 5300000000000000 0c000000 02 0000 05  afffffff 04000000 02000000
         0d00 0000 2d00 7f800000027f80017f80000002
         08802000020000000100020000000400000050000000000000c014000000ff000b004d5379734f626a65637473",
        LogRecord::Insert(Insert {
            node: NodeChange {
                page: change(4, 0x72, 0x53, 12, 2, PageChangeFlags::VERSIONED | PageChangeFlags::UNIQUE),
                rceid: 0xffff_ffaf,
                root: PageNumber::new(4),
                tree: TreeId(2),
            },
            prefix: vec![],
            suffix: hex("7f800000027f80017f80000002"),
            data: hex("08802000020000000100020000000400000050000000000000c014000000ff000b004d5379734f626a65637473"),
        }),
    );
}

#[test]
fn golden_append_split() {
    golden(
        "3e 0500 01 0d000000 2201000000000000 1c01000000000000 0c000000 02 0000 04
         0e000000 00000000 ffffffffffffffff 04000000 0d01000000000000 04000000 02000000
         02 01 3700 3700 3800 02080000 02080000 0000 0000 ffffffff 00000000 0d00 0000 0d00 00000000 00000000
         7f800000037f80027f80000104 7f800000027f80027f80000001",
        LogRecord::Split2(Split {
            change: change(13, 0x122, 0x11c, 12, 2, PageChangeFlags::UNIQUE),
            new_page: PageNumber::new(14),
            right: None,
            right_before: DbTime(u64::MAX),
            parent: PageNumber::new(4),
            parent_before: DbTime(0x10d),
            root: PageNumber::fixed(4),
            tree: TreeId(2),
            split_type: 2,
            operation: 1,
            operation_line: 0x37,
            split_line: 0x37,
            line_count: 0x38,
            new_flags: 0x802,
            split_flags: 0x802,
            split_uncommitted: 0,
            new_uncommitted: 0,
            split_prefix_line: -1,
            new_prefix_line: 0,
            image_flags: BeforeImageFlags::empty(),
            parent_key: hex("7f800000037f80027f80000104"),
            old_prefix: hex("7f800000027f80027f80000001"),
            new_prefix: vec![],
            before_image: vec![],
        }),
    );
}

#[test]
fn golden_structure_records() {
    golden(
        "3a 0500 01 1f000000 8501000000000000 6f01000000000000 68000000 02 0000 04
         08000000 20000000 21000000 01000000 20000000 01000000 03000000 00000000 00a80000",
        LogRecord::ConvertFdp2(ConvertFdp {
            change: change(31, 0x185, 0x16f, 104, 2, PageChangeFlags::UNIQUE),
            tree: TreeId(8),
            owned_root: PageNumber::fixed(32),
            available_root: PageNumber::fixed(33),
            parent_root: PageNumber::new(1),
            secondary_first: PageNumber::fixed(32),
            primary_pages: 1,
            secondary_pages: 3,
            available_bits: 0,
            page_flags: 0xa800,
        }),
    );
    golden(
        "5f 0500 01 1d000000 06000000 3b01000000000000",
        LogRecord::NewPage(NewPage {
            procid: 5,
            database: DatabaseIdInLog(1),
            page: PageNumber::fixed(29),
            tree: TreeId(6),
            after: DbTime(315),
        }),
    );
    golden(
        "44 05000000 01 2e000000",
        LogRecord::ExtendDb(ExtendDb { database: DatabaseIdInLog(1), last: PageNumber::fixed(46) }),
    );
    golden("43 08000000 04000000 0d000000", LogRecord::MacroInfo(hex("040000000d000000")));
    golden(
        "5c 01 20060000 b4000000 90010000",
        LogRecord::SetDbVersion(SetDbVersion {
            database: DatabaseIdInLog(1),
            version: 0x620,
            update: 180,
            update_minor: 400,
        }),
    );
}

#[test]
fn golden_undo_info_in_a_tree_with_repeating_keys() {
    let mut page = change(237, u64::MAX, u64::MAX, 0x184, 1, PageChangeFlags::empty());
    page.procid = 10;
    golden(
        "24 0a00 01 ed000000 ffffffffffffffff ffffffffffffffff 84010000 01 0000 00  35e9ffff 30000000 0d000000
         1300 0e00 0300 0000 0000 0000 7f800002d07fc0e5d4bbcccccccd7f8000099a 7fc0e5d4bbcccccccd7f8000099a",
        LogRecord::UndoInfo(UndoInfo {
            node: NodeChange { page, rceid: 0xffff_e935, root: PageNumber::new(48), tree: TreeId(13) },
            operation: operation::FLAG_DELETE,
            max_size: 0,
            size_delta: 0,
            key: hex("7f800002d07fc0e5d4bbcccccccd7f8000099a"),
            bookmark_data: hex("7fc0e5d4bbcccccccd7f8000099a"),
            before: vec![],
        }),
    );
}

#[test]
fn golden_create_database_has_a_version_before_the_path() {
    let path = "C:\\db.edb";
    let mut bytes = hex("0e 0500 01 00020000 00000000");
    bytes.extend_from_slice(&hex("718bb5671d3002120a7bd10200000000000000000000000000000000"));
    bytes.extend_from_slice(&hex("1400 0c 0200 0000"));
    bytes.extend_from_slice(&encode_path(path));
    let (record, len) = LogRecord::decode(&bytes).unwrap();
    assert_eq!((record.to_bytes(), len), (bytes.clone(), bytes.len()));
    let LogRecord::CreateDb(create) = record else { panic!("{record:?}") };
    assert_eq!((create.flags, create.version), (CreateDb::UNICODE, Some((2, 0))));
    assert_eq!(decode_path(&create.path), path);
}

#[test]
fn an_ignorable_record_of_unexpected_length_is_kept_unchanged() {
    golden(
        "44 06000000 01 2e000000 00",
        LogRecord::Ignored(Opaque { kind: 0x44, body: hex("012e00000000") }),
    );
    golden("52 02000000 aabb", LogRecord::Ignored(Opaque { kind: 0x52, body: hex("aabb") }));
}

#[test]
fn filler_has_the_requested_length() {
    for len in 0..20 {
        match LogRecord::filler(len) {
            Some(filler) => assert_eq!(filler.to_bytes().len(), len),
            None => assert!(len < 5),
        }
    }
}

#[test]
fn emptied_pages_round_trip() {
    let entries = [
        EmptiedPage { before: DbTime(7), page: 3, flags: 2 },
        EmptiedPage { before: DbTime(9), page: 4, flags: 1 },
    ];
    let bytes = EmptyTree::encode_entries(&entries);
    assert_eq!(bytes.len(), 32);
    assert_eq!(bytes[..12], [7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    let node = NodeChange {
        page: change(1, 2, 1, 0, 0, PageChangeFlags::empty()),
        rceid: 0,
        root: None,
        tree: TreeId(1),
    };
    assert_eq!(EmptyTree { node, pages: bytes }.entries().collect::<Vec<_>>(), entries);
}

/// Checks that a record that decodes also encodes to the same bytes. Returns its type.
fn faithful(bytes: &[u8]) -> Option<u8> {
    let len = record_len(bytes);
    let (record, consumed) = LogRecord::decode(bytes).ok()?;
    assert_eq!(len, Ok(consumed));
    assert_eq!(record.to_bytes(), &bytes[..consumed], "{record:?}");
    Some(record.kind())
}

proptest! {
    #[test]
    fn arbitrary_bytes_round_trip_or_fail_to_decode(mut bytes in prop::collection::vec(
        prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 1..900)
    ) {
        for kind in 0..=u8::MAX {
            bytes[0] = kind;
            faithful(&bytes);
        }
    }
}

#[test]
fn sparse_random_bytes_decode_to_every_type() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut reached = BTreeSet::new();
    for _ in 0..600 {
        let mut bytes: Vec<u8> =
            (0..2000).map(|_| if random() % 5 == 0 { random() as u8 } else { 0 }).collect();
        for kind in 0..=u8::MAX {
            bytes[0] = kind;
            reached.extend(faithful(&bytes));
        }
    }
    let known = (0..=u8::MAX).filter(|kind| record_len(&[&[*kind][..], &[0; 700]].concat()).is_ok());
    assert_eq!(reached, known.collect());
    // All types in 0..=101 except 27, 28, 40..=44, 47, and 54..=56.
    assert_eq!(reached.len(), 91);
}
