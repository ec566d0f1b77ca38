//! Real processes on a real disk are killed while they work. Every commit that a process reported as durable must
//! survive.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ese_check::{CheckOptions, check_database};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::killed::{KillChild, THREADS, disk, open, read_number};

const ROUNDS: usize = 12;

#[test]
fn durable_commits_survive_a_kill() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut promised: BTreeMap<i32, i32> = BTreeMap::new();
    for round in 0..ROUNDS {
        let load = KillChild::start(env!("CARGO_BIN_EXE_kill-child"), directory.path());
        std::thread::sleep(Duration::from_millis(rng.random_range(50..1500)));
        for (thread, last) in (0..).zip(load.kill().last_acknowledged(u32::MAX)) {
            let known = promised.entry(thread).or_insert(0);
            *known = last.max(*known);
        }
        check(directory.path(), round, &mut promised);
    }
    let total: i32 = promised.values().sum();
    println!("{ROUNDS} kills, {total} transactions");
    assert!(total > 100);
}

fn check(directory: &Path, round: usize, promised: &mut BTreeMap<i32, i32>) {
    let (instance, db) = open(directory).unwrap_or_else(|error| panic!("round {round}: {error}"));
    let mut session = instance.session();
    if !session.tables(&db).unwrap().iter().any(|name| name == "Rows") {
        assert!(promised.values().all(|number| *number == 0), "round {round}: the table is gone");
    } else {
        for thread in 0..THREADS {
            let found =
                read_number(&mut session, &db, thread).unwrap_or_else(|e| panic!("round {round}: {e}"));
            let known = promised.get(&thread).copied().unwrap_or(0);
            // At most two more commits may survive: the commit whose acknowledgement was interrupted by the kill, and
            // the lazy commit before it.
            assert!(
                (known..=known + 3).contains(&found),
                "round {round}: thread {thread}: {found}, not {known}"
            );
            promised.insert(thread, found);
        }
    }
    drop((session, db));
    instance.shutdown().unwrap();
    let report =
        check_database(&*disk().unwrap(), &directory.join("killed.edb"), &CheckOptions::default()).unwrap();
    assert!(report.clean && report.is_sound(), "round {round}: {:#?}", report.errors().collect::<Vec<_>>());
}
