//! Runs backups and restores with power cuts: see `system_tests::simulation::backups`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use system_tests::simulation::backups::{BackupTally, run};

/// Default number of seeds. `JETCELL_BACKUP_SEEDS` overrides it.
const SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn restored_databases_hold_the_state_of_their_position() {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}: {:?}", run(seed));
        return;
    }
    let seeds = number("JETCELL_BACKUP_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let total: Mutex<BackupTally> = Mutex::default();
    let failed: Mutex<Vec<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while failed.lock().unwrap().len() < 5 {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    match std::panic::catch_unwind(|| run(seed)) {
                        Ok(tally) => total.lock().unwrap().add(tally),
                        Err(_) => {
                            eprintln!(
                                "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system backups::"
                            );
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
            });
        }
    });
    let (total, failed) = (total.into_inner().unwrap(), failed.into_inner().unwrap());
    println!("{seeds} seeds: {total:?}");
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    if seeds >= SEEDS {
        assert!(total.in_backup > 10 && total.in_restore > 40, "few cuts come during backups or restores");
        assert!(total.full > 50 && total.incremental > 20, "few backups are made");
        assert!(total.restored > 40 && total.earlier > 5 && total.surviving > 5, "few restores are compared");
        assert!(total.snapshots > 15 && total.frozen > 15, "few snapshots are compared");
        assert!(total.cycles > 15 && total.commits_in_backup > 1000, "little happens around backups");
    }
}
