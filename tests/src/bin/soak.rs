//! Simulates power cuts for a chosen time: `soak --seconds 600 [--first-seed N] [--threads N]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use system_tests::simulation::run;
use system_tests::soak::SoakOptions;

fn main() -> ExitCode {
    match SoakOptions::from_arguments("soak") {
        Ok(soak) => soak.run("simulation", run),
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}
