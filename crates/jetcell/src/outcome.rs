//! Outcome of a command.

use std::fmt;
use std::process::ExitCode;

use crate::remedy::with_remedy;
use crate::terminal::note;

/// The three exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 0: success.
    Good = 0,
    /// 1: the verdict is not a pass, or there are findings.
    Findings = 1,
    /// 2: the command could not run.
    CouldNotRun = 2,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(outcome as u8)
    }
}

/// Reason why a command could not run, as one line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl From<String> for Failure {
    fn from(what: String) -> Failure {
        Failure(what)
    }
}

impl From<&str> for Failure {
    fn from(what: &str) -> Failure {
        Failure(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Prints one line to stderr that states the problem and the remedy. On a terminal, the line is wrapped. Control
/// characters in names and stored text are escaped, so they are never sent to the terminal.
pub fn print_error(what: impl fmt::Display) {
    note(&format!("jetcell: {}", with_remedy(&what.to_string())));
}
