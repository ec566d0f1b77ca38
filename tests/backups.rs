//! Runs backups and restores with power cuts: see `system_tests::simulation::backups`.

use system_tests::simulation::backups::{BackupTally, run};

/// Default number of seeds. `JETCELL_BACKUP_SEEDS` overrides it.
const SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Number of tests over which the seeds are divided. Each has one thread, and the test runner runs them concurrently. Threads of one process
/// would slow each other down by the memory that they map and unmap.
const SHARDS: u64 = 3;

/// Runs one shard of the seeds.
fn restored_databases_hold_the_state_of_their_position(shard: u64) {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        if shard == 0 {
            println!("seed {seed}: {:?}", run(seed));
        }
        return;
    }
    let seeds = number("JETCELL_BACKUP_SEEDS").unwrap_or(SEEDS);
    let mut total = BackupTally::default();
    let mut failed = vec![];
    for seed in (shard..seeds).step_by(SHARDS as usize) {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(tally) => total.add(tally),
            Err(_) => {
                eprintln!(
                    "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system backups::"
                );
                failed.push(seed);
            }
        }
        if failed.len() == 5 {
            break;
        }
    }
    println!("shard {shard} of {seeds} seeds: {total:?}");
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    if seeds >= SEEDS {
        // Each shard has its part of the events, with a margin of a half, because there are few seeds.
        let enough = |found: u64, of_all: u64| found * SHARDS * 2 > of_all;
        assert!(
            enough(total.in_backup, 10) && enough(total.in_restore, 40),
            "few cuts come during backups or restores"
        );
        assert!(enough(total.full, 50) && enough(total.incremental, 20), "few backups are made");
        assert!(
            enough(total.restored, 40) && enough(total.earlier, 5) && enough(total.surviving, 5),
            "few restores are compared"
        );
        assert!(enough(total.snapshots, 15) && enough(total.frozen, 15), "few snapshots are compared");
        assert!(
            enough(total.cycles, 15) && enough(total.commits_in_backup, 1000),
            "little happens around backups"
        );
    }
}

#[test]
fn restored_databases_match_the_backup_position_1_of_3() {
    restored_databases_hold_the_state_of_their_position(0);
}

#[test]
fn restored_databases_match_the_backup_position_2_of_3() {
    restored_databases_hold_the_state_of_their_position(1);
}

#[test]
fn restored_databases_match_the_backup_position_3_of_3() {
    restored_databases_hold_the_state_of_their_position(2);
}
