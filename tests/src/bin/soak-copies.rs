//! Simulates copies for a chosen time: `soak-copies --seconds 600 [--histories N] [--first-seed N]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use system_tests::copies::{faults_for_seed, run, transport_for_seed};
use system_tests::soak::SoakOptions;

fn main() -> ExitCode {
    match SoakOptions::from_arguments("soak-copies") {
        Ok(soak) => soak.run("copies", |seed| run(seed, faults_for_seed(seed), transport_for_seed(seed))),
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}
