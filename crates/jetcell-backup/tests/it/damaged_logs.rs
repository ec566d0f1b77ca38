//! Restores with surviving logs whose headers are damaged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ese_format::LogPosition;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use jetcell_backup::{
    BackupError, BackupManifest, BackupRefusal, BackupSetError, BackupType, ReplayEnd, RestoreOptions,
    RestoreResult, Result, restore, restore_window,
};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};

use crate::test_instance::{TestInstance, back_up_directory, disk, options};

const LOGS: &str = "/logs";

/// A backup in `/full`, and the logs that survived the loss of the database.
struct Site {
    disk: SimVfs,
    files: Arc<dyn Vfs>,
    /// Position of the last commit that is in the backup.
    saved: LogPosition,
}

/// Damage to the header of a log.
type DamageFn = fn(&SimVfs, &Path);

fn flip(disk: &SimVfs, log: &Path) {
    disk.corrupt(log, 101, &[0xA5]).unwrap();
}

fn zero(disk: &SimVfs, log: &Path) {
    disk.corrupt(log, 0, &[0; 4096]).unwrap();
}

fn truncate(disk: &SimVfs, log: &Path) {
    disk.put(log, &[1; 100]);
}

const DAMAGES: [DamageFn; 3] = [flip, zero, truncate];

impl Site {
    fn new() -> Site {
        let (disk, files) = disk();
        let site = TestInstance::open(&files, "/one", 256);
        let saved = site.insert(0..100);
        site.back_up("/full", BackupType::Full, None).unwrap();
        site.insert(100..200);
        site.insert(200..300);
        site.close();
        files.create_directory(Path::new(LOGS)).unwrap();
        for path in files.list(Path::new("/one")).unwrap() {
            if path.extension().is_some_and(|extension| extension == "log") {
                let name = path.file_name().unwrap();
                disk.put(&Path::new(LOGS).join(name), &disk.contents(&path).unwrap());
            }
        }
        Site { disk, files, saved }
    }

    /// Returns the surviving archived logs in order of their generations.
    fn archived(&self) -> Vec<PathBuf> {
        let mut logs = self.files.list(Path::new(LOGS)).unwrap();
        logs.retain(|path| path.file_stem().unwrap().len() == 11);
        logs.sort();
        logs
    }

    fn newest() -> PathBuf {
        Path::new(LOGS).join("E00.log")
    }

    fn restore(&self, to: &str, options: RestoreOptions) -> Result<RestoreResult> {
        let options = RestoreOptions { logs: Some(LOGS.into()), ..options };
        restore(&self.files, &["/full".into()], Path::new(to), &options)
    }

    fn keys(&self, directory: &str) -> BTreeSet<i32> {
        let site = TestInstance::open(&self.files, directory, 0);
        let keys = site.keys();
        site.close();
        keys
    }
}

#[test]
fn a_damaged_newest_log_is_reported_and_the_other_logs_are_replayed() {
    for damage in DAMAGES {
        let site = Site::new();
        damage(&site.disk, &Site::newest());
        let restored = site.restore("/restored", RestoreOptions::default()).unwrap();
        let [found] = &restored.damaged_logs[..] else { panic!("{:?}", restored.damaged_logs) };
        assert_eq!((&found.path, found.is_in_backup), (&Site::newest(), false));
        assert!(found.to_string().contains("E00.log"), "{found}");
        let keys = site.keys("/restored");
        let count = keys.len() as i32;
        assert!(count > 150 && keys == (0..count).collect(), "{count}");
        // A listing says the same.
        let reach = restore_window(&site.files, &["/full".into()], Some(Path::new(LOGS))).unwrap();
        assert_eq!(reach.damaged_logs.len(), 1);
        assert_eq!(reach.window, restored.window);
    }
}

#[test]
fn the_copy_of_the_backup_replaces_a_damaged_log() {
    let site = Site::new();
    let first = site.archived().remove(0);
    flip(&site.disk, &first);
    let restored = site.restore("/restored", RestoreOptions::default()).unwrap();
    let [found] = &restored.damaged_logs[..] else { panic!("{:?}", restored.damaged_logs) };
    assert_eq!((&found.path, found.is_in_backup, found.is_partial), (&first, true, false));
    assert!(found.to_string().ends_with("the copy in the backup is used"), "{found}");
    assert_eq!(site.keys("/restored"), (0..300).collect());
}

#[test]
fn the_backup_alone_is_restored_if_all_surviving_logs_are_damaged() {
    for damage in DAMAGES {
        let site = Site::new();
        let all = site.files.list(Path::new(LOGS)).unwrap();
        all.iter().for_each(|log| damage(&site.disk, log));
        let restored = site.restore("/restored", RestoreOptions::default()).unwrap();
        let found: BTreeSet<&PathBuf> = restored.damaged_logs.iter().map(|log| &log.path).collect();
        assert_eq!(found, all.iter().collect());
        assert_eq!(site.keys("/restored"), (0..100).collect());
    }
}

#[test]
fn a_damaged_log_before_readable_logs_is_named() {
    let site = Site::new();
    let archived = site.archived();
    let middle = &archived[archived.len() - 1];
    for damage in [flip, zero] {
        damage(&site.disk, middle);
        let error = site.restore("/none", RestoreOptions::default()).unwrap_err();
        assert!(
            matches!(&error, BackupError::Set(BackupSetError::LogDamaged { path, .. }) if path == middle),
            "{error}"
        );
        assert!(error.advice().unwrap().contains("--until"), "{error}");
        assert!(site.files.list(Path::new("/none")).unwrap_or_default().is_empty());
        let reach = restore_window(&site.files, &["/full".into()], Some(Path::new(LOGS))).unwrap();
        assert_eq!((reach.problems.len(), reach.damaged_logs.len()), (1, 1), "{reach:?}");
        let latest = reach.window.unwrap().latest;
        assert!(latest > site.saved, "{latest}");
    }
    // Everything before the damaged log can be restored.
    let reach = restore_window(&site.files, &["/full".into()], Some(Path::new(LOGS))).unwrap();
    let until = Some(ReplayEnd::Position(reach.window.unwrap().latest));
    let restored = site.restore("/restored", RestoreOptions { until, ..RestoreOptions::default() }).unwrap();
    assert_eq!(restored.damaged_logs.len(), 1);
    assert!(site.keys("/restored").len() > 100);
}

#[test]
fn a_damaged_log_after_a_gap_is_reported() {
    let site = Site::new();
    let last = site.archived().pop().unwrap();
    site.disk.remove(&last).unwrap();
    flip(&site.disk, &Site::newest());
    let restored = site.restore("/restored", RestoreOptions::default()).unwrap();
    assert_eq!(restored.damaged_logs.iter().map(|log| &log.path).collect::<Vec<_>>(), [&Site::newest()]);
}

#[test]
fn a_prepared_log_and_a_text_file_are_not_damaged_logs() {
    let site = Site::new();
    for name in ["E00tmp.log", "install.log"] {
        site.disk.put(&Path::new(LOGS).join(name), &[0x20; 8192]);
    }
    let restored = site.restore("/restored", RestoreOptions::default()).unwrap();
    assert!(restored.damaged_logs.is_empty(), "{:?}", restored.damaged_logs);
    assert_eq!(site.keys("/restored"), (0..300).collect());
}

#[test]
fn a_restore_into_the_log_directory_does_not_remove_a_damaged_log() {
    let site = Site::new();
    flip(&site.disk, &Site::newest());
    let before = site.disk.contents(&Site::newest());
    let options = RestoreOptions { force: true, ..RestoreOptions::default() };
    let error = site.restore(LOGS, options).unwrap_err();
    assert!(
        matches!(&error, BackupError::Refused(BackupRefusal::OverwritesDamagedLog(path)) if *path == Site::newest()),
        "{error}"
    );
    assert_eq!(site.disk.contents(&Site::newest()), before);
}

#[test]
fn a_listing_reports_missing_and_damaged_logs() {
    let site = Site::new();
    let list = || restore_window(&site.files, &["/full".into()], Some(Path::new(LOGS))).unwrap();
    let sound = list();
    assert!(sound.problems.is_empty() && sound.damaged_logs.is_empty(), "{sound:?}");
    let last = site.archived().pop().unwrap();
    let content = site.disk.contents(&last).unwrap();
    site.disk.remove(&last).unwrap();
    let missing = list();
    assert!(
        matches!(&missing.problems[..], [BackupError::Set(BackupSetError::LogMissing(_))]),
        "{missing:?}"
    );
    assert!(missing.window.unwrap().latest < sound.window.unwrap().latest);
    site.disk.put(&last, &content);
    site.disk.corrupt(&last, 3 * 4096 + 200, &[0xA5; 64]).unwrap();
    let damaged = list();
    assert!(matches!(&damaged.problems[..], [BackupError::Engine(_)]), "{damaged:?}");
    assert!(damaged.window.unwrap().latest < sound.window.unwrap().latest);
}

#[test]
fn a_listing_verifies_the_logs_of_the_backup() {
    let site = Site::new();
    let mut logs = site.files.list(Path::new("/full")).unwrap();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    let log = logs.pop().unwrap();
    let content = site.disk.contents(&log).unwrap();
    let list = || restore_window(&site.files, &["/full".into()], None).unwrap();
    assert!(list().problems.is_empty());
    // The last log is damaged after its last record, which only the checksum of the backup shows.
    site.disk.corrupt(&log, content.len() as u64 - 64, &[0xA5; 64]).unwrap();
    assert!(matches!(&list().problems[..], [BackupError::Changed { .. }]), "{:?}", list());
    site.disk.remove(&log).unwrap();
    let reach = list();
    assert!(matches!(&reach.problems[..], [BackupError::Engine(_)]) && reach.window.is_none(), "{reach:?}");
}

/// The last log of the backup was open, and the instance then appended records to it.
#[test]
fn a_damaged_log_of_which_the_backup_has_only_a_part_is_named() {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 256);
    site.insert(0..30);
    // The logs as they were when the backup was made.
    let early = disk.process_kill();
    site.insert(30..200);
    site.close();
    let saved: Arc<dyn Vfs> = Arc::new(early.clone());
    let request = options(BackupType::Full, None);
    back_up_directory(&saved, "/one", "/full", &request).unwrap();
    files.create_directory(Path::new("/full")).unwrap();
    for path in saved.list(Path::new("/full")).unwrap() {
        disk.put(&path, &early.contents(&path).unwrap());
    }
    let manifest = BackupManifest::read(&*files, Path::new("/full")).unwrap();
    assert!(manifest.generations.last_is_open);
    let restored = |to: &str, until| {
        let options = RestoreOptions { logs: Some("/one".into()), until, ..RestoreOptions::default() };
        restore(&files, &["/full".into()], Path::new(to), &options)
    };
    assert!(restored("/all", None).unwrap().damaged_logs.is_empty());
    let part = PathBuf::from(format!("/one/E00{:08X}.log", manifest.generations.last));
    flip(&disk, &part);
    let error = restored("/none", None).unwrap_err();
    assert!(
        matches!(&error, BackupError::Set(BackupSetError::LogDamaged { path, .. }) if *path == part),
        "{error}"
    );
    // A log in an earlier format has no checksum of the previous log, so it does not prove that the copy is complete.
    let next = manifest.generations.last + 1;
    let next = PathBuf::from(format!("/one/E00{next:08X}.log"));
    let sound = disk.contents(&next).unwrap();
    let header = LogHeader { previous_checksum: 0, ..LogHeader::decode(&sound[..SEGMENT_BYTES]).unwrap() };
    disk.corrupt(&next, 0, &header.encode()).unwrap();
    let reach = restore_window(&files, &["/full".into()], Some(Path::new("/one"))).unwrap();
    assert!(
        matches!(&reach.problems[..], [BackupError::Set(BackupSetError::LogDamaged { path, .. })] if *path == part),
        "{reach:?}"
    );
    disk.corrupt(&next, 0, &sound[..SEGMENT_BYTES]).unwrap();
    // The part that the backup has can be restored.
    let reach = restore_window(&files, &["/full".into()], Some(Path::new("/one"))).unwrap();
    assert_eq!((reach.problems.len(), reach.damaged_logs.len()), (1, 1), "{reach:?}");
    let until = Some(ReplayEnd::Position(reach.window.unwrap().latest));
    let result = restored("/part", until).unwrap();
    assert!(result.damaged_logs[0].is_in_backup && !result.ends_early, "{result:?}");
    let keys = |directory| {
        let site = TestInstance::open(&files, directory, 0);
        let keys = site.keys();
        site.close();
        keys
    };
    assert_eq!(keys("/part"), (0..30).collect());
    // No gap shows that records are missing if no later log exists.
    let mut later = files.list(Path::new("/one")).unwrap();
    later.retain(|path| path.extension().is_some_and(|extension| extension == "log") && *path > part);
    later.push(PathBuf::from("/one/E00.log"));
    later.iter().filter(|path| disk.contents(path).is_some()).for_each(|path| disk.remove(path).unwrap());
    let result = restored("/last", None).unwrap();
    let [found] = &result.damaged_logs[..] else { panic!("{:?}", result.damaged_logs) };
    assert_eq!((&found.path, found.is_in_backup, found.is_partial), (&part, true, true));
    assert!(found.to_string().ends_with("it may lack the last changes"), "{found}");
    assert_eq!(keys("/last"), (0..30).collect());
}
