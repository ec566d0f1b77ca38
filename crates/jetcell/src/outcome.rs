//! How a command ends.

use std::process::ExitCode;

/// The three exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 0: everything is good.
    Good,
    /// 1: the verdict is not a pass, or something was found.
    Findings,
    /// 2: the command could not do its work.
    CouldNotRun,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(match outcome {
            Outcome::Good => 0,
            Outcome::Findings => 1,
            Outcome::CouldNotRun => 2,
        })
    }
}

/// One line on stderr.
pub fn complain(what: impl std::fmt::Display) {
    eprintln!("jetcell: {what}");
}
