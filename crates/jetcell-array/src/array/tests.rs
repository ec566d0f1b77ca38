use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use rand::Rng;

use super::*;
use crate::geometry::ZONE_ROWS;
use crate::member::MemberLayout;
use crate::shared_block::SharedBlock;
use crate::test_array::{JOURNAL, SHAPES, TestArray, ZONES, content};
use crate::{ArrayError, RaidLevel};

#[test]
fn every_level_keeps_data_after_any_tolerated_member_loss() {
    for (level, members) in SHAPES {
        let mut tested = TestArray::new(level, members, 1);
        for _ in 0..30 {
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
        }
        tested.check();
        tested.restart();
        tested.check();
        let tolerance = level.tolerance(members);
        for first in 0..members {
            let lost = (0..tolerance).map(|more| (first + more) % members).collect::<Vec<_>>();
            let mut degraded = copy_without(&mut tested, &lost);
            degraded.check();
            let batch = degraded.random_batch();
            degraded.write(&batch).unwrap();
            degraded.check();
            assert_eq!(
                degraded.array().status().state,
                match tolerance {
                    0 => ArrayState::Optimal,
                    lost => ArrayState::Degraded(lost),
                }
            );
        }
    }
}

/// Shuts the array down and returns an array on a copy of the disk without some members.
fn copy_without(tested: &mut TestArray, lost: &[usize]) -> TestArray {
    if let Some(array) = tested.array.take() {
        array.close().unwrap();
    }
    let mut copy = TestArray::new(tested.level, tested.members.len(), 2);
    copy.array = None;
    copy.disk = tested.disk.clone_disk();
    copy.faults = Arc::new(jetcell_vfs::FaultVfs::new(Arc::new(copy.disk.clone())));
    copy.model = tested.model.clone();
    let kept = |(index, path): (usize, &PathBuf)| (!lost.contains(&index)).then(|| path.clone());
    copy.members = tested.members.iter().enumerate().filter_map(kept).collect();
    copy.assemble(false).unwrap();
    copy
}

#[test]
fn commits_are_atomic_across_a_power_cut_at_any_write() {
    for (level, members) in SHAPES {
        let mut operations = 0;
        loop {
            let mut tested = TestArray::new(level, members, operations);
            for _ in 0..3 {
                let batch = tested.random_batch();
                tested.write(&batch).unwrap();
            }
            let batch = tested.random_batch();
            if !tested.write_with_cut(&batch, operations) {
                break;
            }
            tested.check();
            operations += 1;
        }
        assert!(operations > 4);
    }
}

#[test]
fn commits_are_atomic_across_power_cuts_with_member_loss() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        for seed in 0..24 {
            let mut tested = TestArray::new(level, members, seed);
            for _ in 0..3 {
                let batch = tested.random_batch();
                tested.write(&batch).unwrap();
            }
            let batch = tested.random_batch();
            for _ in 0..level.tolerance(members) {
                let lost = tested.rng.random_range(0..tested.members.len());
                tested.members.remove(lost);
            }
            let operations = tested.rng.random_range(0..40);
            if tested.write_with_cut(&batch, operations) {
                tested.check();
            }
        }
    }
}

/// Overwrites bytes of a member, bypassing the array.
fn damage(tested: &TestArray, member: usize, offset: u64, bytes: &[u8]) {
    tested.disk.corrupt(&tested.members[member], offset, bytes).unwrap();
}

#[test]
fn damaged_blocks_and_records_are_recovered_and_repaired() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        for member in 0..members {
            let mut tested = TestArray::new(level, members, 5);
            for _ in 0..20 {
                let batch = tested.random_batch();
                tested.write(&batch).unwrap();
            }
            tested.restart();
            for row in 0..16 {
                damage(&tested, member, TestArray::offset(row) + 100, &[1, 2, 3]);
            }
            tested.check();
            damage(&tested, member, TestArray::records_offset(0), &[0xAB; 4096]);
            tested.restart();
            tested.check();
            tested.restart();
            let before = tested.array().counters();
            tested.check();
            let after = tested.array().counters();
            assert_eq!((before.rows_recovered, after.rows_recovered), (0, 0), "{level} member {member}");
        }
    }
}

#[test]
fn lost_member_writes_are_found() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        for seed in 0..12 {
            let mut tested = TestArray::new(level, members, seed);
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
            let liar = tested.members[tested.rng.random_range(0..members)].to_str().unwrap().to_owned();
            for _ in 0..4 {
                tested.disk.lose_writes(&liar, 1000);
                let batch = tested.random_batch();
                tested.write(&batch).unwrap();
            }
            // The machine is reset, so no records remain in memory.
            tested.array = None;
            tested.disk = tested.disk.clone_disk();
            tested.faults = Arc::new(jetcell_vfs::FaultVfs::new(Arc::new(tested.disk.clone())));
            tested.assemble(false).unwrap();
            tested.check();
        }
    }
}

#[test]
fn a_member_that_fails_while_the_array_runs_is_removed() {
    for (level, members) in SHAPES {
        let mut tested = TestArray::new(level, members, 9);
        for failures in 1..=level.tolerance(members) + 1 {
            let path = tested.members[0].clone();
            tested.fail_file(&path);
            let mut result = Ok(());
            for _ in 0..6 {
                let batch = tested.random_batch();
                result = tested.write(&batch);
                if result.is_err() {
                    // Staged writes remain visible.
                    batch.iter().for_each(|(block, value)| tested.model[*block as usize] = *value);
                    break;
                }
            }
            if failures <= level.tolerance(members) {
                result.unwrap();
                tested.check();
                tested.forget(&path);
            } else {
                assert!(
                    matches!(result, Err(ArrayError::Stopped { .. } | ArrayError::Unrecoverable { .. })),
                    "{result:?}"
                );
                tested.check_never_wrong();
            }
        }
    }
}

fn refusal(result: Result<impl Sized>) -> ArrayRefusal {
    match result {
        Err(ArrayError::Refused(refusal)) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn creation_rejects_destructive_or_invalid_options_without_writing() {
    let disk = SimVfs::new();
    let size = crate::member::MemberLayout::new(JOURNAL).bytes_for(ZONES * ZONE_ROWS) as usize;
    let path = |name: &str| PathBuf::from(format!("/a/{name}"));
    for name in ["1", "2", "3", "4"] {
        disk.put(&path(name), &vec![0; size]);
    }
    disk.put(&path("longer"), &vec![0; size + BLOCK]);
    disk.put(&path("short"), &vec![0; 5 * BLOCK]);
    let mut data = vec![0; size];
    data[size - 1] = 1;
    disk.put(&path("data"), &data);
    let options =
        CreateArrayOptions { journal_images: JOURNAL, ..CreateArrayOptions::new(RaidLevel::Raid5, 1) };
    let create = |names: &[&str], options: &CreateArrayOptions| {
        let before: Vec<_> = names.iter().map(|name| disk.contents(&path(name))).collect();
        let members: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
        let refusal = refusal(Array::create(&disk, &members, options));
        assert_eq!(before, names.iter().map(|name| disk.contents(&path(name))).collect::<Vec<_>>());
        refusal
    };
    assert!(matches!(create(&["1", "2"], &options), ArrayRefusal::MemberCount { members: 2, .. }));
    assert!(matches!(create(&["1", "2", "1"], &options), ArrayRefusal::DuplicateMember(_)));
    assert!(matches!(create(&["1", "2", "longer"], &options), ArrayRefusal::SizeDiffers { .. }));
    assert!(matches!(create(&["1", "2", "data"], &options), ArrayRefusal::HasData { what: "data", .. }));
    assert!(matches!(create(&["short", "short", "3"], &options), ArrayRefusal::DuplicateMember(_)));
    let odd = CreateArrayOptions { journal_images: 3, ..options.clone() };
    assert!(matches!(create(&["1", "2", "3"], &odd), ArrayRefusal::JournalSize));
    let odd = CreateArrayOptions { chunk: 128, ..options.clone() };
    assert!(matches!(create(&["1", "2", "3"], &odd), ArrayRefusal::ChunkSize));
    let lock = disk.lock(&path("2")).unwrap();
    assert!(matches!(create(&["1", "2", "3"], &options), ArrayRefusal::InUse(_)));
    drop(lock);
    let three = ["1", "2", "3"].map(path);
    Array::create(&disk, &three, &options).unwrap();
    assert!(matches!(
        create(&["4", "2", "data"], &options),
        ArrayRefusal::HasData { what: "a member of an array", .. }
    ));
    let force = CreateArrayOptions { force: true, id: 2, ..options };
    let members = ["1", "2", "data"].map(path);
    Array::create(&disk, &members, &force).unwrap();
    let mut array = Array::assemble(Arc::new(disk.clone()), &members, AssembleOptions::default()).unwrap();
    let mut block = [1; BLOCK];
    array.read(array.layout().blocks() - 1, &mut block).unwrap();
    assert_eq!(block, [0; BLOCK]);
}

#[test]
fn assembly_rejects_invalid_member_sets_and_dirty_degraded_arrays() {
    let mut tested = TestArray::new(RaidLevel::Raid5, 4, 3);
    let batch = tested.random_batch();
    tested.write(&batch).unwrap();
    let all = tested.members.clone();
    // The array was not shut down.
    tested.array = None;
    tested.members.remove(3);
    assert_eq!(refusal(tested.assemble(false)), ArrayRefusal::DirtyDegraded { missing: 1 });
    tested.assemble(true).unwrap();
    tested.check();
    // After another crash, the array already knows that the fourth member is missing.
    tested.array = None;
    tested.assemble(false).unwrap();
    tested.check();
    // The array was started without the fourth member, so this member is stale.
    tested.close();
    tested.members = all.clone();
    assert_eq!(refusal(tested.assemble(false)), ArrayRefusal::Stale(all[3].clone()));
    tested.assemble(true).unwrap();
    assert_eq!(tested.array().status().state, ArrayState::Degraded(1));
    tested.check();
    tested.close();
    tested.members = all[..2].to_vec();
    assert!(matches!(refusal(tested.assemble(true)), ArrayRefusal::TooManyMissing { missing: 2, .. }));
    let options = AssembleOptions { access: ArrayAccess::ReadOnly, force: false };
    tested.array = Some(Array::assemble(tested.faults.clone(), &tested.members, options).unwrap());
    tested.check_never_wrong();
    assert_eq!(refusal(tested.array().write(0, &content(1))), ArrayRefusal::ReadOnly);
    tested.array = None;
    tested.members = vec![all[0].clone(), all[1].clone(), all[0].clone()];
    assert!(matches!(refusal(tested.assemble(false)), ArrayRefusal::DuplicateMember(_)));
    let file = tested.new_file();
    tested.members = vec![all[0].clone(), all[1].clone(), file.clone()];
    assert_eq!(refusal(tested.assemble(false)), ArrayRefusal::NotAMember(file.clone()));
    let others: Vec<PathBuf> = (0..2).map(|_| tested.new_file()).chain([file.clone()]).collect();
    let options =
        CreateArrayOptions { journal_images: JOURNAL, ..CreateArrayOptions::new(RaidLevel::Raid5, 8) };
    Array::create(&tested.disk, &others, &options).unwrap();
    assert_eq!(refusal(tested.assemble(true)), ArrayRefusal::Foreign { path: file, first: all[0].clone() });
}

#[test]
fn assembly_tolerates_damaged_superblocks() {
    for place in 0..2 {
        let mut tested = TestArray::new(RaidLevel::RaidDp { prime: 17 }, 6, 3);
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
        tested.close();
        let second = TestArray::records_offset(0) - BLOCK as u64;
        for member in 0..6 {
            damage(&tested, member, [0, second][place], &[9; 77]);
        }
        tested.assemble(false).unwrap();
        tested.check();
        tested.close();
        for member in 0..2 {
            damage(&tested, member, 0, &[9; 77]);
            damage(&tested, member, second, &[9; 77]);
        }
        assert!(matches!(refusal(tested.assemble(false)), ArrayRefusal::NotAMember(_)));
        tested.assemble(true).unwrap();
        assert_eq!(tested.array().status().state, ArrayState::Degraded(2));
        tested.check();
    }
}

#[test]
fn blocks_past_the_end_and_partial_blocks_are_rejected() {
    let mut tested = TestArray::new(RaidLevel::Mirror, 2, 3);
    let blocks = tested.array().layout().blocks();
    assert!(matches!(refusal(tested.array().read(blocks, &mut [0; BLOCK])), ArrayRefusal::OutOfRange { .. }));
    assert!(matches!(
        refusal(tested.array().write(blocks - 1, &[0; 2 * BLOCK])),
        ArrayRefusal::OutOfRange { .. }
    ));
    assert!(matches!(
        refusal(tested.array().read(u64::MAX, &mut [0; BLOCK])),
        ArrayRefusal::OutOfRange { .. }
    ));
    assert!(matches!(refusal(tested.array().write(0, &[0; 512])), ArrayRefusal::PartOfABlock(512)));
}

#[test]
fn parity_updates_use_the_cheapest_method() {
    let mut tested = TestArray::new(RaidLevel::Raid6, 7, 3);
    // There are five data columns and two parity blocks. Read-modify-write of one column costs 6 transfers and of two
    // columns 8, whereas reconstruct-write costs 7.
    let block_of = |tested: &mut TestArray, column| tested.array().layout().block_at(0, column);
    for (columns, expected) in [(5, (1, 0, 0)), (1, (1, 1, 0)), (2, (1, 1, 1)), (4, (1, 1, 2))] {
        let batch = (0..columns).map(|column| (block_of(&mut tested, column), column as u64 + 1)).collect();
        tested.write(&batch).unwrap();
        let counters = tested.array().counters();
        let counted = (counters.full_row_writes, counters.read_modify_writes, counters.reconstruct_writes);
        assert_eq!(counted, expected, "{columns} columns");
    }
    tested.check();
}

#[test]
fn a_commit_survives_a_lost_member_journal_and_power_cut() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        for seed in 0..12 {
            let mut tested = TestArray::new(level, members, seed);
            for _ in 0..2 {
                let batch = tested.random_batch();
                tested.write(&batch).unwrap();
            }
            let liar = tested.members[seed as usize % members].clone();
            // The first write of a commit to each member is the journal.
            tested.disk.lose_writes(liar.to_str().unwrap(), 1);
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
            tested.crash();
            tested.assemble(true).unwrap();
            tested.check();
            assert!(tested.array().scrub().unwrap().unrecoverable.is_empty());
            tested.check();
        }
    }
}

#[test]
fn a_row_in_two_commits_recovers_to_the_latest_state() {
    for (level, members) in SHAPES.into_iter().filter(|(level, members)| level.tolerance(*members) > 0) {
        for seed in 0..8 {
            let mut tested = TestArray::new(level, members, seed);
            let block = |tested: &mut TestArray, column| tested.array().layout().block_at(1, column);
            // The member of the first column fails in the commit that writes this column.
            let slot = tested.array().layout().slot(1, 0);
            let path = tested.members[slot].clone();
            let last = tested.array().layout().data_columns() - 1;
            let (first, last) = (block(&mut tested, 0), block(&mut tested, last));
            tested.fail_file(&path);
            tested.write(&[(first, 5)].into()).unwrap();
            let file = tested.new_file();
            tested.array().replace(slot, &file, false).unwrap();
            tested.rebuild();
            tested.write(&[(last, 7)].into()).unwrap();
            tested.crash();
            tested.assemble(true).unwrap();
            tested.check();
            let report = tested.array().scrub().unwrap();
            assert!(
                report.parity_mismatches.is_empty() && report.unrecoverable.is_empty(),
                "{level}: {report:?}"
            );
            tested.check();
        }
    }
}

#[test]
fn examination_identifies_each_file_while_the_array_runs() {
    use crate::{ArrayExamination, MemberState, SlotState};
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 3);
    tested.array().fail(1).unwrap();
    let (spare, other) = (tested.new_file(), tested.new_file());
    tested.array().add_spare(&spare, false).unwrap();
    tested.array().set_zones_per_save(1);
    tested.array().rebuild_rows(ZONE_ROWS).unwrap();
    let absent = PathBuf::from("/a/absent");
    let paths = [tested.members.clone(), vec![spare, other, absent]].concat();
    let found = ArrayExamination::new(&tested.disk, 77, &paths).unwrap();
    let states: Vec<MemberState> = found.members.iter().map(|(_, state)| state.clone()).collect();
    let slot = MemberState::Slot;
    assert_eq!(states[..5], [slot(0), MemberState::Stale, slot(2), slot(3), slot(4)]);
    assert_eq!(states[5..], [MemberState::Replacement(1), MemberState::NotAMember, MemberState::Absent]);
    assert_eq!((found.state, found.is_open), (ArrayState::Degraded(1), true));
    assert_eq!((found.slots[1].state, found.slots[1].progress), (SlotState::Rebuilding, 0.5));
    let of_another = ArrayExamination::new(&tested.disk, 78, &paths);
    assert!(matches!(refusal(of_another), ArrayRefusal::NoReadableMember));
}

#[test]
fn erasing_an_array_leaves_other_files_unchanged() {
    let mut tested = TestArray::new(RaidLevel::Raid5, 3, 3);
    tested.close();
    let other = tested.new_file();
    tested.disk.corrupt(&other, 0, &[7; 512]).unwrap();
    let paths = [tested.members.clone(), vec![other.clone()]].concat();
    assert_eq!(Array::erase(&tested.disk, 77, &paths).unwrap(), 3);
    assert_eq!(Array::erase(&tested.disk, 77, &paths).unwrap(), 0);
    assert!(matches!(refusal(tested.assemble(true)), ArrayRefusal::NoMember));
    assert_eq!(tested.disk.contents(&other).unwrap()[..512], [7; 512]);
}

#[test]
fn journal_replay_does_not_overwrite_rows_written_directly() {
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
    let columns = tested.array().layout().data_columns();
    let blocks: Vec<u64> = (0..columns).map(|column| tested.array().layout().block_at(0, column)).collect();
    tested.write(&blocks.iter().map(|block| (*block, 1)).collect()).unwrap();
    let row = |value: u64| (0, (0..columns).map(|_| SharedBlock::copy_from(&content(value))).collect());
    tested.array().row_writer().start_free_rows(&[row(2)]).unwrap();
    tested.array().row_writer().finish_rows().unwrap();
    tested.array().row_writer().sync_members().unwrap();
    tested.crash();
    tested.assemble(false).unwrap();
    assert!(blocks.iter().all(|block| tested.value(*block).unwrap() == 2));
    assert!(tested.array().scrub().unwrap().is_clean());
}

#[test]
fn every_full_row_write_method_produces_the_same_member_bytes() {
    enum RowWriteMethod {
        AnyState,
        Copied,
        BlockByBlock,
    }
    let levels = [
        (RaidLevel::Raid0, 3),
        (RaidLevel::Raid5, 4),
        (RaidLevel::Raid6, 5),
        (RaidLevel::TripleParity, 6),
        (RaidLevel::RaidDp { prime: 17 }, 6),
    ];
    for (level, members) in levels {
        let written = |way: RowWriteMethod| {
            let mut tested = TestArray::with_zones(level, members, 3, 4);
            let layout = *tested.array().layout();
            // Before the write, all rows of the zone that is written whole have the same generation. Otherwise, one
            // of the methods would assign the highest generation to all of them.
            let old = (128..192).map(|row| layout.block_at(row, 1)).chain([layout.block_at(3, 0)]);
            tested.write(&old.map(|block| (block, 9)).collect()).unwrap();
            let rows: Vec<FreeRowWrite> = (2..5)
                .chain([60, 63, 64, 65])
                .chain(128..192)
                .chain([255])
                .map(|row| {
                    let block = |column| SharedBlock::copy_from(&content(1000 * row + column as u64));
                    (row, (0..layout.data_columns()).map(block).collect())
                })
                .collect();
            let array = tested.array();
            assert!(array.row_writer().rows.device_per_slot().is_some(), "{level}");
            match way {
                RowWriteMethod::AnyState => {
                    let write = array.row_writer().start_rows_in_any_state(&rows).unwrap();
                    array.row_writer().finish_in_place_writes(write).unwrap();
                }
                RowWriteMethod::Copied => array.row_writer().start_free_rows(&rows).unwrap(),
                RowWriteMethod::BlockByBlock => {
                    for rows in rows.chunk_by(|one, next| one.0 / ZONE_ROWS == next.0 / ZONE_ROWS) {
                        let mut open =
                            array.row_writer().open_zone(rows.iter().map(|(row, _)| *row).collect()).unwrap();
                        for (row, columns) in rows {
                            for (column, block) in columns.iter().enumerate() {
                                open.put(layout.block_at(*row, column), SharedBlock::copy_from(&content(0)));
                                open.put(layout.block_at(*row, column), block.clone());
                            }
                        }
                        array.row_writer().start_zone(open).unwrap();
                    }
                }
            }
            array.row_writer().finish_rows().unwrap();
            for (row, columns) in &rows {
                for (column, block) in columns.iter().enumerate() {
                    let mut found = vec![0; BLOCK];
                    array.read(layout.block_at(*row, column), &mut found).unwrap();
                    assert!(found[..] == block[..], "{level}: row {row}, column {column}");
                }
            }
            assert!(array.scrub().unwrap().is_clean(), "{level}");
            tested.close();
            let first = MemberLayout::new(JOURNAL).records(0) as usize;
            let content = |member: &PathBuf| tested.disk.contents(member).unwrap()[first..].to_vec();
            tested.members.iter().map(content).collect::<Vec<_>>()
        };
        let expected = written(RowWriteMethod::AnyState);
        assert!(expected == written(RowWriteMethod::Copied), "{level}");
        assert!(expected == written(RowWriteMethod::BlockByBlock), "{level}");
    }
}

#[test]
fn changes_to_the_array_wait_for_rows_in_flight() {
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
    let columns = tested.array().layout().data_columns();
    let row = |row, value| (row, (0..columns).map(|_| SharedBlock::copy_from(&content(value))).collect());
    tested.array().row_writer().start_free_rows(&[row(1, 5), row(2, 6)]).unwrap();
    // The records of rows 1 to 3 are in the same block.
    let layout = *tested.array().layout();
    tested.write(&[(layout.block_at(3, 0), 7)].into()).unwrap();
    for (row, value) in [(1, 5), (2, 6), (3, 7)] {
        assert_eq!(tested.value(layout.block_at(row, 0)).unwrap(), value);
    }
    tested.restart();
    assert_eq!(tested.value(layout.block_at(1, 0)).unwrap(), 5);
    assert!(tested.array().scrub().unwrap().is_clean());
}

/// Checks that a long read reads the next zone's records ahead, and that later changes to this zone are respected.
#[test]
fn prefetched_records_are_used_unless_the_zone_changes() {
    for (level, members) in [(RaidLevel::Raid6, 5), (RaidLevel::Raid10 { copies: 2 }, 4)] {
        let mut tested = TestArray::with_zones(level, members, 5, 4);
        let layout = *tested.array().layout();
        let blocks = |zone: u64| -> Vec<u64> {
            (zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS).map(|row| layout.block_at(row, 0)).collect()
        };
        for batch in (0..3).flat_map(blocks).collect::<Vec<_>>().chunks(JOURNAL as usize) {
            tested.write(&batch.iter().map(|block| (*block, *block + 1)).collect()).unwrap();
        }
        tested.restart();
        let read = |tested: &mut TestArray, zone: u64, ahead: bool| {
            let (array, blocks) = (tested.array(), blocks(zone));
            let before = array.counters().members.records.reads;
            let ahead = ahead.then(|| array.start_read(&blocks));
            let mut bytes = vec![0; blocks.len() * BLOCK];
            let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(BLOCK).collect();
            array.finish_read(&blocks, &mut buffers, ahead).unwrap();
            for (block, found) in blocks.iter().zip(bytes.chunks_exact(BLOCK)) {
                assert!(found == content(tested.model[*block as usize]), "{level}: block {block}");
            }
            tested.array().counters().members.records.reads - before
        };
        let each = layout.slots as u64;
        assert_eq!(read(&mut tested, 0, true), 2 * each, "{level}: the next zone as well");
        assert_eq!(read(&mut tested, 1, false), 0, "{level}");
        assert_eq!(read(&mut tested, 1, true), each, "{level}: the next zone");
        // The write needs the records and loads them.
        tested.write(&[(blocks(2)[7], 77)].into()).unwrap();
        assert_eq!(read(&mut tested, 2, false), 0, "{level}");
        assert_eq!(tested.array().counters().stale_blocks + tested.array().counters().checksum_errors, 0);
        tested.array().members_mut().records.forget_zone(2);
        assert_eq!(read(&mut tested, 2, false), each, "{level}");
    }
}

#[test]
fn reads_return_blocks_written_while_the_read_is_pending() {
    for (level, members) in [(RaidLevel::Raid6, 5), (RaidLevel::Raid10 { copies: 2 }, 4)] {
        let mut tested = TestArray::new(level, members, 5);
        let blocks: Vec<u64> = (0..JOURNAL.into()).collect();
        tested.write(&blocks.iter().map(|block| (*block, 10 + block)).collect()).unwrap();
        let ahead = tested.array().start_read(&blocks);
        tested.write(&[(3, 50)].into()).unwrap();
        tested.stage(&[(5, 60), (6, 61)].into()).unwrap();
        let mut bytes = vec![0; blocks.len() * BLOCK];
        let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(BLOCK).collect();
        tested.array().finish_read(&blocks, &mut buffers, Some(ahead)).unwrap();
        let found: Vec<u64> = bytes
            .chunks_exact(BLOCK)
            .map(|block| u64::from_le_bytes(block[..8].try_into().unwrap()))
            .collect();
        assert_eq!(found, [10, 11, 12, 50, 14, 60, 61, 17], "{level}");
        let counters = tested.array().counters();
        assert_eq!(counters.checksum_errors + counters.stale_blocks + counters.rows_recovered, 0, "{level}");
    }
}
