//! Compares the number of member transfers for reads and small in-place writes with the formulas for the RAID levels.

use proptest::prelude::*;

use super::Array;
use crate::RaidLevel;
use crate::test_array::{CHUNK, TestArray, content};

const DP: RaidLevel = RaidLevel::RaidDp { prime: 17 };

/// Returns an array in which every block was written.
fn full(level: RaidLevel, members: usize, seed: u64) -> TestArray {
    let mut tested = TestArray::new(level, members, seed);
    let all = (0..tested.model.len() as u64).map(|block| (block, block + 1)).collect();
    tested.write(&all).unwrap();
    tested
}

/// Returns the number of data and parity transfers that `call` causes.
fn cost(tested: &mut TestArray, call: impl FnOnce(&mut Array)) -> u64 {
    let before = tested.array().counters().members.data_and_parity;
    call(tested.array());
    let taken = tested.array().counters().members.data_and_parity.since(&before);
    // Data and parity transfers do not include records, so each transfer is one block.
    assert_eq!((taken.reads, taken.writes), (taken.blocks_read, taken.blocks_written));
    taken.reads + taken.writes
}

fn write(block: u64, value: u64) -> impl FnOnce(&mut Array) {
    move |array| {
        array.write(block, &content(value)).unwrap();
        array.flush().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Checks the write penalty of small in-place writes. Journal and record transfers are counted separately.
    #[test]
    fn small_in_place_writes_take_two_four_or_six_transfers(
        (level, members, expected) in prop_oneof![
            Just((RaidLevel::Mirror, 2, 2)),
            Just((RaidLevel::Raid10 { copies: 2 }, 6, 2)),
            (4usize..9).prop_map(|members| (RaidLevel::Raid5, members, 4)),
            (6usize..10).prop_map(|members| (RaidLevel::Raid6, members, 6)),
            (6usize..10).prop_map(|members| (DP, members, 6)),
            (6usize..10).prop_map(|members| (RaidLevel::RaidDp { prime: 257 }, members, 6)),
        ],
        seed in any::<u64>(),
        blocks in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let mut tested = full(level, members, seed);
        let count = tested.model.len() as u64;
        for (value, block) in blocks.into_iter().enumerate() {
            prop_assert_eq!(cost(&mut tested, write(block % count, value as u64 + 1)), expected, "{}", level);
        }
        let members = tested.array().counters().members;
        prop_assert_eq!(members.maintenance, Default::default());
        prop_assert!(members.journal.writes > 0 && members.records.writes > 0);
    }
}

/// Returns the mean number of transfers for a read and for a small write. The accessed blocks are distributed evenly
/// over the columns of a row and over the slots.
fn mean_costs(level: RaidLevel, members: usize, lost: &[usize]) -> (f64, f64) {
    let mut tested = full(level, members, 1);
    lost.iter().for_each(|slot| tested.array().fail(*slot).unwrap());
    let rows = u64::from(CHUNK) * members as u64;
    let columns = tested.array().layout().data_columns();
    let (mut reads, mut writes, mut count) = (0, 0, 0);
    for row in 0..rows {
        for column in 0..columns {
            let block = tested.array().layout().block_at(row, column);
            reads += cost(&mut tested, |array| array.read(block, &mut content(0)).unwrap());
            writes += cost(&mut tested, write(block, count + 1));
            tested.model[block as usize] = count + 1;
            count += 1;
        }
    }
    tested.check();
    (reads as f64 / count as f64, writes as f64 / count as f64)
}

#[test]
fn degraded_costs_match_the_formulas() {
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    assert_eq!(mean_costs(RaidLevel::Raid10 { copies: 2 }, 4, &[]), (1.0, 2.0));
    // One of two mirror pairs is degraded.
    assert_eq!(mean_costs(RaidLevel::Raid10 { copies: 2 }, 4, &[1]), (1.0, 1.5));
    let (n, members) = (5.0, 5);
    let (read, write) = mean_costs(RaidLevel::Raid5, members, &[2]);
    close(read, 2.0 * (n - 1.0) / n);
    close(write, (5.0 * n - 8.0) / n);
    let (n, members) = (8.0, 8);
    let (read, write) = mean_costs(RaidLevel::Raid6, members, &[2]);
    // The formula gives 2N - 3: recovery needs one parity block. The array also reads the other parity block, to
    // verify the recovered data.
    close(read, (2.0 * n - 2.0) / n);
    close(write, (7.0 * n - 11.0) / n);
    // Covers all pairs of lost slots by their distance. Parity rotates, so pairs with the same distance have the same
    // cost.
    let mut sum = 0.0;
    for (distance, pairs) in [(1, 8.0), (2, 8.0), (3, 8.0), (4, 4.0)] {
        let (read, write) = mean_costs(RaidLevel::Raid6, members, &[2, 2 + distance]);
        close(read, 3.0 * (n - 2.0) / n);
        sum += pairs * write;
    }
    let pairs = |n: f64| n * (n - 1.0) / 2.0;
    close(sum, 6.0 * pairs(n - 3.0) + n * (n - 3.0) + 8.0 * (n - 3.0) + 2.0 * (n - 2.0) + 1.0);
}

#[test]
fn degraded_rows_are_read_once_for_all_blocks() {
    let mut tested = full(RaidLevel::Raid6, 8, 2);
    tested.array().fail(3).unwrap();
    let (columns, rows) = (tested.array().layout().data_columns(), 2 * u64::from(CHUNK) * 8);
    let mut buffer = vec![0; rows as usize * columns * crate::BLOCK];
    let before = tested.array().counters();
    tested.array().read(0, &mut buffer).unwrap();
    let after = tested.array().counters();
    let read = after.members.data_and_parity.since(&before.members.data_and_parity);
    // If the lost member has data in a row, all other blocks of the row are read. In two of eight rows the member has
    // parity, so only the data is read.
    assert_eq!(read.blocks_read, rows * 7 - rows * 2 / 8);
    assert!(read.reads < 4 * 7, "long transfers: {read:?}");
    assert_eq!(after.rows_recovered - before.rows_recovered, rows * 6 / 8);
    for (block, found) in buffer.chunks(crate::BLOCK).enumerate() {
        assert!(found == content(tested.model[block]));
    }
}

#[test]
fn damage_found_by_transfers_is_counted_persistently_in_superblocks() {
    let mut tested = full(RaidLevel::Raid6, 6, 3);
    let layout = *tested.array().layout();
    let damage = |tested: &TestArray, row: u64, column: usize| {
        let path = &tested.members[layout.slot(row, column)];
        tested.disk.corrupt(path, TestArray::offset(row) + 9, &[0xA5; 64]).unwrap();
    };
    damage(&tested, 1, 0);
    damage(&tested, 1, 2);
    damage(&tested, 7, 1);
    tested.check();
    assert_eq!(tested.array().counters().defects, 3);
    tested.check();
    damage(&tested, 9, 1);
    tested.write(&[(layout.block_at(9, 1), 77)].into()).unwrap();
    assert_eq!(tested.array().counters().defects, 4);
    // Defects found by a scrub are counted only in its report.
    damage(&tested, 11, 3);
    assert_eq!(tested.array().scrub().unwrap().damaged.iter().sum::<u64>(), 1);
    assert_eq!(tested.array().counters().defects, 4);
    let lifetime = tested.array().lifetime();
    tested.restart();
    assert_eq!(tested.array().counters().defects, 0);
    let noted = tested.array().lifetime();
    assert_eq!((noted.defects, noted.blocks_written), (4, lifetime.blocks_written));
    assert!(noted.members.journal == lifetime.members.journal && noted.members.maintenance.reads > 0);
    let shown = crate::ArrayExamination::new(&tested.disk, 77, &tested.members).unwrap();
    assert_eq!(shown.lifetime.defects, 4);
    tested.check();
}
