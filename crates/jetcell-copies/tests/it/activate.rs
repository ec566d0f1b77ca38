//! Activation without loss, with loss, and interrupted at any operation. The old active side becomes a copy.

use std::collections::BTreeSet;
use std::path::Path;

use ese_engine::Instance;
use ese_engine::{BackgroundThreads, InstanceOptions};
use jetcell_copies::{
    ActivationResult, COPY_FILE, CopyPhase, CopyState, DirectorySource, LossLimit, LossPolicy, ReplayOptions,
    Replicator, Result, UnfitReason, activate,
};
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, catch_up, follow, logs, pages, replay_options, seeded, source, vfs,
};

fn activated(disk: &SimVfs, limit: LossLimit) -> Result<ActivationResult> {
    activate(&vfs(disk), Path::new(COPY), Box::new(source(disk)), limit, &replay_options())
}

/// Creates a copy that lags and an active side that is running.
fn behind(rows: i32) -> (SimVfs, ActiveInstance) {
    let disk = seeded(20);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(20..rows);
    catch_up(&disk).unwrap();
    site.insert(rows..rows + 100);
    (disk, site)
}

fn keys(disk: &SimVfs, directory: &str) -> BTreeSet<i32> {
    let site = ActiveInstance::open(disk, directory, 1000);
    let keys = site.keys();
    site.close();
    keys
}

/// Returns true if an instance can be opened in the directory.
fn opens(disk: &SimVfs, directory: &str) -> bool {
    let mut options = InstanceOptions::with_vfs(vfs(disk), directory.into());
    options.background = BackgroundThreads::None;
    options.page_size = super::active_instance::SIZE;
    Instance::open(options).is_ok_and(|instance| instance.shutdown().is_ok())
}

/// Verifies that the old active side follows the new one and that its pages become equal.
fn old_follows_new(disk: &SimVfs) {
    let site = ActiveInstance::open(disk, COPY, 1000);
    site.insert(10_000..10_100);
    site.close();
    let site = ActiveInstance::open(disk, COPY, 1000);
    site.roll();
    site.close();
    let new = DirectorySource::new(logs(disk, COPY));
    let mut old = Replicator::open(&vfs(disk), Path::new(ACTIVE), Box::new(new), replay_options()).unwrap();
    while !old.step().unwrap().is_idle() {}
    old.stop().unwrap();
    assert!(pages(disk, "/active/data.edb") == pages(disk, "/copy/data.edb"));
}

#[test]
fn a_switchover_loses_nothing_and_the_old_active_follows() {
    for crashed in [false, true] {
        let (disk, site) = behind(200);
        let disk = if crashed {
            disk.process_kill()
        } else {
            site.close();
            disk
        };
        let result = activated(&disk, LossLimit::Nothing).unwrap();
        assert!(result.lost.is_none() && result.stepped_down, "{result:?}");
        assert!(!opens(&disk, ACTIVE), "there are two active sides");
        assert!(!disk.exists(&Path::new(COPY).join(COPY_FILE)).unwrap());
        assert_eq!(keys(&disk, COPY), (0..300).collect());
        old_follows_new(&disk);
    }
}

#[test]
fn a_running_active_side_keeps_the_active_role() {
    let (disk, site) = behind(100);
    for limit in [LossLimit::Nothing, LossLimit::Any] {
        let error = activated(&disk, limit).unwrap_err().to_string();
        assert!(error.contains("running"), "{error}");
    }
    site.close();
    catch_up(&disk).unwrap();
    assert!(opens(&disk, ACTIVE) && !opens(&disk, COPY));
}

#[test]
fn a_failover_reports_losses_and_stays_within_the_allowed_loss() {
    let (disk, site) = behind(200);
    // The step updates the known state of the active side. The logs written afterwards are not copied.
    let mut copy = follow(&disk).unwrap();
    copy.step().unwrap();
    copy.stop().unwrap();
    site.insert(300..500);
    let closed = logs(&disk, ACTIVE).closed().unwrap();
    let (newest, _) = closed.last_key_value().unwrap();
    let next = CopyState::read(&disk, Path::new(COPY)).unwrap().unwrap().next;
    let lost = newest.0 + 1 - next;
    assert!(lost > 2, "{lost}");
    let disk = disk.process_kill();
    disk.corrupt(&closed[&ese_format::Generation(next)], 9000, &[7; 300]).unwrap();
    let error = activated(&disk, LossLimit::Nothing).unwrap_err().to_string();
    assert!(error.contains("damaged") || error.contains("missing"), "{error}");
    let error = activated(&disk, LossLimit::Generations(lost - 1)).unwrap_err();
    assert!(error.advice().unwrap().contains(&format!("--lossy {lost}")), "{error}");
    assert!(opens(&disk.clone_disk(), ACTIVE), "nothing was changed");
    let result = activated(&disk, LossLimit::Generations(lost)).unwrap();
    let said = result.lost.unwrap();
    assert_eq!((said.first, said.last_known), (next, newest.0 + 1));
    assert!(said.commits.is_none() && said.kept_until_unix_ms.is_some(), "{said:?}");
    let found = keys(&disk, COPY);
    assert!(
        found.len() > 200 && found.len() < 500 && found == (0..found.len() as i32).collect(),
        "{}",
        found.len()
    );
    // The old active side has diverged.
    let old = CopyState::read(&disk, Path::new(ACTIVE)).unwrap().unwrap();
    assert!(matches!(old.phase, CopyPhase::Unfit { reason: UnfitReason::Diverged, .. }), "{old:?}");
    assert!(!opens(&disk, ACTIVE));
}

#[test]
fn a_damaged_current_log_is_lost_only_if_allowed() {
    let (disk, site) = behind(200);
    site.roll();
    // Each row is written separately.
    (300..306).for_each(|key| site.insert(key..key + 1));
    catch_up(&disk).unwrap();
    let disk = disk.process_kill();
    drop(site);
    let current = Path::new(ACTIVE).join("E00.log");
    // Segments after the damaged one show that it had been written completely.
    disk.corrupt(&current, 2 * 4096 + 500, &[7; 300]).unwrap();
    assert!(ese_engine::VerifiedLog::read(&vfs(&disk), &current, false).is_err());
    let error = activated(&disk, LossLimit::Nothing).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
    let result = activated(&disk, LossLimit::Generations(0)).unwrap();
    assert!(
        result.stepped_down && result.lost.is_some_and(|lost| lost.first == lost.last_known),
        "{result:?}"
    );
    let found = keys(&disk, COPY);
    assert!(found.len() >= 300 && found == (0..found.len() as i32).collect(), "{}", found.len());
    let old = CopyState::read(&disk, Path::new(ACTIVE)).unwrap().unwrap();
    assert!(matches!(old.phase, CopyPhase::Unfit { reason: UnfitReason::Diverged, .. }), "{old:?}");
}

#[test]
fn a_copy_without_a_reachable_active_is_activated_with_loss() {
    let (disk, site) = behind(200);
    site.close();
    for path in disk.list(Path::new(ACTIVE)).unwrap() {
        disk.remove(&path).unwrap();
    }
    let error = activated(&disk, LossLimit::Nothing).unwrap_err();
    assert!(error.advice().unwrap().contains("--lossy"), "{error}");
    assert!(error.to_string().contains("is unreachable"), "{error}");
    let result = activated(&disk, LossLimit::Generations(0)).unwrap();
    assert!(result.lost.is_some_and(|lost| lost.commits.is_none()) && !result.stepped_down, "{result:?}");
    assert!(keys(&disk, COPY).len() >= 150);
}

/// After a power failure at any operation, either the old active side can be opened or the copy can be activated.
/// There are never two active sides, and nothing is lost.
#[test]
fn an_interrupted_switchover_is_retried() {
    let (disk, site) = behind(60);
    site.close();
    let whole = {
        let disk = disk.clone_disk();
        let before = disk.operations();
        activated(&disk, LossLimit::Nothing).unwrap();
        disk.operations() - before
    };
    for cut in (1..=whole).step_by(3) {
        let disk = disk.clone_disk();
        disk.cut_power_after(disk.operations() + cut);
        let _ = activated(&disk, LossLimit::Nothing);
        let disk = disk.crash(cut, CrashOptions::default());
        let is_copy = disk.exists(&Path::new(COPY).join(COPY_FILE)).unwrap();
        if is_copy {
            if opens(&disk.clone_disk(), ACTIVE) && cut % 2 == 0 {
                // The old active side writes more rows first.
                let site = ActiveInstance::open(&disk, ACTIVE, 1000);
                site.insert(5000..5010);
                site.close();
            }
            activated(&disk, LossLimit::Nothing).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        }
        assert!(!opens(&disk, ACTIVE), "cut {cut}: there are two active sides");
        let found = keys(&disk, COPY);
        assert!((0..160).all(|key| found.contains(&key)), "cut {cut}: rows are lost");
        old_follows_new(&disk);
    }
    assert!(whole > 50, "{whole} operations");
}

/// After a power failure at any operation of a failover, the same call completes it. This also holds if the old
/// active side becomes reachable again.
#[test]
fn an_interrupted_failover_is_retried() {
    for stream_log in [false, true] {
        let (disk, site) = behind(60);
        let options = ReplayOptions { stream_log, ..replay_options() };
        let mut copy =
            Replicator::open(&vfs(&disk), Path::new(COPY), Box::new(source(&disk)), options).unwrap();
        while !copy.step().unwrap().is_idle() {}
        copy.stop().unwrap();
        site.insert(160..162);
        drop(site);
        let disk = disk.process_kill();
        let away: Vec<_> = disk.list(Path::new(ACTIVE)).unwrap();
        let kept: Vec<_> = away.iter().map(|path| disk.contents(path).unwrap()).collect();
        away.iter().for_each(|path| disk.remove(path).unwrap());
        disk.sync_directory(Path::new(ACTIVE)).unwrap();
        let whole = {
            let disk = disk.clone_disk();
            let before = disk.operations();
            activated(&disk, LossLimit::Any).unwrap();
            disk.operations() - before
        };
        for (cut, is_back) in (1..=whole).flat_map(|cut| [(cut, false), (cut, true)]) {
            let disk = disk.clone_disk();
            disk.cut_power_after(disk.operations() + cut);
            let _ = activated(&disk, LossLimit::Any);
            let disk = disk.crash(cut, CrashOptions::default());
            if is_back {
                away.iter().zip(&kept).for_each(|(path, bytes)| disk.put(path, bytes));
            }
            if disk.exists(&Path::new(COPY).join(COPY_FILE)).unwrap() {
                activated(&disk, LossLimit::Any)
                    .unwrap_or_else(|error| panic!("streamed {stream_log}, cut {cut} of {whole}: {error}"));
            }
            let found = keys(&disk, COPY);
            assert!((0..100).all(|key| found.contains(&key)), "cut {cut}: rows are lost");
        }
        assert!(whole > 30, "{whole} operations");
    }
}

#[test]
fn a_closed_log_not_renamed_before_a_crash_is_kept() {
    let (disk, site) = behind(200);
    let disk = {
        drop(site);
        disk.process_kill()
    };
    // The crash happened after the newest log was started and before both logs were renamed.
    let names = logs(&disk, ACTIVE).names;
    let newest = jetcell_copies::LogSource::available_logs(&source(&disk)).unwrap().closed;
    disk.rename(&names.current(), &Path::new(ACTIVE).join("E00tmp.log")).unwrap();
    disk.rename(&names.archived(newest), &names.current()).unwrap();
    let result = activated(&disk, LossLimit::Nothing).unwrap();
    assert!(result.lost.is_none() && result.stepped_down, "{result:?}");
    assert!(!opens(&disk, ACTIVE), "there are two active sides");
    assert_eq!(keys(&disk, COPY), (0..300).collect());
    old_follows_new(&disk);
}

#[test]
fn loss_policies_have_the_documented_limits() {
    let limits = LossPolicy::ALL.map(LossPolicy::limit);
    assert_eq!(limits, [LossLimit::Nothing, LossLimit::Generations(6), LossLimit::Generations(12)]);
}
