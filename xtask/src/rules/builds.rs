//! Limits the size of the default build, because a newcomer has to wait for it.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::RuleFindings;
use crate::workspace::Workspace;

/// Maximum number of crates that `cargo build -p jetcell` compiles, including members of the workspace and external
/// crates.
const MAX_CRATES: usize = 123;

/// Returns a finding if the number of crates in the default build exceeds the limit.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["tree", "--locked", "-p", "jetcell", "-e", "normal,build", "--prefix", "none", "--no-dedupe"])
        .args(["--format", "{p}"])
        .current_dir(&workspace.root)
        .output()
        .context("cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let crates: BTreeSet<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    Ok(match crates.len() {
        count if count > MAX_CRATES => {
            vec![format!(
                "{count} crates exceed the limit of {MAX_CRATES}; docs/internals/build.md explains the limit"
            )]
        }
        _ => RuleFindings::new(),
    })
}
