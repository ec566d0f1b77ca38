//! Divergence and incremental reseed.

use std::path::Path;

use ese_format::header::DatabaseState;
use ese_format::{Generation, log::header::LogHeader};
use jetcell_copies::{
    CopyError, CopyPhase, CopyState, DirectorySource, FullReseedReason, HistoryRelation, LogHistory,
    LossLimit, Replicator, Reseed, ReseedPlan, Result, activate, seed_stopped,
};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, KEEP, ReceivedEvents, catch_up, logs, pages, replay_options, seed_options,
    seeded, source, vfs,
};

/// Returns two sides with diverged histories. The copy was activated without the last logs of the active side, and
/// both sides have written more. The old active side was stopped or has crashed.
fn diverged(crashed: bool) -> SimVfs {
    let disk = seeded(50);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(50..200);
    catch_up(&disk).unwrap();
    site.insert(200..400);
    let disk = if crashed {
        disk.process_kill()
    } else {
        site.close();
        disk
    };
    // The old active side is unreachable during the activation.
    let away: Vec<_> = disk.list(Path::new(ACTIVE)).unwrap();
    let kept: Vec<_> = away.iter().map(|path| disk.contents(path).unwrap()).collect();
    away.iter().for_each(|path| disk.remove(path).unwrap());
    activate(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), LossLimit::Any, &replay_options())
        .unwrap();
    away.iter().zip(&kept).for_each(|(path, bytes)| disk.put(path, bytes));
    let new = ActiveInstance::open(&disk, COPY, KEEP);
    new.insert(1000..1150);
    new.close();
    disk
}

fn history(disk: &SimVfs, directory: &str) -> LogHistory {
    LogHistory::from_files(&vfs(disk), &disk.list(Path::new(directory)).unwrap()).unwrap()
}

fn plan(disk: &SimVfs) -> Result<Reseed> {
    Reseed::plan(&vfs(disk), &disk.list(Path::new(COPY)).unwrap(), Path::new(ACTIVE))
}

fn reseed(disk: &SimVfs) -> Result<ReseedPlan> {
    let reseed = plan(disk)?;
    reseed.run(&mut |_| ())?;
    Ok(reseed.current_plan().clone())
}

/// Verifies that the reseeded side follows and that its pages become equal to those of the new active side.
fn follows(disk: &SimVfs) {
    let site = ActiveInstance::open(disk, COPY, KEEP);
    site.insert(3000..3060);
    site.close();
    let site = ActiveInstance::open(disk, COPY, KEEP);
    site.roll();
    site.close();
    let new = DirectorySource::new(logs(disk, COPY));
    let mut old = Replicator::open(&vfs(disk), Path::new(ACTIVE), Box::new(new), replay_options()).unwrap();
    while !old.step().unwrap().is_idle() {}
    let state = old.stop().unwrap();
    assert!(state.copy_queue() == 0 && state.replay_queue() == 0, "{state:?}");
    assert!(pages(disk, "/active/data.edb") == pages(disk, "/copy/data.edb"));
}

#[test]
fn a_diverged_side_is_reseeded_using_pages_from_the_logs() {
    for crashed in [false, true] {
        let disk = diverged(crashed);
        let (old, new) = (history(&disk, ACTIVE), history(&disk, COPY));
        assert!(matches!(old.compare(&new).unwrap(), HistoryRelation::OtherContent(_)), "{crashed}");
        let before = disk.contents(Path::new("/active/data.edb"));
        let planned = plan(&disk).unwrap().current_plan().clone();
        assert!(disk.contents(Path::new("/active/data.edb")) == before, "a plan changes nothing");
        assert!(planned.pages > 20 && planned.bytes == planned.pages * 4096, "{planned:?}");
        assert!(planned.discarded_commits >= 100, "{planned:?}");
        let mut reseed = plan(&disk).unwrap();
        let heard = Arc::new(ReceivedEvents::default());
        reseed.set_event_sink(heard.clone());
        reseed.run(&mut |_| ()).unwrap();
        assert_eq!(*reseed.current_plan(), planned);
        drop(reseed);
        assert_eq!(heard.take_copy_events(), [("copy_patched", Some(334))]);
        // The diverged logs are kept.
        let kept = disk.list(Path::new("/active/diverged")).unwrap();
        assert!(kept.len() >= 2, "{kept:?}");
        follows(&disk);
    }
}

/// The other side truncates its logs. It must not remove the logs that the reseeded side needs, even if that side
/// does not follow it yet.
#[test]
fn a_reseed_keeps_needed_logs_on_the_other_side() {
    let disk = diverged(false);
    reseed(&disk).unwrap();
    let next = CopyState::read(&disk, Path::new(ACTIVE)).unwrap().unwrap().next;
    let other = ActiveInstance::open(&disk, COPY, 1000);
    other.insert(5000..5400);
    let oldest = *logs(&disk, COPY).closed().unwrap().keys().next().unwrap();
    assert!(oldest.0 <= next, "log {oldest:?} is the oldest one, {next} is needed");
    other.insert(5400..5450);
    other.close();
    follows(&disk);
}

/// Without a registration, the other side would not keep the logs that this side needs.
#[test]
fn a_refused_registration_leaves_the_side_unchanged() {
    let disk = diverged(false);
    let content = |disk: &SimVfs| -> Vec<_> {
        let mut files = disk.list(Path::new(ACTIVE)).unwrap();
        files.sort();
        files.into_iter().map(|path| (disk.contents(&path), path)).collect()
    };
    let before = content(&disk);
    let faulty = Arc::new(FaultVfs::new(vfs(&disk)));
    let files: Arc<dyn Vfs> = faulty.clone();
    let reseed = Reseed::plan(&files, &disk.list(Path::new(COPY)).unwrap(), Path::new(ACTIVE)).unwrap();
    faulty.inject(InjectedFault::new(FaultTarget::Create, FaultEffect::IoError).on_path("/copy/E00-"));
    let error = reseed.run(&mut |_| ()).unwrap_err();
    assert!(matches!(error, CopyError::NotRegistered { .. }), "{error}");
    assert!(content(&disk) == before, "{:?}", disk.list(Path::new(ACTIVE)));
}

/// After a power failure at any operation, the same call completes the reseed.
#[test]
fn an_interrupted_reseed_resumes() {
    let fresh = diverged(true);
    let whole = {
        let disk = fresh.clone_disk();
        let before = disk.operations();
        reseed(&disk).unwrap();
        disk.operations() - before
    };
    for cut in (1..=whole).step_by(7) {
        let disk = fresh.clone_disk();
        disk.cut_power_after(disk.operations() + cut);
        let _ = reseed(&disk);
        let disk = disk.crash(cut, CrashOptions::default());
        let state = CopyState::read(&disk, Path::new(ACTIVE)).unwrap();
        if state.is_none_or(|state| state.phase != CopyPhase::Following) {
            // The other side writes more rows between the two calls.
            if cut % 2 == 0 {
                let site = ActiveInstance::open(&disk, COPY, KEEP);
                site.insert(2000 + cut as i32..2040 + cut as i32);
                site.close();
            }
            reseed(&disk).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        }
        follows(&disk);
    }
    assert!(whole > 60, "{whole} operations");
}

/// The other side may be running. Its pages in memory are newer than its file.
#[test]
fn a_running_side_is_a_source_of_pages() {
    let disk = diverged(false);
    let site = ActiveInstance::open(&disk, COPY, KEEP);
    site.insert(1200..1400);
    let done = reseed(&disk).unwrap();
    assert!(done.pages > 20);
    site.insert(1400..1450);
    site.close();
    follows(&disk);
}

#[test]
fn the_relation_between_two_sides_is_detected() {
    let disk = seeded(50);
    let relation = |disk: &SimVfs| history(disk, COPY).compare(&history(disk, ACTIVE)).unwrap();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(50..200);
    site.close();
    catch_up(&disk).unwrap();
    assert!(matches!(relation(&disk), HistoryRelation::Behind(1)), "{:?}", relation(&disk));
    assert!(matches!(
        history(&disk, ACTIVE).compare(&history(&disk, COPY)).unwrap(),
        HistoryRelation::Ahead(1)
    ));
    // A shorter log with the same first segments is not a divergence.
    let part = disk.clone_disk();
    let state = CopyState::read(&part, Path::new(COPY)).unwrap().unwrap();
    let current = part.contents(Path::new("/active/E00.log")).unwrap();
    let mut cut = current.clone();
    assert_eq!(LogHeader::decode(&cut[..4096]).unwrap().generation, Generation(state.next));
    cut[2 * 4096..].fill(0);
    part.put(Path::new("/copy/E00.log"), &cut);
    assert!(
        matches!(relation(&part), HistoryRelation::Behind(0) | HistoryRelation::Equal),
        "{:?}",
        relation(&part)
    );
    let diverged = diverged(false);
    assert!(relation(&diverged).is_divergence());
    // One side ends, and the first log of the other side does not continue it.
    let HistoryRelation::OtherContent(first) = relation(&diverged) else {
        panic!("{:?}", relation(&diverged))
    };
    for path in diverged.list(Path::new(COPY)).unwrap() {
        let generation = logs(&diverged, COPY).names.generation_of(&path);
        if generation.is_some_and(|generation| generation <= first) {
            diverged.remove(&path).unwrap();
        }
    }
    for path in diverged.list(Path::new(ACTIVE)).unwrap() {
        let generation = logs(&diverged, ACTIVE).names.generation_of(&path);
        if generation.is_some_and(|generation| generation > first) || path.ends_with("E00.log") {
            diverged.remove(&path).unwrap();
        }
    }
    let ended = history(&diverged, ACTIVE).compare(&history(&diverged, COPY)).unwrap();
    assert_eq!(ended, HistoryRelation::ForeignPast(first.next()));
}

#[test]
fn missing_logs_require_a_full_reseed() {
    let disk = diverged(true);
    let HistoryRelation::OtherContent(first) = history(&disk, ACTIVE).compare(&history(&disk, COPY)).unwrap()
    else {
        panic!("no divergence")
    };
    let before = disk.contents(Path::new("/active/data.edb"));
    disk.corrupt(&logs(&disk, ACTIVE).archived(first), 9000, &[7; 300]).unwrap();
    let error = reseed(&disk).unwrap_err();
    assert!(matches!(error, CopyError::OnlyFullReseed(FullReseedReason::Log(_))), "{error}");
    assert!(error.advice().unwrap().contains("omit --incremental"), "{error}");
    assert!(disk.contents(Path::new("/active/data.edb")) == before);
    let bytes = before.unwrap();
    let header = ese_format::header::DatabaseHeader::read_from_start(&bytes[..8192]).unwrap().0;
    assert_eq!(header.state, DatabaseState::DirtyShutdown);
}

#[test]
fn a_full_reseed_replaces_a_side_that_has_diverged() {
    let disk = diverged(false);
    let files = disk.list(Path::new(COPY)).unwrap();
    let new = DirectorySource::new(logs(&disk, COPY));
    let again = |options| seed_stopped(&vfs(&disk), &files, Path::new(ACTIVE), &new, &options);
    let refused = again(seed_options(false)).unwrap_err().to_string();
    assert!(refused.contains("other files"), "{refused}");
    again(seed_options(true)).unwrap();
    assert!(disk.list(Path::new("/active/diverged")).unwrap().len() > 2);
    follows(&disk);
}
