//! Runs copies with power cuts, a faulty network, switch-overs, and failovers: see `system_tests::copies`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use system_tests::copies::{Tally, Way, faults_of, run};

/// Default number of histories. `JETCELL_COPY_HISTORIES` overrides it.
const HISTORIES: u64 = 2000;
/// Default number of histories over connections. `JETCELL_REMOTE_HISTORIES` overrides it.
const REMOTE_HISTORIES: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs the histories of all seeds from `first` on two threads. `JETCELL_SIM_SEED` replays a single seed.
fn histories(way: Way, first: u64, histories: u64) -> Option<Tally> {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}, {way:?}: {:?}", run(seed, faults_of(seed), way));
        return None;
    }
    let next = AtomicU64::new(first);
    let total: Mutex<Tally> = Mutex::default();
    let failed: Mutex<Vec<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while failed.lock().unwrap().len() < 5 && total.lock().unwrap().histories < histories {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    match std::panic::catch_unwind(|| run(seed, faults_of(seed), way)) {
                        Ok(tally) => *total.lock().unwrap() += tally,
                        Err(_) => {
                            eprintln!(
                                "replay ({way:?}): JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system copies::"
                            );
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
            });
        }
    });
    let (total, failed) = (total.into_inner().unwrap(), failed.into_inner().unwrap());
    println!("{way:?}: {total:?}");
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    Some(total)
}

#[test]
fn copies_lose_nothing_and_equal_their_active_side() {
    let wanted = number("JETCELL_COPY_HISTORIES").unwrap_or(HISTORIES);
    let Some(total) = histories(Way::Calls, 0, wanted) else { return };
    if wanted >= HISTORIES {
        assert!(total.cuts > 6000 && total.in_change > 350, "few cuts come, or few during changes of roles");
        assert!(total.switched > 1100 && total.failed_over > 700, "few copies become active");
        assert!(total.patched > 500 && total.seeded > 450, "few sides are reseeded");
        assert!(total.compared > 2500 && total.replayed > 50_000, "few pages are compared");
        assert!(total.repaired.iter().all(|repaired| *repaired > 200), "few damaged pages are repaired");
        assert!(total.maintained > 10_000, "there is little maintenance");
        assert!(total.streamed > 100 << 20 && total.kept_parts > 200, "few open logs are streamed");
    }
}

/// Runs histories over the client and server for remote hosts. Connections are cut at arbitrary bytes.
#[test]
fn copies_lose_nothing_over_connections_that_are_cut() {
    let wanted = number("JETCELL_REMOTE_HISTORIES").unwrap_or(REMOTE_HISTORIES);
    let Some(total) = histories(Way::Connections, 0, wanted) else { return };
    if wanted >= REMOTE_HISTORIES {
        assert!(total.connections_cut > 100, "few connections are cut");
        assert!(total.switched > 5 && total.failed_over > 5, "few copies become active");
        assert!(
            total.compared > 30 && total.replayed > 400 && total.streamed > 400 << 10,
            "copies do little"
        );
    }
}
