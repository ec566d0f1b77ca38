//! Simulated copies for a chosen time, or for a number of histories: `soak-copies --seconds 600 [--histories N] [--first-seed N]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use system_tests::copies::{Tally, faults_of, run};

fn main() -> ExitCode {
    let (mut seconds, mut histories, mut first) = (600, u64::MAX, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--seconds", Some(value)) => seconds = value,
            ("--histories", Some(value)) => histories = value,
            ("--first-seed", Some(value)) => first = Some(value),
            _ => {
                eprintln!("usage: soak-copies [--seconds N] [--histories N] [--first-seed N]");
                return ExitCode::from(2);
            }
        }
    }
    // Without `--first-seed`, each run uses other seeds, above those of the tests.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let next = AtomicU64::new(first.unwrap_or(now.as_secs() << 20));
    let until = Instant::now() + Duration::from_secs(seconds);
    let total: Mutex<Tally> = Mutex::default();
    let failed: Mutex<Vec<u64>> = Mutex::default();
    let enough = || total.lock().unwrap_or_else(|e| e.into_inner()).histories >= histories;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while Instant::now() < until && !enough() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    match std::panic::catch_unwind(|| run(seed, faults_of(seed))) {
                        Ok(tally) => total.lock().unwrap_or_else(|e| e.into_inner()).add(tally),
                        Err(_) => {
                            eprintln!(
                                "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test copies"
                            );
                            failed.lock().unwrap_or_else(|e| e.into_inner()).push(seed);
                        }
                    }
                }
            });
        }
    });
    println!("{:?}", total.into_inner().unwrap_or_else(|e| e.into_inner()));
    let failed = failed.into_inner().unwrap_or_else(|e| e.into_inner());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{} failing seeds: {failed:?}", failed.len());
    ExitCode::FAILURE
}
