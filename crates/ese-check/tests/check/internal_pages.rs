//! Tests of a check without structure: it must find pages that no tree can do without. Leftover bytes and holes are not
//! damage.

use ese_check::{CheckOptions, CheckReport, Finding, FindingKind, Severity, check_database};
use ese_format::PageNumber;
use ese_format::page::PageFlags;
use testkit::damage::EditableDatabase;
use testkit::samples;

use crate::memory::MemoryDirectory;

/// Checks the database, without structure if `structure` is false.
fn check(database: &EditableDatabase, structure: bool) -> CheckReport {
    let memory = MemoryDirectory::new(database.bytes.clone());
    check_database(&memory, &memory.path, &CheckOptions { structure, ..CheckOptions::default() }).unwrap()
}

fn sample(name: &str) -> EditableDatabase {
    EditableDatabase::new(samples::read(name))
}

fn errors_on(report: &CheckReport, page: PageNumber) -> Vec<&Finding> {
    report.errors().filter(|finding| finding.page == Some(page)).collect()
}

#[test]
fn zero_pages_of_the_catalog_are_errors() {
    let mut database = sample("all-deleted.edb");
    assert!(check(&database, false).is_sound());
    // The file of a copy that stopped early: all pages from page 13 on are zero.
    database.bytes[14 * 4096..].fill(0);
    for structure in [false, true] {
        let report = check(&database, structure);
        let mut zero = Vec::new();
        for finding in report.errors().filter(|finding| finding.kind == FindingKind::PageZero) {
            zero.extend(finding.tree.clone().zip(finding.page.map(PageNumber::get)));
        }
        for (tree, pages) in [("MSysObjects", &[13, 14][..]), ("MSysObjectsShadow", &[24])] {
            let named: Vec<u32> =
                zero.iter().filter(|(name, _)| name == tree).map(|(_, page)| *page).collect();
            assert_eq!(named, pages, "structure {structure}, {tree}: {:#?}", report.findings);
        }
    }
}

#[test]
fn a_zero_leaf_of_a_table_is_an_error() {
    let mut database = sample("engine-4k.edb");
    assert!(check(&database, false).is_sound());
    let (_, leaf, _) = database.inner_leaf();
    database.raw(leaf).fill(0);
    let report = check(&database, false);
    assert_eq!(errors_on(&report, leaf).len(), 1, "{:#?}", report.findings);
    assert_eq!(errors_on(&report, leaf)[0].kind, FindingKind::PageZero);
}

#[test]
fn an_internal_page_of_another_tree_is_an_error() {
    let mut database = sample("engine-4k.edb");
    let inner = database.find(|page| !page.is_leaf() && !page.flags().contains(PageFlags::SPACE));
    let [one, .., other] = inner.as_slice() else { panic!("too few internal pages: {inner:?}") };
    assert_ne!(database.page(*one).tree(), database.page(*other).tree());
    let (one, stray) = (*one, database.page(*other).tree());
    database.edit(one, |mut page| page.set_tree(stray));
    let report = check(&database, false);
    let found = errors_on(&report, one);
    assert!(found.iter().any(|finding| finding.kind == FindingKind::PageObjectId), "{:#?}", report.findings);
}

#[test]
fn leftover_bytes_on_available_pages_are_information() {
    let mut database = sample("engine-4k.edb");
    let owned = check(&database, false).last_owned_page;
    let zero = |page: &PageNumber| database.bytes[database.range(*page)].iter().all(|byte| *byte == 0);
    let available: Vec<PageNumber> = (1..=owned).map(PageNumber::fixed).filter(zero).take(3).collect();
    assert_eq!(available.len(), 3);
    let used = database.inner_leaf().1;
    for page in available.iter().chain([&used]) {
        database.raw(*page).iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * n / 7) as u8);
    }
    for structure in [false, true] {
        let report = check(&database, structure);
        for page in &available {
            let found: Vec<&Finding> =
                report.findings.iter().filter(|finding| finding.page == Some(*page)).collect();
            let [found] = found.as_slice() else { panic!("structure {structure}: {found:#?}") };
            assert_eq!(found.severity, Severity::Info, "{found}");
            assert!(found.meaning.contains("no data is affected"), "{}", found.meaning);
        }
        let counts = report.pages.unwrap();
        assert_eq!((counts.leftover, counts.bad), (3, 1), "the used page remains an error");
        assert!(!errors_on(&report, used).is_empty(), "{:#?}", report.findings);
    }
}

#[test]
fn a_hole_after_the_last_page_is_not_read() {
    const HOLE: u64 = 1 << 40;
    let database = sample("engine-4k.edb");
    let plain = check(&database, true).pages.unwrap();
    for structure in [false, true] {
        let memory = MemoryDirectory { zeros: HOLE, ..MemoryDirectory::new(database.bytes.clone()) };
        let options = CheckOptions { structure, ..CheckOptions::default() };
        let report = check_database(&memory, &memory.path, &options).unwrap();
        assert!(report.is_sound(), "{:#?}", report.findings);
        let counts = report.pages.unwrap();
        assert_eq!(counts.zero, plain.zero + HOLE / 4096);
        assert_eq!(counts.beyond_owned_zero, plain.beyond_owned_zero + HOLE / 4096);
        assert_eq!((counts.good, counts.examined()), (plain.good, plain.examined()));
        let read = memory.read.load(std::sync::atomic::Ordering::Relaxed);
        assert!(read < 8 * database.bytes.len() as u64, "{read} bytes were read");
    }
}

#[test]
fn errors_of_short_files_have_the_length_of_the_file() {
    for len in [100, 3000] {
        let mut bytes = samples::read("engine-4k.edb");
        bytes.truncate(len);
        let memory = MemoryDirectory::new(bytes);
        let error = check_database(&memory, &memory.path, &CheckOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("only {len} are available")), "{error}");
    }
}
