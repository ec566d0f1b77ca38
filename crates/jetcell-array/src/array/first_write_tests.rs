//! Tests of the first writes to rows: their cost, the state after a crash, and their isolation from all other writes.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::Rng;

use super::*;
use crate::RaidLevel;
use crate::geometry::ZONE_ROWS;
use crate::member::{ArrayConfig, MemberDevice};
use crate::test_array::{JOURNAL, SHAPES, TestArray, UNIT, content, is_io_error};

/// Returns the open rows listed in the superblocks.
fn open_rows(tested: &TestArray) -> Vec<Range<u64>> {
    let devices =
        tested.members.iter().filter_map(|member| MemberDevice::open_unlocked(&tested.disk, member).ok());
    let superblocks = devices.flat_map(|device| device.superblocks());
    let newest = superblocks.max_by_key(|superblock| superblock.config.generation).unwrap();
    newest.config.open_rows.ranges().to_vec()
}

fn is_open(tested: &TestArray, row: u64) -> bool {
    open_rows(tested).iter().any(|range| range.contains(&row))
}

#[test]
fn new_rows_are_written_once_and_other_rows_twice() {
    for (level, members) in SHAPES {
        let mut tested = TestArray::new(level, members, 1);
        let first = tested.rows(0..48, 1);
        let transfers = |tested: &mut TestArray, run: &BTreeMap<u64, u64>| {
            let before = tested.array().counters();
            tested.write_run(run).unwrap();
            tested.flush().unwrap();
            let after = tested.array().counters();
            let blocks = |of: &ArrayIoCounters| {
                [of.members.data_and_parity, of.members.journal].map(|by| by.blocks_written)
            };
            let (late, early) = (blocks(&after), blocks(&before));
            let blocks = [late[0] - early[0], late[1] - early[1]];
            (blocks, after.new_rows - before.new_rows, after.commits - before.commits)
        };
        let slots = members as u64;
        assert_eq!(transfers(&mut tested, &first), ([48 * slots, 0], 48, 0), "{level}");
        let again = tested.rows(0..48, 2);
        let ([in_place, journal], new, commits) = transfers(&mut tested, &again);
        assert_eq!((in_place, new), (48 * slots, 0), "{level}");
        assert!(journal > 48 * slots && commits >= 6, "{level}: {journal} blocks, {commits} commits");
        tested.check();
        assert!(tested.array().scrub().unwrap().is_clean(), "{level}");
        tested.restart();
        tested.check();
    }
}

#[test]
fn a_batch_fitting_the_journal_commits_once_without_open_rows() {
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
    let batch = tested.rows(0..u64::from(JOURNAL), 1);
    let before = tested.array().counters();
    tested.write(&batch).unwrap();
    let after = tested.array().counters();
    assert_eq!((after.commits - before.commits, after.new_rows), (1, 0));
    assert_eq!(open_rows(&tested), []);
}

/// Cuts the power at each write while a run of new rows is written and flushed, starting from the state that
/// `prepare` creates. `after` checks the array after its restart.
fn cut_everywhere(
    (level, members): (RaidLevel, usize),
    prepare: impl Fn(&mut TestArray),
    run: impl Fn(&mut TestArray) -> BTreeMap<u64, u64>,
    mut after: impl FnMut(&mut TestArray),
) {
    // Mirrors and RAID 6 are cut at every write, the other levels at every third write.
    let step = if matches!(level, RaidLevel::Mirror | RaidLevel::Raid6) { 1 } else { 3 };
    for operations in (0..).step_by(step) {
        let mut tested = TestArray::new(level, members, operations);
        prepare(&mut tested);
        let run = run(&mut tested);
        if !tested.write_run_with_cut(&run, operations) {
            assert!(tested.new_rows > 0 && operations > 6, "{level}: {operations} operations");
            return;
        }
        tested.check();
        let report = tested.array().scrub().unwrap();
        assert!(report.is_clean(), "{level} after {operations} operations: {report:?}");
        assert_eq!(open_rows(&tested), []);
        after(&mut tested);
        tested.check();
    }
}

#[test]
fn a_power_cut_leaves_consistent_rows_and_flushed_data() {
    for shape in SHAPES {
        let mut cleared = 0;
        let prepare = |tested: &mut TestArray| {
            // Some rows in between are not new, and the run begins and ends in the middle of a row.
            let batch = [(5, 1), (40, 2), (77, 3)].into();
            tested.write(&batch).unwrap();
            let flushed = tested.rows(60..80, 4);
            tested.write_run(&flushed).unwrap();
            tested.flush().unwrap();
        };
        let run = |tested: &mut TestArray| {
            let end = tested.array().layout().block_at(36, 0);
            (7..end).map(|block| (block, block + 1)).collect()
        };
        cut_everywhere(shape, prepare, run, |tested| {
            cleared += tested.rows_cleared;
            // The rows can be written again like any other rows.
            let again = tested.rows(0..36, 7);
            tested.write_run(&again).unwrap();
            tested.flush().unwrap();
        });
        assert!(cleared > 0, "{}", shape.0);
    }
}

#[test]
fn a_power_cut_with_member_loss_preserves_flushed_rows() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        for seed in 0..40 {
            let mut tested = TestArray::new(level, members, seed);
            let flushed = tested.rows(60..80, 4);
            tested.write_run(&flushed).unwrap();
            tested.flush().unwrap();
            let run = tested.rows(0..50, 7);
            for _ in 0..level.tolerance(members) {
                let lost = tested.rng.random_range(0..tested.members.len());
                tested.members.remove(lost);
            }
            let operations = tested.rng.random_range(0..120);
            if tested.write_run_with_cut(&run, operations) {
                tested.check();
                assert!(tested.array().scrub().unwrap().unrecoverable.is_empty());
            }
        }
    }
}

#[test]
fn a_power_cut_while_startup_clears_rows_is_recoverable() {
    for (level, members) in [(RaidLevel::Raid10 { copies: 2 }, 4), (RaidLevel::Raid6, 5)] {
        for operations in 0..60 {
            let mut tested = TestArray::new(level, members, operations);
            let run = tested.rows(3..43, 7);
            if !tested.write_run_with_cut(&run, 0) {
                panic!("the power fails at the first write");
            }
            tested.write_run(&run).unwrap();
            tested.crash();
            tested.disk.cut_power_after(tested.disk.operations() + operations);
            if let Err(error) = tested.assemble(true) {
                assert!(is_io_error(&error), "{error}");
            }
            tested.crash();
            tested.assemble(true).unwrap();
            tested.settle_model();
            assert!(tested.array().scrub().unwrap().is_clean(), "{level}");
            tested.check();
        }
    }
}

#[test]
fn a_flush_closes_rows_and_saves_the_configuration_once() {
    let mut tested = TestArray::with_zones(RaidLevel::Raid6, 5, 1, 8);
    let mut saves = vec![];
    for first in [0, 16, 32, 48, 64] {
        let run = tested.rows(first..first + 16, 1);
        let before = tested.array().members().config.generation;
        tested.write_run(&run).unwrap();
        assert!(tested.array().staging.has_new_rows() && (first..first + 8).all(|row| is_open(&tested, row)));
        tested.flush().unwrap();
        saves.push(tested.array().members().config.generation - before);
        assert!((0..first + 16).all(|row| !is_open(&tested, row)) && is_open(&tested, first + 16));
    }
    // The first run saves the configuration once more, before the rows can be opened.
    assert_eq!(saves, [2, 1, 1, 1, 1]);
    assert_eq!(tested.new_rows, 5 * 16);
    tested.crash();
    tested.assemble(false).unwrap();
    assert_eq!(tested.rows_cleared, 0);
    tested.check();
    assert_eq!(open_rows(&tested), []);
}

#[test]
fn a_commit_closes_open_rows_before_it_writes_them() {
    for (level, members) in SHAPES {
        // The block belongs to a row that is open but whose write was not started.
        let prepare = |tested: &mut TestArray| {
            let run = tested.rows(0..16, 1);
            tested.write_run(&run).unwrap();
            tested.flush().unwrap();
            assert!(is_open(tested, 20), "{level}");
        };
        for operations in 0.. {
            let mut tested = TestArray::new(level, members, operations);
            prepare(&mut tested);
            let block = tested.array().layout().block_at(20, 0);
            if !tested.write_with_cut(&[(block, 77)].into(), operations) {
                assert!(operations > 3);
                break;
            }
            tested.check();
        }
        let mut tested = TestArray::new(level, members, 1);
        prepare(&mut tested);
        let block = |tested: &mut TestArray, row| tested.array().layout().block_at(row, 0);
        let of_row_20 = block(&mut tested, 20);
        tested.write(&[(of_row_20, 77)].into()).unwrap();
        assert!(!is_open(&tested, 20));
        tested.crash();
        tested.assemble(false).unwrap();
        tested.check();
        // The block belongs to a row whose write was started, so the new content of the whole row is acknowledged
        // first.
        let run = tested.rows(64..80, 1);
        tested.write_run(&run).unwrap();
        assert!(tested.array().staging.has_new_rows());
        let of_row_64 = block(&mut tested, 64);
        tested.write(&[(of_row_64, 78)].into()).unwrap();
        assert!(!is_open(&tested, 64));
        tested.crash();
        tested.assemble(false).unwrap();
        tested.check();
    }
}

#[test]
fn rows_journaled_by_the_same_flush_are_not_opened() {
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
    let run = tested.rows(0..16, 1);
    tested.write_run(&run).unwrap();
    let block = tested.array().layout().block_at(18, 0);
    tested.write(&[(block, 77)].into()).unwrap();
    assert!(is_open(&tested, 17) && !is_open(&tested, 18));
    tested.crash();
    tested.assemble(false).unwrap();
    tested.check();
}

#[test]
fn rows_in_flight_are_readable_and_counted_as_written() {
    for (level, members) in SHAPES {
        let mut tested = TestArray::new(level, members, 1);
        let run = tested.rows(0..40, 1);
        tested.write_run(&run).unwrap();
        assert!(tested.array().staging.has_new_rows(), "{level}");
        let layout = *tested.array().layout();
        let written = tested.array().written_runs(0..layout.blocks()).unwrap();
        assert_eq!(
            written.iter().filter(|(_, is_written)| *is_written).map(|(count, _)| *count).sum::<u64>(),
            run.len() as u64
        );
        let blocks: Vec<u64> = run.keys().copied().collect();
        let ahead = tested.array().start_read(&blocks);
        let mut bytes = vec![0; blocks.len() * BLOCK];
        let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(BLOCK).collect();
        tested.array().finish_read(&blocks, &mut buffers, Some(ahead)).unwrap();
        assert!(
            blocks.iter().zip(bytes.chunks_exact(BLOCK)).all(|(block, found)| found == content(run[block]))
        );
        tested.check();
        assert!(tested.array().scrub().unwrap().is_clean(), "{level}");
    }
}

#[test]
fn a_member_that_fails_while_rows_are_open_is_removed() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        let mut tested = TestArray::new(level, members, 1);
        let spare = tested.new_file();
        tested.array().add_spare(&spare, false).unwrap();
        let (first, second) = (tested.rows(0..20, 1), tested.rows(20..50, 1));
        tested.write_run(&first).unwrap();
        let path = tested.members[0].clone();
        tested.fail_file(&path);
        tested.write_run(&second).unwrap();
        tested.flush().unwrap();
        assert!(tested.new_rows >= 48, "{level}: {} rows", tested.new_rows);
        tested.check();
        tested.rebuild();
        assert!(tested.array().scrub().unwrap().is_clean(), "{level}");
        tested.crash();
        tested.assemble(false).unwrap();
        tested.check();
    }
}

#[test]
fn a_shutdown_leaves_no_open_rows() {
    let mut tested = TestArray::new(RaidLevel::RaidDp { prime: 17 }, 6, 1);
    let run = tested.rows(0..40, 1);
    tested.write_run(&run).unwrap();
    assert!(!open_rows(&tested).is_empty());
    tested.close();
    assert_eq!(open_rows(&tested), []);
    tested.assemble(false).unwrap();
    assert_eq!(tested.rows_cleared, 0);
    tested.check();
}

#[test]
fn read_only_assembly_shows_open_rows_as_unwritten() {
    for (level, members) in SHAPES {
        let mut tested = TestArray::new(level, members, 1);
        let flushed = tested.rows(60..80, 4);
        tested.write_run(&flushed).unwrap();
        tested.flush().unwrap();
        let run = tested.rows(0..40, 1);
        tested.write_run(&run).unwrap();
        let open = open_rows(&tested);
        tested.crash();
        let options = AssembleOptions { access: ArrayAccess::ReadOnly, force: true };
        tested.array = Some(Array::assemble(tested.faults.clone(), &tested.members, options).unwrap());
        let layout = *tested.array().layout();
        for (block, value) in run {
            // Rows that were closed by the last save have their new content.
            let is_open = open.iter().any(|range| range.contains(&layout.locate(block).0));
            let found = tested.value(block).unwrap();
            assert!(found == 0 || !is_open && found == value, "{level}");
            assert_eq!(tested.array().written_runs(block..block + 1).unwrap(), [(1, found != 0)], "{level}");
        }
        assert!(flushed.iter().all(|(block, value)| tested.value(*block).unwrap() == *value), "{level}");
    }
}

#[test]
fn writers_continue_when_they_exceed_the_open_range_limit() {
    let mut tested = TestArray::with_zones(RaidLevel::Raid5, 4, 1, 24);
    let writers: Vec<u64> = (0..12).collect();
    for step in 0..6 {
        for writer in &writers {
            let first = 2 * ZONE_ROWS * writer + 2 * UNIT * step;
            let run = tested.rows(first..first + 2 * UNIT, 1);
            tested.write_run(&run).unwrap();
            assert!(tested.array().members().config.open_rows.ranges().len() <= ArrayConfig::MAX_OPEN_RANGES);
        }
    }
    tested.flush().unwrap();
    assert!(tested.new_rows > 500, "{}", tested.new_rows);
    tested.check();
    tested.crash();
    tested.assemble(false).unwrap();
    tested.check();
}
