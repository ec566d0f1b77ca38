//! Checks the licences of all packages in Cargo.lock against the list in deny.toml, which `cargo deny` reads as well.

use anyhow::{Context, Result};
use spdx::{Expression, ParseMode};

use crate::RuleFindings;
use crate::workspace::Workspace;

/// Finds packages without a licence, or with a licence that is not permitted.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let policy: toml::Table =
        std::fs::read_to_string(workspace.root.join("deny.toml")).context("deny.toml")?.parse()?;
    let allowed = policy["licenses"]["allow"].as_array().context("deny.toml: licenses.allow")?;
    let allowed: Vec<&str> = allowed.iter().filter_map(toml::Value::as_str).collect();
    let refused = workspace.packages.iter().filter_map(|package| {
        let licence = package.license.as_deref().unwrap_or("no licence");
        (!is_allowed(licence, &allowed)).then(|| format!("{}: {licence}", package.name))
    });
    Ok(refused.collect())
}

fn is_allowed(licence: &str, allowed: &[&str]) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
    expression.evaluate(|requirement| allowed.contains(&requirement.to_string().as_str()))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn every_part_needs_one_allowed_licence() {
        let allowed = ["MIT", "BSD-3-Clause"];
        assert!(is_allowed("MIT OR GPL-3.0-only", &allowed) && is_allowed("Apache-2.0/MIT", &allowed));
        assert!(is_allowed("(MIT OR Apache-2.0) AND BSD-3-Clause", &allowed));
        assert!(!is_allowed("GPL-3.0-only", &allowed) && !is_allowed("MIT AND GPL-3.0-only", &allowed));
        assert!(!is_allowed("no licence", &allowed));
    }
}
