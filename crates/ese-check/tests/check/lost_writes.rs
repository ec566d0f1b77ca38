//! Tests of lost writes, which the check detects with the flush map next to a database.

use std::path::PathBuf;

use ese_check::{CheckOptions, CheckReport, FindingKind, check_database};
use ese_format::checksum::{header_checksum, seal_page};
use ese_format::page::Page;
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;

use crate::memory::MemoryDirectory;

/// Databases that Windows shut down cleanly, with their flush maps.
const PAIRS: [(&str, &str); 3] = [
    ("db/4k/secedit.sdb", "db/4k/secedit.jfm"),
    ("logsets/srum-server2022/a/SRUDB.dat", "logsets/srum-server2022/a/SRUDB.jfm"),
    ("logsets/srum-server2022/b/SRUDB.dat", "logsets/srum-server2022/b/SRUDB.jfm"),
];

fn check(database: &[u8], map: &[u8], structure: bool) -> CheckReport {
    let mut memory = MemoryDirectory::new(database.to_vec());
    memory.others.push((PathBuf::from("database.jfm"), map.to_vec()));
    check_database(&memory, &memory.path, &CheckOptions { structure, ..CheckOptions::default() }).unwrap()
}

fn lost(report: &CheckReport) -> Vec<Option<u32>> {
    let lost = report.findings.iter().filter(|finding| finding.kind == FindingKind::PageLostWrite);
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method has no type that fits all lifetimes"
    )]
    lost.map(|finding| finding.page.map(|page| page.get())).collect()
}

#[test]
fn a_stale_page_after_a_lost_write_is_found() {
    let Some(corpus) = Corpus::locate() else { return };
    for (database, map) in PAIRS {
        let (whole, map) = (EditableDatabase::new(corpus.read(database)), corpus.read(map));
        for structure in [false, true] {
            let sound = check(&whole.bytes, &map, structure);
            assert!(sound.is_sound() && lost(&sound).is_empty(), "{database}: {:?}", sound.findings);
            // The page has the flush type of another write but is sound. This means that the next write was lost.
            #[allow(
                clippy::redundant_closure_for_method_calls,
                reason = "the method has no type that fits all lifetimes"
            )]
            for wanted in [whole.find(|page| page.is_leaf())[3], whole.find(|page| !page.is_leaf())[0]] {
                let mut patient = whole.clone();
                let size = patient.size;
                let raw = patient.raw(wanted);
                let flags = Page::new(raw, size).flags().with_next_flush_type();
                raw[36..40].copy_from_slice(&flags.bits().to_le_bytes());
                seal_page(raw, size, wanted);
                let report = check(&patient.bytes, &map, structure);
                assert_eq!(lost(&report), [Some(wanted.get())], "{database}, structure {structure}");
                assert_eq!(report.errors().count(), 1, "{database}: {:?}", report.findings);
                assert_eq!(report.pages.unwrap().good, sound.pages.unwrap().good);
                // A map that was not closed cleanly, or that has another signature, is not used.
                for at in [36, 120] {
                    let mut other = map.clone();
                    other[at] ^= 1;
                    let checksum = header_checksum(&other[..8192]);
                    other[..4].copy_from_slice(&checksum.to_le_bytes());
                    assert!(check(&patient.bytes, &other, structure).is_sound(), "{database}, byte {at}");
                }
            }
        }
    }
}
