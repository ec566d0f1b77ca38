//! Disks that are full or fail, bad pages, and files that do not belong to a backup.

use std::path::{Path, PathBuf};

use ese_engine::DatabaseOptions;
use jetcell_backup::{BackupSetError, BackupType, RestoreOptions, restore, verify};
use jetcell_sync::Arc;
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault, Vfs};

use super::test_instance::{SIZE, TestInstance, back_up_directory, disk, options, restore_to, set_error};

fn listed(files: &Arc<dyn Vfs>, directory: &str) -> Vec<PathBuf> {
    files.list(Path::new(directory)).unwrap_or_default()
}

#[test]
fn a_failing_destination_keeps_no_partial_files() {
    let (disk, _) = disk();
    let faulty = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
    let files: Arc<dyn Vfs> = faulty.clone();
    let site = TestInstance::open(&files, "/one", 3500);
    site.insert(0..100);
    let faults = [
        InjectedFault::new(FaultTarget::Space, FaultEffect::NoSpace).on_path("/backup").after_bytes(9 << 20),
        InjectedFault::new(FaultTarget::Sync, FaultEffect::IoError).on_path("/backup/data"),
        InjectedFault::new(FaultTarget::Rename, FaultEffect::IoError).on_path("/backup/manifest.json"),
    ];
    for fault in faults.clone() {
        faulty.inject(fault.repeating());
        let error = site.back_up("/backup", BackupType::Full, None).unwrap_err();
        faulty.clear();
        assert!(error.to_string().contains("/backup"), "{error}");
        assert_eq!(listed(&files, "/backup"), Vec::<PathBuf>::new(), "{error}");
    }
    site.back_up("/good", BackupType::Full, None).unwrap();
    site.close();
    let source: Vec<_> = listed(&files, "/one").iter().map(|path| disk.contents(path)).collect();
    for fault in faults {
        faulty.inject(fault.repeating());
        let error =
            back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap_err();
        faulty.clear();
        assert!(error.to_string().contains("/backup"), "{error}");
        assert_eq!(listed(&files, "/backup"), Vec::<PathBuf>::new(), "{error}");
    }
    assert!(source == listed(&files, "/one").iter().map(|path| disk.contents(path)).collect::<Vec<_>>());
    let full = InjectedFault::new(FaultTarget::Space, FaultEffect::NoSpace)
        .on_path("/restored")
        .after_bytes(9 << 20);
    faulty.inject(full.repeating());
    restore_to(&files, &["/good"], "/restored", None).unwrap_err();
    faulty.clear();
    assert_eq!(listed(&files, "/restored"), Vec::<PathBuf>::new());
    restore_to(&files, &["/good"], "/restored", None).unwrap();
}

#[test]
fn bad_pages_are_reported_and_copies_have_flipped_bits_corrected() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.close();
    let path = Path::new("/one/data.edb");
    let page = 2 * SIZE.bytes() as u64;
    disk.flip_bit(path, (page + SIZE.bytes() as u64 / 2) * 8 + 3).unwrap();
    let made = back_up_directory(&files, "/one", "/flipped", &options(BackupType::Full, None)).unwrap();
    assert_eq!((made.manifest.databases[0].pages.corrected, made.manifest.databases[0].usable), (1, true));
    restore_to(&files, &["/flipped"], "/restored", None).unwrap();
    let noise: Vec<u8> = (0..200u8).map(|number| number.wrapping_mul(37) | 1).collect();
    disk.corrupt(path, page + 500, &noise).unwrap();
    let refused = back_up_directory(&files, "/one", "/bad", &options(BackupType::Full, None));
    assert!(refused.as_ref().unwrap_err().to_string().contains("bad pages: 1 "), "{refused:?}");
    assert!(matches!(set_error(refused), BackupSetError::BadPages(_)));
    assert_eq!(listed(&files, "/bad"), Vec::<PathBuf>::new());
}

#[test]
fn a_damaged_database_is_marked_and_the_other_is_restored() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    let create = DatabaseOptions { initial_pages: 64, extension_pages: 32 };
    drop(site.instance.create_database(Path::new("/one/other.edb"), &create).unwrap());
    site.close();
    let noise: Vec<u8> = (0..200u8).map(|number| number.wrapping_mul(37) | 1).collect();
    let page = 6 * SIZE.bytes() as u64;
    disk.corrupt(Path::new("/one/other.edb"), page + 500, &noise).unwrap();
    let made = back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    let marks: Vec<_> = made.manifest.databases.iter().map(|one| (one.file.as_str(), one.usable)).collect();
    assert_eq!(marks, [("data.edb", true), ("other.edb", false)]);
    assert_eq!(made.manifest.databases[1].pages.bad, 1);
    let restored = restore_to(&files, &["/backup"], "/restored", None).unwrap();
    assert_eq!(restored.databases, [Path::new("/restored/data.edb")]);
    assert!(restored.skipped_databases[0].0.contains("other.edb"), "{:?}", restored.skipped_databases);
    assert!(!files.exists(Path::new("/restored/other.edb")).unwrap());
}

#[test]
fn files_missing_from_the_manifest_are_reported_and_not_restored() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/backup", BackupType::Full, None).unwrap();
    site.close();
    disk.put(Path::new("/backup/E00FFFFF.log"), b"no log");
    let verified = verify(&files, Path::new("/backup"), &Default::default()).unwrap();
    assert_eq!(verified.unknown_files, [PathBuf::from("/backup/E00FFFFF.log")]);
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    restore_to(&files, &["/backup"], "/restored", None).unwrap();
    assert!(!files.exists(Path::new("/restored/E00FFFFF.log")).unwrap());
}

#[test]
fn a_restore_does_not_touch_a_database_in_use() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/backup", BackupType::Full, None).unwrap();
    site.instance.flush().unwrap();
    let before = disk.operations();
    let options = || RestoreOptions { force: true, ..RestoreOptions::default() };
    let refused = restore(&files, &["/backup".into()], Path::new("/one"), &options()).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    let itself = restore(&files, &["/backup".into()], Path::new("/backup"), &options()).unwrap_err();
    assert!(itself.to_string().contains("overwrite the backup"), "{itself}");
    assert_eq!(disk.operations(), before, "something was changed");
    site.insert(100..110);
    site.close();
    // Restores over the existing files, to an earlier point in time.
    let restored = restore(&files, &["/backup".into()], Path::new("/one"), &options()).unwrap();
    assert!(restored.retained_bytes + restored.copied_bytes > 0);
    let site = TestInstance::open(&files, "/one", 0);
    assert_eq!(site.keys(), (0..100).collect());
    site.close();
}

#[test]
fn backed_up_logs_are_removed_only_from_a_clean_source() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..300);
    let killed = disk.process_kill();
    site.close();
    let mut remove = options(BackupType::Full, None);
    remove.remove_logs = true;
    let made = back_up_directory(&files, "/one", "/backup", &remove).unwrap();
    let (first, last) = made.removed_logs.unwrap();
    assert!(first.0 == 1 && last.0 + 1 == made.manifest.generations.last, "{made:?}");
    let site = TestInstance::open(&files, "/one", 0);
    site.insert(300..310);
    site.close();
    back_up_directory(&files, "/one", "/next", &options(BackupType::Incremental, Some("/backup"))).unwrap();
    restore_to(&files, &["/backup", "/next"], "/restored", None).unwrap();
    let site = TestInstance::open(&files, "/restored", 0);
    assert_eq!(site.keys(), (0..310).collect());
    site.close();
    // The instance has crashed, so recovery needs the logs.
    let files: Arc<dyn Vfs> = Arc::new(killed);
    let before = listed(&files, "/one");
    let made = back_up_directory(&files, "/one", "/backup", &remove).unwrap();
    assert_eq!((made.removed_logs, listed(&files, "/one")), (None, before));
}
