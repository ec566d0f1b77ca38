//! Checks the lock file of the benchmarks. `bench/run.sh` builds with `--locked`, which fails if the lock file lacks
//! a dependency.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::RuleFindings;
use crate::workspace::{Package, Workspace};

/// Lock file of the benchmarks, which are not a member of the workspace.
const LOCK: &str = "bench/Cargo.lock";

#[derive(Deserialize)]
struct LockFile {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    /// Names of dependencies, each with its version if the lock file contains several versions.
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Finds dependencies of crates that the lock file lacks.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let text = std::fs::read_to_string(workspace.root.join(LOCK)).context(LOCK)?;
    missing_dependencies(&text, &workspace.members)
}

fn missing_dependencies(lock: &str, members: &[Package]) -> Result<RuleFindings> {
    let lock: LockFile = toml::from_str(lock)?;
    let mut findings = vec![];
    for locked in lock.package {
        let Some(member) = members.iter().find(|member| member.name == locked.name) else { continue };
        let known: BTreeSet<&str> =
            locked.dependencies.iter().filter_map(|entry| entry.split(' ').next()).collect();
        let needed =
            member.dependencies.iter().filter(|one| one.kind.as_deref() != Some("dev") && !one.optional);
        let lacking = needed.filter(|needed| !known.contains(needed.name.as_str()));
        findings.extend(lacking.map(|one| format!("{} needs {}", member.name, one.name)));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::missing_dependencies;
    use crate::workspace::Package;

    #[test]
    fn a_dependency_missing_from_the_lock_file_is_found() {
        let member: Package = serde_json::from_value(serde_json::json!({
            "name": "engine", "id": "", "keywords": [], "manifest_path": "Cargo.toml", "targets": [],
            "dependencies": [
                { "name": "rand", "kind": null }, { "name": "smallvec", "kind": null },
                { "name": "proptest", "kind": "dev" }, { "name": "arrow", "kind": null, "optional": true },
            ],
        }))
        .unwrap();
        let lock = |dependencies: &str| {
            let text = format!("[[package]]\nname = \"engine\"\ndependencies = [{dependencies}]");
            missing_dependencies(&text, std::slice::from_ref(&member)).unwrap()
        };
        assert_eq!(lock("\"rand 0.9.1\", \"smallvec\""), [""; 0]);
        assert_eq!(lock("\"rand\""), ["engine needs smallvec"]);
    }
}
