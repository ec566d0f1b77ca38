//! Outcome of a command.

use std::fmt;
use std::process::ExitCode;

use jetcell_host::InterruptError;

use crate::remedy::with_remedy;
use crate::terminal::print_note;

/// Outcome of a command, which determines its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// 0: success.
    Good = 0,
    /// 1: the verdict is not a pass, or there are findings.
    Findings = 1,
    /// 2: the command could not run.
    CouldNotRun = 2,
}

impl CommandOutcome {
    /// Prints the reason why a command could not run.
    pub fn could_not_run(what: impl fmt::Display) -> CommandOutcome {
        print_error(what);
        CommandOutcome::CouldNotRun
    }
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> ExitCode {
        ExitCode::from(outcome as u8)
    }
}

/// Error returned when a command could not run, with a one-line message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError(String);

impl From<String> for CommandError {
    fn from(what: String) -> CommandError {
        CommandError(what)
    }
}

impl From<&str> for CommandError {
    fn from(what: &str) -> CommandError {
        CommandError(what.into())
    }
}

impl From<InterruptError> for CommandError {
    fn from(error: InterruptError) -> CommandError {
        CommandError(error.to_string())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}

/// Prints one line to stderr that states the problem and the remedy. On a terminal, the line is wrapped. Control
/// characters in names and stored text are escaped, so they are never sent to the terminal.
pub fn print_error(what: impl fmt::Display) {
    print_note(&format!("jetcell: {}", with_remedy(&what.to_string())));
}
