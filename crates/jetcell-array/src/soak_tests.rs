//! Runs array histories for a given time; see `scripts/soak-arrays.sh`.

use std::panic::catch_unwind;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::history_tests::{environment, run};

/// Number of histories between two progress lines.
const LINE: u64 = 1600;

#[test]
#[ignore = "runs for as long as it is told: scripts/soak-arrays.sh"]
fn random_array_histories_run_for_the_configured_time() {
    let until = Instant::now() + Duration::from_secs(environment("JETCELL_SOAK_SECONDS", 600));
    // Unless a seed is given, each run uses new seeds. They are larger than all seeds of the ordinary tests.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = environment("JETCELL_SOAK_SEED", now.as_secs() << 20);
    let (mut number, mut failed) = (0, vec![]);
    while Instant::now() < until {
        let seed = first + number;
        if catch_unwind(|| run(seed)).is_err() {
            failed.push(format!("JETCELL_ARRAY_SEED={seed} JETCELL_ARRAY_HISTORIES=1"));
        }
        number += 1;
        if number.is_multiple_of(LINE) {
            println!("{number} histories of arrays");
        }
    }
    println!("first seed {first}: {number} histories of arrays");
    let replay =
        |variables: &String| format!("replay: {variables} cargo test -p jetcell-array history_tests");
    assert!(failed.is_empty(), "{}", failed.iter().map(replay).collect::<Vec<_>>().join("\n"));
}
