use std::path::{Path, PathBuf};

use super::rebuild::MemberRebuild;
use crate::geometry::{ArrayLayout, BLOCK, ZONE_ROWS};
use crate::integrity::{BlockRecord, CellState, RecordSlot};
use crate::test_array::{SHAPES, TestArray, ZONES};
use crate::{ArrayError, ArrayRefusal, ArrayState, RaidLevel, SlotState};

pub fn redundant() -> impl Iterator<Item = (RaidLevel, usize)> {
    SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0)
}

pub fn written(level: RaidLevel, members: usize, seed: u64, batches: usize) -> TestArray {
    let mut tested = TestArray::new(level, members, seed);
    for _ in 0..batches {
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
    }
    tested
}

#[test]
fn a_rebuild_under_load_restores_tolerance_for_new_losses() {
    for (level, members) in redundant() {
        let tolerance = level.tolerance(members);
        let mut tested = written(level, members, 1, 20);
        for slot in 0..tolerance {
            tested.array().fail(slot).unwrap();
            let file = tested.new_file();
            tested.array().replace(slot, &file, false).unwrap();
        }
        assert_eq!(tested.array().status().state, ArrayState::Degraded(tolerance));
        while !tested.array().rebuild_rows(ZONE_ROWS).unwrap().is_complete() {
            tested.check();
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
        }
        tested.refresh_members();
        assert_eq!(tested.array().status().state, ArrayState::Optimal);
        assert!(tested.array().scrub().unwrap().is_clean());
        // Now as many of the members that were not rebuilt are lost as the level tolerates.
        for slot in tolerance..(2 * tolerance).min(members) {
            tested.array().fail(slot).unwrap();
        }
        tested.check();
    }
}

#[test]
fn a_rebuild_resumes_after_a_restart() {
    let mut tested = written(RaidLevel::Raid6, 5, 2, 20);
    tested.array().fail(1).unwrap();
    let file = tested.new_file();
    tested.array().replace(1, &file, false).unwrap();
    tested.array().set_zones_per_save(1);
    assert_eq!(tested.array().rebuild_rows(ZONE_ROWS).unwrap().zones_done, 1);
    tested.refresh_members();
    tested.crash();
    tested.assemble(true).unwrap();
    let status = tested.array().status();
    assert_eq!((status.slots[1].state, status.slots[1].progress), (SlotState::Rebuilding, 0.5));
    tested.check();
    tested.rebuild();
    tested.restart();
    assert_eq!(tested.array().status().state, ArrayState::Optimal);
    tested.check();
}

#[test]
fn doubly_degraded_zones_are_rebuilt_first_with_recent_zones_leading() {
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 2);
    for slot in 0..2 {
        tested.array().fail(slot).unwrap();
        let file = tested.new_file();
        tested.array().replace(slot, &file, false).unwrap();
    }
    let array = tested.array();
    array.members_mut().config.layout =
        ArrayLayout { rows: 100 * ZONE_ROWS, ..array.members().config.layout };
    array.members_mut().config.slots[0].rebuilt.insert(0..40);
    assert_eq!(MemberRebuild(array.row_writer()).next_zone(), Some(40));
    array.row_writer().recent_zones.extend([20, 70, 60]);
    assert_eq!(MemberRebuild(array.row_writer()).next_zone(), Some(60));
    array.members_mut().config.slots[1].rebuilt.insert(60..61);
    assert_eq!(MemberRebuild(array.row_writer()).next_zone(), Some(70));
    array.row_writer().recent_zones.clear();
    array.members_mut().config.slots[1].rebuilt.insert(40..50);
    array.members_mut().config.slots[0].rebuilt.insert(60..61);
    assert_eq!(MemberRebuild(array.row_writer()).next_zone(), Some(50));
    array.members_mut().config.slots[0].rebuilt.insert(0..100);
    assert_eq!(MemberRebuild(array.row_writer()).next_zone(), Some(0));
}

#[test]
fn a_failing_member_is_copied_and_bad_blocks_are_reconstructed() {
    for (level, members) in redundant() {
        let mut tested = written(level, members, 3, 20);
        tested.restart();
        let old = tested.members[0].clone();
        for row in 0..8 {
            tested.disk.corrupt(&old, TestArray::offset(row) + 5, &[77; 9]).unwrap();
        }
        let file = tested.new_file();
        tested.array().replace(0, &file, false).unwrap();
        assert_eq!(tested.array().status().slots[0].state, SlotState::Copying);
        assert_eq!(tested.array().status().state, ArrayState::Optimal);
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
        tested.rebuild();
        // Each damaged block is read twice: once individually, and once with its row.
        assert!(tested.array().counters().checksum_errors <= 16);
        assert!(tested.members.contains(&file) && !tested.members.contains(&old));
        tested.check();
        assert!(tested.array().scrub().unwrap().is_clean());
        tested.restart();
        tested.members.push(old.clone());
        tested.close();
        assert!(
            matches!(tested.assemble(false), Err(ArrayError::Refused(ArrayRefusal::Stale(path))) if path == old)
        );
    }
}

#[test]
fn a_spare_replaces_a_failed_member() {
    let mut tested = written(RaidLevel::Raid5, 4, 4, 10);
    let spare = tested.new_file();
    tested.array().add_spare(&spare, false).unwrap();
    tested.refresh_members();
    tested.restart();
    let path = tested.members[2].clone();
    tested.fail_file(&path);
    for _ in 0..6 {
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
    }
    let status = tested.array().status();
    assert_eq!((status.slots[2].state, &status.failed[..]), (SlotState::Rebuilding, &[path][..]));
    tested.rebuild();
    tested.restart();
    assert_eq!(tested.array().status().state, ArrayState::Optimal);
    assert_eq!(tested.array().status().slots[2].member.as_deref(), Some(spare.as_path()));
    tested.check();
    assert!(tested.array().scrub().unwrap().is_clean());
}

#[test]
fn a_single_scrub_repairs_all_damage_on_any_member() {
    for (level, members) in redundant() {
        for member in 0..members {
            let mut tested = written(level, members, 5, 20);
            let path = tested.members[member].clone();
            for row in [0, 3, 70] {
                tested.disk.corrupt(&path, TestArray::offset(row) + 9, &[1; 4]).unwrap();
            }
            tested.disk.corrupt(&path, TestArray::records_offset(1), &[0xAB; BLOCK]).unwrap();
            let report = tested.array().scrub().unwrap();
            assert!(report.unrecoverable.is_empty() && report.parity_mismatches.is_empty());
            assert!(report.repaired > 0 && report.damaged[member] == report.damaged.iter().sum::<u64>());
            assert!(tested.array().scrub().unwrap().is_clean(), "{level} member {member}");
            tested.check();
        }
    }
}

#[test]
fn a_scrub_reports_progress_and_resumes_after_a_crash() {
    let mut tested = written(RaidLevel::Raid5, 4, 5, 20);
    tested.array().set_zones_per_save(1);
    let mut report = crate::ScrubReport::default();
    assert!(!tested.array().scrub_zones(1, &mut report).unwrap());
    tested.refresh_members();
    let shown = crate::ArrayExamination::new(&tested.disk, 77, &tested.members).unwrap();
    assert_eq!(shown.scrubbed, 0.5);
    tested.crash();
    tested.assemble(true).unwrap();
    assert_eq!(tested.array().scrub_cursor(), 1);
    assert!(tested.array().scrub_zones(1, &mut report).unwrap() && report.zones == 2);
}

#[test]
fn damage_exceeding_the_parity_is_reported_and_left_unchanged() {
    for (level, members) in SHAPES {
        let mut tested = written(level, members, 6, 1);
        let blocks = tested.array().layout().data_columns() as u64 * 4;
        let batch = (0..blocks).map(|block| (block, block + 1)).collect();
        tested.write(&batch).unwrap();
        let paths: Vec<PathBuf> = tested.members[..=level.tolerance(members)].to_vec();
        for path in &paths {
            tested.disk.corrupt(path, TestArray::offset(0), &[0xEE; BLOCK]).unwrap();
        }
        let before: Vec<_> = paths.iter().map(|path| tested.disk.contents(path)).collect();
        let report = tested.array().scrub().unwrap();
        assert_eq!(report.unrecoverable, [0], "{level}");
        let offset = TestArray::offset(0) as usize;
        for (path, before) in paths.iter().zip(before) {
            let (before, after) = (before.unwrap(), tested.disk.contents(path).unwrap());
            assert!(before[offset..offset + BLOCK] == after[offset..offset + BLOCK]);
        }
        tested.check_never_wrong();
    }
}

/// Changes the content of a cell, and writes a matching record.
fn falsify(tested: &mut TestArray, row: u64, cell: usize) {
    let array = tested.array();
    let state = array.row_writer().rows.row_state(row);
    let CellState::Written(old) = state.cells[cell] else { panic!("written") };
    let block = [0x3C; BLOCK];
    let stored = array.members().layout().stored_cell(cell);
    let record =
        BlockRecord::new(array.members().config.array, row, stored, old.generation.get(), old.tags, &block);
    let device = array.members().sources(row, cell).next().unwrap();
    array.row_writer().rows.rewrite_cell(device, row, RecordSlot::Written(record), &block).unwrap();
}

#[test]
fn inconsistent_blocks_are_reported_and_only_parity_is_corrected() {
    for (level, members) in redundant() {
        let mut tested = written(level, members, 7, 1);
        let blocks = tested.array().layout().data_columns() as u64 * 4;
        let batch = (0..blocks).map(|block| (block, block * 3 + 1)).collect();
        tested.write(&batch).unwrap();
        let columns = tested.array().layout().data_columns();
        let parities = tested.array().members().code.parities();
        falsify(&mut tested, 1, 0);
        let report = tested.array().scrub().unwrap();
        let expected = (parities > 1).then(|| tested.array().layout().slot(1, 0));
        assert_eq!(report.parity_mismatches.len(), 1);
        assert_eq!(
            (report.parity_mismatches[0].suspect, report.parity_mismatches[0].is_repaired),
            (expected, false)
        );
        if parities > 1 {
            falsify(&mut tested, 2, columns + 1);
            let report = tested.array().scrub().unwrap();
            assert!(report.parity_mismatches.iter().any(|found| found.row == 2 && found.is_repaired));
            let report = tested.array().scrub().unwrap();
            assert_eq!(report.parity_mismatches.iter().map(|found| found.row).collect::<Vec<_>>(), [1]);
        }
    }
}

#[test]
fn an_array_grows_without_moving_a_block() {
    for (level, members) in SHAPES.into_iter().filter(|(level, _)| *level != RaidLevel::Mirror) {
        let copies = level.tolerance(members) + 1;
        let added = if matches!(level, RaidLevel::Raid10 { .. }) { copies } else { 1 };
        let mut tested = written(level, members, 8, 10);
        let before = tested.array().layout().blocks();
        let files: Vec<PathBuf> = (0..added).map(|_| tested.new_file()).collect();
        tested.array().grow(&files, false).unwrap();
        tested.refresh_members();
        let after = tested.array().layout().blocks();
        assert_eq!(after - before, tested.array().layout().rows, "{level}");
        tested.model.resize(after as usize, 0);
        tested.check();
        for _ in 0..10 {
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
            let last = (after - 5, after);
            tested.write(&[last].into()).unwrap();
        }
        tested.restart();
        tested.check();
        assert!(tested.array().scrub().unwrap().is_clean());
        if level.tolerance(members) > 0 {
            tested.array().fail(members).unwrap();
            tested.check();
        }
    }
    let mut tested = TestArray::new(RaidLevel::Mirror, 2, 1);
    let file = tested.new_file();
    assert!(matches!(
        tested.array().grow(&[file], false),
        Err(ArrayError::Refused(ArrayRefusal::Extension { .. }))
    ));
}

#[test]
fn unusable_new_members_and_excessive_losses_are_rejected() {
    let mut tested = written(RaidLevel::Raid5, 4, 9, 3);
    let (used, short) = (tested.members[0].clone(), Path::new("/a/short"));
    let refusal = |result| match result {
        Err(ArrayError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refusal(tested.array().add_spare(&used, true)), ArrayRefusal::DuplicateMember(_)));
    tested.disk.put(short, &[0; 8 * BLOCK]);
    assert!(matches!(refusal(tested.array().add_spare(short, true)), ArrayRefusal::TooSmall { .. }));
    let data = tested.new_file();
    tested.disk.corrupt(&data, 70_000, &[1]).unwrap();
    assert!(matches!(refusal(tested.array().replace(0, &data, false)), ArrayRefusal::HasData { .. }));
    assert!(matches!(refusal(tested.array().replace(9, &data, true)), ArrayRefusal::NoSlot { slot: 9, .. }));
    tested.array().fail(1).unwrap();
    assert!(matches!(refusal(tested.array().fail(1)), ArrayRefusal::EmptySlot(1)));
    assert!(matches!(refusal(tested.array().fail(2)), ArrayRefusal::TooManyMissing { missing: 2, .. }));
    tested.array().replace(1, &data, true).unwrap();
    tested.rebuild();
    tested.check();
    assert_eq!(tested.array().status().state, ArrayState::Optimal);
}

#[test]
fn a_zone_is_partially_rebuilt_during_concurrent_writes() {
    for (level, members) in redundant() {
        let tolerance = level.tolerance(members);
        let mut tested = written(level, members, 11, 20);
        // The last members have parity, if the level has parity.
        for slot in members - tolerance..members {
            tested.array().fail(slot).unwrap();
            let file = tested.new_file();
            tested.array().replace(slot, &file, false).unwrap();
        }
        let mut steps = 0;
        while !tested.array().rebuild_rows(5).unwrap().is_complete() {
            steps += 1;
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
            if steps % 8 == 0 {
                tested.check();
            }
        }
        assert_eq!(steps, 25, "{level}: 13 steps for each of two zones");
        tested.refresh_members();
        assert!(tested.array().scrub().unwrap().is_clean(), "{level}");
        for slot in 0..tolerance {
            tested.array().fail(slot).unwrap();
        }
        tested.check();
    }
}

#[test]
fn a_partially_rebuilt_zone_restarts_after_crash_or_member_change() {
    let mut tested = written(RaidLevel::Raid6, 6, 12, 20);
    tested.array().fail(1).unwrap();
    let file = tested.new_file();
    tested.array().replace(1, &file, false).unwrap();
    tested.array().rebuild_rows(20).unwrap();
    tested.refresh_members();
    tested.crash();
    tested.assemble(true).unwrap();
    tested.check();
    tested.array().rebuild_rows(20).unwrap();
    tested.array().fail(1).unwrap();
    let file = tested.new_file();
    tested.array().replace(1, &file, false).unwrap();
    tested.check();
    tested.rebuild();
    assert!(tested.array().scrub().unwrap().is_clean());
    tested.check();
}

#[test]
fn rebuilds_and_scrubs_transfer_whole_zones() {
    let mut tested = TestArray::new(RaidLevel::Raid5, 5, 13);
    let all = (0..tested.model.len() as u64).map(|block| (block, block + 1)).collect();
    tested.write(&all).unwrap();
    let maintenance = |tested: &mut TestArray| tested.array().counters().members.maintenance;
    tested.array().scrub().unwrap();
    let zones = ZONES * 5;
    // The records and the blocks of each zone are read from each member.
    let scrubbed = maintenance(&mut tested);
    assert_eq!((scrubbed.reads, scrubbed.blocks_read), (2 * zones, (1 + ZONE_ROWS) * zones));
    tested.array().fail(2).unwrap();
    let file = tested.new_file();
    tested.array().replace(2, &file, false).unwrap();
    while !tested.array().rebuild_rows(u64::MAX).unwrap().is_complete() {}
    let rebuilt = maintenance(&mut tested).since(&scrubbed);
    // The records of the other members are cached.
    assert_eq!((rebuilt.reads, rebuilt.blocks_read), (ZONES * 4 + ZONES, ZONES * (4 * ZONE_ROWS + 1)));
    assert_eq!((rebuilt.writes, rebuilt.blocks_written), (ZONES, ZONES * (1 + ZONE_ROWS)));
    tested.check();
}
