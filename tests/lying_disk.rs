//! Runs the durability test on mounted disks that lose power. Honest disks must pass, and lying disks must be
//! detected. `soak-durability` runs more seeds. Where FUSE is unavailable, the test prints a message and passes.

use std::time::{Duration, Instant};

use system_tests::lying_disk::{DiskVerdicts, can_mount, judge};

/// Minimum number of seeds, which covers every disk at least once.
const MIN_SEEDS: u64 = 14;
const MAX_SEEDS: u64 = 60;
const TIME: Duration = Duration::from_secs(20);

#[test]
fn honest_disks_pass_and_lying_disks_fail_through_the_kernel() {
    if !can_mount() {
        return;
    }
    let chosen = std::env::var("JETCELL_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    if let Some(seed) = chosen {
        println!("seed {seed}: {:?}", judge(seed).unwrap());
        return;
    }
    let (begun, mut all) = (Instant::now(), DiskVerdicts::default());
    for seed in (0..MAX_SEEDS).take_while(|seed| *seed < MIN_SEEDS || begun.elapsed() < TIME) {
        match std::panic::catch_unwind(|| judge(seed)) {
            Ok(verdicts) => all += verdicts.unwrap(),
            Err(cause) => {
                eprintln!(
                    "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system lying_disk::"
                );
                std::panic::resume_unwind(cause);
            }
        }
    }
    println!("{all:?}");
    assert_eq!(all.cuts.len(), 9, "not every disk was cut: {all:?}");
}
