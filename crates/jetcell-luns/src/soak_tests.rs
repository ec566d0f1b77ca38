//! Runs LUN histories for a given time; see `scripts/soak-arrays.sh`.

use std::panic::catch_unwind;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::luns::{HistoryCounters, run};
use crate::test_blocks::environment;

/// Number of histories between two progress lines.
const LINE: u64 = 200;

#[test]
#[ignore = "runs for as long as it is told: scripts/soak-arrays.sh"]
fn random_lun_histories_run_for_the_configured_time() {
    let until = Instant::now() + Duration::from_secs(environment("JETCELL_SOAK_SECONDS", 600));
    // Unless a seed is given, each run uses new seeds. They are larger than all seeds of the ordinary tests.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = environment("JETCELL_SOAK_SEED", now.as_secs() << 20);
    let (mut number, mut done, mut failed) = (0, HistoryCounters::default(), vec![]);
    while Instant::now() < until {
        let seed = first + number;
        match catch_unwind(|| run(seed)) {
            Ok(of_one) => done += of_one,
            Err(_) => failed.push(format!("JETCELL_LUN_SEED={seed} JETCELL_LUN_HISTORIES=1")),
        }
        number += 1;
        if number.is_multiple_of(LINE) {
            println!("{number} histories of LUNs");
        }
    }
    println!("first seed {first}: {number} histories of LUNs: {done:?}");
    let replay = |variables: &String| format!("replay: {variables} cargo test -p jetcell-luns history_tests");
    assert!(failed.is_empty(), "{}", failed.iter().map(replay).collect::<Vec<_>>().join("\n"));
}
