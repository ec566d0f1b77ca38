//! Tests of headers that only some databases have: those of temporary databases and of the oldest databases.

use ese_check::{CheckOptions, CheckOutcome, FileReport, FileState, check_files};
use ese_format::checksum::header_checksum;
use ese_format::header::{DatabaseHeader, DatabaseState};
use testkit::samples;

use crate::memory::MemoryDirectory;

const PAGE: usize = 4096;

fn check(bytes: Vec<u8>, structure: bool) -> FileReport {
    let memory = MemoryDirectory::new(bytes);
    let mut reports = Vec::new();
    let options = CheckOptions { structure, ..CheckOptions::default() };
    check_files(&memory, std::slice::from_ref(&memory.path), &options, &mut |report| reports.push(report));
    reports.remove(0)
}

/// Applies a change to both copies of the header.
fn with_headers(mut bytes: Vec<u8>, change: impl Fn(&mut [u8])) -> Vec<u8> {
    for copy in bytes.chunks_mut(PAGE).take(2) {
        change(copy);
        let sum = header_checksum(copy);
        copy[..4].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

#[test]
fn a_temporary_database_is_complete_and_needs_no_recovery() {
    let mut bytes = samples::read("engine-4k.edb");
    let header =
        DatabaseHeader { state: DatabaseState::JustCreated, ..DatabaseHeader::decode(&bytes).unwrap() };
    bytes[..PAGE].copy_from_slice(&header.encode());
    bytes[PAGE..2 * PAGE].copy_from_slice(&header.encode());
    bytes.chunks_mut(PAGE).skip(2).for_each(|page| page[..8].fill(0));
    for file_type in [0u32, 1, 5] {
        let bytes =
            with_headers(bytes.clone(), |copy| copy[667..671].copy_from_slice(&file_type.to_le_bytes()));
        for structure in [false, true] {
            let report = check(bytes.clone(), structure);
            assert_eq!(report.outcome, CheckOutcome::Sound, "{:#?}", report.findings);
            assert_eq!(report.state, Some(FileState::Temporary));
            assert!(report.needs_logs.is_none(), "{:?}", report.needs_logs);
            let pages = report.pages.unwrap();
            assert!(pages.unchecked > 10 && pages.bad == 0, "{pages:?}");
        }
    }
}

#[test]
fn page_size_0_means_4096_bytes() {
    let bytes = with_headers(samples::read("engine-4k.edb"), |copy| copy[236..240].fill(0));
    let report = check(bytes, true);
    assert_eq!(
        (report.outcome, report.page_size),
        (CheckOutcome::Sound, Some(4096)),
        "{:#?}",
        report.findings
    );
}
