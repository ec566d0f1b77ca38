//! Checks dependencies: each dependency is used, and the table in ARCHITECTURE.md matches the workspace's manifest.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use regex::Regex;

use crate::RuleFindings;
use crate::workspace::{Package, Workspace};

/// Finds unused dependencies, and differences between ARCHITECTURE.md and Cargo.toml.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for package in &workspace.members {
        findings.extend(unused(workspace, package)?);
    }
    let manifest = std::fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse()?;
    let declared = manifest["workspace"]["dependencies"].as_table().context("[workspace.dependencies]")?;
    let external = declared.keys().filter(|name| workspace.member(name).is_none());
    let architecture = &workspace.documents[&workspace.root.join("ARCHITECTURE.md")];
    findings.extend(differences(&external.cloned().collect(), &documented(architecture)));
    Ok(findings)
}

fn unused(workspace: &Workspace, package: &Package) -> Result<RuleFindings> {
    let directory = package.directory();
    let sources: Vec<_> = workspace.sources.iter().filter(|(path, _)| path.starts_with(directory)).collect();
    let mut findings = RuleFindings::new();
    for dependency in &package.dependencies {
        let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
        let used = Regex::new(&format!(r"\b{name}(::|;| as )"))?;
        if !sources.iter().any(|(_, source)| used.is_match(&source.text)) {
            findings.push(format!("{}: {} is not used", package.name, dependency.name));
        }
    }
    Ok(findings)
}

/// Returns the names in the first column of the table below the heading "Dependencies".
fn documented(architecture: &str) -> BTreeSet<String> {
    let section =
        architecture.split("\n## ").find(|section| section.starts_with("Dependencies")).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let first = rows.filter_map(|row| row.split('|').nth(1));
    let names = first.flat_map(|cell| cell.split([',', ';']));
    names.filter_map(|name| name.split_whitespace().next()).map(str::to_owned).collect()
}

fn differences(declared: &BTreeSet<String>, documented: &BTreeSet<String>) -> RuleFindings {
    let missing = declared
        .difference(documented)
        .map(|name| format!("{name} is missing from the table in ARCHITECTURE.md"));
    let stale = documented
        .difference(declared)
        .map(|name| format!("{name} is in ARCHITECTURE.md but not in Cargo.toml"));
    missing.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_are_parsed_and_compared() {
        let text = "# A\n## Dependencies\n\n| crate | for |\n| --- | --- |\n| a, b-c (x) | d |\n| e; f | g |\n\n## Tests\n| h | i |\n";
        let documented = documented(text);
        assert_eq!(documented.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b-c", "e", "f"]);
        let declared = ["a", "b-c", "e", "z"].map(str::to_owned).into();
        let expected = [
            "z is missing from the table in ARCHITECTURE.md",
            "f is in ARCHITECTURE.md but not in Cargo.toml",
        ];
        assert_eq!(differences(&declared, &documented), expected);
    }
}
