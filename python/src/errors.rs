//! Errors, and the exceptions in `jetcell.errors` to which they are converted.

use std::path::{Path, PathBuf};

use ese_check::CheckError;
use ese_format::RecoverCommand;
use jetcell_export::{ExportError, ExportIssue};
use jetcell_input::with_advice;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A failure, with its location.
#[derive(Clone, Debug)]
pub struct LocatedError {
    kind: FailureKind,
    message: String,
    path: Option<PathBuf>,
    table: Option<String>,
    page: Option<u32>,
    column: Option<String>,
}

/// Kind of a failure, which selects the exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailureKind {
    NotADatabase,
    Dirty,
    Damaged,
    InUse,
    Closed,
    /// A `KeyError`.
    Unknown,
    /// A `ValueError`.
    Argument,
    /// An `OSError` with this error number.
    System(Option<i32>),
}

impl std::fmt::Display for LocatedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LocatedError {}

impl LocatedError {
    fn new(kind: FailureKind, path: Option<&Path>, message: String) -> LocatedError {
        let path = path.map(Path::to_owned);
        LocatedError { kind, message, path, table: None, page: None, column: None }
    }

    /// Returns the failure for a closed database.
    pub fn closed(path: &Path) -> LocatedError {
        LocatedError::new(
            FailureKind::Closed,
            Some(path),
            format!("{}: the database is closed", path.display()),
        )
    }

    /// Returns the failure for an invalid argument.
    pub fn argument(message: String) -> LocatedError {
        LocatedError::new(FailureKind::Argument, None, message)
    }

    /// Returns the failure for a name that does not exist.
    pub fn unknown(message: String) -> LocatedError {
        LocatedError::new(FailureKind::Unknown, None, message)
    }

    /// Returns the failure for a file that another process changes.
    pub fn in_use(path: &Path) -> LocatedError {
        let what = format!(
            "{}: in use by another process, so its pages can change while they are read; stop that process, \
             or pass allow_in_use=True",
            path.display()
        );
        LocatedError::new(FailureKind::InUse, Some(path), what)
    }

    /// Returns the failure for a database that was not shut down cleanly.
    pub fn dirty(path: &Path, state: &str, generations: (u32, u32)) -> LocatedError {
        let what = format!(
            "{0}: not shut down cleanly (state {state}, needs log generations {1:#X} to {2:#X}), so some \
             changes are only in the logs; with the logs, first run: {3}; without them, pass allow_dirty=True",
            path.display(),
            generations.0,
            generations.1,
            RecoverCommand { database: Some(path), logs: None }
        );
        LocatedError::new(FailureKind::Dirty, Some(path), what)
    }

    /// Returns the failure for missing data.
    pub fn damaged(path: &Path, issue: &ExportIssue) -> LocatedError {
        let what = format!("{}: {issue}; pass damage=\"report\" to skip the damage", path.display());
        let mut failure = LocatedError::new(FailureKind::Damaged, Some(path), what);
        failure.table = issue.table.clone();
        failure.page = issue.page.map(ese_format::PageNumber::get);
        failure
    }

    /// Adds the name of a column to the failure.
    pub fn in_column(mut self, column: &str) -> LocatedError {
        self.column = Some(column.to_owned());
        self
    }

    /// Returns the failure for an error of the operating system.
    pub fn system(path: &Path, error: &std::io::Error) -> LocatedError {
        LocatedError::new(FailureKind::System(error.raw_os_error()), Some(path), error.to_string())
    }

    /// Returns the failure for a database or table that does not fit the request.
    pub fn from_export_error(path: &Path, error: ExportError) -> LocatedError {
        match error {
            ExportError::Open(error) => LocatedError::from_check_error(error),
            ExportError::NoTable { name } => LocatedError::unknown(format!("table {name} does not exist")),
            ExportError::NoColumn { name } => LocatedError::unknown(format!("column {name} does not exist")),
            ExportError::NoTimes { name } => {
                LocatedError::unknown(format!("time column {name} does not exist"))
            }
            ExportError::OtherProfile(name) => LocatedError::new(
                FailureKind::Argument,
                Some(path),
                format!(
                    "{}: the database does not have the tables of {name}; use another profile",
                    path.display()
                ),
            ),
            other => {
                LocatedError::new(FailureKind::Argument, Some(path), with_advice(&other, other.advice()))
            }
        }
    }

    /// Returns the failure for a file that cannot be opened for a check.
    pub fn from_check_error(error: CheckError) -> LocatedError {
        match &error {
            CheckError::Io { path, error } => LocatedError::system(path, error),
            CheckError::Header { path, .. } | CheckError::OtherFormat { path, .. } => {
                let message = with_advice(&error, error.advice());
                LocatedError::new(FailureKind::NotADatabase, Some(path), message)
            }
            CheckError::BeyondEnd { .. } => LocatedError::argument(with_advice(&error, error.advice())),
        }
    }

    /// Creates the Python exception.
    fn exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let path = self.path.as_deref().map(|path| path.to_string_lossy().into_owned());
        let class = match self.kind {
            FailureKind::NotADatabase => "NotADatabaseError",
            FailureKind::Dirty => "DirtyDatabaseError",
            FailureKind::Damaged => "DamagedError",
            FailureKind::InUse => "InUseError",
            FailureKind::Closed => "ClosedError",
            FailureKind::Unknown => "UnknownNameError",
            FailureKind::Argument => return Ok(PyValueError::new_err(self.message)),
            // Python selects the subclass from the number, such as FileNotFoundError.
            FailureKind::System(Some(number)) => {
                let text = std::io::Error::from_raw_os_error(number).to_string();
                let text = text.split(" (os error").next().unwrap_or_default().to_owned();
                return Ok(PyOSError::new_err((number, text, path)));
            }
            FailureKind::System(None) => {
                return Ok(PyOSError::new_err(format!("{}: {}", path.unwrap_or_default(), self.message)));
            }
        };
        let class = py.import("jetcell.errors")?.getattr(class)?.cast_into::<PyType>()?;
        Ok(PyErr::from_value(class.call1((self.message, path, self.table, self.page, self.column))?))
    }
}

impl From<LocatedError> for PyErr {
    fn from(failure: LocatedError) -> PyErr {
        Python::attach(|py| failure.exception(py).unwrap_or_else(|error| error))
    }
}
