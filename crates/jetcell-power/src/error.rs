//! Errors of meters and power logs.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use thiserror::Error;

use crate::scope::{MeterScope, SCOPE_ADVICE, UnknownScope};

/// Reason why a power or energy figure is unavailable.
#[derive(Debug, Error)]
pub enum PowerError {
    /// A file could not be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
    /// The path is not a regular file.
    #[error("{}: the path is not a file", .0.display())]
    NotAFile(PathBuf),
    /// A kernel file does not contain a number.
    #[error("{}: not a number", .0.display())]
    NotANumber(PathBuf),
    /// A power log is invalid or does not cover the requested time window.
    #[error("{}: {error}", .path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// Defect that was found in the log.
        #[source]
        error: PowerLogError,
    },
    /// A meter does not provide a reading.
    #[error("meter {meter}: {error}")]
    Meter {
        /// Name of the meter.
        meter: String,
        /// The reason.
        #[source]
        error: MeterError,
    },
}

/// Defect of a power log.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum PowerLogError {
    #[error("the log does not have a column {0}")]
    NoColumn(&'static str),
    #[error("{0}")]
    Csv(#[from] csv::Error),
    #[error("line {line}: {error}")]
    Row { line: u64, error: PowerRowError },
    #[error("the log has more than {limit} rows")]
    TooManyRows { limit: usize },
    #[error("the log has fewer than two rows, but at least two are needed to compute the energy")]
    TooFewRows,
    #[error("the log does not state what was measured")]
    NoScope,
    #[error("the log does not contain any rows")]
    NoRows,
    #[error("the log does not cover {outside:.1} s of the {window:.1} s window")]
    NotCovered { outside: f64, window: f64 },
    #[error("the window is empty")]
    EmptyWindow,
    #[error(
        "the counters were not read for {gap:.1} s, and can wrap after one minute, so the energy is unknown"
    )]
    CounterGap { gap: f64 },
    #[error("the meter did not report for {gap:.1} s of a {window:.1} s window")]
    Gap { gap: f64, window: f64 },
}

/// Defect of a row of a power log.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum PowerRowError {
    #[error("\"{0}\" is not a valid time")]
    Time(String),
    #[error("the time is not after the time of the previous line")]
    TimeOrder,
    #[error("\"{0}\" is not a valid power or energy value")]
    Value(String),
    #[error("the counter decreased")]
    CounterDecreased,
    #[error("{0}")]
    UnknownScope(#[from] UnknownScope),
    #[error("the scope is {}, which differs from the specified scope", .0.name())]
    OtherScope(MeterScope),
}

/// Reason why a meter does not provide a reading.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum MeterError {
    #[error("this machine does not have a power sensor")]
    NoSensor,
    #[error("{} does not have a power sensor", .0.display())]
    NoSensorIn(PathBuf),
    #[error("no chip {chip} with a power sensor was found")]
    UnknownChip { chip: String, available: Vec<String> },
    #[error("several power sensors were found")]
    SeveralSensors { available: Vec<String>, first: String },
    #[error("failed to run {program}: {error}")]
    NotStarted {
        program: String,
        #[source]
        error: io::Error,
    },
    #[error("ipmitool failed: {}", if .message.is_empty() { .status.to_string() } else { .message.clone() })]
    ProgramFailed { status: ExitStatus, message: String },
    #[error("the controller does not measure power")]
    NoControllerSensor,
    #[error("this machine does not expose RAPL counters")]
    NoCounters,
    #[error("{0}")]
    CounterNotRead(#[source] Box<PowerError>),
    #[error("this build does not support smart plugs")]
    PlugsNotSupported,
    #[error("the plug reports 0 W: it does not have a meter, is switched off, or does not have a load")]
    NoLoad,
    #[error("io: {0}")]
    Connection(#[source] io::Error),
    #[error("http status: {0}")]
    HttpStatus(u16),
    #[error("{0}")]
    Request(String),
    #[error("the response is not JSON")]
    NotJson,
    #[error("the response does not contain a power value")]
    NoPowerValue,
}

impl PowerError {
    pub(crate) fn meter(meter: impl Into<String>, error: MeterError) -> PowerError {
        PowerError::Meter { meter: meter.into(), error }
    }

    /// Returns what the user can do about the error, for example `specify a regular file`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            PowerError::NotAFile(_) => Some("specify a regular file".into()),
            PowerError::Log { error, .. } => error.advice().map(Cow::from),
            PowerError::Meter { error, .. } => error.advice(),
            PowerError::Io { .. } | PowerError::NotANumber(_) => None,
        }
    }

    /// Returns true if a later reading of the same meter may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            PowerError::Io { error, .. }
            | PowerError::Meter { error: MeterError::NotStarted { error, .. }, .. } => {
                !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            }
            PowerError::Meter {
                error: MeterError::HttpStatus(400..=407 | 409..=428 | 430..=499), ..
            } => false,
            PowerError::Meter { .. } | PowerError::NotANumber(_) => true,
            PowerError::NotAFile(_) | PowerError::Log { .. } => false,
        }
    }
}

impl PowerLogError {
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self {
            PowerLogError::NoColumn(_) => "use a log that has at least one of these columns",
            PowerLogError::Row { error: PowerRowError::TimeOrder, .. } => "the clock jumped",
            PowerLogError::Row { error: PowerRowError::CounterDecreased, .. } => {
                "use the log before or after this line"
            }
            PowerLogError::Row { error: PowerRowError::UnknownScope(_), .. } => SCOPE_ADVICE,
            PowerLogError::Row { .. } => "correct this line",
            PowerLogError::TooManyRows { .. } => "shorten it",
            PowerLogError::NoScope => "specify a scope: drive, enclosure, server or processor",
            PowerLogError::CounterGap { .. } => "use the log before or after this gap",
            _ => return None,
        })
    }
}

impl MeterError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            MeterError::UnknownChip { available, .. } => {
                return Some(format!("available chips: {}", available.join(", ")).into());
            }
            MeterError::SeveralSensors { available, first } => {
                let available = available.join(", ");
                return Some(format!("choose one, for example hwmon={first}: {available}").into());
            }
            MeterError::NotStarted { .. } => "install the package ipmitool",
            MeterError::NoCounters => "virtual machines usually do not have them",
            MeterError::CounterNotRead(_) => "reading the counters requires root",
            MeterError::PlugsNotSupported => "build it with `--features lab` or `--features full`",
            MeterError::NotJson => "check which kind of plug it is",
            MeterError::NoPowerValue => "the plug does not have a meter, or is a different kind of plug",
            _ => return None,
        }))
    }
}
