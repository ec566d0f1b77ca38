//! Outcomes and errors of commands.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use jetcell_host::{InterruptError, os_advice};
use jetcell_input::with_advice;

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
    /// 141: the reader of standard output has closed the pipe. Shells report 128 plus SIGPIPE in this case.
    PipeClosed = 141,
}

impl CommandOutcome {
    /// Returns [`CommandOutcome::Good`], or [`CommandOutcome::Findings`] if `is_good` is false.
    pub fn good_if(is_good: bool) -> CommandOutcome {
        if is_good { CommandOutcome::Good } else { CommandOutcome::Findings }
    }
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> ExitCode {
        ExitCode::from(outcome as u8)
    }
}

/// Result of a command or of one of its steps.
pub type CommandResult<T = CommandOutcome> = Result<T, CommandError>;

/// Interface to errors of libraries: the advice and the ESE code, which are printed after the problem.
pub trait Advise: Error + Send + Sync + 'static {
    /// Returns what the user can do about the error.
    fn advice(&self) -> Option<Cow<'static, str>> {
        None
    }

    /// Returns the number and the name that ESE uses for the error.
    fn jet_code(&self) -> Option<(i32, &'static str)> {
        None
    }
}

/// Text that describes a problem. Error types do not implement this trait, so [`CommandError::new`] cannot drop their
/// advice.
pub trait ProblemText: fmt::Display {}

impl ProblemText for fmt::Arguments<'_> {}
impl ProblemText for &str {}
impl ProblemText for String {}

/// Error returned when a command could not run: the problem, its context, and what the user can do about it.
#[derive(Debug)]
pub struct CommandError {
    error: anyhow::Error,
    /// Steps that failed because of the error, outermost first.
    context: Vec<String>,
    jet_code: Option<(i32, &'static str)>,
    advice: Option<Cow<'static, str>>,
    outcome: CommandOutcome,
}

impl CommandError {
    /// Creates an error that the command itself detected. Library errors are converted with `From` instead, which keeps
    /// their advice.
    pub fn new(problem: impl ProblemText) -> CommandError {
        CommandError::from_error(anyhow::Error::msg(problem.to_string()), None, None)
    }

    /// Creates an error from a library error. If the library has no advice, uses the advice for the operating system's
    /// error.
    fn from_error(
        error: anyhow::Error,
        jet_code: Option<(i32, &'static str)>,
        advice: Option<Cow<'static, str>>,
    ) -> CommandError {
        let advice = advice.or_else(|| os_advice(&*error).map(Cow::Borrowed));
        CommandError { error, context: Vec::new(), jet_code, advice, outcome: CommandOutcome::CouldNotRun }
    }

    /// Returns the error of a command whose standard output failed with `error`.
    pub fn from_output(error: &io::Error) -> CommandError {
        let closed = error.kind() == io::ErrorKind::BrokenPipe;
        CommandError::new(format_args!("could not write to standard output: {error}"))
            .advise("free some space, or write to a different location")
            .with_outcome(if closed { CommandOutcome::PipeClosed } else { CommandOutcome::CouldNotRun })
    }

    /// Replaces the outcome, which is [`CommandOutcome::CouldNotRun`] by default.
    pub fn with_outcome(self, outcome: CommandOutcome) -> CommandError {
        CommandError { outcome, ..self }
    }

    /// Replaces the advice.
    pub fn advise(mut self, advice: impl Into<Cow<'static, str>>) -> CommandError {
        self.advice = Some(advice.into());
        self
    }

    /// Adds more advice after the advice of the error.
    pub fn add_advice(self, more: &str) -> CommandError {
        let advice = self.advice().map_or_else(|| more.to_string(), |own| format!("{own}; {more}"));
        self.advise(advice)
    }

    /// Adds a description of the failed step, which is printed before the problem.
    pub fn context(mut self, context: impl fmt::Display) -> CommandError {
        self.context.insert(0, context.to_string());
        self
    }

    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// Prints one line to stderr that states the problem and the advice, and returns the outcome. On a terminal, the
    /// line is wrapped. Control characters in names and stored text are escaped, so they are never sent to the
    /// terminal. A closed pipe is not reported.
    pub fn print(&self) -> CommandOutcome {
        if self.outcome != CommandOutcome::PipeClosed {
            print_note(&format!("jetcell: {}", self.full_text()));
        }
        self.outcome
    }

    /// Returns the problem and the advice.
    pub fn full_text(&self) -> String {
        with_advice(self, self.advice())
    }
}

/// The problem without the advice.
impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.iter().try_for_each(|context| write!(f, "{context}: "))?;
        write!(f, "{}", self.error)?;
        self.jet_code.map_or(Ok(()), |(number, name)| write!(f, " ({name} {number})"))
    }
}

impl<E: Advise> From<E> for CommandError {
    fn from(error: E) -> CommandError {
        let (jet_code, advice) = (error.jet_code(), error.advice());
        CommandError::from_error(anyhow::Error::new(error), jet_code, advice)
    }
}

impl From<Box<dyn Error + Send + Sync>> for CommandError {
    fn from(error: Box<dyn Error + Send + Sync>) -> CommandError {
        // anyhow hides the type of the boxed error.
        let advice = os_advice(&*error).map(Cow::Borrowed);
        CommandError::from_error(anyhow::Error::from_boxed(error), None, advice)
    }
}

/// Adds context and advice to the error of a step.
pub trait CommandContext<T> {
    /// Adds a description of the failed step, which is printed before the problem.
    fn context(self, context: impl fmt::Display) -> CommandResult<T>;

    /// Replaces the advice.
    fn advise(self, advice: impl Into<Cow<'static, str>>) -> CommandResult<T>;
}

impl<T, E: Into<CommandError>> CommandContext<T> for Result<T, E> {
    fn context(self, context: impl fmt::Display) -> CommandResult<T> {
        self.map_err(|error| error.into().context(context))
    }

    fn advise(self, advice: impl Into<Cow<'static, str>>) -> CommandResult<T> {
        self.map_err(|error| error.into().advise(advice))
    }
}

impl Advise for io::Error {}
impl Advise for Arc<io::Error> {}
impl Advise for serde_json::Error {}
impl Advise for InterruptError {}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
