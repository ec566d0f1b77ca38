//! Tests that compare the headers and checkpoints of real files with the values read by another program.

use std::path::{Path, PathBuf};
use testkit::corpus::Corpus;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::checkpoint::{CHECKPOINT_LEN, Checkpoint};

fn corpus() -> Option<PathBuf> {
    Some(Corpus::locate()?.root().to_owned())
}

/// Returns the manifest entries of one kind, along with the unpacked files.
fn files(corpus: &Path, kind: &str) -> Vec<(Value, Vec<u8>)> {
    let manifest: Value =
        serde_json::from_reader(std::fs::File::open(corpus.join("manifest.json")).unwrap()).unwrap();
    let entries = manifest["files"].as_array().unwrap().iter().filter(|entry| entry["kind"] == kind);
    entries
        .map(|entry| {
            let stored = corpus.join(entry["stored"].as_str().unwrap());
            (entry.clone(), zstd::decode_all(std::fs::File::open(stored).unwrap()).unwrap())
        })
        .collect()
}

fn position(p: LogPosition) -> String {
    format!("{:X}:{:X}:{:X}", p.generation.0, p.segment, p.offset)
}

/// Converts a time to the form that the manifest uses: seconds, or null.
fn time(t: LogTime) -> Value {
    match t {
        LogTime::NONE => Value::Null,
        t => t.to_string()[..19].replace('T', " ").into(),
    }
}

#[test]
fn all_real_headers_decode_correctly_and_encode_identically() {
    let Some(corpus) = corpus() else { return };
    let databases = files(&corpus, "db");
    assert!(databases.len() >= 21, "{}", databases.len());
    for (entry, file) in &databases {
        let name = &entry["name"];
        let (h, copies) = DatabaseHeader::read_from_start(&file[..file.len().min(65536)]).unwrap();
        assert_eq!(copies, HeaderCopies::Both, "{name}");
        let read = serde_json::json!({
            "page_size": h.page_size.get(),
            "filetype": h.file_type,
            "format": format!("{:#x}", h.version),
            "revision": format!("{:#x}", h.update),
            "minor": format!("{:#x}", h.update_minor),
            "created_format": format!("{:#x},{:#x}", h.created_version, h.created_update),
            "state": h.state as u32,
            "dbtime": h.db_time.0,
            "signDb": h.signature.to_hex(),
            "signLog": h.log_signature.to_hex(),
            "created": time(h.signature.created),
            "lgposConsistent": position(h.consistent_position),
            "lgposAttach": position(h.attach_position),
            "lgposDetach": position(h.detach_position),
            "timeConsistent": time(h.consistent_time),
            "timeAttach": time(h.attach_time),
            "timeDetach": time(h.detach_time),
            "os": format!("{}.{}.{} SP{}", h.os_major, h.os_minor, h.os_build, h.os_service_pack),
            "repairs": h.repair_count,
            "repairsOld": h.old_repair_count,
            "genRequired": format!("{:X}-{:X}", h.gen_min_required.0, h.gen_max_required.0),
            "genCommitted": format!("{:X}", h.gen_max_committed.0),
            "genMinConsistent": format!("{:X}", h.gen_min_consistent.0),
            "signDbHdrFlush": h.flush_signature.to_hex(),
            "signFMHdrFlush": h.flush_map_signature.to_hex(),
        });
        for (field, value) in read.as_object().unwrap() {
            assert_eq!(value, &entry[field], "{name} {field}");
        }
        assert_eq!(h.encode(), file[..h.page_size.bytes()], "{name}");
    }
}

#[test]
fn all_real_checkpoints_decode_correctly_and_encode_identically() {
    let Some(corpus) = corpus() else { return };
    let checkpoints = files(&corpus, "chk");
    assert_eq!(checkpoints.len(), 3);
    for (entry, file) in &checkpoints {
        let name = &entry["name"];
        let checkpoint = Checkpoint::decode_file(file).unwrap();
        assert_eq!(position(checkpoint.position), entry["lgposCheckpoint"], "{name}");
        assert_eq!(position(checkpoint.full_backup_position), entry["lgposLastFull"], "{name}");
        assert_eq!(position(checkpoint.consistency_position), entry["lgposDbConsistency"], "{name}");
        assert_eq!(checkpoint.log_signature.to_hex(), entry["signLog"], "{name}");
        assert_eq!(u64::from(checkpoint.flags), entry["fVersion"].as_u64().unwrap(), "{name}");
        for copy in file.chunks(CHECKPOINT_LEN) {
            assert_eq!(checkpoint.encode(), copy, "{name}");
        }
    }
}

#[test]
fn fields_have_the_published_offsets() {
    let offsets: std::collections::HashMap<_, _> =
        DatabaseHeader::offsets().into_iter().map(|(name, at)| (name, at + PREFIX_LEN)).collect();
    for (name, at) in [
        ("version", 8),
        ("db_time", 16),
        ("signature", 24),
        ("state", 52),
        ("consistent_position", 56),
        ("attach_time", 72),
        ("detach_position", 96),
        ("database_id", 104),
        ("log_signature", 108),
        ("full_backup", 136),
        ("flags", 208),
        ("last_tree", 212),
        ("os_major", 216),
        ("update", 232),
        ("page_size", PAGE_SIZE_AT),
        ("repair_count", 240),
        ("streaming_signature", 252),
        ("scrub_db_time", 280),
        ("gen_min_required", 296),
        ("upgrade_counters", 304),
        ("current_snapshot", 316),
        ("created_version", 340),
        ("gen_max_committed_time", 348),
        ("full_backup_type", 356),
        ("old_repair_count", 364),
        ("bits_fixed", 368),
        ("bits_not_fixed", 384),
        ("bad_checksums", 400),
        ("gen_max_committed", 416),
        ("copy_backup", 420),
        ("differential_backup", 444),
        ("reseeds", 476),
        ("patches", 492),
        ("sort_version", 508),
        ("scan_end_time", 516),
        ("scanned_to", 532),
        ("gen_recovering", 536),
        ("extend_count", 540),
        ("shrink_count", 552),
        ("reattach_time", 564),
        ("trim_count", 580),
        ("flush_signature", 584),
        ("flush_map_signature", 612),
        ("gen_min_consistent", 640),
        ("update_minor", 644),
        ("last_engine_version", 648),
        ("scanned_highest", 652),
        ("resize_position", 656),
        ("file_type", 667),
        ("gen_max_required_time", 672),
        ("before_redo_consistent", 680),
        ("revert_signature", 688),
        ("revert_count", 716),
        ("revert_commit_position", 740),
        ("end", DATABASE_HEADER_LEN),
    ] {
        assert_eq!(offsets.get(name), Some(&at), "{name}");
    }
}

fn sample() -> DatabaseHeader {
    let signature = Signature::new(7, LogTime::from_unix_ms(1_660_909_592_636));
    DatabaseHeader::for_new_database(PageSize::KIB_8, signature, Signature::new(8, signature.created))
}

#[test]
fn a_new_header_has_the_values_that_readers_require() {
    let page = sample().encode();
    assert_eq!(page.len(), 8192);
    assert_eq!(page[4..16], [0xef, 0xcd, 0xab, 0x89, 0x20, 6, 0, 0, 0, 0, 0, 0]);
    assert_eq!((page[52], page[232], page[667]), (3, 20, 1));
    assert!(page[668..].iter().all(|&byte| byte == 0));
    assert_eq!(DatabaseHeader::decode(&page), Ok(sample()));
}

#[test]
fn each_kind_of_damage_has_a_distinct_error() {
    let page = sample().encode();
    let with = |at: usize, value: u32, reseal: bool| {
        let mut page = page.clone();
        page[at..at + 4].copy_from_slice(&value.to_le_bytes());
        if reseal {
            let sum = header_checksum(&page);
            page[..4].copy_from_slice(&sum.to_le_bytes());
        }
        DatabaseHeader::decode(&page)
    };
    assert!(matches!(with(4, 1, true), Err(HeaderError::NotADatabase { magic: 1, .. })));
    assert!(matches!(with(667, 3, true), Err(HeaderError::NotADatabase { file_type: 3, .. })));
    assert!(matches!(with(16, 99, false), Err(HeaderError::BadChecksum { .. })));
    assert_eq!(with(8, 0x623, true), Err(HeaderError::UnknownVersion { version: 0x623, update: 20 }));
    assert_eq!(with(236, 1000, true), Err(HeaderError::PageSize(1000)));
    assert_eq!(with(52, 9, true), Err(HeaderError::Field("database state")));
    assert_eq!(
        DatabaseHeader::decode(&page[..8000]),
        Err(HeaderError::Truncated { needed: 8192, available: 8000 })
    );
}

#[test]
fn the_shadow_header_is_found_for_every_page_size() {
    for size in [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32] {
        let header = DatabaseHeader { page_size: size, ..sample() };
        let newer = DatabaseHeader { db_time: DbTime(1), ..header.clone() };
        let copies = |first: Vec<u8>, shadow: Vec<u8>| [first, shadow].concat();
        let read = |file: &[u8]| DatabaseHeader::read_from_start(file);
        let (good, zero) = (header.encode(), vec![0; size.bytes()]);
        assert_eq!(read(&copies(good.clone(), good.clone())), Ok((header.clone(), HeaderCopies::Both)));
        assert_eq!(read(&copies(zero.clone(), good.clone())), Ok((header.clone(), HeaderCopies::ShadowOnly)));
        assert_eq!(read(&copies(good.clone(), zero.clone())), Ok((header, HeaderCopies::FirstOnly)));
        let stale = copies(newer.encode(), good);
        assert_eq!(read(&stale), Ok((newer, HeaderCopies::ShadowStale)));
        assert!(read(&copies(zero.clone(), zero)).is_err());
    }
}

#[test]
fn bytes_after_the_known_fields_are_preserved() {
    let mut header = sample();
    header.unknown = vec![0; 8192 - DATABASE_HEADER_LEN];
    header.unknown[17] = 5;
    assert_eq!(DatabaseHeader::decode(&header.encode()), Ok(header));
}

proptest! {
    #[test]
    fn damaged_headers_are_rejected_or_decode_without_panic(
        at in 8usize..8192, value: u8, reseal: bool, cut in 0usize..9000
    ) {
        let mut page = sample().encode();
        page[at] = value;
        if reseal {
            let sum = header_checksum(&page);
            page[..4].copy_from_slice(&sum.to_le_bytes());
        }
        match DatabaseHeader::decode(&page) {
            // Headers for other page sizes have a different length, so only headers for this size can be compared.
            Ok(header) if header.page_size == PageSize::KIB_8 => prop_assert_eq!(header.encode(), page.clone()),
            Ok(_) => {}
            Err(_) => {}
        }
        let _ = DatabaseHeader::read_from_start(&page[..cut.min(8192)]);
        let _ = Checkpoint::decode_file(&page);
    }
}

#[test]
fn page_size_0_means_4_kib() {
    let signature = Signature::new(1, LogTime::NONE);
    let mut page = DatabaseHeader::for_new_database(PageSize::KIB_4, signature, signature).encode();
    page[PAGE_SIZE_AT..PAGE_SIZE_AT + 4].fill(0);
    let checksum = header_checksum(&page);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(DatabaseHeader::decode(&page).map(|header| header.page_size), Ok(PageSize::KIB_4));
    assert_eq!(DatabaseHeader::stored_page_size(&page), Some(PageSize::KIB_4));
    assert_eq!(DatabaseHeader::stored_page_size(&page[..PAGE_SIZE_AT]), None);
}
