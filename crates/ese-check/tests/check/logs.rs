//! Tests that real log chains are sound and that each kind of damage is reported with the correct file and offset.

use std::path::Path;

use ese_check::{Cancellation, CheckOptions, CheckOutcome, LogReport, Severity, check_files, check_logs};
use testkit::corpus::Corpus;

use crate::memory::MemoryDirectory;

/// Returns generations 1 to 5 of one server, undamaged.
fn chain() -> Option<Vec<(&'static str, Vec<u8>)>> {
    let corpus = Corpus::locate()?;
    let logs = [
        ("SRU00001.log", "a/SRU00001.log"),
        ("SRU00002.log", "b/SRUtmp.log"),
        ("SRU00003.log", "b/SRU00003.log"),
        ("SRU00004.log", "b/SRU00004.log"),
        ("SRU.log", "b/SRU.log"),
    ];
    Some(logs.map(|(name, file)| (name, corpus.read(&format!("logsets/srum-server2022/{file}")))).to_vec())
}

fn check(files: Vec<(&'static str, Vec<u8>)>) -> LogReport {
    check_logs(&MemoryDirectory::directory(files), Path::new("."), "SRU", &Cancellation::default()).unwrap()
}

#[track_caller]
fn must_find(report: &LogReport, severity: Severity, file: &str, offset: u64, text: &str) {
    let found = report.findings.iter().any(|finding| {
        finding.severity == severity
            && finding.file == Path::new(file)
            && finding.offset == Some(offset)
            && finding.message.contains(text)
    });
    assert!(found, "no {text:?} in {file} at {offset} among {:#?}", report.findings);
}

#[test]
fn a_real_chain_is_sound() {
    let Some(files) = chain() else { return };
    let report = check(files);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let seen: Vec<(u32, u16)> = report.logs.iter().map(|log| (log.generation, log.valid_segments)).collect();
    assert_eq!(seen, [(1, 14), (2, 14), (3, 14), (4, 14), (5, 6)]);
    assert!(report.logs.iter().all(|log| !log.torn));
}

#[test]
fn flipped_bits_are_repairable_but_larger_damage_is_not() {
    let Some(mut files) = chain() else { return };
    files[2].1[3 * 4096 + 500] ^= 8;
    must_find(&check(files.clone()), Severity::Error, "SRU00003.log", 3 * 4096, "can correct it");
    files[2].1[3 * 4096 + 900] ^= 8;
    let report = check(files);
    must_find(&report, Severity::Error, "SRU00003.log", 3 * 4096, "-501");
    must_find(&report, Severity::Error, "SRU00004.log", 653, "the header expects checksum");
}

#[test]
fn a_torn_last_segment_is_not_reported_as_damage() {
    let Some(mut files) = chain() else { return };
    // Segment 6 is the last one. Its copy is in segment 7.
    let copy = files[4].1[7 * 4096..8 * 4096].to_vec();
    assert_eq!(copy, files[4].1[6 * 4096..7 * 4096]);
    // (The checksum does not detect a uniform fill.)
    files[4].1[6 * 4096 + 512..7 * 4096]
        .iter_mut()
        .zip(0u32..)
        .for_each(|(byte, n)| *byte = (n * n / 7) as u8);
    let report = check(files);
    must_find(&report, Severity::Warning, "SRU.log", 6 * 4096, "torn write");
    assert!(report.is_sound() && report.logs[4].torn);
    assert_eq!(report.logs[4].valid_segments, 6);
}

#[test]
fn a_missing_or_foreign_log_breaks_the_chain() {
    let Some(mut files) = chain() else { return };
    let whole = files.clone();
    files.remove(2);
    must_find(&check(files), Severity::Error, "SRU00004.log", 4, "logs are missing");
    let mut files = whole.clone();
    files[1].1[100] ^= 1;
    must_find(&check(files), Severity::Error, "SRU00002.log", 0, "header checksum");
    let mut files = whole;
    let valid = files[0].1[5 * 4096..6 * 4096].to_vec();
    files[4].1[5 * 4096..6 * 4096].copy_from_slice(&valid);
    let report = check(files);
    must_find(&report, Severity::Error, "SRU.log", 6 * 4096, "after the end of the log");
}

#[test]
fn random_damage_to_all_log_set_files_never_panics() {
    let Some(corpus) = Corpus::locate() else { return };
    let set = "logsets/srum-win11-dirty/";
    let names: Vec<&str> = corpus
        .files
        .iter()
        .filter_map(|file| file.name.strip_prefix(set))
        .filter(|name| !name.ends_with(".txt") && !name.ends_with(".dat"))
        .collect();
    let whole: Vec<(&str, Vec<u8>)> =
        names.iter().map(|name| (*name, corpus.read(&format!("{set}{name}")))).collect();
    let paths: Vec<std::path::PathBuf> = names.iter().map(std::path::PathBuf::from).collect();
    let check = |files: Vec<(&str, Vec<u8>)>| {
        let mut reports = Vec::new();
        check_files(&MemoryDirectory::directory(files), &paths, &CheckOptions::default(), &mut |report| {
            reports.push(report);
        });
        assert_eq!(reports.len(), paths.len(), "every file has a report");
        reports
    };
    assert!(check(whole.clone()).iter().all(|report| report.outcome == CheckOutcome::Sound));
    // A simple generator with a fixed seed makes the test repeatable.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..150 {
        let mut files = whole.clone();
        let bytes = &mut files[next(names.len())].1;
        for _ in 0..1 + next(20) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
        // Some headers get random contents with a valid checksum.
        if round % 3 == 0 {
            let sum = ese_format::checksum::header_checksum(&bytes[..4096]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
        }
        if round % 5 == 0 {
            bytes.truncate(next(bytes.len()));
        }
        check(files);
    }
}
