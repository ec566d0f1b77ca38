//! Repeated backups and restores that are already complete, and concurrent ones.

use std::path::Path;

use ese_engine::Error;
use jetcell_backup::{BackupError, BackupSetError, BackupType, RestoreOptions, restore};

use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, set_error};

#[test]
fn a_repeated_backup_of_an_unchanged_source_does_nothing() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..50);
    site.close();
    let full = || back_up_directory(&files, "/one", "/full", &options(BackupType::Full, None));
    let first = full().unwrap();
    assert!(!first.already_complete && first.copied_bytes > 0);
    let before = disk.operations();
    let again = full().unwrap();
    assert!(again.already_complete && again.copied_bytes == 0 && again.manifest == first.manifest);
    assert_eq!(disk.operations(), before, "something was changed");
    let copy = back_up_directory(&files, "/one", "/full", &options(BackupType::Copy, None));
    assert!(matches!(set_error(copy), BackupSetError::NotEmpty { .. }));

    let site = TestInstance::open(&files, "/one", 0);
    site.insert(50..60);
    site.close();
    let refused = full().unwrap_err();
    assert_eq!(refused.advice().as_deref(), Some("specify a different directory"));
    assert!(refused.to_string().contains("made at"), "{refused}");
    let incremental =
        || back_up_directory(&files, "/one", "/later", &options(BackupType::Incremental, Some("/full")));
    assert!(!incremental().unwrap().already_complete);
    assert!(incremental().unwrap().already_complete);
    let other = TestInstance::open(&files, "/two", 300);
    other.close();
    let other = back_up_directory(&files, "/two", "/full", &options(BackupType::Full, None));
    assert!(matches!(set_error(other), BackupSetError::NotEmpty { .. }));
}

#[test]
fn a_repeated_restore_does_nothing_until_a_database_is_used() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..50);
    site.back_up("/full", BackupType::Full, None).unwrap();
    site.insert(50..60);
    site.back_up("/later", BackupType::Incremental, Some("/full")).unwrap();
    site.close();
    let both = || restore_to(&files, &["/later", "/full"], "/restored", None);
    assert_eq!(both().unwrap().earlier_restore_unix_ms, None);
    let before = disk.operations();
    let again = both().unwrap();
    assert!(again.earlier_restore_unix_ms.is_some() && again.copied_bytes == 0);
    assert_eq!(again.databases, [Path::new("/restored/data.edb")]);
    assert_eq!(disk.operations(), before, "something was changed");
    // A restore of other backups is refused.
    let refused = set_error(restore_to(&files, &["/full"], "/restored", None));
    assert!(matches!(refused, BackupSetError::NotEmpty { .. }), "{refused:?}");

    TestInstance::open(&files, "/restored", 0).close();
    let used = both().unwrap_err();
    assert!(used.advice().unwrap().contains("--force"), "{used}");
    assert!(used.to_string().contains("data.edb was used or removed after"), "{used}");
    let forced = || RestoreOptions { force: true, ..RestoreOptions::default() };
    let backups = ["/full".into(), "/later".into()];
    assert_eq!(
        restore(&files, &backups, Path::new("/restored"), &forced()).unwrap().earlier_restore_unix_ms,
        None
    );
    assert!(both().unwrap().earlier_restore_unix_ms.is_some());
    files.remove(Path::new("/restored/data.edb")).unwrap();
    assert!(matches!(set_error(both()), BackupSetError::NotEmpty { .. }));
}

#[test]
fn concurrent_calls_on_one_directory_are_rejected() {
    let (_, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.close();
    files.create_directory(Path::new("/full")).unwrap();
    let in_use = |error: BackupError| matches!(error, BackupError::Engine(Error::InUse { .. }));
    let back_up = || back_up_directory(&files, "/one", "/full", &options(BackupType::Full, None));
    let held = files.lock_directory(Path::new("/full")).unwrap();
    assert!(in_use(back_up().unwrap_err()));
    assert!(files.list(Path::new("/full")).unwrap().is_empty());
    drop(held);
    back_up().unwrap();
    files.create_directory(Path::new("/restored")).unwrap();
    let held = files.lock_directory(Path::new("/restored")).unwrap();
    assert!(in_use(restore_to(&files, &["/full"], "/restored", None).unwrap_err()));
    assert!(files.list(Path::new("/restored")).unwrap().is_empty());
    drop(held);
    restore_to(&files, &["/full"], "/restored", None).unwrap();
}
