//! Seeding from files and from a running instance, interrupted at any operation.

use std::path::Path;

use jetcell_copies::{COPY_FILE, CopyPhase, CopyState, SeedOptions, seed_running, seed_stopped};
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};

use super::active_instance::{
    ACTIVE, ActiveInstance, COPY, catch_up, follow, pages, seed, seed_options, seeded, source, vfs,
};

fn state(disk: &SimVfs) -> Option<CopyState> {
    CopyState::read(disk, Path::new(COPY)).unwrap()
}

#[test]
fn a_seeded_copy_follows_and_matches_the_active_side_pages() {
    let disk = seeded(50);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(50..400);
    site.close();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.roll();
    site.close();
    let state = catch_up(&disk).unwrap();
    assert!(state.next > 6 && state.replay_queue() == 0 && state.copy_queue() == 0, "{state:?}");
    assert!(pages(&disk, "/active/data.edb") == pages(&disk, "/copy/data.edb"));
}

#[test]
fn a_running_instance_seeds_a_copy() {
    let disk = SimVfs::new();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.insert(0..150);
    let seeded =
        seed_running(&vfs(&disk), &site.instance, Path::new(COPY), &source(&disk), &seed_options(false))
            .unwrap();
    assert!(seeded.state.phase == CopyPhase::Following && seeded.copied_bytes > 256 * 4096);
    site.insert(150..300);
    catch_up(&disk).unwrap();
    site.close();
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    site.roll();
    site.close();
    catch_up(&disk).unwrap();
    assert!(pages(&disk, "/active/data.edb") == pages(&disk, "/copy/data.edb"));
}

/// After a power failure at any operation, either the same call completes the seed or the copy is already complete.
#[test]
fn an_interrupted_seed_resumes_with_the_same_call() {
    let fresh = SimVfs::new();
    let site = ActiveInstance::open(&fresh, ACTIVE, 1000);
    site.insert(0..100);
    site.close();
    let whole = {
        let disk = fresh.clone_disk();
        let before = disk.operations();
        seed(&disk, false).unwrap();
        disk.operations() - before
    };
    for cut in 1..=whole {
        let disk = fresh.clone_disk();
        disk.cut_power_after(disk.operations() + cut);
        let _ = seed(&disk, false);
        let disk = disk.crash(cut, CrashOptions::default());
        match state(&disk).map(|state| state.phase) {
            Some(CopyPhase::Following) => {}
            _ => drop(seed(&disk, false).unwrap_or_else(|error| panic!("cut {cut}: {error}"))),
        }
        let site = ActiveInstance::open(&disk, ACTIVE, 1000);
        site.insert(100..140);
        site.close();
        let site = ActiveInstance::open(&disk, ACTIVE, 1000);
        site.roll();
        site.close();
        catch_up(&disk).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        assert!(pages(&disk, "/active/data.edb") == pages(&disk, "/copy/data.edb"), "cut {cut}");
    }
    assert!(whole > 20, "{whole} operations");
}

#[test]
fn a_seed_is_rejected_for_unsafe_sources_and_targets() {
    let disk = seeded(10);
    let refused = |result: jetcell_copies::Result<jetcell_copies::SeedResult>, part: &str| {
        let error = result.err().unwrap().full_text();
        assert!(error.contains(part), "{error}");
    };
    refused(seed(&disk, false), "already contains a copy; use jetcell reseed to replace it");
    let files = disk.list(Path::new(ACTIVE)).unwrap();
    let to = |directory: &str| {
        seed_stopped(&vfs(&disk), &files, Path::new(directory), &source(&disk), &SeedOptions::default())
    };
    refused(to(ACTIVE), "directory of its own source; specify a different directory");
    disk.put(Path::new("/other/letter.txt"), b"dear");
    refused(to("/other"), "letter.txt; specify an empty or new directory");
    assert_eq!(disk.list(Path::new("/other")).unwrap().len(), 1);
    let site = ActiveInstance::open(&disk, ACTIVE, 1000);
    refused(to("/third"), "in use");
    site.close();
    // If the disk is full, the active side is unchanged and the copy can be seeded later.
    disk.set_capacity(disk.used() + (64 << 10));
    refused(to("/third"), "are free; free some space, or specify a different directory");
    disk.set_capacity(u64::MAX);
    to("/third").unwrap();
    let again = seed(&disk, true).unwrap();
    assert_eq!(again.state.phase, CopyPhase::Following);
    assert!(disk.exists(&Path::new(COPY).join(COPY_FILE)).unwrap());
    drop(follow(&disk).unwrap());
}
