//! Checks that packages meet the requirements of a registry: description, keywords, README, and licence files.

use anyhow::Result;

use crate::RuleFindings;
use crate::workspace::{Package, Workspace};

/// Files that each package has next to its manifest.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Finds missing parts of packages that are to be published.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    Ok(workspace.members.iter().filter(|package| package.is_published()).flat_map(missing).collect())
}

fn missing(package: &Package) -> RuleFindings {
    let files =
        FILES.iter().filter(|file| !package.directory().join(file).is_file()).map(|file| (*file).to_owned());
    let fields = [
        ("description", package.description.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("readme", package.readme.is_some()),
    ];
    let fields = fields.iter().filter(|(_, present)| !present).map(|(field, _)| (*field).to_owned());
    fields.chain(files).map(|what| format!("{}: no {what}", package.name)).collect()
}
