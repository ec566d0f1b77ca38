//! Repeated backups and restores that are already complete, and concurrent ones.

use std::path::Path;

use ese_engine::Error;
use jetcell_backup::{BackupError, Kind, RestoreOptions, SetFault, restore};

use super::site::{Site, back_up_directory, disk, fault, options, restore_to};

#[test]
fn a_backup_of_an_unchanged_source_is_complete_already() {
    let (disk, files) = disk();
    let site = Site::open(&files, "/one", 300);
    site.insert(0..50);
    site.close();
    let full = || back_up_directory(&files, "/one", "/full", &options(Kind::Full, None));
    let first = full().unwrap();
    assert!(!first.already && first.copied_bytes > 0);
    let before = disk.operations();
    let again = full().unwrap();
    assert!(again.already && again.copied_bytes == 0 && again.manifest == first.manifest);
    assert_eq!(disk.operations(), before, "something was changed");
    let copy = back_up_directory(&files, "/one", "/full", &options(Kind::Copy, None));
    assert_eq!(fault(copy), SetFault::NotEmpty);

    let site = Site::open(&files, "/one", 0);
    site.insert(50..60);
    site.close();
    let refused = full().unwrap_err().to_string();
    assert!(refused.contains("made at") && refused.contains("name another directory"), "{refused}");
    let incremental =
        || back_up_directory(&files, "/one", "/later", &options(Kind::Incremental, Some("/full")));
    assert!(!incremental().unwrap().already);
    assert!(incremental().unwrap().already);
    let other = Site::open(&files, "/two", 300);
    other.close();
    let other = back_up_directory(&files, "/two", "/full", &options(Kind::Full, None));
    assert_eq!(fault(other), SetFault::NotEmpty);
}

#[test]
fn a_restore_is_complete_already_until_a_database_is_used() {
    let (disk, files) = disk();
    let site = Site::open(&files, "/one", 300);
    site.insert(0..50);
    site.back_up("/full", Kind::Full, None).unwrap();
    site.insert(50..60);
    site.back_up("/later", Kind::Incremental, Some("/full")).unwrap();
    site.close();
    let both = || restore_to(&files, &["/later", "/full"], "/restored", None);
    assert_eq!(both().unwrap().already_unix_ms, None);
    let before = disk.operations();
    let again = both().unwrap();
    assert!(again.already_unix_ms.is_some() && again.copied_bytes == 0);
    assert_eq!(again.databases, [Path::new("/restored/data.edb")]);
    assert_eq!(disk.operations(), before, "something was changed");
    // A restore of other backups is refused.
    assert_eq!(fault(restore_to(&files, &["/full"], "/restored", None)), SetFault::NotEmpty);

    Site::open(&files, "/restored", 0).close();
    let used = both().unwrap_err().to_string();
    assert!(used.contains("data.edb was used or removed since") && used.contains("--force"), "{used}");
    let forced = || RestoreOptions { force: true, ..RestoreOptions::default() };
    let backups = ["/full".into(), "/later".into()];
    assert_eq!(restore(&files, &backups, Path::new("/restored"), &forced()).unwrap().already_unix_ms, None);
    assert!(both().unwrap().already_unix_ms.is_some());
    files.remove(Path::new("/restored/data.edb")).unwrap();
    assert_eq!(fault(both()), SetFault::NotEmpty);
}

#[test]
fn two_calls_do_not_use_a_directory_at_the_same_time() {
    let (_, files) = disk();
    let site = Site::open(&files, "/one", 300);
    site.close();
    files.create_directory(Path::new("/full")).unwrap();
    let in_use = |error: BackupError| matches!(error, BackupError::Engine(Error::InUse { .. }));
    let back_up = || back_up_directory(&files, "/one", "/full", &options(Kind::Full, None));
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
