//! Checks that relative links in Markdown files refer to existing files and headings.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use regex::Regex;

use crate::RuleFindings;
use crate::workspace::Workspace;

/// Finds links without a target.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let link = Regex::new(r"\]\(([^()\s]+)\)")?;
    let mut findings = RuleFindings::new();
    for (path, text) in &workspace.documents {
        let text = without_code(text);
        for target in
            link.captures_iter(&text).map(|captures| captures.get(1).map_or("", |target| target.as_str()))
        {
            if !target.contains("://")
                && !target.starts_with("mailto:")
                && !has_target(workspace, path, target)
            {
                findings.push(format!("{}: {target}", workspace.display_path(path)));
            }
        }
    }
    Ok(findings)
}

fn has_target(workspace: &Workspace, from: &Path, target: &str) -> bool {
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = match file {
        "" => from.to_owned(),
        file => from.parent().unwrap_or(Path::new("")).join(file),
    };
    let Ok(path) = path.canonicalize() else { return false };
    let Some(heading) = heading else { return true };
    workspace.documents.get(&path).is_some_and(|text| headings(text).contains(heading))
}

/// Returns the anchors of a document's headings, as Markdown viewers generate them.
fn headings(text: &str) -> HashSet<String> {
    let text = without_code(text);
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles
        .map(|title| {
            let kept = title
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .collect::<String>();
            kept.replace(' ', "-")
        })
        .collect()
}

/// Returns a document without its fenced code blocks.
pub(super) fn without_code(text: &str) -> String {
    let mut code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors_except_in_code() {
        let anchors = headings("# Lock order\n```sh\n# no heading\n```\n## `check`: what it finds\n");
        assert_eq!(anchors, HashSet::from(["lock-order".to_owned(), "check-what-it-finds".to_owned()]));
    }
}
