//! Tests of consistency points in flight, write-through and open zones: concurrent reads and writes by callers, and
//! the state after a crash.

use jetcell_array::{BLOCK, BlockStore, RaidLevel};
use jetcell_vfs::{CrashOptions, SimVfs};

use super::LunVolume;
use super::tests::{disk, members, start, values, write};
use crate::test_blocks::{content, copy_to_buffer};

/// Creates a volume with a consistency point in flight. The consistency point writes value 1 to blocks 0 to 255.
/// Blocks 250 to 259 were written after it began.
fn with_point_in_flight(disk: &SimVfs) -> LunVolume {
    let mut volume = start(disk, &members(6)).unwrap();
    volume.create_lun("a", 1000).unwrap();
    for first in (0..256).step_by(32) {
        write(&mut volume, "a", first, &[1; 32]).unwrap();
    }
    assert!(volume.in_flight_point.is_none());
    write(&mut volume, "a", 250, &[2; 10]).unwrap();
    assert!(volume.in_flight_point.is_some(), "the write log has room for 256 blocks");
    volume
}

fn with_ten_more() -> Vec<u64> {
    [vec![1; 250], vec![2; 10], vec![0; 740]].concat()
}

#[test]
fn reads_and_writes_proceed_during_a_consistency_point() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    let mut volume = with_point_in_flight(&disk);
    let points = volume.counters().consistency_points;
    assert_eq!(values(&mut volume, "a"), with_ten_more());
    assert!(volume.in_flight_point.is_some() && volume.counters().consistency_points == points);
    // The allocation can only be returned after the consistency point has completed.
    let runs = volume.lun("a").unwrap().allocation(0..1000).unwrap();
    assert_eq!((runs, volume.counters().consistency_points), (vec![(260, true), (740, false)], points + 1));
    assert_eq!(values(&mut volume, "a"), with_ten_more());
    volume.close().unwrap();
    let mut volume = start(&disk, &members(6)).unwrap();
    assert_eq!(values(&mut volume, "a"), with_ten_more());
    assert!(volume.array().scrub().unwrap().is_clean());
}

#[test]
fn a_flush_makes_data_in_an_unfinished_consistency_point_durable() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    let mut volume = with_point_in_flight(&disk);
    volume.flush().unwrap();
    drop(volume);
    let cut = disk.crash(7, CrashOptions::default());
    assert_eq!(values(&mut start(&cut, &members(6)).unwrap(), "a"), with_ten_more());
}

/// Checks that a read returns the latest content of blocks that are replaced, moved or deallocated while it is in
/// progress.
#[test]
fn a_pending_read_returns_the_latest_content() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    let mut volume = start(&disk, &members(6)).unwrap();
    volume.create_lun("a", 300).unwrap();
    write(&mut volume, "a", 0, &(1..=200).collect::<Vec<_>>()).unwrap();
    volume.consistency_point().unwrap();
    let blocks: Vec<u64> = (0..250).collect();
    let mut read = |change: &mut dyn FnMut(&mut LunVolume)| {
        let ahead = volume.lun("a").unwrap().start_read(&blocks).unwrap();
        change(&mut volume);
        let before = volume.array().counters().members.total().reads;
        let mut bytes = vec![9; blocks.len() * BLOCK];
        let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(BLOCK).collect();
        volume.lun("a").unwrap().finish_read(&blocks, &mut buffers, Some(ahead)).unwrap();
        let found: Vec<u64> = bytes
            .chunks_exact(BLOCK)
            .map(|block| u64::from_le_bytes(block[..8].try_into().unwrap()))
            .inspect(|value| assert!(*value <= 2000))
            .collect();
        assert!(bytes.chunks_exact(BLOCK).zip(&found).all(|(block, value)| block == content(*value)));
        (found, volume.array().counters().members.total().reads - before)
    };
    let old: Vec<u64> = (1..=200).chain([0; 50]).collect();
    let (found, reads) = read(&mut |_| {});
    assert_eq!((found, reads), (old.clone(), 0), "nothing is read twice");
    let (found, reads) = read(&mut |volume| {
        write(volume, "a", 50, &[1001; 20]).unwrap();
        volume.consistency_point().unwrap();
        write(volume, "a", 60, &[1002; 20]).unwrap();
        volume.lun("a").unwrap().zero_blocks(100..120).unwrap();
    });
    let mut new = old;
    new[50..70].fill(1001);
    new[60..80].fill(1002);
    new[100..120].fill(0);
    assert_eq!(found, new);
    assert!(reads > 0, "blocks that moved are read again");
}

#[test]
fn a_crash_during_a_consistency_point_keeps_the_previous_state() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    drop(with_point_in_flight(&disk));
    assert_after_cuts(&disk, &[0; 1000]);
}

/// Checks that LUN `a` has these values after a start, and that the array is consistent, regardless of which unsynced
/// writes survive a power cut.
fn assert_after_cuts(disk: &SimVfs, expected: &[u64]) {
    for seed in 0..20 {
        let cut = disk.crash(seed, CrashOptions::default());
        let mut volume = start(&cut, &members(6)).unwrap();
        assert_eq!(values(&mut volume, "a"), expected);
        assert!(volume.array().scrub().unwrap().is_clean());
    }
}

/// Creates a volume with a consistency point in flight, and with write-through of the other blocks: blocks 260 to 999
/// have value 3. Most of these blocks are on the array, but not yet in a map.
fn with_write_through(disk: &SimVfs) -> (LunVolume, Vec<u64>) {
    let mut volume = with_point_in_flight(disk);
    for first in (260..1000).step_by(2) {
        write(&mut volume, "a", first, &[3; 2]).unwrap();
    }
    assert!(
        volume.next.write_through.blocks_of_lun(1, 0..1000).count() > 500,
        "two zones, one of them with a map"
    );
    (volume, [vec![1; 250], vec![2; 10], vec![3; 740]].concat())
}

#[test]
fn write_through_blocks_can_be_read_replaced_and_trimmed() {
    for failed in [vec![], vec![1, 4]] {
        let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 20);
        let (mut volume, mut expected) = with_write_through(&disk);
        let points = volume.counters().consistency_points;
        assert_eq!(values(&mut volume, "a"), expected);
        for slot in &failed {
            volume.array().fail(*slot).unwrap();
        }
        assert_eq!(values(&mut volume, "a"), expected);
        for first in (300..320).step_by(2) {
            write(&mut volume, "a", first, &[4; 2]).unwrap();
        }
        volume.lun("a").unwrap().zero_blocks(400..450).unwrap();
        expected[300..320].fill(4);
        expected[400..450].fill(0);
        for _ in 0..2 {
            for first in (500..800).step_by(2) {
                write(&mut volume, "a", first, &[5; 2]).unwrap();
            }
        }
        expected[500..800].fill(5);
        assert_eq!(values(&mut volume, "a"), expected);
        assert_eq!(volume.counters().consistency_points, points);
        let runs = volume.lun("a").unwrap().allocation(0..1000).unwrap();
        assert_eq!(runs, [(400, true), (50, false), (550, true)]);
        volume.consistency_point().unwrap();
        assert_eq!(volume.counters().consistency_points, points + 1);
        let free = volume.free_bytes();
        volume.rebuild_allocator().unwrap();
        assert_eq!(volume.free_bytes(), free, "what was replaced is free");
        volume.close().unwrap();
        let mut volume = start(&disk, &members(6)).unwrap();
        assert_eq!(values(&mut volume, "a"), expected);
        assert!(volume.array().scrub().unwrap().parity_mismatches.is_empty());
    }
}

/// Returns true if a block of LUN 1 is in the open zone.
fn is_in_zone(volume: &LunVolume, index: u64) -> bool {
    volume.next.open_zone().is_some() && volume.next.content(1, index).is_some()
}

/// Checks that blocks go to the open zone until an operation other than a write occurs.
#[test]
fn open_zone_blocks_can_be_read_replaced_and_discarded() {
    for failed in [vec![], vec![1, 4]] {
        let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 20);
        let (mut volume, mut expected) = with_write_through(&disk);
        let last = |volume: &LunVolume| is_in_zone(volume, 999);
        assert!(last(&volume) && volume.next.pending() == 0);
        for slot in &failed {
            volume.array().fail(*slot).unwrap();
        }
        let (counters, free) = (volume.counters(), volume.free_bytes());
        write(&mut volume, "a", 990, &[4; 10]).unwrap();
        expected[990..].fill(4);
        assert_eq!(values(&mut volume, "a"), expected);
        assert!(last(&volume) && volume.free_bytes() == free, "they have their places");
        assert_eq!(volume.counters().blocks_absorbed, counters.blocks_absorbed + 10);
        // These writes fill the zone and continue in the next one.
        for first in (0..300).step_by(20) {
            write(&mut volume, "a", first, &[5; 20]).unwrap();
        }
        expected[..300].fill(5);
        assert!(!last(&volume) && is_in_zone(&volume, 299));
        assert_eq!(values(&mut volume, "a"), expected);
        volume.lun("a").unwrap().zero_blocks(290..295).unwrap();
        expected[290..295].fill(0);
        assert!(volume.next.open_zone().is_none() && volume.next.pending() > 0);
        assert_eq!(values(&mut volume, "a"), expected);
        volume.flush().unwrap();
        let free = volume.free_bytes();
        volume.rebuild_allocator().unwrap();
        assert_eq!(volume.free_bytes(), free, "what was replaced is free");
        drop(volume);
        assert_after_cuts(&disk, &expected);
    }
}

/// Checks that the zone takes over the buffer of a transfer, and that the caller gets another one. A buffer stays in
/// memory even if most of its blocks have been replaced.
#[test]
fn a_transfer_hands_over_buffers_to_the_open_zone() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 20);
    let (mut volume, mut expected) = with_write_through(&disk);
    let mut give = |volume: &mut LunVolume, first: usize, blocks: usize, value: u64| {
        expected[first..first + blocks].fill(value);
        let mut buffer = copy_to_buffer(&content(value).repeat(blocks));
        let start = buffer.as_ptr();
        volume.lun("a").unwrap().write_buffer(first as u64, &mut buffer).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (blocks * BLOCK, blocks * BLOCK));
        let is_given = buffer.as_ptr() != start;
        buffer.fill(0xEE);
        assert_eq!(values(volume, "a"), expected);
        is_given
    };
    assert!(give(&mut volume, 100, 300, 4), "it fills more than one zone");
    assert!(!give(&mut volume, 100, 7, 5), "a copy costs less than the memory");
    let given = (0..60).take_while(|round| give(&mut volume, 500, 200, 10 + round)).count();
    assert!((30..50).contains(&given), "{given} buffers of 800 KiB for one zone");
    volume.close_open_zone();
    assert!(!give(&mut volume, 300, 32, 6), "nothing is filled");
    volume.flush().unwrap();
    drop(volume);
    assert_after_cuts(&disk, &expected);
}

#[test]
fn write_through_blocks_are_durable_only_after_a_flush() {
    for is_flushed in [true, false] {
        let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
        let (mut volume, expected) = with_write_through(&disk);
        if is_flushed {
            volume.flush().unwrap();
        }
        drop(volume);
        let expected = if is_flushed { expected } else { [vec![1; 256], vec![0; 744]].concat() };
        assert_after_cuts(&disk, &expected);
    }
}

/// Checks that flushed writes prevent write-through, because a consistency point must make room in the write log.
#[test]
fn flushed_writes_prevent_write_through() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    let mut volume = with_point_in_flight(&disk);
    volume.flush().unwrap();
    let points = volume.counters().consistency_points;
    for first in (260..520).step_by(20) {
        write(&mut volume, "a", first, &[3; 20]).unwrap();
    }
    volume.array();
    assert!(volume.next.write_through.is_empty() && volume.counters().consistency_points == points + 1);
}

#[test]
fn rows_freed_by_a_consistency_point_are_available_for_writing() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 12);
    let mut volume = start(&disk, &members(6)).unwrap();
    volume.create_lun("a", 1200).unwrap();
    for value in 1..=5 {
        (0..1200).step_by(20).for_each(|first| write(&mut volume, "a", first, &[value; 20]).unwrap());
        volume.flush().unwrap();
        let (window, free) = (volume.space.window_blocks(), volume.space.free());
        // Without the rows used by the previous state, the window has room for 200 blocks.
        assert!(window > 1000 && window <= free, "{window} blocks in the window, {free} free");
    }
    volume.close().unwrap();
    assert_eq!(values(&mut start(&disk, &members(6)).unwrap(), "a"), [5; 1200]);
}

#[test]
fn scattered_blocks_trigger_write_through_to_limit_map_nodes() {
    let disk = disk(RaidLevel::RaidDp { prime: 17 }, 6, 60);
    let mut volume = start(&disk, &members(6)).unwrap();
    volume.create_lun("a", 1_000_000).unwrap();
    let (mut most, mut early) = (0, 0);
    for index in 0..3000 {
        write(&mut volume, "a", index * 300, &[index + 1]).unwrap();
        most = most.max(volume.next.leaves.len() as u64);
        early = early.max(volume.next.write_through.blocks_of_lun(1, 0..1_000_000).count());
    }
    assert!(
        early > 0 && most <= 3 * 256,
        "{early} early, {most} leaves: the write log has room for 256 blocks"
    );
    let mut block = [0; BLOCK];
    volume.lun("a").unwrap().read_blocks(&[2000 * 300], &mut [&mut block]).unwrap();
    assert!(block[..] == content(2001));
    volume.close().unwrap();
}
