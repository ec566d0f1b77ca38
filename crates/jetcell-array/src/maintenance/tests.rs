use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::geometry::{BLOCK, Layout, ZONE_ROWS};
use crate::integrity::{BlockRecord, CellState, RecordSlot};
use crate::world::{SHAPES, World};
use crate::{ArrayError, ArrayState, Level, Refusal, SlotState};

fn redundant() -> impl Iterator<Item = (Level, usize)> {
    SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0)
}

fn written(level: Level, members: usize, seed: u64, batches: usize) -> World {
    let mut world = World::new(level, members, seed);
    for _ in 0..batches {
        let batch = world.random_batch();
        world.write(&batch).unwrap();
    }
    world
}

#[test]
fn lost_members_are_rebuilt_under_load_and_the_array_bears_new_losses() {
    for (level, members) in redundant() {
        let tolerance = level.tolerance(members);
        let mut world = written(level, members, 1, 20);
        for slot in 0..tolerance {
            world.array().fail(slot).unwrap();
            let file = world.new_file();
            world.array().replace(slot, &file, false).unwrap();
        }
        assert_eq!(world.array().status().state, ArrayState::Degraded(tolerance));
        while !world.array().rebuild_step().unwrap().is_complete() {
            world.check();
            let batch = world.random_batch();
            world.write(&batch).unwrap();
        }
        world.refresh_members();
        assert_eq!(world.array().status().state, ArrayState::Optimal);
        assert!(world.array().scrub().unwrap().is_clean());
        // The members that were not rebuilt are lost now, as many as possible.
        for slot in tolerance..(2 * tolerance).min(members) {
            world.array().fail(slot).unwrap();
        }
        world.check();
    }
}

#[test]
fn a_rebuild_goes_on_after_a_restart_where_it_was() {
    let mut world = written(Level::Raid6, 5, 2, 20);
    world.array().fail(1).unwrap();
    let file = world.new_file();
    world.array().replace(1, &file, false).unwrap();
    world.array().set_zones_per_note(1);
    assert_eq!(world.array().rebuild_step().unwrap().zones_done, 1);
    world.refresh_members();
    world.crash();
    world.assemble(true).unwrap();
    let status = world.array().status();
    assert_eq!((status.slots[1].state, status.slots[1].progress), (SlotState::Rebuilding, 0.5));
    world.check();
    world.rebuild();
    world.restart();
    assert_eq!(world.array().status().state, ArrayState::Optimal);
    world.check();
}

#[test]
fn zones_that_miss_two_members_are_rebuilt_first_and_recent_ones_before_old_ones() {
    let mut world = World::new(Level::Raid6, 5, 2);
    for slot in 0..2 {
        world.array().fail(slot).unwrap();
        let file = world.new_file();
        world.array().replace(slot, &file, false).unwrap();
    }
    let array = world.array();
    array.config.layout = Layout { rows: 100 * ZONE_ROWS, ..array.config.layout };
    array.config.slots[0].rebuilt.insert(0..40);
    assert_eq!(array.next_zone(), Some(40));
    array.recent_zones.extend([20, 70, 60]);
    assert_eq!(array.next_zone(), Some(60));
    array.config.slots[1].rebuilt.insert(60..61);
    assert_eq!(array.next_zone(), Some(70));
    array.recent_zones.clear();
    array.config.slots[1].rebuilt.insert(40..50);
    array.config.slots[0].rebuilt.insert(60..61);
    assert_eq!(array.next_zone(), Some(50));
    array.config.slots[0].rebuilt.insert(0..100);
    assert_eq!(array.next_zone(), Some(0));
}

#[test]
fn a_failing_member_is_copied_and_only_its_bad_blocks_are_recovered() {
    for (level, members) in redundant() {
        let mut world = written(level, members, 3, 20);
        world.restart();
        let old = world.members[0].clone();
        for row in 0..8 {
            world.disk.corrupt(&old, World::offset(row) + 5, &[77; 9]).unwrap();
        }
        let file = world.new_file();
        world.array().replace(0, &file, false).unwrap();
        assert_eq!(world.array().status().slots[0].state, SlotState::Copying);
        assert_eq!(world.array().status().state, ArrayState::Optimal);
        let batch = world.random_batch();
        world.write(&batch).unwrap();
        world.rebuild();
        // Each bad block is read twice: alone, and with its row.
        assert!(world.array().counters().checksum_errors <= 16);
        assert!(world.members.contains(&file) && !world.members.contains(&old));
        world.check();
        assert!(world.array().scrub().unwrap().is_clean());
        world.restart();
        world.members.push(old.clone());
        world.array.take().unwrap().close().unwrap();
        assert!(
            matches!(world.assemble(false), Err(ArrayError::Refused(Refusal::Stale(path))) if path == old)
        );
    }
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails() {
    let mut world = written(Level::Raid5, 4, 4, 10);
    let spare = world.new_file();
    world.array().add_spare(&spare, false).unwrap();
    world.refresh_members();
    world.restart();
    let path = world.members[2].clone();
    world.kill(&path);
    for _ in 0..6 {
        let batch = world.random_batch();
        world.write(&batch).unwrap();
    }
    let status = world.array().status();
    assert_eq!((status.slots[2].state, &status.failed[..]), (SlotState::Rebuilding, &[path][..]));
    world.rebuild();
    world.restart();
    assert_eq!(world.array().status().state, ArrayState::Optimal);
    assert_eq!(world.array().status().slots[2].member.as_deref(), Some(spare.as_path()));
    world.check();
    assert!(world.array().scrub().unwrap().is_clean());
}

#[test]
fn a_scrub_finds_and_repairs_damage_of_any_member_and_leaves_nothing_for_the_next() {
    for (level, members) in redundant() {
        for member in 0..members {
            let mut world = written(level, members, 5, 20);
            let path = world.members[member].clone();
            for row in [0, 3, 70] {
                world.disk.corrupt(&path, World::offset(row) + 9, &[1; 4]).unwrap();
            }
            world.disk.corrupt(&path, World::records_offset(1), &[0xAB; BLOCK]).unwrap();
            let report = world.array().scrub().unwrap();
            assert!(report.unrecoverable.is_empty() && report.disagreements.is_empty());
            assert!(report.repaired > 0 && report.damaged[member] == report.damaged.iter().sum::<u64>());
            assert!(world.array().scrub().unwrap().is_clean(), "{level} member {member}");
            world.check();
        }
    }
}

#[test]
fn damage_beyond_the_parity_is_reported_and_not_touched() {
    for (level, members) in SHAPES {
        let mut world = written(level, members, 6, 1);
        let blocks = world.array().layout().data_columns() as u64 * 4;
        let batch = (0..blocks).map(|block| (block, block + 1)).collect();
        world.write(&batch).unwrap();
        let paths: Vec<PathBuf> = world.members[..=level.tolerance(members)].to_vec();
        for path in &paths {
            world.disk.corrupt(path, World::offset(0), &[0xEE; BLOCK]).unwrap();
        }
        let before: Vec<_> = paths.iter().map(|path| world.disk.contents(path)).collect();
        let report = world.array().scrub().unwrap();
        assert_eq!(report.unrecoverable, [0], "{level}");
        let offset = World::offset(0) as usize;
        for (path, before) in paths.iter().zip(before) {
            let (before, after) = (before.unwrap(), world.disk.contents(path).unwrap());
            assert!(before[offset..offset + BLOCK] == after[offset..offset + BLOCK]);
        }
        world.check_never_wrong();
    }
}

/// Gives a cell other content, with a record that fits it.
fn falsify(world: &mut World, row: u64, cell: usize) {
    let array = world.array();
    let state = array.row_state(row);
    let CellState::Written(old) = state.cells[cell] else { panic!("written") };
    let block = [0x3C; BLOCK];
    let stored = array.config.layout.stored_cell(cell);
    let record = BlockRecord::new(array.config.array, row, stored, old.generation.get(), old.tags, &block);
    let device = array.sources(array.config.layout.slot(row, cell), row).next().unwrap();
    array.write_cell(device, row, RecordSlot::Written(record), &block).unwrap();
    array.write_records(device, row / ZONE_ROWS).unwrap();
}

#[test]
fn blocks_with_right_checksums_that_do_not_fit_are_reported_and_only_parity_is_corrected() {
    for (level, members) in redundant() {
        let mut world = written(level, members, 7, 1);
        let blocks = world.array().layout().data_columns() as u64 * 4;
        let batch = (0..blocks).map(|block| (block, block * 3 + 1)).collect();
        world.write(&batch).unwrap();
        let columns = world.array().layout().data_columns();
        let parities = world.array().code.parities();
        falsify(&mut world, 1, 0);
        let report = world.array().scrub().unwrap();
        let expected = (parities > 1).then(|| world.array().layout().slot(1, 0));
        assert_eq!(report.disagreements.len(), 1);
        assert_eq!((report.disagreements[0].suspect, report.disagreements[0].is_repaired), (expected, false));
        if parities > 1 {
            falsify(&mut world, 2, columns + 1);
            let report = world.array().scrub().unwrap();
            assert!(report.disagreements.iter().any(|found| found.row == 2 && found.is_repaired));
            let report = world.array().scrub().unwrap();
            assert_eq!(report.disagreements.iter().map(|found| found.row).collect::<Vec<_>>(), [1]);
        }
    }
}

#[test]
fn an_array_grows_without_moving_a_block() {
    for (level, members) in SHAPES.into_iter().filter(|(level, _)| *level != Level::Mirror) {
        let copies = level.tolerance(members) + 1;
        let added = if matches!(level, Level::Raid10 { .. }) { copies } else { 1 };
        let mut world = written(level, members, 8, 10);
        let before = world.array().layout().blocks();
        let files: Vec<PathBuf> = (0..added).map(|_| world.new_file()).collect();
        world.array().grow(&files, false).unwrap();
        world.refresh_members();
        let after = world.array().layout().blocks();
        assert_eq!(after - before, world.array().layout().rows, "{level}");
        world.model.resize(after as usize, 0);
        world.check();
        for _ in 0..10 {
            let batch = world.random_batch();
            world.write(&batch).unwrap();
            let last = (after - 5, after);
            world.write(&[last].into()).unwrap();
        }
        world.restart();
        world.check();
        assert!(world.array().scrub().unwrap().is_clean());
        if level.tolerance(members) > 0 {
            world.array().fail(members).unwrap();
            world.check();
        }
    }
    let mut world = World::new(Level::Mirror, 2, 1);
    let file = world.new_file();
    assert!(matches!(
        world.array().grow(&[file], false),
        Err(ArrayError::Refused(Refusal::MemberCount { .. }))
    ));
}

#[test]
fn new_members_with_data_or_in_use_and_losses_beyond_the_level_are_refused() {
    let mut world = written(Level::Raid5, 4, 9, 3);
    let (used, short) = (world.members[0].clone(), Path::new("/a/short"));
    let refusal = |result| match result {
        Err(ArrayError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refusal(world.array().add_spare(&used, true)), Refusal::Twice(_)));
    world.disk.put(short, &[0; 8 * BLOCK]);
    assert!(matches!(refusal(world.array().add_spare(short, true)), Refusal::TooSmall { .. }));
    let data = world.new_file();
    world.disk.corrupt(&data, 70_000, &[1]).unwrap();
    assert!(matches!(refusal(world.array().replace(0, &data, false)), Refusal::HasData { .. }));
    assert!(matches!(refusal(world.array().replace(9, &data, true)), Refusal::Parameter(_)));
    world.array().fail(1).unwrap();
    assert!(matches!(refusal(world.array().fail(1)), Refusal::Parameter(_)));
    assert!(matches!(refusal(world.array().fail(2)), Refusal::TooManyMissing { missing: 2, .. }));
    world.array().replace(1, &data, true).unwrap();
    world.rebuild();
    world.check();
    assert_eq!(world.array().status().state, ArrayState::Optimal);
}

#[test]
fn steps_of_a_rebuild_pause_only_while_the_load_is_slow() {
    let mut world = written(Level::Raid5, 4, 10, 3);
    world.array().fail(0).unwrap();
    let file = world.new_file();
    world.array().replace(0, &file, false).unwrap();
    world.array().take_load_latency();
    let mut throttle = crate::Throttle::new(Duration::ZERO, Duration::from_millis(9));
    world.array().rebuild_step().unwrap();
    // No load, no pause; a load that takes no time of the simulated clock is not slow either.
    assert_eq!(throttle.pause(world.array().take_load_latency()), Duration::ZERO);
    world.check();
    assert_eq!(world.array().take_load_latency(), Some(Duration::ZERO));
    assert_eq!(world.array().take_load_latency(), None);
    assert!(throttle.pause(Some(Duration::from_nanos(1))) > Duration::ZERO);
}
