//! Simulations of many seeds for a chosen time.

use std::fmt::Debug;
use std::ops::AddAssign;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Options of a soak: `--seconds 600 --first-seed N --threads N --histories N`.
pub struct SoakOptions {
    seconds: u64,
    first_seed: u64,
    threads: u64,
    histories: u64,
}

impl SoakOptions {
    /// Parses the options from the command line. An error is the usage text.
    pub fn from_arguments(program: &str) -> Result<SoakOptions, String> {
        // Without `--first-seed`, each run uses different seeds, which are larger than those of the tests.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first_seed = now.as_secs() << 20;
        let mut soak = SoakOptions { seconds: 600, first_seed, threads: 2, histories: u64::MAX };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
            match (name.as_str(), value) {
                ("--seconds", Some(value)) => soak.seconds = value,
                ("--first-seed", Some(value)) => soak.first_seed = value,
                ("--threads", Some(value)) => soak.threads = value.max(1),
                ("--histories", Some(value)) => soak.histories = value,
                _ => {
                    return Err(format!(
                        "usage: {program} [--seconds N] [--first-seed N] [--threads N] [--histories N]"
                    ));
                }
            }
        }
        Ok(soak)
    }

    /// Runs consecutive seeds, and prints the totals. `test` is the system test that repeats a failing seed.
    pub fn run<S: Default + Debug + Send + AddAssign>(
        &self,
        test: &str,
        one: impl Fn(u64) -> S + Sync + RefUnwindSafe,
    ) -> ExitCode {
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let begun = AtomicU64::new(0);
        let (total, failed): (Mutex<S>, Mutex<Vec<u64>>) = Default::default();
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    while Instant::now() < until {
                        let number = begun.fetch_add(1, Ordering::Relaxed);
                        if number >= self.histories {
                            break;
                        }
                        let seed = self.first_seed + number;
                        match catch_unwind(|| one(seed)) {
                            Ok(sums) => *total.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += sums,
                            Err(_) => {
                                eprintln!(
                                    "replay: JETCELL_SIM_SEED={seed} cargo test -p system-tests --test system {test}::"
                                );
                                failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(seed);
                            }
                        }
                        if (number + 1).is_multiple_of(1000) {
                            println!("{} histories", number + 1);
                        }
                    }
                });
            }
        });
        println!("{:?}", total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner));
        let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if failed.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("{} failing seeds: {failed:?}", failed.len());
        ExitCode::FAILURE
    }
}
