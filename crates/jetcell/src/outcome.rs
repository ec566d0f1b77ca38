//! Outcomes and errors of commands.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use jetcell_host::InterruptError;

use crate::os_advice::os_advice;
use crate::remedy::remedy;
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
    pub fn could_not_run(error: impl Into<CommandError>) -> CommandOutcome {
        error.into().print();
        CommandOutcome::CouldNotRun
    }
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> ExitCode {
        ExitCode::from(outcome as u8)
    }
}

/// Result of a command, or of a step of one.
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

/// Error returned when a command could not run: the problem, its context, and what the user can do about it.
#[derive(Debug)]
pub struct CommandError {
    error: anyhow::Error,
    /// Steps that failed because of the error, outermost first.
    context: Vec<String>,
    jet_code: Option<(i32, &'static str)>,
    advice: Option<Cow<'static, str>>,
}

impl CommandError {
    /// Creates an error that the command itself detected.
    pub fn new(problem: impl fmt::Display) -> CommandError {
        CommandError {
            error: anyhow::Error::msg(problem.to_string()),
            context: Vec::new(),
            jet_code: None,
            advice: None,
        }
    }

    /// Replaces the advice.
    pub fn advise(mut self, advice: impl Into<Cow<'static, str>>) -> CommandError {
        self.advice = Some(advice.into());
        self
    }

    /// Adds what the command was doing, which is printed before the problem.
    pub fn context(mut self, context: impl fmt::Display) -> CommandError {
        self.context.insert(0, context.to_string());
        self
    }

    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// Returns the error of a given type that caused this one.
    pub fn find<E: Error + Send + Sync + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// Prints one line to stderr that states the problem and the advice. On a terminal, the line is wrapped. Control
    /// characters in names and stored text are escaped, so they are never sent to the terminal.
    pub fn print(&self) {
        print_note(&format!("jetcell: {}", self.full_text()));
    }

    /// Returns the problem and the advice.
    pub fn full_text(&self) -> String {
        let advice = self.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        format!("{self}{advice}")
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
        let error = anyhow::Error::new(error);
        let os_error = || {
            error.chain().find_map(|cause| {
                let shared = || cause.downcast_ref::<Arc<io::Error>>().map(|error| &**error);
                os_advice(cause.downcast_ref().or_else(shared)?)
            })
        };
        let advice = advice.or_else(|| os_error().map(Cow::Borrowed));
        CommandError { error, context: Vec::new(), jet_code, advice }
    }
}

/// Adds context and advice to the error of a step.
pub trait CommandContext<T> {
    /// Adds what the command was doing, which is printed before the problem.
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

// Errors that are not typed yet. Their advice is found in their text.
impl From<String> for CommandError {
    fn from(problem: String) -> CommandError {
        let advice = remedy(&problem).map(Cow::Borrowed);
        CommandError { advice, ..CommandError::new(problem) }
    }
}

impl From<&str> for CommandError {
    fn from(problem: &str) -> CommandError {
        problem.to_string().into()
    }
}

impl Advise for io::Error {}
impl Advise for InterruptError {}

/// Prints one line to stderr that states the problem and the advice.
pub fn print_error(error: impl Into<CommandError>) {
    error.into().print();
}
