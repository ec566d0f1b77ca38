//! Power cuts during operation of the whole engine: see `system_tests::simulation`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use system_tests::simulation::{SimulationTally, run};

/// Default number of power cuts. `JETCELL_SIM_CUTS` overrides it.
const CUTS: u64 = 2_000;
/// Time limit of a seed. A seed normally takes a few seconds, so a seed that exceeds this limit hangs.
const MAX_DURATION: Duration = Duration::from_secs(120);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn power_cuts_lose_no_durable_commit() {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}: {:?}", run(seed));
        return;
    }
    let wanted = number("JETCELL_SIM_CUTS").unwrap_or(CUTS);
    let [next, cuts] = [0; 2].map(AtomicU64::new);
    let total: Mutex<SimulationTally> = Mutex::default();
    let running: Mutex<BTreeMap<u64, Instant>> = Mutex::default();
    let failed: Mutex<Vec<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while cuts.load(Ordering::Relaxed) < wanted && failed.lock().unwrap().len() < 5 {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    running.lock().unwrap().insert(seed, Instant::now());
                    let result = std::panic::catch_unwind(|| run(seed));
                    running.lock().unwrap().remove(&seed);
                    match result {
                        Ok(tally) => {
                            cuts.fetch_add(tally.cuts, Ordering::Relaxed);
                            *total.lock().unwrap() += tally;
                        }
                        Err(_) => {
                            eprintln!(
                                "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system simulation::"
                            );
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
                // The seed on the other thread may still hang. In that case, the watchdog below ends the process.
            });
        }
        scope.spawn(|| {
            while cuts.load(Ordering::Relaxed) < wanted && failed.lock().unwrap().len() < 5 {
                std::thread::sleep(Duration::from_millis(200));
                let hanging: Vec<u64> = running
                    .lock()
                    .unwrap()
                    .iter()
                    .filter(|(_, since)| since.elapsed() > MAX_DURATION)
                    .map(|(seed, _)| *seed)
                    .collect();
                if !hanging.is_empty() {
                    eprintln!("seeds {hanging:?} hang; replay with JETCELL_SIM_SEED");
                    std::process::abort();
                }
            }
        });
    });
    let (total, failed) = (total.into_inner().unwrap(), failed.into_inner().unwrap());
    println!("{} seeds: {total:?}", next.into_inner());
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    if wanted >= CUTS {
        assert!(total.left_attached > CUTS / 40, "few cuts come after the end of recovery");
        assert!(total.delta_evictions > 10 * CUTS, "the cache hardly evicts dirty pages unwritten");
        assert!(total.kept > 10 * CUTS, "recovery hardly keeps deltas of pages that it does not read");
        assert!(total.shared > 500, "full leaves hardly share nodes");
        assert!(total.freed > 100, "defragmentation hardly frees pages: {}", total.freed);
        assert!(total.returned > 1000, "hardly any space is given back: {}", total.returned);
        assert!(total.damaged > 100, "scans hardly meet damage: {}", total.damaged);
        assert!(total.moved > 1000, "sequential layout hardly moves pages: {}", total.moved);
        assert!(total.levels >= 4, "the deepest tree has {} levels", total.levels);
        assert!(total.internal_removed > 200, "range deletes hardly remove internal pages");
    }
}
