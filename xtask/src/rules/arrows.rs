//! Permitted dependencies between the crates.

use anyhow::Result;

use crate::RuleFindings;
use crate::workspace::{Package, Workspace};

/// Other members that each member may use in its code, and additional members that its tests may use. A member comes
/// after these members in the list of crates in ARCHITECTURE.md.
const ARROWS: [(&str, &[&str], &[&str]); 30] = [
    ("jetcell-input", &[], &[]),
    ("jetcell-sync", &[], &[]),
    ("ese-format", &[], &["testkit"]),
    ("jetcell-raid-models", &["jetcell-input"], &[]),
    ("jetcell-power", &[], &[]),
    ("jetcell-nbd", &["jetcell-host"], &[]),
    ("jetcell-disk-simulation", &["jetcell-input"], &[]),
    ("jetcell-vfs", &["jetcell-sync"], &["testkit"]),
    ("jetcell-host", &["jetcell-input", "jetcell-sync", "jetcell-vfs"], &[]),
    ("jetcell-array", &["jetcell-sync", "jetcell-vfs"], &["jetcell-raid-models"]),
    ("jetcell-luns", &["jetcell-array", "jetcell-sync", "jetcell-vfs"], &[]),
    (
        "jetcell-simulated-drives",
        &["jetcell-sync", "jetcell-vfs", "jetcell-disk-simulation"],
        &["jetcell-array"],
    ),
    (
        "jetcell-array-service",
        &[
            "jetcell-host",
            "jetcell-input",
            "jetcell-sync",
            "jetcell-vfs",
            "jetcell-array",
            "jetcell-luns",
            "jetcell-nbd",
            "jetcell-disk-simulation",
            "jetcell-simulated-drives",
        ],
        &[],
    ),
    (
        "jetcell-remote",
        &["jetcell-host", "jetcell-sync", "ese-format", "jetcell-vfs", "ese-engine"],
        &["testkit"],
    ),
    ("jetcell-sizing", &["jetcell-input"], &["jetcell-workload"]),
    ("testkit", &["ese-format"], &[]),
    ("ese-engine", &["jetcell-sync", "ese-format", "jetcell-vfs"], &["ese-check", "testkit"]),
    ("ese-check", &["jetcell-host", "jetcell-input", "ese-format", "jetcell-vfs"], &["testkit"]),
    ("jetcell-dump", &["jetcell-input", "ese-format", "jetcell-vfs"], &["testkit"]),
    ("jetcell-export", &["jetcell-input", "ese-format", "jetcell-vfs", "ese-check"], &["testkit"]),
    ("jetcell-python", &["jetcell-input", "ese-format", "jetcell-vfs", "ese-check", "jetcell-export"], &[]),
    (
        "jetcell-backup",
        &[
            "jetcell-host",
            "jetcell-input",
            "jetcell-sync",
            "ese-format",
            "jetcell-vfs",
            "ese-engine",
            "ese-check",
        ],
        &[],
    ),
    (
        "jetcell-copies",
        &[
            "jetcell-host",
            "jetcell-input",
            "jetcell-sync",
            "ese-format",
            "jetcell-vfs",
            "ese-engine",
            "jetcell-backup",
        ],
        &["testkit"],
    ),
    (
        "jetcell-workload",
        &[
            "jetcell-host",
            "jetcell-input",
            "ese-format",
            "jetcell-vfs",
            "ese-engine",
            "ese-check",
            "jetcell-backup",
            "jetcell-copies",
            "jetcell-power",
        ],
        &["testkit"],
    ),
    (
        "jetcell-durability",
        &["jetcell-host", "jetcell-input", "ese-format", "jetcell-vfs", "ese-engine", "jetcell-workload"],
        &[],
    ),
    (
        "jetcell-lab",
        &[
            "jetcell-host",
            "jetcell-input",
            "ese-format",
            "jetcell-vfs",
            "jetcell-array",
            "jetcell-luns",
            "jetcell-workload",
            "jetcell-power",
        ],
        &["testkit"],
    ),
    (
        "jetcell-report",
        &[
            "jetcell-host",
            "jetcell-input",
            "jetcell-vfs",
            "jetcell-workload",
            "jetcell-durability",
            "jetcell-lab",
        ],
        &["testkit"],
    ),
    ("jetcell-fleet", &["jetcell-host", "jetcell-input", "jetcell-vfs", "jetcell-workload"], &["testkit"]),
    (
        "jetcell",
        &[
            "jetcell-host",
            "jetcell-input",
            "ese-format",
            "jetcell-vfs",
            "jetcell-array",
            "jetcell-array-service",
            "ese-engine",
            "ese-check",
            "jetcell-backup",
            "jetcell-copies",
            "jetcell-dump",
            "jetcell-export",
            "jetcell-fleet",
            "jetcell-durability",
            "jetcell-lab",
            "jetcell-workload",
            "jetcell-remote",
            "jetcell-report",
            "jetcell-raid-models",
            "jetcell-power",
            "jetcell-disk-simulation",
            "jetcell-sizing",
        ],
        &["testkit"],
    ),
    (
        "system-tests",
        &[
            "ese-format",
            "jetcell-vfs",
            "jetcell-array",
            "jetcell-luns",
            "ese-engine",
            "ese-check",
            "jetcell-backup",
            "jetcell-copies",
            "jetcell-dump",
            "jetcell-export",
            "jetcell-durability",
            "jetcell-workload",
            "jetcell-remote",
            "testkit",
        ],
        &[],
    ),
];

/// Finds dependencies between members that the table above does not permit, and crates that it does not contain.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    Ok(workspace
        .members
        .iter()
        .filter(|package| package.name != "xtask")
        .flat_map(|package| check_member(workspace, package))
        .collect())
}

fn check_member(workspace: &Workspace, package: &Package) -> RuleFindings {
    let Some((_, code, tests)) = ARROWS.iter().find(|(name, ..)| *name == package.name) else {
        return vec![format!(
            "{} is missing from the table of arrows (xtask/src/rules/arrows.rs)",
            package.name
        )];
    };
    let members =
        package.dependencies.iter().filter(|dependency| workspace.member(&dependency.name).is_some());
    members
        .filter(|dependency| {
            let name = dependency.name.as_str();
            let is_test = dependency.kind.as_deref() == Some("dev");
            !(code.contains(&name) || is_test && tests.contains(&name))
        })
        .map(|dependency| format!("{} must not depend on {}", package.name, dependency.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use petgraph::algo::is_cyclic_directed;
    use petgraph::graphmap::DiGraphMap;

    use super::*;

    /// Checks that the table has no cycle, including test dependencies. A crate in a cycle cannot be published. Cargo removes the
    /// dependency on `testkit`, which has no version, when it packages a crate.
    #[test]
    fn the_table_has_no_cycle() {
        let arrows = ARROWS
            .iter()
            .flat_map(|(name, code, tests)| code.iter().chain(*tests).map(|used| (*name, *used)))
            .filter(|(_, used)| *used != "testkit");
        let graph: DiGraphMap<&str, ()> = arrows.collect();
        assert!(!is_cyclic_directed(&graph));
    }
}
