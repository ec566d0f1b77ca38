//! Tests of rows that lost data: they are remembered until they are written again.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::geometry::BLOCK;
use crate::test_array::TestArray;
use crate::{ArrayExamination, ArrayState, RaidLevel};

const LOST: Range<u64> = 2..5;

/// Returns an array with content in its first rows, and with damaged blocks on two members.
fn damaged() -> TestArray {
    let mut tested = TestArray::new(RaidLevel::Raid5, 4, 1);
    let batch = tested.rows(0..8, 1000);
    tested.write(&batch).unwrap();
    tested.restart();
    let member = tested.members[1].clone();
    for row in LOST {
        tested.disk.corrupt(&member, TestArray::offset(row) + 5, &[77; 9]).unwrap();
    }
    tested
}

/// Returns the data blocks of the lost rows that are on the first two slots.
fn blocks_on_two_slots(tested: &mut TestArray) -> BTreeSet<u64> {
    let layout = *tested.array().layout();
    let cells = LOST.flat_map(|row| (0..layout.data_columns()).map(move |column| (row, column)));
    cells
        .filter(|(row, column)| layout.slot(*row, *column) < 2)
        .map(|(row, column)| layout.block_at(row, column))
        .collect()
}

fn blocks(bytes: &[Range<u64>]) -> BTreeSet<u64> {
    bytes.iter().flat_map(|range| range.start / BLOCK as u64..range.end / BLOCK as u64).collect()
}

#[test]
fn rows_that_a_rebuild_lost_are_remembered_until_they_are_rewritten() {
    let mut tested = damaged();
    tested.array().fail(0).unwrap();
    let file = tested.new_file();
    tested.array().replace(0, &file, false).unwrap();
    tested.rebuild();
    let expected = blocks_on_two_slots(&mut tested);
    for is_restarted in [false, true] {
        if is_restarted {
            tested.restart();
        }
        let status = tested.array().status();
        assert_eq!((status.state, status.lost_rows), (ArrayState::Optimal, 3));
        assert_eq!(blocks(&tested.array().lost_bytes()), expected);
    }
    let found = ArrayExamination::new(&tested.disk, 77, &tested.members).unwrap();
    assert_eq!((found.lost_rows, blocks(&found.lost_bytes)), (3, expected.clone()));
    for block in 0..tested.model.len() as u64 {
        assert_eq!(tested.value(block).is_err(), expected.contains(&block), "block {block}");
    }
    let some = tested.rows(2..4, 5000);
    tested.write(&some).unwrap();
    assert_eq!(tested.array().status().lost_rows, 1, "rewritten rows are no longer lost");
    let last = tested.rows(4..5, 6000);
    tested.write(&last).unwrap();
    tested.crash();
    tested.assemble(false).unwrap();
    assert_eq!(tested.array().status().lost_rows, 0);
    assert!(tested.array().lost_bytes().is_empty());
    tested.check();
    assert!(tested.array().scrub().unwrap().is_clean());
}

#[test]
fn rows_that_a_scrub_cannot_recover_are_remembered_and_a_later_scrub_clears_them() {
    let mut tested = damaged();
    let member = tested.members[0].clone();
    let content: Vec<Vec<u8>> = LOST
        .map(|row| {
            let start = TestArray::offset(row) as usize;
            tested.disk.contents(&member).unwrap()[start..start + BLOCK].to_vec()
        })
        .collect();
    for row in LOST {
        tested.disk.corrupt(&member, TestArray::offset(row) + 5, &[99; 9]).unwrap();
    }
    assert_eq!(tested.array().scrub().unwrap().unrecoverable, LOST.collect::<Vec<_>>());
    let expected = blocks_on_two_slots(&mut tested);
    assert_eq!(blocks(&tested.array().lost_bytes()), expected);
    // The blocks of one member become readable again, for example because the member was connected to another port.
    for (row, block) in LOST.zip(&content) {
        tested.disk.corrupt(&member, TestArray::offset(row), block).unwrap();
    }
    let report = tested.array().scrub().unwrap();
    assert!(report.unrecoverable.is_empty() && report.repaired == 3, "{report:?}");
    assert_eq!(tested.array().status().lost_rows, 0);
    tested.restart();
    assert_eq!(tested.array().status().lost_rows, 0);
    tested.check();
}
