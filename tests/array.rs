//! Runs databases on RAID arrays that have lost members, with power cuts: see `system_tests::simulation`.

use std::time::{Duration, Instant};

use system_tests::simulation::{SimulationTally, run_on_degraded_array};

/// Time in seconds during which new seeds are started, unless `JETCELL_ARRAY_SECONDS` sets another time.
const SECONDS: u64 = 15;
/// Minimum number of seeds, which covers each level once.
const SEEDS: u64 = 6;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn databases_on_degraded_arrays_lose_no_durable_commit() {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}: {:?}", run_on_degraded_array(seed));
        return;
    }
    let time = Duration::from_secs(number("JETCELL_ARRAY_SECONDS").unwrap_or(SECONDS));
    let start = Instant::now();
    let mut total = SimulationTally::default();
    // Seeds with deep trees are skipped. They take much longer on an array, and cause no different array writes.
    let mut seeds = (1..).filter(|seed: &u64| !seed.is_multiple_of(8));
    let mut count = 0;
    while count < SEEDS || start.elapsed() < time {
        let seed = seeds.next().expect("there are more seeds");
        let result = std::panic::catch_unwind(|| run_on_degraded_array(seed));
        total += result.unwrap_or_else(|_| {
            panic!("replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system array::")
        });
        count += 1;
    }
    println!("{count} seeds: {total:?}");
    assert!(total.cuts > 3 * SEEDS && total.commits > 100, "{total:?}");
}
