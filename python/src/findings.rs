//! Findings of a check and issues of reading, as Python classes.

use ese_check::Finding;
use jetcell_export::ExportIssue;
use pyo3::prelude::*;

/// A finding of a check, with its location as precisely as known.
#[pyclass(frozen, get_all, module = "jetcell", name = "Finding")]
#[derive(Clone)]
pub struct PyFinding {
    path: String,
    kind: &'static str,
    severity: String,
    page: Option<u32>,
    offset: Option<u64>,
    tree: Option<String>,
    table: Option<String>,
    message: String,
    meaning: String,
    text: String,
}

impl From<&Finding> for PyFinding {
    fn from(finding: &Finding) -> PyFinding {
        PyFinding {
            path: finding.file.to_string_lossy().into_owned(),
            kind: finding.kind.name(),
            severity: finding.severity.to_string(),
            page: finding.page.map(ese_format::PageNumber::get),
            offset: finding.offset,
            tree: finding.tree.clone(),
            table: finding.table.clone(),
            message: finding.message.clone(),
            meaning: finding.meaning.clone(),
            text: finding.to_string(),
        }
    }
}

#[pymethods]
impl PyFinding {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<jetcell.Finding {}>", self.text)
    }
}

/// An issue of reading: missing data or a note.
#[pyclass(frozen, get_all, module = "jetcell", name = "Issue")]
#[derive(Clone)]
pub struct PyIssue {
    missing: bool,
    table: Option<String>,
    page: Option<u32>,
    message: String,
    text: String,
}

impl From<&ExportIssue> for PyIssue {
    fn from(issue: &ExportIssue) -> PyIssue {
        PyIssue {
            missing: issue.missing,
            table: issue.table.clone(),
            page: issue.page.map(ese_format::PageNumber::get),
            message: issue.message.clone(),
            text: issue.to_string(),
        }
    }
}

#[pymethods]
impl PyIssue {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        let kind = if self.missing { "missing" } else { "note" };
        format!("<jetcell.Issue {kind}: {}>", self.text)
    }
}
