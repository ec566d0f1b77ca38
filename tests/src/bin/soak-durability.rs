//! Cuts the power of mounted disks, honest and lying disks: `soak-durability --seconds 600 --histories 240
//! [--first-seed N]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use system_tests::lying_disk::{can_mount, judge};
use system_tests::soak::SoakOptions;

fn main() -> ExitCode {
    match SoakOptions::from_arguments("soak-durability") {
        Ok(_) if !can_mount() => ExitCode::from(2),
        Ok(soak) => {
            soak.run("lying_disk", |seed| judge(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}")))
        }
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}
