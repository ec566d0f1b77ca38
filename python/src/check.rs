//! `jetcell.check`: verification of a database file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ese_check::{Cancellation, CheckOptions, Severity, check_database};
use pyo3::prelude::*;

use crate::errors::LocatedError;
use crate::findings::PyFinding;
use crate::handle::{file_system, refuse_in_use};

/// Interval at which a check polls for signals, such as SIGINT after Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Result of a check.
#[pyclass(frozen, get_all, module = "jetcell", name = "CheckReport")]
pub struct PyCheckReport {
    path: String,
    page_size: u32,
    clean: bool,
    state: String,
    file_pages: u32,
    sound: bool,
    findings: Vec<PyFinding>,
}

#[pymethods]
impl PyCheckReport {
    fn __repr__(&self) -> String {
        let sound = if self.sound { "sound" } else { "damaged" };
        format!("<jetcell.CheckReport {:?}, {sound}, {} findings>", self.path, self.findings.len())
    }
}

/// Verifies a database without changing it: each page alone and, with `structure`, the relations between pages.
///
/// Damage is reported as a finding, not as an exception. `sound` is false if there is a finding of severity "error".
#[pyfunction]
#[pyo3(signature = (path, *, structure = true, allow_in_use = false))]
pub fn check(py: Python<'_>, path: PathBuf, structure: bool, allow_in_use: bool) -> PyResult<PyCheckReport> {
    let interrupted: Arc<Mutex<(Instant, Option<PyErr>)>> = Arc::new(Mutex::new((Instant::now(), None)));
    let cancel = Cancellation::default();
    let (watch, ending) = (interrupted.clone(), cancel.clone());
    let progress = move |_| {
        let mut state = watch.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.elapsed() >= SIGNAL_CHECK_INTERVAL && state.1.is_none() {
            #[allow(
                clippy::redundant_closure_for_method_calls,
                reason = "the method has no type that fits all lifetimes"
            )]
            let signal = Python::attach(|py| py.check_signals()).err();
            state.1 = signal;
            state.0 = Instant::now();
            if state.1.is_some() {
                ending.cancel();
            }
        }
    };
    let options = CheckOptions {
        structure,
        progress: Some(Arc::new(progress)),
        leaks_are_errors: false,
        cancel,
        ..CheckOptions::default()
    };
    let report = py.detach(|| {
        refuse_in_use(&path, allow_in_use)?;
        check_database(&file_system(&path)?, &path, &options).map_err(LocatedError::from_check_error)
    })?;
    let signal = interrupted.lock().unwrap_or_else(PoisonError::into_inner).1.take();
    if let Some(signal) = signal {
        return Err(signal);
    }
    Ok(PyCheckReport {
        path: path.to_string_lossy().into_owned(),
        page_size: report.page_size,
        clean: report.clean,
        sound: !report.findings.iter().any(|finding| finding.severity == Severity::Error),
        state: format!("{:?}", report.state),
        file_pages: report.file_pages,
        findings: report.findings.iter().map(PyFinding::from).collect(),
    })
}
