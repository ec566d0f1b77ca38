use proptest::prelude::*;

use super::*;
use crate::{DbTime, PageNumber, PageSize, TreeId};

const SIZES: [PageSize; 4] = [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32];

fn leaf(bytes: &mut [u8], size: PageSize) -> PageMut<'_> {
    PageMut::format(bytes, size, PageNumber::fixed(7), TreeId(3), PageFlags::LEAF | PageFlags::NEW_RECORD)
}

type ModelNode = (Vec<u8>, Vec<u8>, NodeFlags);

fn contents(page: &Page<'_>) -> Vec<ModelNode> {
    page.nodes().map(|n| (n.key_to_vec(), n.data.to_vec(), n.flags - NodeFlags::COMPRESSED)).collect()
}

#[derive(Debug, Clone)]
enum ModelChange {
    Insert(prop::sample::Index, Vec<u8>, Vec<u8>, u8),
    Delete(prop::sample::Index),
    Replace(prop::sample::Index, Vec<u8>),
    Flags(prop::sample::Index, u8),
    Header(Vec<u8>),
    Rebuild(prop::sample::Index),
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    // Use few distinct bytes, so that keys often have a common prefix.
    prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f]), 1..12)
}

fn any_data(size: PageSize) -> impl Strategy<Value = Vec<u8>> {
    let most = size.bytes() / 12;
    (any::<u8>(), prop_oneof![1..40usize, 1..most]).prop_map(|(byte, len)| vec![byte; len])
}

fn any_change(size: PageSize) -> impl Strategy<Value = ModelChange> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        6 => (at(), any_key(), any_data(size), 0..4u8).prop_map(|(i, k, d, f)| ModelChange::Insert(i, k, d, f)),
        2 => at().prop_map(ModelChange::Delete),
        3 => (at(), any_data(size)).prop_map(|(i, d)| ModelChange::Replace(i, d)),
        1 => (at(), 0..4u8).prop_map(|(i, f)| ModelChange::Flags(i, f)),
        1 => prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f]), 0..10).prop_map(ModelChange::Header),
        1 => at().prop_map(ModelChange::Rebuild),
    ]
}

/// Returns the number of bytes that the nodes need on a page with the given prefix, computed from the definition of a
/// node.
fn space_of(prefix: &[u8], nodes: &[ModelNode]) -> usize {
    let compressed_space = |(key, data, _): &ModelNode| {
        let shared = shared_prefix_len(prefix, key);
        node_space(key.len() - shared, shared > 0, data.len())
    };
    nodes.iter().map(compressed_space).sum()
}

fn run(size: PageSize, changes: Vec<ModelChange>) -> Result<(), TestCaseError> {
    let mut bytes = vec![0xee; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    let mut model: Vec<ModelNode> = Vec::new();
    let mut prefix: Vec<u8> = Vec::new();
    let capacity = size.bytes() - size.header_len() - TAG_LEN;
    for change in changes {
        let mut after = (model.clone(), prefix.clone());
        // Nodes that were stored before the prefix was set are longer than necessary. Only then may the page reject
        // more nodes than the model.
        let compact = page.as_page().used_space(0..model.len()) == space_of(&prefix, &model)
            && !matches!(change, ModelChange::Header(_));
        let done = match change {
            ModelChange::Insert(at, key, data, flags) => {
                let (at, flags) = (at.index(model.len() + 1), NodeFlags::from_bits_truncate(flags));
                after.0.insert(at, (key.clone(), data.clone(), flags));
                page.insert_node(at, flags, &key, &data)
            }
            ModelChange::Header(bytes) => {
                after.1.clone_from(&bytes);
                page.set_external_header(&bytes)
            }
            _ if model.is_empty() => continue,
            ModelChange::Delete(at) => {
                after.0.remove(at.index(model.len()));
                page.delete_node(at.index(model.len()));
                Ok(())
            }
            ModelChange::Replace(at, data) => {
                after.0[at.index(model.len())].1.clone_from(&data);
                page.replace_data(at.index(model.len()), &data)
            }
            ModelChange::Flags(at, flags) => {
                let flags = NodeFlags::from_bits_truncate(flags);
                after.0[at.index(model.len())].2 = flags;
                page.set_node_flags(at.index(model.len()), flags);
                Ok(())
            }
            ModelChange::Rebuild(at) => {
                // Keep the left half, as in a split.
                let kept = 0..at.index(model.len());
                let mut copy_bytes = vec![0; size.bytes()];
                let mut copy = leaf(&mut copy_bytes, size);
                let prefix = page.as_page().prefix_for(kept.clone());
                copy.set_external_header(&prefix).unwrap();
                prop_assert_eq!(copy.copy_nodes_from(&page.as_page(), kept.clone()), Ok(()));
                prop_assert_eq!(&contents(&copy.as_page())[..], &model[kept.clone()]);
                prop_assert_eq!(copy.as_page().prefix(), &prefix[..]);
                page.delete_nodes(kept.end..model.len());
                after.0.truncate(kept.end);
                Ok(())
            }
        };
        let fits = space_of(&after.1, &after.0) + after.1.len() <= capacity;
        prop_assert!(fits || done.is_err());
        prop_assert!(done.is_ok() || !fits || !compact);
        if done.is_ok() {
            (model, prefix) = after;
        }
        let view = page.as_page();
        prop_assert_eq!(contents(&view), model.clone());
        prop_assert_eq!(view.external_header(), &prefix[..]);
        let PageMut { .. } = page;
        prop_assert_eq!(validate(&bytes, size), Ok(()));
        page = PageMut::new(&mut bytes, size);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn page_edits_match_a_model(
        (size, changes) in prop::sample::select(SIZES.to_vec())
            .prop_flat_map(|size| (Just(size), prop::collection::vec(any_change(size), 1..120)))
    ) {
        run(size, changes)?;
    }

    #[test]
    fn searches_match_a_linear_scan(
        mut keys in prop::collection::btree_set(any_key(), 0..60),
        probe in any_key(), prefix in any_key(), large in any::<bool>(), last_empty in any::<bool>()
    ) {
        keys.remove(&prefix);
        let size = if large { PageSize::KIB_32 } else { PageSize::KIB_4 };
        let mut bytes = vec![0; size.bytes()];
        let mut page = PageMut::format(&mut bytes, size, PageNumber::fixed(9), TreeId(1), PageFlags::PARENT_OF_LEAF);
        page.set_external_header(&prefix).unwrap();
        for (index, key) in keys.iter().enumerate() {
            page.insert_node(index, NodeFlags::empty(), key, &(index as u32 + 100).to_le_bytes()).unwrap();
        }
        if last_empty {
            page.insert_node(keys.len(), NodeFlags::empty(), &[], &[1, 0, 0, 0]).unwrap();
        }
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        let page = page.as_page();

        let greater = keys.iter().position(|key| *key > probe);
        let child = greater.map(|index| (index, PageNumber::fixed(index as u32 + 100)));
        prop_assert_eq!(page.child_for(&probe), child.or(last_empty.then_some((keys.len(), PageNumber::fixed(1)))));
        if !last_empty {
            let index = keys.partition_point(|key| *key < probe);
            prop_assert_eq!(page.lower_bound(&probe), (index, keys.get(index) == Some(&probe)));
            let mut joined = probe.clone();
            joined.extend((index as u32 + 100).to_le_bytes());
            for (i, (node, key)) in page.nodes().zip(&keys).enumerate() {
                let key_data = [&key[..], &(i as u32 + 100).to_le_bytes()].concat();
                prop_assert_eq!(node.cmp_key_data(&joined), key_data.cmp(&joined));
                prop_assert_eq!(node.cmp_key(&probe), key.cmp(&probe));
            }
        }
        prop_assert_eq!(validate(&bytes, size), Ok(()));
    }
}

#[test]
fn duplicates_are_found_by_key_and_data() {
    let size = PageSize::KIB_4;
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    page.set_external_header(b"samekey").unwrap();
    for (index, data) in [b"a1", b"a3", b"b1"].iter().enumerate() {
        page.insert_node(index, NodeFlags::empty(), b"samekey", *data).unwrap();
    }
    let page = page.as_page();
    assert_eq!(page.lower_bound_key_data(b"samekeya3"), (1, true));
    assert_eq!(page.lower_bound_key_data(b"samekeya2"), (1, false));
    assert_eq!(page.lower_bound_key_data(b"samekeyz"), (3, false));
    assert_eq!(page.lower_bound(b"samekey"), (0, true));
    let node = page.node(1).unwrap();
    assert_eq!((node.prefix, node.suffix, node.data), (&b"samekey"[..], &b""[..], &b"a3"[..]));
}

#[test]
fn nodes_are_laid_out_as_in_real_files() {
    // The data is from tag 1 of page 13 of basic.edb (with a shortened record), tag 2 of page 4, and page 3 of
    // large.edb.
    let size = PageSize::KIB_4;
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    page.set_external_header(&[0x7f, 0x80, 0, 0, 2, 0x7f, 0x80, 2, 0x7f, 0x80, 0, 0, 1]).unwrap();
    let key = [0x7f, 0x80, 0, 0, 2, 0x7f, 0x80, 1, 0x7f, 0x80, 0, 0, 2];
    page.insert_node(0, NodeFlags::VERSIONED, &key, &[8, 0x80, 0x20, 0]).unwrap();
    page.insert_node(1, NodeFlags::empty(), &[], &[14, 0, 0, 0]).unwrap();
    assert_eq!(page.as_page().raw_node(0), Some(&[7, 0, 6, 0, 1, 0x7f, 0x80, 0, 0, 2, 8, 0x80, 0x20, 0][..]));
    assert_eq!(page.as_page().raw_node(1), Some(&[0, 0, 14, 0, 0, 0][..]));
    assert_eq!(bytes[size.bytes() - 8..size.bytes() - 4], [14, 0, 13, 0xa0]);

    let size = PageSize::KIB_32;
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    page.insert_node(0, NodeFlags::DELETED, &[0, 0, 0, 0xfe], &[5, 0, 0, 0]).unwrap();
    assert_eq!(page.as_page().raw_node(0), Some(&[4, 0x40, 0, 0, 0, 0xfe, 5, 0, 0, 0][..]));
    assert_eq!(page.as_page().node(0).map(|node| node.flags), Some(NodeFlags::DELETED));
}

#[test]
fn a_delete_extends_the_contiguous_free_area_only_if_its_line_is_last() {
    let size = PageSize::KIB_8;
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    for index in 0..3u8 {
        page.insert_node(index.into(), NodeFlags::empty(), &[index], &[index; 10]).unwrap();
    }
    let (free, contiguous) = (page.as_page().free_bytes(), page.as_page().contiguous_free());
    page.delete_node(1);
    assert_eq!((page.as_page().free_bytes(), page.as_page().contiguous_free()), (free + 17, contiguous + 4));
    page.delete_node(1);
    assert_eq!((page.as_page().free_bytes(), page.as_page().contiguous_free()), (free + 34, contiguous + 21));
    page.delete_node(5);
    assert_eq!(page.as_page().node_count(), 1);
    page.clear_nodes();
    assert_eq!(page.as_page().contiguous_free(), page.as_page().free_bytes());
    assert_eq!(validate(&bytes, size), Ok(()));
}

#[test]
fn each_kind_of_root_has_the_right_prefix() {
    let size = PageSize::KIB_4;
    let mut bytes = vec![0; size.bytes()];
    let space = PageFlags::ROOT | PageFlags::LEAF | PageFlags::SPACE;
    let mut page = PageMut::format(&mut bytes, size, PageNumber::fixed(2), TreeId(1), space);
    assert_eq!(page.as_page().prefix(), b"");
    let external = [&[9u8; 16][..], b"abcd"].concat();
    page.set_external_header(&external).unwrap();
    page.insert_node(0, NodeFlags::empty(), b"abcdef", b"xxxx").unwrap();
    assert_eq!((page.as_page().prefix(), page.as_page().node_size(0)), (&b"abcd"[..], 14));
    // A new split reserve leaves the node unchanged, but a new prefix causes it to be rewritten.
    page.set_external_header(&[&[1u8; 16][..], b"abcd"].concat()).unwrap();
    assert_eq!(page.as_page().node_size(0), 14);
    page.set_external_header(&[1u8; 16]).unwrap();
    assert_eq!(
        (page.as_page().node(0).unwrap().key_to_vec(), page.as_page().node_size(0)),
        (b"abcdef".to_vec(), 16)
    );
    page.set_flags(PageFlags::ROOT | PageFlags::LEAF);
    assert_eq!(page.as_page().prefix(), b"");
    assert_eq!(validate(&bytes, size), Ok(()));
}

#[test]
fn header_fields_round_trip() {
    let size = PageSize::KIB_16;
    let mut bytes = vec![0xff; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    page.set_db_time(DbTime(99));
    page.set_prev(PageNumber::new(3));
    page.set_next(PageNumber::new(4));
    page.set_tree(TreeId(12));
    page.set_uncommitted_free(6);
    let view = page.as_page();
    assert_eq!(
        (view.db_time(), view.prev(), view.next()),
        (DbTime(99), PageNumber::new(3), PageNumber::new(4))
    );
    assert_eq!((view.tree(), view.uncommitted_free(), view.free_bytes()), (TreeId(12), 6, 16384 - 84));
    assert_eq!(bytes[64..68], [7, 0, 0, 0]);
    assert_eq!(validate(&bytes, size), Ok(()));
    let flags = PageFlags::from_bits_retain(0x1_0000_0003u64 as u32);
    let flushed = flags.with_next_flush_type();
    assert_eq!(flushed.bits(), 0x8003);
    assert_eq!(flushed.with_next_flush_type().with_next_flush_type().with_next_flush_type(), flushed);
}

#[test]
fn reserved_tags_come_before_nodes() {
    let size = PageSize::KIB_4;
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    for key in [b"r", b"a", b"c"] {
        page.insert_node(page.as_page().node_count(), NodeFlags::empty(), key, b"data").unwrap();
    }
    // Mark tag 1 as reserved too.
    bytes[35] |= 0x20;
    let mut page = PageMut::new(&mut bytes, size);
    assert_eq!(page.as_page().node_count(), 2);
    page.insert_node(1, NodeFlags::empty(), b"b", b"data").unwrap();
    page.delete_node(0);
    assert_eq!(contents(&page.as_page()).iter().map(|n| n.0[0]).collect::<Vec<_>>(), b"bc");
    page.clear_nodes();
    assert_eq!((page.as_page().node_count(), page.as_page().line(1)), (0, Some(&b"\x01\x00rdata"[..])));
    assert_eq!(validate(&bytes, size), Ok(()));
}

#[test]
fn impossible_node_lengths_are_rejected() {
    let size = PageSize::KIB_32;
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    assert_eq!(page.insert_node(0, NodeFlags::empty(), &[1; 8192], b"x"), Err(PageFull));
    assert_eq!(page.insert_node(1, NodeFlags::empty(), &[1; 8], b"x"), Err(PageFull));
    assert_eq!(page.insert_node(0, NodeFlags::empty(), &[1; 8191], b"x"), Ok(()));
    assert_eq!(page.replace_data(1, b"x"), Err(PageFull));
    assert_eq!(page.replace_data(0, &[0; 32000]), Err(PageFull));
    assert_eq!(page.set_external_header(&[0; 32000]), Err(PageFull));
    assert_eq!(page.as_page().node_count(), 1);
    assert_eq!(validate(&bytes, size), Ok(()));
}

#[test]
fn a_prefix_is_chosen_only_if_it_saves_space() {
    assert_eq!(choose_prefix(b"abcd1", b"abcd2", 2), b"abcd");
    assert_eq!(choose_prefix(b"abcd1", b"abcd2", 1), b"");
    assert_eq!(choose_prefix(b"abc1", b"abc2", 2), b"");
    assert_eq!(choose_prefix(b"abc1", b"abc2", 3), b"abc");
    assert_eq!(choose_prefix(b"ab1", b"ab2", 100), b"");
}

#[test]
fn a_buffer_with_a_wrong_page_length_has_no_nodes() {
    for len in [0, 10, 4095] {
        let bytes = vec![0xff; len];
        let page = Page::new(&bytes, PageSize::KIB_4);
        assert_eq!((page.node_count(), page.node(0), page.external_header()), (0, None, &[][..]));
        assert_eq!(page.child_for(b"x"), None);
        assert!(matches!(validate(&bytes, PageSize::KIB_4), Err(PageError::Length { .. })));
    }
}

/// Creates a leaf with one node and a fixed dbtime.
fn one_node(size: PageSize, flags: NodeFlags, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; size.bytes()];
    let mut page = leaf(&mut bytes, size);
    page.set_db_time(DbTime(0x0102));
    page.insert_node(0, flags, b"k", data).unwrap();
    bytes
}

#[test]
fn the_logical_checksum_matches_the_definition() {
    // The expected value comes from an independent implementation of the definition.
    let sum = logical_checksum(&one_node(PageSize::KIB_4, NodeFlags::VERSIONED, b"data"), PageSize::KIB_4);
    assert_eq!(sum, 0x0002_201b_25ae_5a60, "{sum:#x}");
    assert_eq!(fold_logical_checksum(sum, DbTime(0x25)), 0x25ac_7edb);
    assert_eq!(fold_logical_checksum_to_16_bits(sum, DbTime(0x25)), 0x5b77);
    assert_eq!(logical_checksum(&[], PageSize::KIB_4), 0);
}

#[test]
fn the_logical_checksum_covers_only_logged_content() {
    for size in SIZES {
        let sum = |bytes: &[u8]| logical_checksum(bytes, size);
        let good = one_node(size, NodeFlags::empty(), b"data");
        assert_eq!(sum(&one_node(size, NodeFlags::VERSIONED, b"data")), sum(&good));
        let deleted = |data| sum(&one_node(size, NodeFlags::DELETED, data));
        assert_eq!(deleted(b"data"), deleted(b"DDDD"), "deleted data may be overwritten on one side first");
        for other in
            [one_node(size, NodeFlags::empty(), b"date"), one_node(size, NodeFlags::DELETED, b"data")]
        {
            assert_ne!(sum(&other), sum(&good));
        }
        // The same nodes are at different places on this page, which also has a different checksum and flush type.
        let mut moved = vec![0; size.bytes()];
        let mut page = leaf(&mut moved, size);
        page.set_db_time(DbTime(0x0102));
        page.insert_node(0, NodeFlags::empty(), b"a", b"gone").unwrap();
        page.insert_node(1, NodeFlags::empty(), b"k", b"data").unwrap();
        page.delete_node(0);
        page.set_flags(page.as_page().flags().with_next_flush_type() | PageFlags::NEW_CHECKSUM);
        moved[..8].fill(0xAB);
        assert_ne!(moved, good);
        assert_eq!(sum(&moved), sum(&good));
        for byte in [9, 17, 25] {
            let mut other = good.clone();
            other[byte] ^= 1;
            assert_ne!(sum(&other), sum(&good), "byte {byte} of the header");
        }
    }
}

#[test]
fn unused_ranges_are_the_holes_and_the_free_area() {
    for size in SIZES {
        let mut bytes = vec![0; size.bytes()];
        let mut page = leaf(&mut bytes, size);
        for key in 1..=4u8 {
            page.insert_node(usize::from(key) - 1, NodeFlags::empty(), &[key; 4], &[key; 10]).unwrap();
        }
        let lines: Vec<_> = (1..=4).map(|tag| page.as_page().line_range(tag).unwrap()).collect();
        page.delete_node(1);
        let view = page.as_page();
        let free = UnusedRange { bytes: lines[3].end..size.bytes() - 4 * TAG_LEN, ends_at_line: false };
        let hole = UnusedRange { bytes: lines[1].clone(), ends_at_line: true };
        assert_eq!(view.unused_ranges(), [hole, free]);
    }
    let mut random = vec![0xA5; SIZES[0].bytes()];
    for at in 20..40 {
        random[at] = at as u8;
        let page = Page::new(&random, SIZES[0]);
        assert!(
            page.unused_ranges()
                .iter()
                .all(|unused| { !unused.bytes.is_empty() && unused.bytes.end <= random.len() })
        );
    }
}
