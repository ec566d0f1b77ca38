//! Simulates copies for a chosen time: `soak-copies --seconds 600 [--histories N] [--first-seed N]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use system_tests::copies::{faults_of, run, way_of};
use system_tests::soak::Soak;

fn main() -> ExitCode {
    match Soak::from_arguments("soak-copies") {
        Ok(soak) => soak.run("copies", |seed| run(seed, faults_of(seed), way_of(seed))),
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}
