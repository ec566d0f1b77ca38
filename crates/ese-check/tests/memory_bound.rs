//! Test that the memory of a check does not grow with the file. The test extends a real database with increasing
//! amounts of empty space.

#[path = "check/memory.rs"]
mod memory;

use std::sync::atomic::Ordering;

use ese_check::{CheckOptions, FindingKind, check_database};
use ese_format::PageNumber;
use ese_format::page::NodeFlags;
use ese_format::space::{Extent, SpaceHeader};
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;

use crate::memory::MemoryDirectory;

/// Returns the peak resident memory of this process so far, in MiB.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Extends the owned space of the database to all pages up to `last`.
fn own_up_to(database: &mut EditableDatabase, last: u32) {
    let root = database.page(PageNumber::fixed(1));
    let header = SpaceHeader::decode(root.external_header()).unwrap();
    let owned = header.owned_root().expect("the root of a real database has space trees");
    let leaf = database.page(owned);
    assert!(leaf.is_leaf(), "a small database has one page of extents");
    let index = leaf.node_count() - 1;
    let node = leaf.node(index).unwrap();
    let (extent, _) = Extent::decode(&node.key_to_vec(), node.data).unwrap();
    let longer = Extent { last: PageNumber::fixed(last), count: last - extent.first().get() + 1 };
    // In the newest files, the key starts with the pool.
    let mut key = node.key_to_vec();
    key.truncate(key.len() - 4);
    key.extend(longer.key());
    database.edit(owned, |mut page| {
        page.delete_node(index);
        page.insert_node(index, NodeFlags::empty(), &key, &longer.data()).unwrap();
    });
}

/// Returns the real database, extended with empty space up to page `last`.
fn with_space(database: Vec<u8>, last: u32) -> MemoryDirectory {
    let mut database = EditableDatabase::new(database);
    own_up_to(&mut database, last);
    let len = (u64::from(last) + 2) * u64::from(database.size.get());
    let zeros = len - database.bytes.len() as u64;
    MemoryDirectory { zeros, is_sparse: false, ..MemoryDirectory::new(database.bytes) }
}

/// Returns the number of bytes that a check of all pages of a file of this size in MiB reads, and the peak memory of
/// the process.
fn check_all_pages(database: &[u8], mib: u32) -> (u64, u64) {
    let memory = with_space(database.to_vec(), mib * 32 - 2);
    let report = check_database(&memory, &memory.path, &CheckOptions::default()).unwrap();
    assert_eq!(report.pages.unwrap().examined(), u64::from(mib * 32 - 2));
    (memory.read.load(Ordering::Relaxed), most_memory())
}

/// There is only one test, because the memory is measured for the whole process.
#[test]
fn memory_is_bounded_and_each_page_is_read_once() {
    let Some(corpus) = Corpus::locate() else { return };
    let database = corpus.read("db/32k/Windows-search.edb");
    let [(read, memory), (more_read, more_memory)] = [256, 2048].map(|mib| check_all_pages(&database, mib));
    assert!(more_memory - memory < 24, "{memory} and {more_memory} MiB");
    // Pages of the trees that are read again are the same in both runs.
    let grown = more_read - read;
    assert!((1792..1800).contains(&(grown >> 20)), "{} MiB more are read", grown >> 20);
    assert!(read < 512 << 20, "{read}");
    sixteen_tib_are_checked_in_the_memory_of_a_few_mib(database);
}

fn sixteen_tib_are_checked_in_the_memory_of_a_few_mib(database: Vec<u8>) {
    let before = most_memory();
    // The maximum number of pages in a database, not including the headers.
    let last = (1 << 29) - 3;
    let memory = with_space(database, last);
    let options = CheckOptions { pages: false, ..CheckOptions::default() };
    let report = check_database(&memory, &memory.path, &options).unwrap();
    assert_eq!((report.file_pages, report.last_owned_page), (last, last));
    // The added space is owned but not in use. Everything else is as in the real database.
    let end = format!("..{last} leaked: owned, but neither used nor available");
    let leak = report.findings.iter().rfind(|finding| finding.kind == FindingKind::SpaceLeak);
    assert!(leak.is_some_and(|leak| leak.message.ends_with(&end)), "{leak:?}");
    assert!(report.findings.iter().all(|finding| finding.kind != FindingKind::Omitted));
    let grown = most_memory() - before;
    assert!(grown < 128, "{grown} MiB more");
}
