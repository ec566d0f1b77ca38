//! Chains of backups across restores. A chain continues if no log is missing, and is refused if it contains two
//! histories.

use std::collections::BTreeSet;

use jetcell_backup::{BackupSetError, BackupType};

use super::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, set_error};

fn numbers(end: i32) -> BTreeSet<i32> {
    (0..end).collect()
}

#[test]
fn incremental_backups_continue_after_each_of_two_restores() {
    let (_, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/full", BackupType::Full, None).unwrap();
    site.insert(100..200);
    site.back_up("/first", BackupType::Incremental, Some("/full")).unwrap();
    site.close();

    restore_to(&files, &["/full", "/first"], "/two", None).unwrap();
    let site = TestInstance::open(&files, "/two", 0);
    assert_eq!(site.keys(), numbers(200));
    site.insert(200..300);
    site.back_up("/second", BackupType::Incremental, Some("/first")).unwrap();
    site.insert(300..350);
    site.back_up("/third", BackupType::Incremental, Some("/second")).unwrap();
    site.close();

    restore_to(&files, &["/third", "/full", "/second", "/first"], "/three", None).unwrap();
    let site = TestInstance::open(&files, "/three", 0);
    assert_eq!(site.keys(), numbers(350));
    site.insert(350..450);
    site.back_up("/fourth", BackupType::Incremental, Some("/third")).unwrap();
    site.close();

    restore_to(&files, &["/full", "/first", "/second", "/third", "/fourth"], "/four", None).unwrap();
    let site = TestInstance::open(&files, "/four", 0);
    assert_eq!(site.keys(), numbers(450));
    site.close();
    // A restored database has no record of incremental backups. The first incremental backup after a restore
    // therefore begins after the full backup and contains all logs since then. Later incremental backups do not.
    restore_to(&files, &["/full", "/second"], "/five", None).unwrap();
    let refused = |backups: &[&str]| set_error(restore_to(&files, backups, "/none", None));
    assert!(matches!(refused(&["/full", "/third"]), BackupSetError::StartTooHigh { .. }));
    assert!(matches!(refused(&["/full", "/first", "/third"]), BackupSetError::Gap { .. }));
    assert_eq!(refused(&["/second", "/third"]), BackupSetError::NoFullBackup);
}

#[test]
fn stopped_instances_have_the_same_chain() {
    let (_, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.close();
    back_up_directory(&files, "/one", "/full", &options(BackupType::Full, None)).unwrap();
    let site = TestInstance::open(&files, "/one", 0);
    site.insert(100..200);
    site.close();
    back_up_directory(&files, "/one", "/first", &options(BackupType::Incremental, Some("/full"))).unwrap();
    let mut backups = vec!["/full", "/first"];
    for (round, (to, next)) in [("/two", "/second"), ("/three", "/third")].into_iter().enumerate() {
        let before = 200 + 100 * round as i32;
        restore_to(&files, &backups, to, None).unwrap();
        let site = TestInstance::open(&files, to, 0);
        assert_eq!(site.keys(), numbers(before), "{to}");
        site.insert(before..before + 100);
        site.close();
        let parent = backups.last().copied();
        back_up_directory(&files, to, next, &options(BackupType::Incremental, parent)).unwrap();
        backups.push(next);
    }
    restore_to(&files, &backups, "/four", None).unwrap();
    let site = TestInstance::open(&files, "/four", 0);
    assert_eq!(site.keys(), numbers(400));
    site.close();
}

#[test]
fn a_point_in_time_restore_starts_a_new_history() {
    let (_, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/full", BackupType::Full, None).unwrap();
    let past = site.insert(100..200);
    site.insert(200..400);
    site.back_up("/old", BackupType::Incremental, Some("/full")).unwrap();
    site.close();

    let restored = restore_to(&files, &["/full", "/old"], "/two", Some(past)).unwrap();
    assert!(restored.position <= past);
    let site = TestInstance::open(&files, "/two", 0);
    assert_eq!(site.keys(), numbers(200));
    // The new history must extend past the end of the old one.
    site.insert(1000..1400);
    let refused = site.back_up("/wrong", BackupType::Incremental, Some("/old"));
    assert!(matches!(set_error(refused), BackupSetError::RestoredSince(_)));
    assert!(!files.exists("/wrong/manifest.json".as_ref()).unwrap());
    assert_eq!(files.list("/wrong".as_ref()).unwrap_or_default(), Vec::<std::path::PathBuf>::new());
    // The full backup was made before the histories diverged, so it belongs to both.
    site.back_up("/new", BackupType::Incremental, Some("/full")).unwrap();
    site.insert(1400..1450);
    site.back_up("/newer", BackupType::Incremental, Some("/new")).unwrap();
    site.close();

    let other = set_error(restore_to(&files, &["/full", "/old", "/new", "/newer"], "/none", None));
    assert!(matches!(other, BackupSetError::OtherHistory { .. }), "{other:?}");
    let mixed = set_error(restore_to(&files, &["/full", "/old", "/newer"], "/none", None));
    assert!(matches!(mixed, BackupSetError::OtherHistory { .. } | BackupSetError::Gap { .. }), "{mixed:?}");
    assert!(!files.exists("/none/data.edb".as_ref()).unwrap());
    restore_to(&files, &["/full", "/new", "/newer"], "/three", None).unwrap();
    let site = TestInstance::open(&files, "/three", 0);
    assert_eq!(site.keys(), numbers(200).into_iter().chain(1000..1450).collect());
    site.close();
    restore_to(&files, &["/full", "/old"], "/four", None).unwrap();
    let site = TestInstance::open(&files, "/four", 0);
    assert_eq!(site.keys(), numbers(400));
    site.close();
}

#[test]
fn surviving_logs_are_replayed_up_to_a_position() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/full", BackupType::Full, None).unwrap();
    let past = site.insert(100..200);
    site.insert(200..300);
    drop(disk);
    site.close();
    for (until, to, end) in [(Some(past), "/past", 200), (None, "/all", 300)] {
        let options = jetcell_backup::RestoreOptions {
            until: until.map(jetcell_backup::ReplayEnd::Position),
            logs: Some("/one".into()),
            ..jetcell_backup::RestoreOptions::default()
        };
        jetcell_backup::restore(&files, &["/full".into()], to.as_ref(), &options).unwrap();
        let site = TestInstance::open(&files, to, 0);
        assert_eq!(site.keys(), numbers(end), "{to}");
        site.close();
    }
}
