//! Tests of single operations on a LUN volume on a simulated disk. Random operations with power cuts are in
//! [`super::history_tests`].

use std::path::{Path, PathBuf};

use jetcell_array::{
    Array, ArrayError, AssembleOptions, BLOCK, BlockStore, CreateArrayOptions, MemberPurpose, RaidLevel,
    ZONE_ROWS,
};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, IoReason, OpenMode, SimVfs, Vfs};

use super::{CATALOGUE_AREA_BLOCKS, LunVolume, TornRows, WriteLogOptions};
use crate::test_blocks::{content, member_bytes, write_transfer};

pub const JOURNAL: u32 = 64;
pub const LOG: &str = "/log/write-log";

pub fn members(count: usize) -> Vec<PathBuf> {
    (0..count).map(|member| format!("/m/{member}").into()).collect()
}

/// Creates an array of these members, with an empty LUN volume that is shut down.
pub fn disk(level: RaidLevel, count: usize, zones: u64) -> SimVfs {
    let disk = SimVfs::new();
    for member in members(count) {
        let file = disk.open(&member, OpenMode::CreateNew).unwrap();
        file.grow(member_bytes(JOURNAL, zones * ZONE_ROWS)).unwrap();
        file.sync(IoReason::Other).unwrap();
    }
    disk.sync_directory(Path::new("/m")).unwrap();
    let options = CreateArrayOptions { journal_images: JOURNAL, ..CreateArrayOptions::new(level, 9) };
    Array::create(&disk, &members(count), &options).unwrap();
    LunVolume::create(array(&disk, &members(count)).unwrap(), &log(&disk)).unwrap().close().unwrap();
    disk
}

pub fn array(disk: &SimVfs, members: &[PathBuf]) -> jetcell_array::Result<Array> {
    let options = AssembleOptions { force: true, ..AssembleOptions::default() };
    Array::assemble(Arc::new(disk.clone()), members, options)
}

pub fn log(disk: &SimVfs) -> WriteLogOptions {
    WriteLogOptions { bytes: 1 << 20, ..WriteLogOptions::new(Arc::new(disk.clone()), LOG.into()) }
}

pub fn start(disk: &SimVfs, members: &[PathBuf]) -> jetcell_array::Result<LunVolume> {
    LunVolume::start(array(disk, members)?, &log(disk))
}

pub fn write(volume: &mut LunVolume, lun: &str, first: u64, values: &[u64]) -> jetcell_array::Result<()> {
    let data: Vec<u8> = values.iter().flat_map(|value| content(*value)).collect();
    let mut lun = volume.lun(lun)?;
    // Alternates between borrowed data and buffers that the array may keep.
    if first.is_multiple_of(2) {
        lun.write_blocks(first, &data)
    } else {
        write_transfer(&mut lun, first, &data)
    }
}

/// Returns the values of all LUN blocks.
pub fn values(volume: &mut LunVolume, lun: &str) -> Vec<u64> {
    let mut lun = volume.lun(lun).unwrap();
    let blocks: Vec<u64> = (0..lun.block_count()).collect();
    let mut bytes = vec![1; blocks.len() * BLOCK];
    let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(BLOCK).collect();
    lun.read_blocks(&blocks, &mut buffers).unwrap();
    let value = |block: &[u8]| {
        let value = u64::from_le_bytes(block[..8].try_into().unwrap());
        assert!(block == content(value), "a mixed block");
        value
    };
    bytes.chunks_exact(BLOCK).map(value).collect()
}

#[test]
fn luns_allocate_space_on_write_and_persist_across_restarts() {
    let disk = disk(RaidLevel::Raid6, 5, 12);
    let mut volume = start(&disk, &members(5)).unwrap();
    let free = volume.free_bytes();
    volume.create_lun("a", 1 << 30).unwrap();
    volume.create_lun("b", 300).unwrap();
    assert_eq!(volume.free_bytes(), free, "thin");
    write(&mut volume, "b", 100, &[1, 2, 3]).unwrap();
    write(&mut volume, "a", (1 << 30) - 1, &[4]).unwrap();
    assert!(write(&mut volume, "a", 1 << 30, &[5]).is_err() && write(&mut volume, "c", 0, &[5]).is_err());
    assert_eq!(values(&mut volume, "b")[99..104], [0, 1, 2, 3, 0]);
    volume.consistency_point().unwrap();
    assert_eq!(
        free - volume.free_bytes(),
        (4 + 2 + 4) * BLOCK as u64,
        "data, and nodes at heights of 2 and 4"
    );
    volume.close().unwrap();

    // The write log is not needed after a shutdown.
    disk.remove(LOG.as_ref()).unwrap();
    let mut volume = start(&disk, &members(5)[2..]).unwrap();
    assert_eq!(values(&mut volume, "b")[99..104], [0, 1, 2, 3, 0]);
    let mut last = [0; BLOCK];
    volume.lun("a").unwrap().read_bytes(&mut [(((1 << 30) - 1) * BLOCK as u64, &mut last)]).unwrap();
    assert!(last[..] == content(4));
    let sizes = [("a".to_string(), (1u64 << 30) * BLOCK as u64), ("b".into(), 300 * BLOCK as u64)];
    assert_eq!(volume.lun_sizes(), sizes);
    volume.lun("b").unwrap().zero_bytes(0, 300 * BLOCK as u64).unwrap();
    volume.delete_lun("a").unwrap();
    assert_eq!(volume.free_bytes(), free);
    assert_eq!(values(&mut volume, "b"), [0; 300]);
}

#[test]
fn flushed_writes_survive_through_the_log_without_consistency_point() {
    let disk = disk(RaidLevel::Raid6, 5, 12);
    let mut volume = start(&disk, &members(5)).unwrap();
    volume.create_lun("a", 300).unwrap();
    write(&mut volume, "a", 7, &[1, 2, 3]).unwrap();
    volume.lun("a").unwrap().zero_bytes(8 * BLOCK as u64, BLOCK as u64).unwrap();
    volume.flush().unwrap();
    assert_eq!(volume.counters().consistency_points, 0);
    drop(volume);
    let cut = disk.crash(1, CrashOptions::default());
    let without = cut.clone_disk();
    assert_eq!(values(&mut start(&cut, &members(5)).unwrap(), "a")[6..11], [0, 1, 0, 3, 0]);

    without.remove(LOG.as_ref()).unwrap();
    let refused = start(&without, &members(5)).err().unwrap().to_string();
    assert!(refused.contains("the write log is missing"), "{refused}");
    let forget = WriteLogOptions { discard_damaged: true, ..log(&without) };
    let array = array(&without, &members(5)).unwrap();
    let mut volume = LunVolume::start(array, &forget).unwrap();
    assert_eq!(values(&mut volume, "a"), [0; 300], "the state of the last consistency point");
}

#[test]
fn snapshots_share_space_and_can_be_restored_and_cloned() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    let mut volume = start(&disk, &members(6)).unwrap();
    volume.create_lun("a", 600).unwrap();
    write(&mut volume, "a", 0, &[1; 100]).unwrap();
    volume.consistency_point().unwrap();
    let free = volume.free_bytes();
    volume.create_snapshot("a", "s1", 11).unwrap();
    assert_eq!(volume.free_bytes(), free);
    write(&mut volume, "a", 50, &[2; 10]).unwrap();
    volume.consistency_point().unwrap();
    assert_eq!(free - volume.free_bytes(), (10 + 2) * BLOCK as u64, "the new blocks, and two nodes");
    volume.create_snapshot("a", "s2", 12).unwrap();
    write(&mut volume, "a", 0, &[3; 5]).unwrap();
    volume.clone_snapshot("a", "s1", "c").unwrap();
    write(&mut volume, "c", 99, &[4]).unwrap();
    assert_eq!(values(&mut volume, "c")[98..101], [1, 4, 0]);
    volume.roll_back("a", "s1").unwrap();
    assert_eq!(values(&mut volume, "a")[..101], [vec![1; 100], vec![0]].concat());
    volume.roll_back("a", "s2").unwrap();
    assert_eq!(values(&mut volume, "a")[49..61], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    let luns = volume.luns().unwrap();
    let names: Vec<(&str, u64)> =
        luns[0].snapshots.iter().map(|snapshot| (&snapshot.name[..], snapshot.created)).collect();
    assert_eq!(names, [("s1", 11), ("s2", 12)]);
    for (lun, snapshot, what) in
        [("a", "s1", "already"), ("a", "s 1", "letters"), ("x", "s", "does not have a LUN x")]
    {
        let error = volume.create_snapshot(lun, snapshot, 0).unwrap_err();
        let error = format!("{error}; {}", error.advice().unwrap_or_default());
        assert!(error.contains(what), "{error}");
    }
    assert!(volume.roll_back("a", "s3").is_err() && volume.clone_snapshot("a", "s1", "c").is_err());
    // A clone outlives its snapshot and its LUN.
    volume.delete_snapshot("a", "s1").unwrap();
    write(&mut volume, "a", 0, &[5; 100]).unwrap();
    volume.consistency_point().unwrap();
    volume.delete_lun("a").unwrap();
    assert_eq!(values(&mut volume, "c")[..101], [vec![1; 99], vec![4, 0]].concat());
    volume.delete_lun("c").unwrap();
    assert_eq!(volume.free_bytes(), free + (100 + 2) * BLOCK as u64);
}

#[test]
fn a_full_volume_rejects_new_data_but_accepts_overwrites() {
    let disk = disk(RaidLevel::Raid5, 4, 8);
    let mut volume = start(&disk, &members(4)).unwrap();
    volume.create_lun("a", 10_000).unwrap();
    let mut written = 0;
    let error = loop {
        match write(&mut volume, "a", written, &[written + 1; 20]) {
            Ok(()) => written += 20,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ArrayError::Full), "{error}");
    assert!(written > 8 * 64 * 3 - 512 - 150, "{written}");
    volume.flush().unwrap();
    for first in (0..written).step_by(20) {
        write(&mut volume, "a", first, &[7; 5]).unwrap();
    }
    volume.flush().unwrap();
    volume.create_snapshot("a", "s", 0).unwrap();
    let error = (0..written).find_map(|first| write(&mut volume, "a", first, &[8]).err());
    assert!(matches!(error, Some(ArrayError::Full)), "the snapshot keeps the old blocks");
    let error = error.unwrap().into_io_error();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("the volume is full; delete some snapshots"), "{error}");
    let inner = std::error::Error::source(&error).unwrap();
    assert!(matches!(inner.downcast_ref(), Some(ArrayError::Full)), "{inner:?}");
    volume.delete_snapshot("a", "s").unwrap();
    write(&mut volume, "a", 0, &[9]).unwrap();
    volume.close().unwrap();
    let mut volume = start(&disk, &members(4)).unwrap();
    assert_eq!(values(&mut volume, "a")[0], 9);
    assert!(volume.array().scrub().unwrap().is_clean());
}

#[test]
fn arrays_with_other_content_are_rejected_and_left_unchanged() {
    let disk = disk(RaidLevel::Raid5, 3, 16);
    let options = CreateArrayOptions {
        journal_images: JOURNAL,
        force: true,
        ..CreateArrayOptions::new(RaidLevel::Raid5, 10)
    };
    Array::create(&disk, &members(3), &options).unwrap();
    let mut other = array(&disk, &members(3)).unwrap();
    assert!(!LunVolume::exists_on(&mut other).unwrap());
    other.write(5, &[7; BLOCK]).unwrap();
    other.close().unwrap();
    let refused =
        LunVolume::create(array(&disk, &members(3)).unwrap(), &log(&disk)).err().unwrap().to_string();
    assert!(refused.contains("other data"), "{refused}");
    let refused = start(&disk, &members(3)).err().unwrap().to_string();
    assert!(refused.contains("does not contain LUNs"), "{refused}");
}

#[test]
fn a_new_volume_issues_fewer_commands_than_clients() {
    let disk = disk(RaidLevel::Raid6, 8, 40);
    let mut volume = start(&disk, &members(8)).unwrap();
    volume.create_lun("a", 6000).unwrap();
    let before = volume.array().counters();
    // Random pages of 8 KiB, each of which is written once.
    for page in 0..1500u64 {
        write(&mut volume, "a", (page * 1009 % 3000) * 2, &[page + 1; 2]).unwrap();
        if page % 20 == 0 {
            volume.flush().unwrap();
        }
    }
    volume.consistency_point().unwrap();
    let (counters, after) = (volume.counters(), volume.array().counters());
    let written = after.members.total().since(&before.members.total());
    let commands = written.writes as f64 / counters.host_writes as f64;
    let blocks = written.blocks_written as f64 / counters.host_blocks as f64;
    assert!(commands < 1.0, "{commands}");
    assert!((8.0 / 6.0..1.9).contains(&blocks), "{blocks}");
    assert_eq!(counters.blocks_absorbed, 0);
    assert_eq!(counters.blocks_in_whole_rows, counters.data_blocks + counters.map_blocks);
}

#[test]
fn blocks_overwritten_in_memory_are_never_written_to_the_array() {
    let disk = disk(RaidLevel::Raid6, 8, 40);
    let mut volume = start(&disk, &members(8)).unwrap();
    volume.create_lun("a", 6000).unwrap();
    let before = volume.array().counters();
    for round in 0..40u64 {
        // Ten overlapping locations that are rewritten repeatedly, and one new page.
        write(&mut volume, "a", round % 10, &[round + 1; 2]).unwrap();
        write(&mut volume, "a", 100 + 2 * round, &[7; 2]).unwrap();
        volume.flush().unwrap();
        if round == 19 {
            volume.consistency_point().unwrap();
        }
    }
    volume.lun("a").unwrap().zero_blocks(100..120).unwrap();
    volume.consistency_point().unwrap();
    let (counters, after) = (volume.counters(), volume.array().counters());
    assert_eq!(counters.host_blocks, 160);
    // Each of the two consistency points has 40 writes to the eleven blocks 0 to 10, of which only the last write to
    // each block reaches the array. The zeros replaced no pending data.
    assert_eq!((counters.blocks_absorbed, counters.data_blocks), (58, 102));
    let written = after.members.data_and_parity.since(&before.members.data_and_parity);
    assert!(written.blocks_written * 6 >= counters.data_blocks * 8, "{written:?}");
}

#[test]
fn cleaning_consolidates_scattered_free_blocks_into_full_rows() {
    let disk = disk(RaidLevel::Raid6, 6, 16);
    let mut volume = start(&disk, &members(6)).unwrap();
    volume.create_lun("a", 3000).unwrap();
    for first in (0..2400).step_by(100) {
        write(&mut volume, "a", first, &[first + 1; 100]).unwrap();
    }
    volume.consistency_point().unwrap();
    // Four of five blocks are deallocated again. All rows keep some blocks, because each member has 64 blocks of a
    // zone.
    let mut expected = vec![0; 3000];
    for index in 0..2400 {
        if index % 5 == 0 {
            expected[index as usize] = index / 100 * 100 + 1;
        } else {
            volume.lun("a").unwrap().zero_blocks(index..index + 1).unwrap();
        }
    }
    let mut moved = 0;
    let first = volume.clean_step().unwrap();
    for _ in 0..20 {
        let step = volume.clean_step().unwrap();
        moved += step.moved;
        if step.moved == 0 {
            break;
        }
    }
    let whole = volume.space.whole_row_count();
    assert!(
        moved + first.moved > 100 && whole > first.whole_rows_before + 200,
        "{moved}: {first:?}, {whole}"
    );
    assert_eq!(values(&mut volume, "a"), expected);
    volume.close().unwrap();
    assert_eq!(values(&mut start(&disk, &members(6)).unwrap(), "a"), expected);
}

#[test]
fn a_scrub_finds_no_damage_after_crash_recovery() {
    let mut doubtful = 0;
    for operations in 0..60 {
        let disk = disk(RaidLevel::Raid6, 6, 12);
        let mut volume = start(&disk, &members(6)).unwrap();
        volume.create_lun("a", 600).unwrap();
        write(&mut volume, "a", 0, &[1; 100]).unwrap();
        volume.consistency_point().unwrap();
        write(&mut volume, "a", 50, &[2; 100]).unwrap();
        volume.flush().unwrap();
        disk.cut_power_after(disk.operations() + operations);
        let _ = volume.consistency_point();
        drop(volume);
        let cut = disk.crash(operations, CrashOptions::default());
        doubtful += usize::from(!array(&cut, &members(6)).unwrap().scrub().unwrap().is_clean());
        let mut settled = array(&cut, &members(6)).unwrap();
        assert!(matches!(LunVolume::clear_torn_rows(&mut settled).unwrap(), TornRows::Cleared));
        assert!(settled.scrub().unwrap().is_clean(), "{operations}");
        settled.close().unwrap();
        let mut volume = start(&cut, &members(6)).unwrap();
        assert_eq!(values(&mut volume, "a")[49..151], [vec![1], vec![2; 100], vec![0]].concat());
    }
    assert!(doubtful > 0, "no cut was between the writes of a row");
}

#[test]
fn no_row_is_cleared_if_the_newest_catalogue_is_lost() {
    let disk = disk(RaidLevel::Raid6, 5, 12);
    let mut volume = start(&disk, &members(5)).unwrap();
    volume.create_lun("a", 600).unwrap();
    for value in 1..4 {
        write(&mut volume, "a", 0, &[value; 300]).unwrap();
        volume.consistency_point().unwrap();
    }
    let area = volume.catalogue.sequence % 2;
    drop(volume);
    let mut running = array(&disk, &members(5)).unwrap();
    let mut catalogue = vec![0; BLOCK];
    running.read(area * CATALOGUE_AREA_BLOCKS, &mut catalogue).unwrap();
    drop(running);
    // A row has the same offset on all members. The last copy is not in the journal.
    let place_on = |member: &PathBuf| {
        disk.contents(member).unwrap().chunks_exact(BLOCK).rposition(|block| block == catalogue)
    };
    let place = members(5).iter().find_map(place_on).unwrap();
    for member in members(5) {
        disk.corrupt(&member, (place * BLOCK) as u64, &[0xAA; 9]).unwrap();
    }
    let mut running = array(&disk, &members(5)).unwrap();
    let torn = LunVolume::clear_torn_rows(&mut running).unwrap();
    assert!(matches!(torn, TornRows::Unknown(ArrayError::Unrecoverable { .. })), "{torn:?}");
    assert_eq!(running.counters().rows_cleared, 0);
    assert!(LunVolume::exists_on(&mut running).is_err(), "its space must not be used for other data");
}

#[test]
fn an_active_volume_grows_and_new_space_is_available_immediately() {
    let disk = disk(RaidLevel::Raid6, 5, 12);
    let mut volume = start(&disk, &members(5)).unwrap();
    volume.create_lun("a", 1 << 20).unwrap();
    let values: Vec<u64> = (1..=300).collect();
    write(&mut volume, "a", 0, &values).unwrap();
    let blocks = volume.array().layout().blocks();
    let new: PathBuf = "/m/5".into();
    let added = std::slice::from_ref(&new);
    let requirements = volume.array().member_requirements(MemberPurpose::DataColumns, added).unwrap();
    assert!(requirements.prepare(&new, false).is_err(), "there is no such file");
    let file = disk.open(&new, OpenMode::CreateNew).unwrap();
    file.grow(member_bytes(JOURNAL, 12 * ZONE_ROWS)).unwrap();
    volume.add_members(vec![requirements.prepare(&new, false).unwrap()]).unwrap();
    assert_eq!(volume.array().layout().blocks(), blocks / 3 * 4);
    // The whole new column is free. Only the catalogue, the data, and a few nodes are in use.
    let used = volume.array().layout().blocks() - volume.free_bytes() / BLOCK as u64;
    let least = super::FIRST_BLOCK + 300;
    assert!((least..least + 20).contains(&used), "{used}");
    let more: Vec<u64> = (1000..3000).collect();
    write(&mut volume, "a", 5000, &more).unwrap();
    volume.close().unwrap();
    let mut volume = start(&disk, &members(6)[2..]).unwrap();
    let mut bytes = vec![0; BLOCK];
    for (block, value) in [(0, 1), (299, 300), (5000, 1000), (6999, 2999)] {
        volume.lun("a").unwrap().read_bytes(&mut [(block * BLOCK as u64, &mut bytes[..])]).unwrap();
        assert!(bytes == content(value), "block {block}");
    }
    assert!(volume.array().scrub().unwrap().is_clean());
}

#[test]
fn a_write_log_keeps_the_same_size_across_restarts() {
    let disk = disk(RaidLevel::Raid6, 5, 12);
    let length = |disk: &SimVfs| disk.contents(Path::new(LOG)).unwrap().len();
    let size = length(&disk);
    let default = WriteLogOptions::new(Arc::new(disk.clone()), LOG.into());
    assert!(size as u64 == log(&disk).bytes && default.bytes > log(&disk).bytes);
    for forget in [false, true] {
        let options = WriteLogOptions { discard_damaged: forget, ..default.clone() };
        let volume = LunVolume::start(array(&disk, &members(5)).unwrap(), &options).unwrap();
        volume.close().unwrap();
        assert_eq!(length(&disk), size);
    }
    disk.remove(LOG.as_ref()).unwrap();
    let volume = LunVolume::start(array(&disk, &members(5)).unwrap(), &default).unwrap();
    volume.close().unwrap();
    assert_eq!(length(&disk), size, "a log that is made again has its size again");
}

/// Creates a volume that crashed after `flushes` flushes of one block each. Returns the disk after the crash.
fn crashed_after_flushes(flushes: u64) -> SimVfs {
    let disk = disk(RaidLevel::Raid5, 3, 9);
    // The log may be enlarged while the volume is shut down.
    let mut log = disk.contents(Path::new(LOG)).unwrap();
    log.resize(4 << 20, 0);
    disk.put(Path::new(LOG), &log);
    let mut volume = start(&disk, &members(3)).unwrap();
    volume.create_lun("a", 300).unwrap();
    for flush in 0..flushes {
        write(&mut volume, "a", flush, &[flush + 1]).unwrap();
        volume.flush().unwrap();
    }
    assert_eq!(volume.counters().consistency_points, 0);
    drop(volume);
    disk.crash(1, CrashOptions::default())
}

#[test]
fn a_truncated_write_log_is_rejected_unless_explicitly_discarded() {
    const FLUSHES: u64 = 200;
    let disk = crashed_after_flushes(FLUSHES);
    let whole = disk.contents(Path::new(LOG)).unwrap();
    for length in [1 << 20, 0, BLOCK, whole.len() / 2, whole.len() - BLOCK, whole.len() - 1] {
        let cut = disk.clone_disk();
        cut.put(Path::new(LOG), &whole[..length]);
        let refused = start(&cut, &members(3)).err().expect("flushed writes are lost").to_string();
        assert!(refused.contains("write log"), "{length}: {refused}");
        // If the whole file is restored, nothing is lost.
        let restored = cut.clone_disk();
        restored.put(Path::new(LOG), &whole);
        let expected: Vec<u64> = (1..=FLUSHES).collect();
        assert_eq!(values(&mut start(&restored, &members(3)).unwrap(), "a")[..FLUSHES as usize], expected);
        if length == 0 || length >= 1 << 15 {
            let forget = WriteLogOptions { discard_damaged: true, ..log(&cut) };
            let mut volume = LunVolume::start(array(&cut, &members(3)).unwrap(), &forget).unwrap();
            assert_eq!(values(&mut volume, "a"), [0; 300], "the state of the last consistency point");
            assert_eq!(cut.contents(Path::new(LOG)).unwrap().len(), whole.len());
        }
    }
}

/// Creates the files of a volume from an earlier version, as described by a fixture. Each line contains the offset,
/// the value, and the number of equal words.
fn disk_of_earlier_version(fixture: &str) -> SimVfs {
    let disk = SimVfs::new();
    let mut files: Vec<(PathBuf, Vec<u8>)> = vec![];
    for line in fixture.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if fields[0] == "file" {
            files.push((fields[1].into(), vec![0; fields[2].parse().unwrap()]));
            continue;
        }
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        let (at, count): (usize, usize) = (hex(fields[0]) as usize, fields[2].parse().unwrap());
        let words = hex(fields[1]).to_le_bytes().repeat(count);
        files.last_mut().unwrap().1[at..at + words.len()].copy_from_slice(&words);
    }
    files.iter().for_each(|(path, bytes)| disk.put(path, bytes));
    disk
}

/// Range of the open rows in a superblock; see docs/internals/formats/array.md.
const OPEN_ROWS: std::ops::Range<usize> = 2072..2200;

#[test]
fn lun_volumes_write_new_rows_without_array_open_rows() {
    let disk = disk(RaidLevel::Raid6, 5, 24);
    let mut luns = start(&disk, &members(5)).unwrap();
    luns.create_lun("lun", 1500).unwrap();
    let mut lun = luns.lun("lun").unwrap();
    for first in (0..1500).step_by(100) {
        lun.write_blocks(first, &content(first + 1).repeat(100)).unwrap();
    }
    lun.flush().unwrap();
    luns.consistency_point().unwrap();
    assert!(luns.counters().blocks_in_whole_rows > 0);
    assert_eq!(luns.array().counters().new_rows, 0);
    for member in members(5) {
        assert_eq!(disk.contents(&member).unwrap()[OPEN_ROWS], [0; 128]);
    }
}

/// Returns the content of the LUN in the fixtures.
fn values_of_earlier_version() -> Vec<u64> {
    let mut expected = vec![0; 300];
    (0..20).for_each(|index| expected[index] = index as u64 + 1);
    expected[7..12].copy_from_slice(&[101, 102, 0, 0, 0]);
    expected[200..202].copy_from_slice(&[104, 105]);
    expected
}

const IN_USE: &str = include_str!("../../fixtures/luns-before-log-size-in-use.txt");
const SHUT_DOWN: &str = include_str!("../../fixtures/luns-before-log-size-shut-down.txt");

/// Starts a volume with a power cut after every possible number of operations, and checks its content each time.
fn check_with_power_cuts(disk: &SimVfs, expected: &[u64]) {
    let mut has_ended = false;
    for operations in 0..400 {
        let cut = disk.clone_disk();
        cut.cut_power_after(cut.operations() + operations);
        let started = start(&cut, &members(3));
        has_ended = started.is_ok();
        drop(started);
        let mut volume = start(&cut.crash(operations, CrashOptions::default()), &members(3)).unwrap();
        assert_eq!(values(&mut volume, "a"), expected, "after {operations} operations");
        if has_ended {
            break;
        }
    }
    assert!(has_ended);
}

#[test]
fn volumes_without_a_recorded_log_size_still_start() {
    for fixture in [IN_USE, SHUT_DOWN] {
        let disk = disk_of_earlier_version(fixture);
        let size = disk.contents(Path::new(LOG)).unwrap().len();
        check_with_power_cuts(&disk, &values_of_earlier_version());
        let mut volume = start(&disk, &members(3)).unwrap();
        assert_eq!(values(&mut volume, "a"), values_of_earlier_version());
        assert_eq!(volume.luns().unwrap()[0].snapshots[0].name, "s");
        // The log now stores its size and has shadows.
        assert!(!volume.log.is_from_earlier_version());
        assert_eq!((volume.log.bytes(), volume.catalogue.log_bytes), (size as u64, size as u64));
        write(&mut volume, "a", 0, &[7]).unwrap();
        volume.flush().unwrap();
        drop(volume);
        let cut = disk.crash(3, CrashOptions::default());
        assert_eq!(values(&mut start(&cut, &members(3)).unwrap(), "a")[..2], [7, 2]);
    }
}

#[test]
fn a_log_from_an_earlier_version_is_checked_if_possible() {
    let disk = disk_of_earlier_version(IN_USE);
    let whole = disk.contents(Path::new(LOG)).unwrap();
    let refused = |log: &[u8]| {
        let disk = disk.clone_disk();
        disk.put(Path::new(LOG), log);
        start(&disk, &members(3)).err().unwrap().to_string()
    };
    assert!(refused(&whole[..whole.len() - 1]).contains("expected"));
    let mut damaged = whole.clone();
    damaged[BLOCK + 100] ^= 1;
    assert!(refused(&damaged).contains("damaged at byte 4096"));
    // The second record extends past the end of the file, either because its number of blocks is wrong or because the
    // file was truncated.
    let mut longer = whole.clone();
    longer[5 * BLOCK + 48..5 * BLOCK + 50].copy_from_slice(&[0xFF, 3]);
    assert!(refused(&longer).contains("damaged at byte 20480"));
}
