//! The positions that a restore can reach, and requests outside them.

use std::path::{Path, PathBuf};

use jetcell_backup::{BackupSetError, BackupType, ReplayEnd, RestoreOptions, restore, restore_window};

use crate::test_instance::{TestInstance, back_up_directory, disk, options, restore_to, set_error};

#[test]
fn a_restore_to_a_position_before_the_backup_names_the_earliest_position() {
    let (_disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    let before = site.insert(0..100);
    site.insert(100..200);
    site.back_up("/running", BackupType::Full, None).unwrap();
    site.insert(200..300);
    site.close();
    back_up_directory(&files, "/one", "/stopped", &options(BackupType::Full, None)).unwrap();
    for backup in ["/running", "/stopped"] {
        let window = restore_window(&files, &[PathBuf::from(backup)], None).unwrap().window.unwrap();
        assert!(before < window.earliest && window.earliest <= window.latest, "{window:?}");
        let refused = set_error(restore_to(&files, &[backup], "/early", Some(before)));
        let BackupSetError::EndTooLow { earliest, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(earliest, window.earliest);
        assert!(!files.exists(Path::new("/early/data.edb")).unwrap());
        // The named position can be reached.
        let to = format!("{backup}-earliest");
        let restored = restore_to(&files, &[backup], &to, Some(earliest)).unwrap();
        assert!(!restored.ends_early, "{restored:?}");
    }
}

#[test]
fn a_restore_to_a_position_after_the_last_log_reports_the_last_position() {
    let (_disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..100);
    site.back_up("/full", BackupType::Full, None).unwrap();
    let past = site.insert(100..200);
    site.close();
    let window = restore_window(&files, &["/full".into()], Some(Path::new("/one"))).unwrap().window.unwrap();
    assert!(window.earliest < past && past < window.latest, "{window:?} {past}");
    let restore_until = |until, to: &str| {
        let request =
            RestoreOptions { until: Some(until), logs: Some("/one".into()), ..RestoreOptions::default() };
        restore(&files, &["/full".into()], Path::new(to), &request).unwrap()
    };
    let generation = window.latest.generation.0;
    for (number, (until, ends_early)) in [
        (ReplayEnd::Position(past), false),
        (ReplayEnd::Position(window.latest), false),
        (ReplayEnd::Position(ese_format::LogPosition::MAX), true),
        (ReplayEnd::Generation(generation + 1), true),
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("/restored-{number}");
        let restored = restore_until(until, &to);
        assert_eq!(restored.ends_early, ends_early, "{until:?}: {window:?}");
        assert_eq!(restored.window, Some(window));
        let site = TestInstance::open(&files, &to, 0);
        assert_eq!(site.keys(), (0..200).collect());
        site.close();
    }
}
