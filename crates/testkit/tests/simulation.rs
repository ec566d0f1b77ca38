//! Power cuts against the whole engine: see `testkit::simulation`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testkit::simulation::run;

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
    let [next, cuts, recovery, attached, shared, let_go] = [0; 6].map(AtomicU64::new);
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
                            recovery.fetch_add(tally.in_recovery, Ordering::Relaxed);
                            attached.fetch_add(tally.left_attached, Ordering::Relaxed);
                            shared.fetch_add(tally.shared, Ordering::Relaxed);
                            let_go.fetch_add(tally.let_go, Ordering::Relaxed);
                        }
                        Err(_) => {
                            eprintln!(
                                "replay: JETCELL_SIM_SEED={seed} cargo test -p testkit --test simulation"
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
    let [attached, shared, let_go] = [attached, shared, let_go].map(AtomicU64::into_inner);
    println!(
        "{} cuts, {} of them during recovery or soon after it ({attached} with databases that it left attached), in {} \
         seeds; leaves shared nodes {shared} times, {let_go} dirty pages were let go",
        cuts.into_inner(),
        recovery.into_inner(),
        next.into_inner(),
    );
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    assert!(wanted < CUTS || attached > CUTS / 40, "recovery is hardly cut after its end: {attached}");
    assert!(wanted < CUTS || let_go > 10 * CUTS, "dirty pages hardly leave without being written: {let_go}");
    assert!(wanted < CUTS || shared > 500, "leaves hardly share nodes: {shared}");
}
