//! Runs each fuzz target on its seeds and on mutations of them for a bounded time, on the stable toolchain.

use ese_format::checkpoint::Checkpoint;
use ese_format::checksum::seal_segment;
use ese_format::header::DatabaseHeader;
use ese_format::page::{NodeFlags, PageFlags, PageMut};
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use ese_format::{LogPosition, LogTime, PageNumber, PageSize, Signature, TreeId};
use system_tests::fuzz::{self, FuzzCampaign};
use testkit::corpus::Corpus;

/// Returns some pages of every real database.
fn real_pages() -> Vec<Vec<u8>> {
    let Some(corpus) = Corpus::locate() else { return Vec::new() };
    let mut pages = Vec::new();
    for file in corpus.databases() {
        let bytes = corpus.read(&file.name);
        let size = file.page_size.unwrap() as usize;
        let used = bytes.chunks_exact(size).skip(2).filter(|page| page.iter().any(|&byte| byte != 0));
        pages.extend(used.step_by(7).take(12).map(<[u8]>::to_vec));
    }
    pages
}

#[test]
fn page() {
    assert!(FuzzCampaign::new("page", fuzz::page).with_seeds(real_pages()).run() > 100);
}

#[test]
fn header() {
    let real = Corpus::locate().map_or_else(Vec::new, |corpus| {
        let files = corpus.files.iter().filter(|file| file.kind == "db" || file.kind == "chk");
        files.map(|file| corpus.read(&file.name)[..8192.min(file.size as usize)].to_vec()).collect()
    });
    assert!(FuzzCampaign::new("header", fuzz::header).with_seeds(real).run() > 100);
}

#[test]
fn log_segment() {
    let mut real = Vec::new();
    if let Some(corpus) = Corpus::locate() {
        for file in corpus.files.iter().filter(|file| file.kind == "log") {
            let bytes = corpus.read(&file.name);
            real.extend(bytes.chunks_exact(4096).skip(1).step_by(3).map(<[u8]>::to_vec));
        }
    }
    assert!(FuzzCampaign::new("log_segment", fuzz::log_segment).with_seeds(real).run() > 100);
}

#[test]
fn record() {
    assert!(FuzzCampaign::new("record", fuzz::record).with_seeds(leaf_data()).run() > 100);
}

/// Replays logs that Windows wrote, and mutations of them.
#[test]
fn replay() {
    let real = Corpus::locate().map_or_else(Vec::new, |corpus| {
        let logs = corpus.files.iter().filter(|file| file.kind == "log");
        logs.map(|file| corpus.read(&file.name)).collect()
    });
    assert!(FuzzCampaign::new("replay", fuzz::replay).with_seeds(real).run() > 10);
}

/// Returns data of some leaf nodes of every real database: records, long values, bookmarks.
fn leaf_data() -> Vec<Vec<u8>> {
    let mut data = Vec::new();
    for page in real_pages() {
        let size = PageSize::new(page.len() as u32).unwrap();
        let view = ese_format::page::Page::new(&page, size);
        if view.is_leaf() {
            data.extend(view.nodes().step_by(3).take(4).map(|node| node.data.to_vec()));
        }
    }
    data
}

#[test]
fn the_stored_fuzz_seeds_match_the_writers() {
    for (target, name, bytes) in seed_files() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        std::fs::create_dir_all(&directory).unwrap();
        testkit::golden::compare_bytes(&directory.join(name), &bytes);
    }
}

fn seed_files() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut files = Vec::new();
    let number = PageNumber::fixed(7);
    for (name, size) in [("leaf-4k", PageSize::KIB_4), ("leaf-16k", PageSize::KIB_16)] {
        let mut bytes = vec![0; size.bytes()];
        let flags = PageFlags::LEAF | PageFlags::NEW_RECORD;
        let mut page = PageMut::format(&mut bytes, size, number, TreeId(8), flags);
        page.set_external_header(b"\x7f\x80\x00\x00").unwrap();
        for key in 0..12u32 {
            let key = [&[0x7f], (key | 0x8000_0000).to_be_bytes().as_slice()].concat();
            let index = page.as_page().node_count();
            page.insert_node(index, NodeFlags::empty(), &key, &record_seed()).unwrap();
        }
        ese_format::checksum::seal_page(&mut bytes, size, number);
        files.push(("page", name, bytes));
    }
    let size = PageSize::KIB_4;
    let mut bytes = vec![0; size.bytes()];
    let flags = PageFlags::ROOT | PageFlags::PARENT_OF_LEAF | PageFlags::NEW_RECORD;
    let mut page = PageMut::format(&mut bytes, size, number, TreeId(8), flags);
    page.set_external_header(&SpaceHeader::multiple(20, PageNumber::new(1), false, number.plus(1)).encode())
        .unwrap();
    page.insert_node(0, NodeFlags::empty(), b"\x7f\x80\x00", &11u32.to_le_bytes()).unwrap();
    page.insert_node(1, NodeFlags::empty(), b"", &12u32.to_le_bytes()).unwrap();
    files.push(("page", "root-4k", bytes));
    let mut bytes = vec![0; size.bytes()];
    let flags = PageFlags::ROOT | PageFlags::LEAF | PageFlags::SPACE | PageFlags::NEW_RECORD;
    let mut page = PageMut::format(&mut bytes, size, number, TreeId(8), flags);
    page.set_external_header(&SplitReserve::default().encode()).unwrap();
    for first in [20, 40, 60] {
        let extent = Extent::starting_at(PageNumber::fixed(first), 8);
        let index = page.as_page().node_count();
        page.insert_node(index, NodeFlags::empty(), &extent.key(), &extent.data()).unwrap();
    }
    files.push(("page", "space-4k", bytes));
    let signature = Signature::new(0x1234_5678, LogTime::from_unix_ms(1_700_000_000_000));
    files.push(("header", "database", DatabaseHeader::for_new_database(size, signature, signature).encode()));
    files.push(("header", "checkpoint", Checkpoint::new(LogPosition::new(1, 1, 0x28), signature).encode()));
    let mut segment = vec![0; 4096];
    segment[36..40].copy_from_slice(&0x2000u32.to_le_bytes());
    seal_segment(&mut segment, 1);
    files.push(("log_segment", "empty", segment));
    files.push(("record", "fixed-variable-tagged", record_seed()));
    files
}

/// Returns a record with one fixed Long, one variable value, and one tagged Long.
fn record_seed() -> Vec<u8> {
    let mut record = vec![1, 128, 9, 0, 42, 0, 0, 0, 0xfe, 3, 0];
    record.extend_from_slice(b"abc");
    record.extend_from_slice(&[0, 1, 4, 0, 7, 0, 0, 0]);
    record
}
