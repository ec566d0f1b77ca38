//! Backups that are interrupted by a power failure and continued.

use std::path::Path;

use jetcell_backup::{BackupManifest, BackupSetError, BackupState, BackupType, verify};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};

use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, set_error};

/// Number of pages of a database that fills three ranges and a part of a fourth.
const PAGES: u32 = 3500;
const RANGE: u64 = 4 << 20;

/// Simulates a power failure after `count` more disk operations.
fn crash(disk: &SimVfs, count: u64, seed: u64) -> (SimVfs, Arc<dyn Vfs>) {
    disk.cut_power_after(disk.operations() + count);
    let after = disk.crash(seed, CrashOptions::default());
    let files: Arc<dyn Vfs> = Arc::new(after.clone());
    (after, files)
}

fn is_partial(files: &Arc<dyn Vfs>) {
    assert_eq!(BackupManifest::state(&**files, Path::new("/backup")).unwrap(), BackupState::Partial);
    let verified = set_error(verify(files, Path::new("/backup"), &Default::default()));
    let restored = set_error(restore_to(files, &["/backup"], "/restored", None));
    for refused in [verified, restored] {
        assert!(matches!(refused, BackupSetError::Incomplete(_)), "{refused:?}");
    }
}

#[test]
fn interrupted_backups_of_a_stopped_instance_resume() {
    let (first, files) = disk();
    let site = TestInstance::open(&files, "/one", PAGES);
    site.insert(0..100);
    site.close();
    let mut continued = 0;
    for count in [9, 12, 15, 18, 21] {
        let disk = first.clone_disk();
        let files: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut options = options(BackupType::Full, None);
        options.save_bytes = RANGE;
        disk.cut_power_after(disk.operations() + count);
        back_up_directory(&files, "/one", "/backup", &options).unwrap_err();
        let (_, files) = crash(&disk, 0, count);
        is_partial(&files);
        let made = back_up_directory(&files, "/one", "/backup", &options).unwrap();
        assert_eq!(made.continued_bytes % RANGE, 0);
        assert_eq!(made.copied_bytes + made.continued_bytes, made.manifest.bytes() - header(&made));
        continued += u64::from(made.continued_bytes > 0);
        let verified = verify(&files, Path::new("/backup"), &Default::default()).unwrap();
        assert_eq!((verified.problems, verified.unknown_files), (vec![], vec![]));
        restore_to(&files, &["/backup"], "/restored", None).unwrap();
        let site = TestInstance::open(&files, "/restored", 0);
        assert_eq!(site.keys(), (0..100).collect());
        site.close();
    }
    assert!(continued >= 2, "{continued}");
}

/// Bytes of the header, which are not counted as copied. They are counted only if an earlier call copied them with
/// the first range.
fn header(made: &jetcell_backup::BackupResult) -> u64 {
    if made.continued_bytes > 0 { 0 } else { 2 * 4096 }
}

#[test]
fn interrupted_backups_of_a_running_instance_resume() {
    let mut continued = 0;
    for count in [20, 26, 32, 38] {
        let (disk, files) = disk();
        let site = TestInstance::open(&files, "/one", PAGES);
        site.insert(0..100);
        let mut options = options(BackupType::Full, None);
        options.save_bytes = RANGE;
        disk.cut_power_after(disk.operations() + count);
        let to = Path::new("/backup");
        let stopped = jetcell_backup::back_up(&site.instance, &files, to, &options);
        drop((site, files));
        let (_, files) = crash(&disk, 0, count);
        if stopped.is_ok() {
            continue;
        }
        is_partial(&files);
        let site = TestInstance::open(&files, "/one", 0);
        site.insert(100..150);
        let made = jetcell_backup::back_up(&site.instance, &files, to, &options).unwrap();
        continued += u64::from(made.continued_bytes > 0);
        assert_eq!(made.copied_bytes + made.continued_bytes, made.manifest.bytes() - header(&made));
        let verified = verify(&files, to, &Default::default()).unwrap();
        assert_eq!((verified.problems, verified.unknown_files), (vec![], vec![]));
        site.insert(150..200);
        site.close();
        restore_to(&files, &["/backup"], "/restored", None).unwrap();
        let site = TestInstance::open(&files, "/restored", 0);
        assert_eq!(site.keys(), (0..150).collect());
        site.close();
    }
    assert!(continued >= 1, "{continued}");
}
