//! Alternates between array histories and LUN histories for a given time; see `scripts/soak-arrays.sh`.

use std::panic::catch_unwind;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::history_tests::environment;
use crate::{history_tests, luns};

/// Number of array histories per LUN history. This ratio gives both about the same time.
const ARRAYS: u64 = 8;
/// Number of LUN histories between two progress lines.
const LINE: u64 = 200;

#[test]
#[ignore = "runs for as long as it is told: scripts/soak-arrays.sh"]
fn random_histories_run_for_the_configured_time() {
    let until = Instant::now() + Duration::from_secs(environment("JETCELL_SOAK_SECONDS", 600));
    // Unless a seed is given, each run uses different seeds, which are larger than those of the tests.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = environment("JETCELL_SOAK_SEED", now.as_secs() << 20);
    let (mut done, mut failed) = (luns::HistoryCounters::default(), vec![]);
    let mut number = 0;
    while Instant::now() < until {
        for seed in (first + number) * ARRAYS..(first + number + 1) * ARRAYS {
            if catch_unwind(|| history_tests::run(seed)).is_err() {
                failed.push(format!("JETCELL_ARRAY_SEED={seed} JETCELL_ARRAY_HISTORIES=1"));
            }
        }
        let seed = first + number;
        match catch_unwind(|| luns::run(seed)) {
            Ok(of_one) => done += of_one,
            Err(_) => failed.push(format!("JETCELL_LUN_SEED={seed} JETCELL_LUN_HISTORIES=1")),
        }
        number += 1;
        if number.is_multiple_of(LINE) {
            println!("{} histories of arrays, {number} of LUNs", number * ARRAYS);
        }
    }
    println!("first seed {first}: {} histories of arrays, {number} of LUNs: {done:?}", number * ARRAYS);
    let replay =
        |variables: &String| format!("replay: {variables} cargo test -p jetcell-array history_tests");
    assert!(failed.is_empty(), "{}", failed.iter().map(replay).collect::<Vec<_>>().join("\n"));
}
