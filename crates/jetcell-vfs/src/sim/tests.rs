//! Tests of the simulated disk's guarantees, with many seeds.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use jetcell_sync::Arc;

use super::*;
use crate::{IoBuffer, IoReason, Transfer, TransferKind};

const WHY: IoReason = IoReason::Other;

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Creates a disk with one durable 16 KiB file in which all bytes are 1.
fn disk_with_file() -> (SimVfs, Arc<dyn File>) {
    let disk = SimVfs::new();
    let file = disk.open(path("/d/a"), OpenMode::CreateNew).unwrap();
    file.grow(16384).unwrap();
    file.write_at(0, &[1; 16384], WHY).unwrap();
    file.sync(WHY).unwrap();
    disk.sync_directory(path("/d")).unwrap();
    (disk, file)
}

fn after(disk: &SimVfs, seed: u64) -> SimVfs {
    disk.crash(seed, CrashOptions::default())
}

#[test]
fn synced_data_survives_and_unsynced_data_may_not() {
    let (disk, file) = disk_with_file();
    file.write_at(0, &[2; 4096], WHY).unwrap();
    file.write_at(4096, &[2; 4096], WHY).unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        let bytes = after(&disk, seed).contents(path("/d/a")).unwrap();
        assert!(bytes.len() == 16384 && bytes[8192..].iter().all(|byte| *byte == 1));
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(
            bytes.chunks(512).zip(&sectors).all(|(sector, first)| sector.iter().all(|byte| byte == first))
        );
        let fate = |sectors: &[u8]| match sectors.iter().filter(|byte| **byte == 2).count() {
            0 => "lost",
            8 => "kept",
            _ => "torn",
        };
        outcomes.insert((fate(&sectors[..8]), fate(&sectors[8..16])));
    }
    assert_eq!(outcomes.len(), 9, "every fate of one write meets every fate of the other: {outcomes:?}");
    file.sync(WHY).unwrap();
    assert!((0..50).all(|seed| after(&disk, seed).contents(path("/d/a")).unwrap()[..8192] == [2; 8192]));
}

#[test]
fn the_same_seed_gives_the_same_disk_and_copies_are_independent() {
    let (disk, file) = disk_with_file();
    (0..4).for_each(|page| file.write_at(page * 4096, &[9; 4096], WHY).unwrap());
    for seed in 0..20 {
        let (one, other) = (after(&disk, seed), after(&disk, seed));
        assert_eq!(one.contents(path("/d/a")), other.contents(path("/d/a")));
        one.put(path("/d/a"), b"changed");
        assert_ne!(one.contents(path("/d/a")), other.contents(path("/d/a")));
    }
    assert_eq!(disk.contents(path("/d/a")).unwrap(), [9; 16384], "the disk itself has not crashed");
}

#[test]
fn an_unsynced_length_may_be_lost_with_writes_past_it() {
    let (disk, file) = disk_with_file();
    file.grow(32768).unwrap();
    file.write_at(28672, &[7; 4096], WHY).unwrap();
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let bytes = after(&disk, seed).contents(path("/d/a")).unwrap();
        lengths.insert(bytes.len());
        assert!(bytes[16384..].iter().all(|byte| matches!(byte, 0 | 7)));
    }
    assert_eq!(lengths, BTreeSet::from([16384, 32768]));
    file.truncate(4096).unwrap();
    let cut = (0..100).map(|seed| after(&disk, seed).contents(path("/d/a")).unwrap().len());
    assert_eq!(cut.collect::<BTreeSet<_>>(), BTreeSet::from([4096, 16384, 32768]));
    file.sync(WHY).unwrap();
    assert!((0..50).all(|seed| after(&disk, seed).contents(path("/d/a")).unwrap() == [1; 4096]));
}

#[test]
fn unsynced_directory_changes_survive_as_an_ordered_prefix() {
    let (disk, file) = disk_with_file();
    disk.open(path("/d/b"), OpenMode::CreateNew).unwrap();
    disk.rename(path("/d/a"), path("/d/c")).unwrap();
    disk.remove(path("/d/b")).unwrap();
    let names = |disk: &SimVfs| {
        let listed = disk.list(path("/d")).unwrap();
        listed.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect::<String>()
    };
    let seen: BTreeSet<String> = (0..200).map(|seed| names(&after(&disk, seed))).collect();
    assert_eq!(seen, ["a", "ab", "bc", "c"].map(String::from).into());
    assert_eq!(file.len().unwrap(), 16384, "the handle follows the file and not the name");
    disk.sync_directory(path("/d")).unwrap();
    assert!((0..50).all(|seed| names(&after(&disk, seed)) == "c"));
}

#[test]
fn a_cross_directory_rename_is_atomic() {
    let (disk, _file) = disk_with_file();
    disk.rename(path("/d/a"), path("/e/a")).unwrap();
    disk.open(path("/e/b"), OpenMode::CreateNew).unwrap();
    let state = |disk: &SimVfs| ["/d/a", "/e/a", "/e/b"].map(|name| disk.exists(path(name)).unwrap());
    let seen: BTreeSet<[bool; 3]> = (0..200).map(|seed| state(&after(&disk, seed))).collect();
    let expected = [[true, false, false], [false, true, false], [false, true, true]];
    assert_eq!(seen, BTreeSet::from(expected));
    disk.sync_directory(path("/d")).unwrap();
    assert!((0..50).all(|seed| state(&after(&disk, seed))[..2] == [false, true]));
}

#[test]
fn a_power_cut_at_any_operation_may_tear_the_operation() {
    for limit in 0..3 {
        let (disk, file) = disk_with_file();
        let start = disk.operations();
        disk.cut_power_after(start + limit);
        let failed =
            (0..4).map(|page| file.write_at(page * 4096, &[2; 4096], WHY)).find_map(Result::err).unwrap();
        assert!(is_power_off(&failed) && disk.operations() == start + limit);
        assert!(is_power_off(&file.read_at(0, &mut [0; 512], WHY).unwrap_err()));
        assert!(is_power_off(&disk.rename(path("/d/a"), path("/d/b")).unwrap_err()));
        let written =
            |bytes: Vec<u8>| bytes.iter().rposition(|byte| *byte == 2).map_or(0, |last| last / 4096 + 1);
        let most = (0..300).map(|seed| written(after(&disk, seed).contents(path("/d/a")).unwrap())).max();
        assert_eq!(most, Some(limit as usize + 1), "done, and the one in flight, but none after it");
        assert!(
            (0..100).all(|seed| after(&disk, seed).exists(path("/d/a")).unwrap()),
            "the rename came after the cut"
        );
        let killed = disk.process_kill();
        assert_eq!(written(killed.contents(path("/d/a")).unwrap()), limit as usize);
        assert!(killed.open(path("/d/a"), OpenMode::Write).unwrap().sync(WHY).is_ok(), "its power is on");
    }
}

#[test]
fn only_a_restart_restores_power() {
    let (disk, file) = disk_with_file();
    disk.rename(path("/d/a"), path("/d/b")).unwrap();
    disk.cut_power_after(disk.operations());
    assert!(is_power_off(&disk.rename(path("/d/b"), path("/d/c")).unwrap_err()));
    disk.cut_power_after(u64::MAX);
    assert!(is_power_off(&file.sync(WHY).unwrap_err()));
    assert!(disk.process_kill().rename(path("/d/b"), path("/d/c")).is_ok());
}

#[test]
fn an_in_flight_batch_survives_a_power_cut_partially() {
    let (disk, file) = disk_with_file();
    disk.cut_power_after(disk.operations() + 1);
    let batch = (0..4).map(|page| {
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.fill(2);
        let done = Box::new(move |result: io::Result<()>, _| assert_eq!(result.is_ok(), page == 0));
        Transfer { kind: TransferKind::Write, offset: page * 4096, buffer, reason: WHY, done }
    });
    file.submit(batch.collect());
    let touched = |seed| {
        let bytes = after(&disk, seed).contents(path("/d/a")).unwrap();
        bytes.chunks(4096).map(|page| page.contains(&2)).collect::<Vec<bool>>()
    };
    let seen: BTreeSet<Vec<bool>> = (0..300).map(touched).collect();
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn writes_before_a_kill_can_be_lost_to_power_cuts() {
    let (disk, file) = disk_with_file();
    file.write_at(0, &[2; 4096], WHY).unwrap();
    let _lock = disk.lock(path("/d/lock")).unwrap();
    let killed = disk.process_kill();
    assert_eq!(killed.contents(path("/d/a")).unwrap()[..4096], [2; 4096]);
    assert!(killed.lock(path("/d/lock")).is_ok(), "the lock died with its process");
    assert!((0..50).any(|seed| after(&killed, seed).contents(path("/d/a")).unwrap()[..4096] == [1; 4096]));
}

#[test]
fn a_full_disk_refuses_growth_and_keeps_the_length() {
    let (disk, file) = disk_with_file();
    disk.set_capacity(20480);
    assert_eq!(disk.free_space(path("/d")).unwrap(), 4096);
    assert_eq!(file.grow(24576).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_at(16384, &[0; 8192], WHY).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!((file.len().unwrap(), disk.used()), (16384, 16384));
    file.grow(20480).unwrap();
    disk.remove(path("/d/a")).unwrap();
    assert_eq!(disk.used(), 20480, "an open file keeps its space");
    drop(file);
    assert_eq!(disk.used(), 0);
}

#[test]
fn injected_damage_is_durable_and_lost_writes_are_acknowledged() {
    let (disk, file) = disk_with_file();
    disk.flip_bit(path("/d/a"), 8 * 100 + 1).unwrap();
    disk.corrupt(path("/d/a"), 200, &[0xAA; 3]).unwrap();
    assert!(disk.flip_bit(path("/d/a"), 8 * 16384).is_err());
    disk.lose_writes("/a", 1);
    file.write_at(4096, &[5; 4096], WHY).unwrap();
    file.write_at(8192, &[5; 4096], WHY).unwrap();
    file.sync(WHY).unwrap();
    let bytes = after(&disk, 1).contents(path("/d/a")).unwrap();
    assert_eq!((bytes[99..102].to_vec(), bytes[200..203].to_vec()), (vec![1, 3, 1], vec![0xAA; 3]));
    assert_eq!((bytes[4096], bytes[8192]), (1, 5));
    disk.fail_at(disk.operations() + 1, ErrorKind::Other);
    assert!(file.sync(WHY).is_err() && file.sync(WHY).is_ok());
}

#[test]
fn open_modes_are_enforced_and_locks_are_exclusive() {
    let (disk, _file) = disk_with_file();
    let open = |name, mode| disk.open(path(name), mode).map_err(|error| error.kind());
    assert_eq!(open("/d/a", OpenMode::CreateNew).err(), Some(ErrorKind::AlreadyExists));
    assert_eq!(open("/d/none", OpenMode::Write).err(), Some(ErrorKind::NotFound));
    let reader = open("/d/a", OpenMode::Read).unwrap();
    assert_eq!(reader.write_at(0, &[0; 512], WHY).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(reader.read_at(16000, &mut [0; 512], WHY).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let lock = disk.lock(path("/d/lock")).unwrap();
    assert_eq!(disk.lock(path("/d/lock")).err().map(|error| error.kind()), Some(ErrorKind::WouldBlock));
    drop(lock);
    assert!(disk.lock(path("/d/lock")).is_ok());
}

#[test]
fn a_torn_rename_leaves_the_file_under_both_names() {
    let (disk, _file) = disk_with_file();
    disk.rename(path("/d/a"), path("/d/b")).unwrap();
    disk.rename(path("/d/b"), path("/d/c")).unwrap();
    let torn = CrashOptions { lose_name: 0.0, tear_rename: 1.0, ..CrashOptions::default() };
    let after = disk.crash(1, torn);
    let file_exists = |name: &str| after.exists(path(name)).unwrap();
    assert!(file_exists("/d/a") && file_exists("/d/b") && !file_exists("/d/c"), "the later rename is lost");
    assert_eq!(after.contents(path("/d/a")), after.contents(path("/d/b")));
}

#[test]
fn a_hard_link_is_durable_after_a_directory_sync() {
    let (disk, file) = disk_with_file();
    disk.link(path("/d/a"), path("/d/b")).unwrap();
    assert_eq!(disk.link(path("/d/a"), path("/d/b")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    file.write_at(0, &[7; 4096], WHY).unwrap();
    file.sync(WHY).unwrap();
    assert_eq!(disk.contents(path("/d/b")).unwrap()[..4096], [7; 4096]);
    let kept =
        |disk: &SimVfs| (0..50).filter(|seed| after(disk, *seed).exists(path("/d/b")).unwrap()).count();
    assert!((1..50).contains(&kept(&disk)), "not synced");
    disk.sync_directory(path("/d")).unwrap();
    assert_eq!(kept(&disk), 50);
    disk.remove(path("/d/a")).unwrap();
    assert_eq!(disk.contents(path("/d/b")).unwrap()[..4096], [7; 4096]);
}
