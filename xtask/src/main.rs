//! `cargo xtask tidy`: checks that the code follows ARCHITECTURE.md and the style rules. It is part of the test
//! command.

#![forbid(unsafe_code)]

mod modules;
mod rules;
mod source;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::rules::RULES;
use crate::workspace::Workspace;

/// Findings of a rule, one line each, with the location.
type RuleFindings = Vec<String>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => None,
        ["tidy", rule] => Some(rule),
        _ => bail!("usage: cargo xtask tidy [RULE]; rules: {}", RULES.map(|rule| rule.name).join(", ")),
    };
    let workspace = Workspace::load()?;
    let mut sound = true;
    for rule in RULES.iter().filter(|rule| chosen.is_none_or(|name| name == rule.name)) {
        let findings = (rule.check)(&workspace)?;
        println!("{:<14} {}: {} found", rule.name, rule.claim, findings.len());
        findings.iter().for_each(|finding| println!("    {finding}"));
        sound &= findings.is_empty();
    }
    Ok(sound)
}
