//! Operations on a passive copy: backups while its replay is paused, and its own scan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{EventKind, EventProfile, MaintenanceThrottle};
use jetcell_backup::{BackupOptions, RestoreOptions, back_up_stopped, restore};
use jetcell_copies::{
    CopyError, CopyScanOptions, CopyScanProgress, LossLimit, Refusal, activate, pause_replay, scan_copy,
};
use jetcell_host::Cancellation;
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, ReceivedEvents, SIZE, catch_up, follow, replay_options, seeded, source, vfs,
};

fn files(disk: &SimVfs) -> Vec<PathBuf> {
    disk.list(Path::new(COPY)).unwrap()
}

/// Returns the keys in a database that was restored from a backup of the copy.
fn restored(disk: &SimVfs, backup: &str, to: &str) -> std::collections::BTreeSet<i32> {
    let options = RestoreOptions { threads: false, ..RestoreOptions::default() };
    restore(&vfs(disk), &[PathBuf::from(backup)], Path::new(to), &options).unwrap();
    let site = ActiveInstance::open(disk, to, super::active_instance::KEEP);
    let keys = site.keys();
    site.close();
    keys
}

#[test]
fn a_copy_backup_restores_the_state_at_the_backup_position() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(20..200);
    site.roll();
    let mut copy = follow(&disk).unwrap();
    while !copy.step().unwrap().is_idle() {}
    let options = BackupOptions { threads: false, source_is_copy: true, ..BackupOptions::default() };
    // While a process follows the copy, the files of the copy are in use.
    assert!(back_up_stopped(&vfs(&disk), &files(&disk), Path::new("/early"), &options).is_err());
    copy.stop().unwrap();
    let mut copy = follow(&disk).unwrap();
    let rests = pause_replay(&vfs(&disk), Path::new(COPY)).unwrap();
    site.insert(200..300);
    site.roll();
    let (replayed, copied) = (copy.state().replayed, copy.state().next);
    let step = copy.step().unwrap();
    assert!(matches!(step.waiting, Some(CopyError::Paused(_))), "{step:?}");
    assert!(copy.state().replayed == replayed && copy.state().next > copied, "logs are copied on");
    assert!(pause_replay(&vfs(&disk), Path::new(COPY)).is_err(), "there is a backup already");
    back_up_stopped(&vfs(&disk), &files(&disk), Path::new("/backup"), &options).unwrap();
    drop(rests);
    while !copy.step().unwrap().is_idle() {}
    assert_eq!(copy.state().replay_queue(), 0);
    copy.stop().unwrap();
    // The backup also contains the copied logs.
    assert_eq!(restored(&disk, "/backup", "/restored"), (0..300).collect());
    // A stopped copy is backed up in the same way.
    let rests = pause_replay(&vfs(&disk), Path::new(COPY)).unwrap();
    let refused =
        activate(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), LossLimit::Any, &replay_options());
    let refused = refused.unwrap_err();
    assert!(matches!(refused, CopyError::Refused { reason: Refusal::BackupRunning, .. }));
    assert!(refused.may_try_another_copy(false) && !refused.may_try_another_copy(true));
    back_up_stopped(&vfs(&disk), &files(&disk), Path::new("/again"), &options).unwrap();
    drop(rests);
    assert_eq!(restored(&disk, "/again", "/restored-again"), (0..300).collect());
    site.close();
}

#[test]
fn a_copy_scan_resumes_and_reports_bad_pages() {
    let disk = seeded(400);
    catch_up(&disk).unwrap();
    let heard = Arc::new(ReceivedEvents::default());
    let options = CopyScanOptions {
        batch_bytes: 16 * SIZE.bytes(),
        interval: Duration::ZERO,
        throttle: MaintenanceThrottle::default(),
        events: Some(heard.clone()),
        profile: EventProfile::Sp1,
        cancellation: Cancellation::default(),
    };
    let scan = |look: &mut dyn FnMut(u32) -> bool| {
        scan_copy(&vfs(&disk), Path::new(COPY), &options, &mut |one, _| look(one.next.unwrap_or(0))).unwrap()
    };
    let first = scan(&mut |next| next < 40);
    let stopped = first.databases[0].next.unwrap();
    assert!(stopped >= 40 && first.databases[0].passes == 0, "{first:?}");
    // A killed process would have stored the same progress.
    assert_eq!(CopyScanProgress::read(&disk, Path::new(COPY)).unwrap(), first);
    let mut begun = None;
    let whole = scan(&mut |next| {
        begun.get_or_insert(next);
        true
    });
    assert!(begun.unwrap() > stopped && whole.databases[0].passes == 1, "{whole:?}");
    assert_eq!((whole.databases[0].bad, whole.databases[0].next), (0, None));
    // Damages a page with records of the table.
    let path = Path::new(COPY).join("data.edb");
    let content = disk.contents(&path).unwrap();
    let page = |at: &usize| content[at * SIZE.bytes()..][..SIZE.bytes()].iter().filter(|b| **b != 0).count();
    let at = (40..content.len() / SIZE.bytes()).find(|at| page(at) > 1000).unwrap();
    let file = disk.open(&path, jetcell_vfs::OpenMode::Write).unwrap();
    let place = at * SIZE.bytes() + 2000;
    let mut bytes = jetcell_vfs::IoBuffer::zeroed(SIZE.bytes());
    bytes.copy_from_slice(&content[at * SIZE.bytes()..][..SIZE.bytes()]);
    bytes[2000..2100].iter_mut().for_each(|byte| *byte ^= 0x55);
    file.write_at((place - 2000) as u64, &bytes, jetcell_vfs::IoReason::Backup).unwrap();
    let found = scan(&mut |_| true);
    assert_eq!(found.databases[0].bad, 1, "{found:?}");
    let heard = heard.0.lock();
    let named = heard
        .iter()
        .any(|kind| matches!(kind, EventKind::ScanFoundPage { page, .. } if page.get() as usize == at - 1));
    assert!(named, "{heard:?}");
    let kinds = |wanted: &str| heard.iter().filter(|kind| kind.name() == wanted).count();
    assert_eq!((kinds("pass_started"), kinds("pass_resumed"), kinds("pass_completed")), (2, 1, 2));
    assert_eq!(kinds("pass_interrupted"), 1);
}

#[test]
fn only_one_scan_starts_when_a_pass_is_due() {
    let disk = seeded(50);
    catch_up(&disk).unwrap();
    let options = CopyScanOptions {
        batch_bytes: 16 * SIZE.bytes(),
        interval: Duration::from_secs(86_400),
        throttle: MaintenanceThrottle::default(),
        events: None,
        profile: EventProfile::Sp1,
        cancellation: Cancellation::default(),
    };
    let passes = || {
        let scan = scan_copy(&vfs(&disk), Path::new(COPY), &options, &mut |_, _| {
            let other = scan_copy(&vfs(&disk), Path::new(COPY), &options, &mut |_, _| true);
            assert!(other.unwrap_err().to_string().contains("another process is already scanning"));
            true
        });
        scan.unwrap().databases[0].passes
    };
    assert_eq!((passes(), passes()), (1, 1));
    disk.clock().sleep(Duration::from_secs(86_000));
    assert_eq!(passes(), 1);
    disk.clock().sleep(Duration::from_secs(500));
    assert_eq!(passes(), 2);
}
