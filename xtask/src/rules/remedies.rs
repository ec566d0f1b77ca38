//! Finds messages that tell users to recover a database but omit the command for it.

use anyhow::Result;
use regex::Regex;

use crate::RuleFindings;
use crate::workspace::Workspace;

/// Pattern of advice to recover something.
const ADVICE: &str = concat!(
    r"\b[Rr]un (the )?recovery\b|\b[Rr]ecover (it|them|the (database|databases|files)) (first|with)\b|",
    r"\b[Ff]irst recover\b|\b[Pp]erform (a )?recovery\b"
);
/// Command that must be part of the advice, on the same line or on the next line.
const COMMAND: &str = "jetcell recover";

/// Finds lines of code and documents with such advice but without the command. Comments are ignored, because users do
/// not read them.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let advice = Regex::new(ADVICE)?;
    let mut findings = RuleFindings::new();
    let code = workspace.sources.iter().map(|(path, source)| (path, &source.text));
    let documents = workspace.documents.iter();
    for (path, text) in code.chain(documents).filter(|(path, _)| !path.ends_with("rules/remedies.rs")) {
        for line in without_command(text, &advice) {
            findings.push(format!(
                "{}:{line}: advice without `{COMMAND}` and its arguments",
                workspace.display_path(path)
            ));
        }
    }
    Ok(findings)
}

/// Returns the numbers of these lines.
fn without_command(text: &str, advice: &Regex) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let says = |number: usize| lines.get(number).is_some_and(|line| line.contains(COMMAND));
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let bare = |(number, line): (usize, &&str)| {
        let wrong = advice.is_match(line) && !is_comment(line) && !says(number) && !says(number + 1);
        wrong.then_some(number + 1)
    };
    lines.iter().enumerate().filter_map(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_must_name_a_valid_command() {
        let found = |text: &str| without_command(text, &Regex::new(ADVICE).unwrap());
        let bare = "// run recovery\n\"no log is missing; run recovery\"\n\"not shut down; recover it with that log first\"";
        assert_eq!(found(bare), [2, 3]);
        let whole = "\"recover it with the logs: jetcell recover DATABASE LOGS --into DIR\"\n\"first recover it: \\\n jetcell recover x\"";
        assert_eq!(found(whole), [0; 0]);
        assert_eq!(found("recovery first reads the checkpoint"), [0; 0]);
    }
}
