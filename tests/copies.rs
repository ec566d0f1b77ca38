//! Runs copies with power cuts, a faulty network, switch-overs, and failovers: see `system_tests::copies`.

use system_tests::copies::{CopyTally, HostTransport, faults_for_seed, run};

/// Default number of histories. `JETCELL_COPY_HISTORIES` overrides it.
const HISTORIES: u64 = 2000;
/// Default number of histories over connections. `JETCELL_REMOTE_HISTORIES` overrides it.
const REMOTE_HISTORIES: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs the histories of `count` seeds from `first`. `JETCELL_SIM_SEED` replays a single seed.
fn histories(way: HostTransport, first: u64, count: u64) -> Option<CopyTally> {
    if let Some(seed) = number("JETCELL_SIM_SEED") {
        println!("seed {seed}, {way:?}: {:?}", run(seed, faults_for_seed(seed), way));
        return None;
    }
    let mut total = CopyTally::default();
    let mut failed = vec![];
    for seed in first..first + count {
        match std::panic::catch_unwind(|| run(seed, faults_for_seed(seed), way)) {
            Ok(tally) => total += tally,
            Err(_) => {
                eprintln!(
                    "replay ({way:?}): JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system copies::"
                );
                failed.push(seed);
            }
        }
        if failed.len() == 5 {
            break;
        }
    }
    println!("{way:?}, seeds from {first}: {total:?}");
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    Some(total)
}

/// Number of tests over which the histories are divided. Each has one thread, and the test runner runs them concurrently. Threads of one
/// process would slow each other down by the memory that they map and unmap.
const SHARDS: u64 = 8;

/// Runs one shard of the histories.
fn copies_lose_nothing_and_equal_their_active_side(shard: u64) {
    if shard > 0 && number("JETCELL_SIM_SEED").is_some() {
        return;
    }
    let all = number("JETCELL_COPY_HISTORIES").unwrap_or(HISTORIES);
    let count = all.div_ceil(SHARDS);
    let Some(total) = histories(HostTransport::Calls, shard * count, count) else { return };
    if all >= HISTORIES {
        // Each shard has its part of the events, with a margin of a quarter.
        let enough = |found: u64, of_all: u64| found * SHARDS * 4 > of_all * 3;
        assert!(enough(total.cuts, 6000), "few cuts come");
        assert!(enough(total.in_change, 350), "few cuts come during changes of roles");
        assert!(enough(total.switched, 1100) && enough(total.failed_over, 700), "few copies become active");
        assert!(enough(total.patched, 500) && enough(total.seeded, 450), "few sides are reseeded");
        assert!(enough(total.compared, 2500) && enough(total.replayed, 50_000), "few pages are compared");
        assert!(
            total.repaired.iter().all(|repaired| enough(*repaired, 200)),
            "few damaged pages are repaired"
        );
        assert!(enough(total.maintained, 10_000), "there is little maintenance");
        assert!(
            enough(total.streamed, 100 << 20) && enough(total.kept_parts, 200),
            "few open logs are streamed"
        );
    }
}

#[test]
fn copies_lose_nothing_and_match_active_side_1_of_8() {
    copies_lose_nothing_and_equal_their_active_side(0);
}

#[test]
fn copies_lose_nothing_and_match_active_side_2_of_8() {
    copies_lose_nothing_and_equal_their_active_side(1);
}

#[test]
fn copies_lose_nothing_and_match_active_side_3_of_8() {
    copies_lose_nothing_and_equal_their_active_side(2);
}

#[test]
fn copies_lose_nothing_and_match_active_side_4_of_8() {
    copies_lose_nothing_and_equal_their_active_side(3);
}

#[test]
fn copies_lose_nothing_and_match_active_side_5_of_8() {
    copies_lose_nothing_and_equal_their_active_side(4);
}

#[test]
fn copies_lose_nothing_and_match_active_side_6_of_8() {
    copies_lose_nothing_and_equal_their_active_side(5);
}

#[test]
fn copies_lose_nothing_and_match_active_side_7_of_8() {
    copies_lose_nothing_and_equal_their_active_side(6);
}

#[test]
fn copies_lose_nothing_and_match_active_side_8_of_8() {
    copies_lose_nothing_and_equal_their_active_side(7);
}

/// Runs histories over the client and server for remote hosts. Connections are cut at arbitrary bytes.
#[test]
fn copies_lose_nothing_over_interrupted_connections() {
    let wanted = number("JETCELL_REMOTE_HISTORIES").unwrap_or(REMOTE_HISTORIES);
    let Some(total) = histories(HostTransport::Connections, 0, wanted) else { return };
    if wanted >= REMOTE_HISTORIES {
        assert!(total.connections_cut > 100, "few connections are cut");
        assert!(total.switched > 5 && total.failed_over > 5, "few copies become active");
        assert!(
            total.compared > 30 && total.replayed > 400 && total.streamed > 400 << 10,
            "copies do little"
        );
    }
}
