//! Simulated power cuts for a chosen time: `soak --seconds 600 [--first-seed N] [--threads N]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use system_tests::simulation::{Tally, run};

fn main() -> ExitCode {
    let (mut seconds, mut first, mut threads) = (600, None, 2);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--seconds", Some(value)) => seconds = value,
            ("--first-seed", Some(value)) => first = Some(value),
            ("--threads", Some(value)) => threads = value.max(1),
            _ => {
                eprintln!("usage: soak [--seconds N] [--first-seed N] [--threads N]");
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
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while Instant::now() < until {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    match std::panic::catch_unwind(|| run(seed)) {
                        Ok(tally) => {
                            let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
                            let before = total.cuts;
                            total.add(tally);
                            if before / 1000 != total.cuts / 1000 {
                                println!("{} cuts", total.cuts);
                            }
                        }
                        Err(_) => {
                            eprintln!(
                                "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test simulation"
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
