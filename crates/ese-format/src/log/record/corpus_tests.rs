//! Tests that every record in every real log decodes, encodes back to the same bytes, and is consistent.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use testkit::corpus::Corpus;

use super::{LogRecord, record_len};
use crate::checksum::{BlockIntegrity, verify_segment};

const SEGMENT: usize = 4096;
const SEGMENT_HEADER: usize = 40;

fn corpus() -> Option<PathBuf> {
    Some(Corpus::locate()?.root().to_owned())
}

fn unpack(path: &Path) -> Vec<u8> {
    zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
}

/// Returns the payload bytes of a log file's valid segments, in order. A shadow fails the checksum for its own index
/// and is skipped.
fn segments(log: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    for (index, segment) in log.chunks_exact(SEGMENT).enumerate().skip(1) {
        let mut segment = segment.to_vec();
        if segment.iter().all(|&byte| byte == 0) {
            break;
        }
        if matches!(verify_segment(&mut segment, index as u32), BlockIntegrity::Good) {
            found.push((index as u32, segment.split_off(SEGMENT_HEADER)));
        }
    }
    found
}

/// Returns the records in order, with fragments reassembled. Each record is paired with a description of its
/// position.
fn records(name: &str, log: &[u8]) -> Vec<(String, LogRecord)> {
    let mut found = Vec::new();
    let mut pending: Option<(usize, Vec<u8>)> = None;
    for (index, payload) in segments(log) {
        let mut at = 0;
        while at < payload.len() {
            let place = format!("{name} segment {index} offset {}", at + SEGMENT_HEADER);
            let (record, len) =
                LogRecord::decode(&payload[at..]).unwrap_or_else(|error| panic!("{place}: {error}"));
            let bytes = &payload[at..at + len];
            assert_eq!(record_len(bytes), Ok(len), "{place}");
            assert_eq!(record.to_bytes(), bytes, "{place}: {record:?}");
            at += len;
            let whole = match record {
                LogRecord::FragmentBegin(first) => {
                    assert!(pending.is_none(), "{place}");
                    pending = Some((first.total as usize, first.piece));
                    None
                }
                LogRecord::Fragment(next) => {
                    let (total, mut bytes) = pending.take().unwrap();
                    bytes.extend_from_slice(&next.piece);
                    assert!(bytes.len() <= total, "{place}");
                    if bytes.len() < total {
                        pending = Some((total, bytes));
                        None
                    } else {
                        let (record, len) = LogRecord::decode(&bytes).unwrap();
                        assert_eq!(len, total, "{place}");
                        assert_eq!(record.to_bytes(), bytes, "{place}");
                        Some(record)
                    }
                }
                other => Some(other),
            };
            if let Some(record) = whole {
                found.push((place, record));
            }
        }
    }
    assert!(pending.is_none(), "{name}");
    found
}

#[test]
fn all_records_of_all_real_logs_round_trip() {
    let Some(corpus) = corpus() else { return };
    let sets: [&[&str]; 3] = [
        &[
            "srum-server2022/a/SRU00001.log",
            "srum-server2022/b/SRUtmp.log",
            "srum-server2022/b/SRU00003.log",
            "srum-server2022/b/SRU00004.log",
            "srum-server2022/b/SRU.log",
        ],
        &[
            "srum-win11-dirty/SRU00059.log",
            "srum-win11-dirty/SRU0005A.log",
            "srum-win11-dirty/SRU0005B.log",
            "srum-win11-dirty/SRU.log",
        ],
        &["srum-win11-dirty/SRUtmp.log"],
    ];
    let mut shared = 0;
    for set in sets {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut last_commit = 0;
        let mut page_times: HashMap<u32, u64> = HashMap::new();
        for name in set {
            let log = unpack(&corpus.join("logsets").join(format!("{name}.zst")));
            for (place, record) in records(name, &log) {
                *kinds.entry(record.name()).or_default() += 1;
                assert!(
                    !matches!(record, LogRecord::Ignored(_) | LogRecord::Obsolete(_)),
                    "{place}: {record:?}"
                );
                match &record {
                    // Catalog keys begin with a fixed column that is not null, so catalog pages have a key prefix.
                    LogRecord::Insert(insert) if insert.node.tree.0 == 2 => {
                        assert!(insert.key().starts_with(&[0x7f, 0x80]), "{place}: {insert:?}");
                        shared += usize::from(!insert.prefix.is_empty());
                    }
                    // Commit numbers restart each time the engine starts.
                    LogRecord::Init2(_) => last_commit = 0,
                    LogRecord::Commit0(commit) => {
                        assert!(commit.commit0 > last_commit, "{place}: {commit:?} after {last_commit}");
                        last_commit = commit.commit0;
                    }
                    _ => {}
                }
                if matches!(record, LogRecord::UndoInfo(_)) {
                    continue; // changes no page
                }
                let Some(change) = record.page_change() else { continue };
                assert!(change.page.get() < 1_000_000 && change.database.0 == 1, "{place}: {record:?}");
                assert!(
                    change.procid < 0x4000 && change.level < 8 && change.line < 2000,
                    "{place}: {record:?}"
                );
                let invalid = change.before.0 >= u64::MAX - 1;
                assert!(invalid || change.after > change.before, "{place}: {record:?}");
                if let (false, Some(&known)) = (invalid, page_times.get(&change.page.get())) {
                    assert!(change.before.0 >= known, "{place}: page had {known}, {record:?}");
                }
                page_times.insert(change.page.get(), change.after.0);
            }
        }
        println!("{kinds:?}");
    }
    assert!(shared > 100, "{shared}");
}
