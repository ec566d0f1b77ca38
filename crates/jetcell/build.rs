//! Sets build facts for the command: the target, the profile, and the commit if the sources are in a checkout.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for (name, variable) in [("JETCELL_TARGET", "TARGET"), ("JETCELL_PROFILE", "PROFILE")] {
        println!("cargo:rustc-env={name}={}", std::env::var(variable).unwrap_or_default());
    }
    println!("cargo:rustc-env=JETCELL_COMMIT={}", commit().unwrap_or_default());
}

/// Returns the commit of the checkout. Returns `None` without git, outside a checkout, and for an unpacked package.
fn commit() -> Option<String> {
    // An unpacked package may be in the working tree of another repository, which does not track this file.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // The log of HEAD changes with every commit and every checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}
