//! Continued backups whose state file or bytes were changed. Only bytes that were read back and verified are kept.

use std::path::Path;
use std::time::{Duration, Instant};

use jetcell_backup::{BackupManifest, BackupOptions, BackupResult, BackupState, BackupType, verify};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use serde_json::{Value, json};

use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to};

const RANGE: u64 = 4 << 20;
const PARTIAL: &str = "/backup/manifest.partial.json";
const COPY: &str = "/backup/data.edb";

fn saving() -> BackupOptions {
    BackupOptions { save_bytes: RANGE, ..options(BackupType::Full, None) }
}

/// Returns a disk with an interrupted backup of an instance. At least two of its ranges are durable.
fn interrupted() -> (SimVfs, Arc<dyn Vfs>) {
    let (first, files) = disk();
    let site = TestInstance::open(&files, "/one", 3500);
    site.insert(0..100);
    site.close();
    first.cut_power_after(first.operations() + 18);
    back_up_directory(&files, "/one", "/backup", &saving()).unwrap_err();
    let disk = first.crash(18, Default::default());
    let files: Arc<dyn Vfs> = Arc::new(disk.clone());
    assert_eq!(BackupManifest::state(&*files, Path::new("/backup")).unwrap(), BackupState::Partial);
    assert!(kept_ranges(&state(&disk)) >= 2);
    (disk, files)
}

fn state(disk: &SimVfs) -> Value {
    serde_json::from_slice(&disk.contents(Path::new(PARTIAL)).unwrap()).unwrap()
}

fn kept_ranges(state: &Value) -> u64 {
    state["databases"][0]["ranges"].as_str().unwrap().len() as u64 / 16
}

fn change(disk: &SimVfs, edit: impl FnOnce(&mut Value)) {
    let mut state = state(disk);
    edit(&mut state);
    disk.put(Path::new(PARTIAL), state.to_string().as_bytes());
}

/// Continues the backup and verifies that it contains all rows.
fn continued(files: &Arc<dyn Vfs>) -> BackupResult {
    let made = back_up_directory(files, "/one", "/backup", &saving()).unwrap();
    let verified = verify(files, Path::new("/backup"), &Default::default()).unwrap();
    assert_eq!((verified.problems, verified.unknown_files), (vec![], vec![]));
    restore_to(files, &["/backup"], "/restored", None).unwrap();
    let site = TestInstance::open(files, "/restored", 0);
    assert_eq!(site.keys(), (0..100).collect());
    site.close();
    made
}

/// Returns the manifest of the same backup made without an interruption.
fn whole(files: &Arc<dyn Vfs>) -> BackupManifest {
    back_up_directory(files, "/one", "/other", &saving()).unwrap().manifest
}

#[test]
fn changed_ranges_are_copied_again() {
    let (disk, _) = interrupted();
    let last = kept_ranges(&state(&disk)) - 1;
    for (changed, kept) in [(0, 0), (RANGE - 4096, 0), (RANGE, RANGE), (last * RANGE + 77, last * RANGE)] {
        let disk = disk.clone_disk();
        let files: Arc<dyn Vfs> = Arc::new(disk.clone());
        // The header is not known yet, so any bytes in its place are replaced.
        let changed = if changed == 0 { 2 * 4096 } else { changed };
        disk.corrupt(Path::new(COPY), changed, &[1, 2, 3]).unwrap();
        assert_eq!(continued(&files).continued_bytes, kept, "{changed}");
    }
}

/// The checksum of a range does not prove where its bytes come from, because anyone can compute it.
#[test]
fn a_bad_page_in_a_correctly_checksummed_range_is_recopied() {
    let (disk, files) = interrupted();
    disk.corrupt(Path::new(COPY), 40 << 12, &[1; 200]).unwrap();
    let mut range = disk.contents(Path::new(COPY)).unwrap();
    range.truncate(RANGE as usize);
    let sum = format!("{:016x}", twox_hash::XxHash3_64::oneshot(&range));
    change(&disk, |state| {
        let ranges = state["databases"][0]["ranges"].as_str().unwrap();
        state["databases"][0]["ranges"] = json!(format!("{sum}{}", &ranges[16..]));
    });
    let made = continued(&files);
    assert_eq!(made.continued_bytes, 0);
    assert_eq!(made.manifest.databases[0], whole(&files).databases[0]);
}

#[test]
fn a_copy_longer_than_the_source_is_discarded() {
    let (disk, files) = interrupted();
    let file = disk.open(Path::new(COPY), jetcell_vfs::OpenMode::Write).unwrap();
    file.grow(10 * RANGE).unwrap();
    drop(file);
    let bytes = disk.contents(Path::new(COPY)).unwrap();
    let sums: Vec<String> = bytes
        .chunks(RANGE as usize)
        .map(|range| format!("{:016x}", twox_hash::XxHash3_64::oneshot(range)))
        .collect();
    change(&disk, |state| state["databases"][0]["ranges"] = json!(sums.concat()));
    let made = continued(&files);
    let whole = whole(&files);
    assert_eq!(made.manifest.bytes(), whole.bytes());
    assert!(made.continued_bytes <= whole.databases[0].bytes, "{}", made.continued_bytes);
}

#[test]
fn page_counts_are_computed_from_the_file_content() {
    let (disk, files) = interrupted();
    let huge = json!(1_u64 << 60);
    change(&disk, |state| {
        for count in ["read", "zero", "read_again", "corrected", "torn"] {
            state["databases"][0]["pages"][count] = huge.clone();
        }
    });
    let made = continued(&files);
    let expected = whole(&files).databases.remove(0);
    let pages = made.manifest.databases[0].pages;
    assert!(made.continued_bytes > 0);
    assert_eq!((pages.read, pages.zero, pages.bad), (expected.pages.read, expected.pages.zero, 0));
    for count in [pages.read_again, pages.corrected, pages.torn] {
        assert!(count <= pages.read, "{pages:?}");
    }
}

#[test]
fn an_invalid_start_time_in_the_state_is_ignored() {
    let (disk, files) = interrupted();
    for time in [i64::MAX, i64::MIN] {
        let disk = disk.clone_disk();
        let files_of_disk: Arc<dyn Vfs> = Arc::new(disk.clone());
        change(&disk, |state| state["began_unix_ms"] = json!(time));
        let made = continued(&files_of_disk).manifest;
        assert!((0..=made.ended_unix_ms).contains(&made.began_unix_ms), "{}", made.began_unix_ms);
    }
    assert!(continued(&files).continued_bytes > 0);
}

#[test]
fn a_state_with_too_many_items_is_not_resumed() {
    let begun = Instant::now();
    let (first, _) = interrupted();
    let page = json!({"page": 5, "flaw": "f"});
    for (list, count) in [("/databases/0/bad_pages", 1_000_000), ("/databases", 2000)] {
        let disk = first.clone_disk();
        let files: Arc<dyn Vfs> = Arc::new(disk.clone());
        let item = if list == "/databases" { state(&disk)["databases"][0].clone() } else { page.clone() };
        change(&disk, |state| *state.pointer_mut(list).unwrap() = vec![item; count].into());
        let made = continued(&files);
        assert_eq!(made.continued_bytes, 0, "{list}");
        assert!(made.manifest.databases[0].usable, "{list}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// The description of a bad page is limited, too, because it is copied into the manifest.
#[test]
fn a_state_with_an_oversized_page_error_is_not_resumed() {
    let (disk, files) = interrupted();
    let text = "f".repeat(1 << 20);
    change(&disk, |state| state["databases"][0]["bad_pages"] = json!([{"page": 5, "flaw": text}]));
    assert_eq!(continued(&files).continued_bytes, 0);
}
