//! Tests of the checksums and the structure of all pages in the corpus of real files, both undamaged and damaged.

use ese_format::checksum::{PageIntegrity, block_checksum, seal_page, verify_page};
use ese_format::page::{NodeFlags, Page, PageError, PageFlags, PageMut, validate};
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use ese_format::{PageNumber, PageSize};
use serde_json::Value;
use testkit::corpus::Corpus;
use testkit::samples;

struct Database {
    name: String,
    bytes: Vec<u8>,
    size: PageSize,
    manifest: Value,
}

impl Database {
    /// Returns the pages with their numbers.
    fn pages(&self) -> impl Iterator<Item = (PageNumber, &[u8])> {
        let pages = self.bytes.chunks_exact(self.size.bytes()).skip(2);
        pages.zip(1..).map(|(bytes, number)| (PageNumber::fixed(number), bytes))
    }
}

fn databases() -> Vec<Database> {
    let Some(corpus) = Corpus::locate() else { return Vec::new() };
    let root = corpus.root();
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(root.join("manifest.json")).unwrap()).unwrap();
    let files = manifest["files"].as_array().unwrap().iter();
    let load = |file: &Value| {
        let packed = std::fs::File::open(root.join(file["stored"].as_str().unwrap())).unwrap();
        Database {
            name: file["name"].as_str().unwrap().to_owned(),
            bytes: zstd::decode_all(packed).unwrap(),
            size: PageSize::new(file["page_size"].as_u64().unwrap() as u32).unwrap(),
            manifest: file.clone(),
        }
    };
    files.filter(|file| file["kind"] == "db").map(load).collect()
}

#[test]
fn every_page_of_the_samples_verifies_and_validates() {
    for (name, size) in samples::ENGINE_DATABASES {
        let bytes = samples::read(name);
        let mut good = 0;
        for (page, number) in bytes.chunks_exact(size.bytes()).skip(2).zip(1..) {
            match verify_page(&mut page.to_vec(), size, PageNumber::fixed(number)) {
                PageIntegrity::Zero => {}
                PageIntegrity::Good => {
                    good += 1;
                    assert_eq!(validate(page, size), Ok(()), "{name} {number}");
                }
                other => panic!("{name} {number}: {other:?}"),
            }
        }
        assert!(good > 10, "{name}: {good} pages");
    }
}

#[test]
fn every_page_validates_with_the_verification_result_in_the_manifest() {
    for database in databases() {
        let (mut zero, mut good, mut bad) = (0u64, 0u64, Vec::new());
        for (number, bytes) in database.pages() {
            let mut copy = bytes.to_vec();
            match verify_page(&mut copy, database.size, number) {
                PageIntegrity::Zero => zero += 1,
                PageIntegrity::Good => {
                    good += 1;
                    let verdict = validate(bytes, database.size);
                    assert_eq!(verdict, Ok(()), "{} {number:?}", database.name);
                    seal_page(&mut copy, database.size, number);
                    assert!(copy == bytes, "{} {number:?}: sealing changes it", database.name);
                }
                _ => bad.push(number.get()),
            }
        }
        let manifest = &database.manifest;
        assert_eq!(
            (zero, good, Value::from(bad)),
            (
                manifest["zero_pages"].as_u64().unwrap(),
                manifest["new_ck_pages"].as_u64().unwrap(),
                manifest["bad_checksum_pages"].clone()
            ),
            "{}",
            database.name
        );
    }
}

/// Checks that single pages have the expected checksums.
#[test]
fn pages_in_the_manifest_have_the_listed_checksums() {
    let listed = [
        ("db/4k/basic.edb", 3, 0x0184_0184_00cf_d8c9u64),
        ("db/4k/basic.edb", 4, 0x13c0_13c0_7986_4f4b),
        ("db/4k/basic.edb", 5, 0x7e37_01c8_0006_b0db),
        ("db/4k/basic.edb", 13, 0x1881_677e_be45_c284),
        ("db/4k/basic.edb", 14, 0x3e6a_3e6a_d705_9b7e),
        ("db/4k/basic.edb", 29, 0x07a7_7858_5878_de7b),
        ("db/4k/text.edb", 35, 0x0334_7ccb_222d_a276),
        ("db/4k/index.edb", 4, 0x1276_6d89_4983_bd4d),
    ];
    let databases = databases();
    for (name, number, expected) in listed {
        let Some(database) = databases.iter().find(|database| database.name == name) else { return };
        let at = database.size.offset_of(PageNumber::fixed(number)) as usize;
        let page = &database.bytes[at..at + 4096];
        assert_eq!(block_checksum(page, number, true), expected, "{name} page {number}");
        assert_eq!(page[..8], expected.to_le_bytes());
    }
    // Flip single bits of basic.edb page 13.
    let Some(basic) = databases.iter().find(|database| database.name == "db/4k/basic.edb") else { return };
    let place = PageNumber::fixed(13);
    let at = basic.size.offset_of(place) as usize;
    let sound = &basic.bytes[at..at + 4096];
    let damage = [
        (140, 3, PageIntegrity::Repaired { bits: vec![1123] }, 0x631d_631d_be45_c28cu64),
        (4095, 7, PageIntegrity::Repaired { bits: vec![32767] }, 0x1881_1881_3e45_c284),
        (16, 0, PageIntegrity::Repaired { bits: vec![128] }, 0x67fe_67fe_be45_c285),
        (0, 0, PageIntegrity::WrongPage { stored: 12 }, 0x1881_677e_be45_c284),
    ];
    for (byte, bit, verdict, computed) in damage {
        let mut page = sound.to_vec();
        page[byte] ^= 1 << bit;
        assert_eq!(block_checksum(&page, 13, true), computed);
        assert_eq!(verify_page(&mut page, basic.size, place), verdict);
    }
    let mut page = sound.to_vec();
    page[37] ^= 0x20;
    assert_eq!(verify_page(&mut page, basic.size, place), PageIntegrity::Bad);
    let elsewhere = verify_page(&mut sound.to_vec(), basic.size, place.plus(1));
    assert_eq!(elsewhere, PageIntegrity::WrongPage { stored: 13 });
}

/// Checks that the keys on every page are in ascending order, that searches find every node, and that space headers
/// and extents decode.
#[test]
fn nodes_on_every_page_are_ordered_and_searchable() {
    for database in databases() {
        for (number, bytes) in database.pages().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)) {
            let page = Page::new(bytes, database.size);
            let what = format!("{} {number:?}", database.name);
            if page.flags().contains(PageFlags::EMPTY) {
                continue;
            }
            let joined = |index: usize| {
                let node = page.node(index).unwrap();
                let mut key = node.key_to_vec();
                if page.flags().contains(PageFlags::NON_UNIQUE) && page.is_leaf() {
                    key.extend(node.data);
                }
                key
            };
            for index in 0..page.node_count() {
                let key = joined(index);
                if index > 0 && !key.is_empty() {
                    assert!(joined(index - 1) < key, "{what} node {index}");
                }
                if page.is_leaf() {
                    let found = if page.flags().contains(PageFlags::NON_UNIQUE) {
                        page.lower_bound_key_data(&key)
                    } else {
                        page.lower_bound(&key)
                    };
                    assert_eq!(found, (index, true), "{what}");
                } else if !key.is_empty() {
                    let next = page.child_for(&key);
                    assert_eq!(next.map(|(at, _)| at), (index + 1 < page.node_count()).then_some(index + 1));
                }
                if page.flags().contains(PageFlags::SPACE) && page.is_leaf() {
                    let node = page.node(index).unwrap();
                    Extent::decode(&node.key_to_vec(), node.data).expect(&what);
                }
            }
            if page.is_root() && page.flags().contains(PageFlags::SPACE) {
                SplitReserve::decode(page.external_header()).expect(&what);
            } else if page.is_root() {
                SpaceHeader::decode(page.external_header()).expect(&what);
            }
        }
    }
}

/// Checks that a page that is rewritten node by node has the same nodes and uses no more space than the original.
#[test]
fn rebuilding_real_pages_preserves_all_nodes() {
    for database in databases() {
        for (number, bytes) in database.pages().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)) {
            let original = Page::new(bytes, database.size);
            if original.flags().contains(PageFlags::EMPTY) || bytes[35] >> 4 & 7 > 1 {
                continue;
            }
            let mut copy = vec![0; bytes.len()];
            let mut page =
                PageMut::format(&mut copy, database.size, number, original.tree(), original.flags());
            page.set_external_header(original.external_header()).unwrap();
            page.copy_nodes_from(&original, 0..original.node_count()).unwrap();
            let rewritten = page.as_page();
            assert!(rewritten.nodes().eq(original.nodes()), "{} {number:?}", database.name);
            assert_eq!(rewritten.free_bytes(), original.free_bytes(), "{} {number:?}", database.name);
            validate(&copy, database.size).unwrap();
        }
    }
}

/// Checks that damaged pages do not cause a panic, and that a page that validates can be read and edited.
#[test]
fn damaged_pages_do_not_cause_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    let mut faults = 0;
    let databases = databases();
    for database in &databases {
        let pages: Vec<_> = database.pages().filter(|(_, bytes)| bytes.iter().any(|b| *b != 0)).collect();
        for _ in 0..400 {
            let mut bytes = pages[random(pages.len())].1.to_vec();
            let len = bytes.len();
            for _ in 0..1 + random(4) {
                // Three quarters of the changes are in the headers and the tags, which hold the structure.
                let at = match random(4) {
                    0 => 24 + random(16),
                    1 => len - 1 - random(64),
                    2 => 80 + random(200),
                    _ => random(len),
                };
                bytes[at] = random(256) as u8;
            }
            match validate(&bytes, database.size) {
                Ok(()) => {}
                Err(PageError::Length { .. }) => panic!("the length is right"),
                Err(_) => faults += 1,
            }
            let page = Page::new(&bytes, database.size);
            let (count, key) = (page.node_count(), page.nodes().next().map(|node| node.key_to_vec()));
            let key = key.unwrap_or_default();
            page.used_space(0..count + 2);
            page.prefix_for(0..count);
            let _ = (page.lower_bound(&key), page.lower_bound_key_data(&key), page.child_for(&key));
            let mut page = PageMut::new(&mut bytes, database.size);
            let _ =
                page.insert_node(random(count + 1), NodeFlags::VERSIONED, &key, &vec![7; random(len / 2)]);
            let _ = page.replace_data(random(count + 1), &vec![9; random(len / 2)]);
            page.set_node_flags(random(count + 1), NodeFlags::DELETED);
            page.delete_node(random(count + 1));
            let _ = page.set_external_header(&vec![1; random(40)]);
            page.clear_nodes();
        }
    }
    assert!(databases.is_empty() || faults > 1000, "{faults} faults found");
}
