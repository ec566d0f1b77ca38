//! Power cuts against the whole engine: see `system_tests::simulation`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use system_tests::simulation::{Tally, run};

/// Cuts unless `JETCELL_SIM_CUTS` says otherwise.
const CUTS: u64 = 2_000;
/// A seed takes about a second; one that takes this long hangs.
const TOO_LONG: Duration = Duration::from_secs(120);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn power_cuts_lose_nothing_that_was_durable() {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}: {:?}", run(seed));
        return;
    }
    let wanted = number("JETCELL_SIM_CUTS").unwrap_or(CUTS);
    let [next, cuts] = [0; 2].map(AtomicU64::new);
    let total: Mutex<Tally> = Mutex::default();
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
                            total.lock().unwrap().add(tally);
                        }
                        Err(_) => {
                            eprintln!(
                                "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test simulation"
                            );
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
                // The other thread's seed may still hang; the watchdog sees to it.
            });
        }
        scope.spawn(|| {
            while cuts.load(Ordering::Relaxed) < wanted && failed.lock().unwrap().len() < 5 {
                std::thread::sleep(Duration::from_millis(200));
                let hanging: Vec<u64> = running
                    .lock()
                    .unwrap()
                    .iter()
                    .filter(|(_, since)| since.elapsed() > TOO_LONG)
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
        assert!(total.left_attached > CUTS / 40, "recovery is hardly cut after its end");
        assert!(total.delta_evictions > 10 * CUTS, "dirty pages hardly leave without being written");
        assert!(total.kept > 10 * CUTS, "recovery hardly keeps changes of pages that it does not read");
        assert!(total.shared > 500, "leaves hardly share nodes");
    }
}
