//! Following an active side: damaged logs, missing logs, logs of another history, truncation, delay, and restarts.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::CopyRegistration;
use ese_format::Generation;
use jetcell_backup::{BackupError, BackupRefusal, ProgramFailure};
use jetcell_copies::{
    ContactError, CopyError, CopyPhase, CopyState, CopyStatus, RegisteredCopy, ReplayOptions, Replicator,
    UnfitReason,
};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, KEEP, ReceivedEvents, catch_up, follow, logs, pages, replay_options, seed,
    seed_to, seeded, source, vfs,
};

fn state(disk: &SimVfs) -> CopyState {
    CopyState::read(disk, Path::new(COPY)).unwrap().unwrap()
}

/// Creates a running active side that is ahead of its copy.
fn ahead(rows: i32) -> (SimVfs, ActiveInstance) {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(20..rows);
    (disk, site)
}

/// Returns the reason why the copy is unfit.
fn unfit(disk: &SimVfs) -> (UnfitReason, String) {
    match state(disk).phase {
        CopyPhase::Unfit { reason, what } => (reason, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_active_side_keeps_logs_until_a_copy_lags_excessively() {
    for limit in [1000, 4] {
        let disk = seeded(20);
        let needs = state(&disk).next;
        let site = ActiveInstance::open(&disk, ACTIVE, limit);
        site.insert(20..700);
        let oldest = *logs(&disk, ACTIVE).closed().unwrap().first_key_value().unwrap().0;
        if limit == 1000 {
            assert_eq!(oldest, Generation(needs));
            let state = catch_up(&disk).unwrap();
            assert!(state.next > needs + 10, "{state:?}");
            site.insert(700..900);
            let oldest = *logs(&disk, ACTIVE).closed().unwrap().first_key_value().unwrap().0;
            assert!(oldest >= Generation(state.next) && oldest.0 <= state.next + 1, "{oldest:?}");
            // The copy keeps the logs that the active side keeps and the logs that its own redo needs.
            catch_up(&disk).unwrap();
            let kept = logs(&disk, COPY).closed().unwrap();
            assert!(kept.len() < 20, "{} logs", kept.len());
        } else {
            assert!(oldest > Generation(needs), "{oldest:?}");
            for _ in 0..2 {
                assert!(matches!(catch_up(&disk), Err(CopyError::Refused { .. }) | Ok(_)));
            }
            assert!(catch_up(&disk).is_err());
            let (reason, what) = unfit(&disk);
            assert!(reason == UnfitReason::LogsGone && what.contains("reseed"), "{what}");
            site.close();
            seed(&disk, true).unwrap();
            catch_up(&disk).unwrap();
        }
    }
}

/// A log is fetched up to three times.
#[test]
fn only_a_persistently_damaged_log_stops_the_copy() {
    let (disk, site) = ahead(300);
    let bad = logs(&disk, ACTIVE).archived(Generation(state(&disk).next + 2));
    let good = disk.contents(&bad).unwrap();
    disk.corrupt(&bad, 9000, &[7; 300]).unwrap();
    let mut copy = follow(&disk).unwrap();
    for _ in 0..2 {
        copy.step().unwrap();
    }
    assert_eq!(copy.state().tries, 2);
    disk.put(&bad, &good);
    while !copy.step().unwrap().is_idle() {}
    assert!(copy.state().tries == 0 && copy.state().replay_queue() == 0);
    site.insert(300..500);
    let bad = logs(&disk, ACTIVE).archived(Generation(copy.state().next + 1));
    disk.corrupt(&bad, 9000, &[7; 300]).unwrap();
    let error = loop {
        if let Err(error) = copy.step() {
            break error.to_string();
        }
    };
    assert!(error.contains("damaged") && error.contains("reseed"), "{error}");
    drop(copy);
    assert_eq!(unfit(&disk).0, UnfitReason::BadLog);
    assert!(catch_up(&disk).is_err(), "it stays so after a restart");
}

#[test]
fn a_log_that_is_damaged_in_the_copy_is_fetched_again() {
    let (disk, site) = ahead(300);
    let first = state(&disk).next;
    let mut waiting = replay_options();
    waiting.delay = Duration::from_secs(3600);
    let mut copy = Replicator::open(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), waiting).unwrap();
    while !copy.step().unwrap().is_idle() {}
    assert!(copy.state().next > first + 2 && copy.state().replayed < first);
    drop(copy);
    let damaged = logs(&disk, COPY).archived(Generation(first + 1));
    disk.corrupt(&damaged, 9000, &[7; 300]).unwrap();
    let state = catch_up(&disk).unwrap();
    assert_eq!(state.replay_queue(), 0);
    site.close();
}

#[test]
fn a_delayed_copy_replays_a_generation_when_it_is_old_enough() {
    let (disk, site) = ahead(200);
    let options = ReplayOptions { delay: Duration::from_secs(3600), ..replay_options() };
    let mut copy = Replicator::open(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), options).unwrap();
    while !copy.step().unwrap().is_idle() {}
    let waiting = copy.state().replay_queue();
    assert!(waiting >= 2 && copy.state().copy_queue() == 0, "{:?}", copy.state());
    disk.clock().sleep(Duration::from_secs(3000));
    assert!(copy.step().unwrap().is_idle());
    disk.clock().sleep(Duration::from_secs(700));
    while !copy.step().unwrap().is_idle() {}
    // The end of the last generation is not known before the next one begins.
    assert_eq!(copy.state().replay_queue(), 1);
    site.close();
}

/// Replaces the files of the active side by the files of another disk.
fn put_back(disk: &SimVfs, other: &SimVfs) {
    for path in disk.list(Path::new(ACTIVE)).unwrap() {
        disk.remove(&path).unwrap();
    }
    for path in other.list(Path::new(ACTIVE)).unwrap() {
        disk.put(&path, &other.contents(&path).unwrap());
    }
}

#[test]
fn a_copy_does_not_follow_a_different_history() {
    let (disk, site) = ahead(200);
    catch_up(&disk).unwrap();
    site.close();
    // The active side is restored to an earlier point in time and then writes more logs.
    let other = seeded(20);
    let site = ActiveInstance::open(&other, ACTIVE, 1000);
    site.insert(1000..1400);
    site.close();
    put_back(&disk, &other);
    let before = pages(&disk, "/copy/data.edb");
    while catch_up(&disk).is_ok() {}
    let (reason, what) = unfit(&disk);
    assert!(reason == UnfitReason::Diverged && what.contains("histories have diverged"), "{what}");
    assert!(pages(&disk, "/copy/data.edb") == before);
}

/// The response may be an outdated one from a side that was active before. After an interrupted switchover no other
/// side has the role.
#[test]
fn a_single_log_from_another_history_does_not_stop_copies() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    site.insert(20..200);
    let state = catch_up(&disk).unwrap();
    site.close();
    let other = seeded(20);
    let site = ActiveInstance::open(&other, ACTIVE, KEEP);
    site.insert(1000..1400);
    site.close();
    let last = logs(&disk, ACTIVE).names.archived(Generation(state.next - 1));
    let (ours, theirs) = (disk.contents(&last).unwrap(), other.contents(&last).unwrap());
    assert!(ours != theirs);
    disk.put(&last, &theirs);
    let mut copy = follow(&disk).unwrap();
    copy.step().unwrap();
    assert!(!copy.is_confirmed() && copy.state().phase == CopyPhase::Following);
    disk.put(&last, &ours);
    copy.step().unwrap();
    assert!(copy.is_confirmed() && copy.state().tries == 0);
    copy.stop().unwrap();
}

/// A copy that was seeded from the files of a crashed instance has changes of the log that was open. The active side
/// may now have another log with this number. If this log cannot be fetched, nothing proves that the two sides have
/// the same history.
#[test]
fn a_copy_is_unconfirmed_until_the_partial_log_is_compared() {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.roll();
    let earlier = disk.process_kill();
    site.insert(20..24);
    drop(site);
    let disk = disk.process_kill();
    let state = seed(&disk, true).unwrap().state;
    put_back(&disk, &earlier);
    let site = ActiveInstance::open(&disk, ACTIVE, KEEP);
    site.insert(1000..1400);
    site.close();
    let other = logs(&disk, ACTIVE).names.archived(Generation(state.next));
    let whole = disk.contents(&other).unwrap();
    disk.corrupt(&other, 9000, &[7; 300]).unwrap();
    let mut copy = follow(&disk).unwrap();
    copy.step().unwrap();
    assert!(!copy.is_confirmed());
    copy.stop().unwrap();
    disk.put(&other, &whole);
    while catch_up(&disk).is_ok() {}
    let (reason, what) = unfit(&disk);
    assert!(reason == UnfitReason::Diverged && what.contains("histories have diverged"), "{what}");
}

#[test]
fn a_copy_recovers_after_the_active_side_is_temporarily_unreachable() {
    let (disk, site) = ahead(200);
    site.close();
    let away: Vec<_> = disk.list(Path::new(ACTIVE)).unwrap();
    let kept: Vec<_> = away.iter().map(|path| disk.contents(path).unwrap()).collect();
    away.iter().for_each(|path| disk.remove(path).unwrap());
    assert!(matches!(catch_up(&disk), Err(CopyError::Unreachable { .. })));
    away.iter().zip(&kept).for_each(|(path, bytes)| disk.put(path, bytes));
    catch_up(&disk).unwrap();
    // A full disk of the copy is a temporary problem, too. The active side writes more rows.
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(200..400);
    disk.set_capacity(disk.used() + 1000);
    let error = catch_up(&disk).unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("the disk is full"), "{error}");
    disk.set_capacity(u64::MAX);
    site.insert(400..450);
    catch_up(&disk).unwrap();
    site.close();
}

#[test]
fn databases_are_durable_after_each_batch_without_a_retained_instance() {
    let (disk, site) = ahead(400);
    let options = ReplayOptions { keep_instance: false, ..replay_options() };
    let mut copy = Replicator::open(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), options).unwrap();
    while !copy.step().unwrap().is_idle() {}
    let kept = pages(&disk, "/copy/data.edb");
    copy.stop().unwrap();
    assert!(pages(&disk, "/copy/data.edb") == kept, "nothing was left in the cache");
    site.close();
    let registered = CopyRegistration::list(&disk, Path::new(ACTIVE), FileStem::E00).unwrap();
    assert_eq!(registered[0].1.as_ref().map(|known| known.needs.0), Some(state(&disk).next));
}

fn follow_heard(disk: &SimVfs, heard: &Arc<ReceivedEvents>) -> Replicator {
    let options = ReplayOptions { events: Some(heard.clone()), ..replay_options() };
    Replicator::open(&vfs(disk), Path::new(COPY), Box::new(source(disk)), options).unwrap()
}

#[test]
fn the_system_error_is_a_source_of_the_error_of_a_copy() {
    let system = || Arc::new(std::io::Error::from_raw_os_error(5));
    let unreachable = CopyError::Unreachable { active: "/a".into(), error: ContactError::Io(system()) };
    let program = BackupRefusal::Program { name: "the program", failure: ProgramFailure::Io(system()) };
    for error in [unreachable, CopyError::Backup(BackupError::Refused(program))] {
        let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
        let has_number = |cause: &Arc<std::io::Error>| cause.raw_os_error() == Some(5);
        assert!(causes.any(|cause| cause.downcast_ref().is_some_and(has_number)), "{error:?}");
    }
}

#[test]
fn both_sides_report_a_copy_waiting_for_space() {
    let disk = seeded(20);
    let (at_active, at_copy) = (Arc::new(ReceivedEvents::default()), Arc::new(ReceivedEvents::default()));
    let site = ActiveInstance::open_heard(&disk, ACTIVE, 1000, at_active.clone());
    let mut copy = follow_heard(&disk, &at_copy);
    while !copy.step().unwrap().is_idle() {}
    site.insert(20..200);
    // The registration in the log directory of the active side still fits on the disk.
    disk.set_capacity(disk.used() + 20_000);
    assert!(copy.step().unwrap().waiting.is_some() && copy.step().unwrap().waiting.is_some());
    assert_eq!(at_copy.take_copy_events(), [("copy_waiting", None)], "once");
    disk.set_capacity(u64::MAX);
    site.insert(200..220);
    site.instance.exchange_pages().unwrap();
    assert_eq!(at_active.take_copy_events(), [("copy_waiting", None)]);
    let registered = CopyRegistration::list(&disk, Path::new(ACTIVE), FileStem::E00).unwrap();
    let why = registered[0].1.as_ref().unwrap().waiting.clone().unwrap();
    assert!(why.ends_with("the disk is full, and nothing was changed; free some space and retry"), "{why}");
    while !copy.step().unwrap().is_idle() {}
    site.instance.exchange_pages().unwrap();
    assert_eq!(at_copy.take_copy_events(), [("copy_continued", None)]);
    assert_eq!(at_active.take_copy_events(), [("copy_continued", None)]);
    assert_eq!(site.keys(), (0..220).collect());
    site.close();
}

#[test]
fn rejected_logs_are_reported_with_ese_event_ids() {
    for (is_gone, id) in [(false, 552), (true, 518)] {
        let (disk, site) = ahead(300);
        let bad = logs(&disk, ACTIVE).archived(Generation(state(&disk).next + 1));
        if is_gone {
            disk.remove(&bad).unwrap();
        } else {
            disk.corrupt(&bad, 9000, &[7; 300]).unwrap();
        }
        let heard = Arc::new(ReceivedEvents::default());
        let mut copy = follow_heard(&disk, &heard);
        while copy.step().is_ok() {}
        let refused = ("log_refused", Some(id));
        assert_eq!(heard.take_copy_events(), [refused, refused, refused, ("copy_unfit", None)]);
        site.close();
    }
}

#[test]
fn the_active_side_reports_a_copy_cut_off() {
    let disk = seeded(20);
    let heard = Arc::new(ReceivedEvents::default());
    let site = ActiveInstance::open_heard(&disk, ACTIVE, 4, heard.clone());
    site.instance.exchange_pages().unwrap();
    assert_eq!(heard.take_copy_events(), []);
    site.insert(20..700);
    site.instance.exchange_pages().unwrap();
    site.instance.exchange_pages().unwrap();
    assert_eq!(heard.take_copy_events(), [("copy_cut_off", None)]);
    site.close();
}

#[test]
fn an_unreadable_registration_keeps_logs_only_up_to_the_limit() {
    let disk = SimVfs::new();
    let mut site = ActiveInstance::open(&disk, ACTIVE, 10);
    let garbage = Path::new("/active/E00-bad.copy");
    disk.put(garbage, &[b'x'; 4096]);
    let count = || logs(&disk, ACTIVE).closed().unwrap().len();
    let mut largest = 0;
    for round in 0..12 {
        site.insert(round * 60..(round + 1) * 60);
        largest = largest.max(count());
        // A restart of the process does not reset the limit.
        if round % 3 == 2 {
            site.close();
            site = ActiveInstance::open(&disk, ACTIVE, 10);
        }
    }
    let generation = site.instance.core().log().tail().generation;
    assert!(generation.0 > 30 && largest > 8 && count() < 20, "{generation:?}: {largest}, {} logs", count());
    let found = CopyRegistration::list(&disk, Path::new(ACTIVE), FileStem::E00).unwrap();
    let found = found[0].1.clone().unwrap();
    assert!(found.unreadable_since.is_some() && found.is_cut_off(generation, 10), "{found:?}");
    site.close();
}

/// Sixteen copies are the maximum for an Exchange database.
#[test]
fn sixteen_copies_follow_one_active_side_and_the_slowest_keeps_its_logs() {
    let disk = SimVfs::new();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(0..60);
    site.close();
    let directories: Vec<PathBuf> = (0..16).map(|number| PathBuf::from(format!("/copy{number}"))).collect();
    directories.iter().for_each(|copy| drop(seed_to(&disk, copy, false).unwrap()));
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    let open = |copy: &PathBuf| {
        Replicator::open(&vfs(&disk), copy, Box::new(source(&disk)), replay_options()).unwrap()
    };
    let mut copies: Vec<Replicator> = directories.iter().map(open).collect();
    let needs = copies[15].state().next;
    for round in 0..6 {
        site.insert(60 + round * 90..60 + (round + 1) * 90);
        site.replace(0..40, round as u8);
        // The last copy does not run.
        copies[..15].iter_mut().for_each(|copy| while !copy.step().unwrap().is_idle() {});
        let oldest = *logs(&disk, ACTIVE).closed().unwrap().first_key_value().unwrap().0;
        assert!(oldest.0 <= needs, "{oldest:?}");
    }
    assert!(copies[0].state().next > needs + 10);
    site.roll();
    copies.iter_mut().for_each(|copy| while !copy.step().unwrap().is_idle() {});
    copies.into_iter().for_each(|copy| drop(copy.stop().unwrap()));
    site.close();
    ActiveInstance::open(&disk, ACTIVE, 1000).close();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.roll();
    site.close();
    let active = pages(&disk, "/active/data.edb");
    for directory in &directories {
        let mut copy = open(directory);
        while !copy.step().unwrap().is_idle() {}
        copy.stop().unwrap();
        assert!(
            pages(&disk, &format!("{}/data.edb", directory.display())) == active,
            "{}",
            directory.display()
        );
    }
}

/// Returns the status of the copy according to its directory, and according to its registration.
fn both_statuses(disk: &SimVfs) -> (CopyStatus, RegisteredCopy) {
    let files = vfs(disk);
    let own = CopyStatus::examine(&files, &state(disk), None, files.clock().unix_ms());
    let mut copies = RegisteredCopy::list(&files, Path::new(ACTIVE)).unwrap();
    assert_eq!(copies.len(), 1);
    (own, copies.remove(0))
}

#[test]
fn a_copy_that_was_never_followed_has_the_same_fitness_on_both_sides() {
    let disk = seeded(20);
    for (seconds, expected) in [(0, true), (120, false)] {
        disk.clock().sleep(Duration::from_secs(seconds));
        let state = state(&disk);
        let (own, registered) = both_statuses(&disk);
        assert_eq!((own.is_fit(&state, None), registered.is_fit(None)), (expected, expected));
        let health = |status: &CopyStatus| status.health(&state);
        assert_eq!(health(&own), health(&registered.status));
        assert_eq!(health(&own) == "no_contact", !expected);
        // The registration alone says the same.
        let id = registered.registration.id.clone();
        let moved = Path::new("/moved.json");
        disk.rename(&Path::new(COPY).join("copy.json"), moved).unwrap();
        let alone = RegisteredCopy::list(&vfs(&disk), Path::new(ACTIVE)).unwrap().remove(0);
        assert!(alone.state.is_none() && alone.registration.id == id);
        assert_eq!(alone.is_fit(None), expected);
        disk.rename(moved, &Path::new(COPY).join("copy.json")).unwrap();
    }
}

#[test]
fn a_log_with_the_last_possible_generation_does_not_overflow_the_lag() {
    let disk = seeded(20);
    let log = logs(&disk, ACTIVE).closed().unwrap().pop_last().unwrap().1;
    let name = Path::new(ACTIVE).join("E00FFFFFFFF.log");
    disk.put(&name, &disk.contents(&log).unwrap());
    let (own, registered) = both_statuses(&disk);
    let expected = u32::MAX - state(&disk).next;
    assert_eq!((own.copy_queue, registered.status.copy_queue), (expected, expected));
    // The registration needs a generation after all others.
    let mut registration = registered.registration;
    registration.needs = Generation(u32::MAX);
    registration.contact_unix_ms = i64::MIN;
    let status = CopyStatus::from_registration(&registration, &logs(&disk, ACTIVE), i64::MAX);
    assert_eq!((status.copy_queue, status.is_in_contact), (0, false));
}
