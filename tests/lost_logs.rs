//! Power cuts, and the loss of the newest log generations: see `system_tests::simulation`.

use system_tests::simulation::{SimulationTally, run_with_lost_logs};

/// Default number of seeds. `JETCELL_LOST_LOGS_SEEDS` overrides it.
const SEEDS: u64 = 24;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn databases_are_consistent_without_the_newest_generations() {
    let mut total = SimulationTally::default();
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}: {:?}", run_with_lost_logs(seed));
        return;
    }
    let first = number("JETCELL_LOST_LOGS_FIRST").unwrap_or(0);
    for seed in first..first + number("JETCELL_LOST_LOGS_SEEDS").unwrap_or(SEEDS) {
        match std::panic::catch_unwind(|| run_with_lost_logs(seed)) {
            Ok(tally) => total += tally,
            Err(cause) => {
                eprintln!(
                    "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system lost_logs::"
                );
                std::panic::resume_unwind(cause);
            }
        }
    }
    println!("{total:?}");
    assert!(total.lost_generations >= SEEDS / 2, "hardly any generation was lost");
    assert!(total.lost_commits > 0, "hardly any durable commit was lost, so the test proves little");
}
