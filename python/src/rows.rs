//! The class `Rows`, an iterator over rows as dicts.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jetcell_export::{
    ExportIssue, ExportIssues, ExportedRow, PortionEnd, RowCursor, RowReadOptions, SelectedTable, SourceTable,
};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyString};

use crate::errors::LocatedError;
use crate::fields::{OwnedValue, PythonClasses};
use crate::findings::PyIssue;
use crate::handle::{DatabaseHandle, OpenedDatabase};
use crate::options::{DamagePolicy, RowOptions};

/// Number of rows in the first portion. It is small, which suits callers that need only a few rows. [`PORTION_ROWS`]
/// and [`PORTION_BYTES`] limit the portions that are decoded later.
const FIRST_PORTION_ROWS: usize = 16;
const PORTION_ROWS: usize = 512;
const PORTION_BYTES: usize = 1 << 20;
/// Advice for a value that exceeds the row limit.
pub const TOO_LARGE_ADVICE: &str = "reading this value into memory requires a larger row_limit";

/// Rows that are read but not yet returned.
struct RowBuffer {
    cursor: RowCursor,
    /// Copy of the cursor's table, because the cursor cannot be borrowed while it reads.
    table: SourceTable,
    options: RowOptions,
    issues: ExportIssues,
    /// Values of the rows, row by row.
    fields: std::vec::IntoIter<OwnedValue>,
    /// Failure to report after these rows.
    failure: Option<LocatedError>,
    portion_rows: usize,
    done: bool,
}

/// Iterator over the rows of a table.
#[pyclass(frozen, module = "jetcell", name = "Rows")]
pub struct PyRows {
    handle: Arc<DatabaseHandle>,
    keys: Vec<Py<PyString>>,
    reading: Mutex<RowBuffer>,
}

impl PyRows {
    pub fn new(
        py: Python<'_>,
        handle: Arc<DatabaseHandle>,
        opened: &OpenedDatabase,
        selected: SelectedTable,
        options: RowOptions,
    ) -> PyResult<PyRows> {
        let key = |name: &str| PyString::intern(py, name).unbind();
        let names = selected.table.columns.iter().map(|column| key(&column.column.name));
        let keys = names.chain(options.additional.marks().iter().map(|mark| key(mark.name()))).collect();
        let mut issues = ExportIssues::default();
        issues.set_table(Some(&selected.table.name));
        let reading = RowBuffer {
            table: selected.table.clone(),
            cursor: RowCursor::new(&opened.source, selected),
            options,
            issues,
            fields: Vec::new().into_iter(),
            failure: None,
            portion_rows: FIRST_PORTION_ROWS,
            done: false,
        };
        Ok(PyRows { handle, keys, reading: Mutex::new(reading) })
    }

    fn dict<'py>(
        &self,
        py: Python<'py>,
        fields: &mut std::vec::IntoIter<OwnedValue>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (dict, classes) = (PyDict::new(py), PythonClasses::get(py)?);
        for (key, field) in self.keys.iter().zip(fields) {
            dict.set_item(key.bind(py), field.into_python(py, classes)?)?;
        }
        Ok(dict)
    }
}

impl RowBuffer {
    /// Decodes the next portion.
    fn fill(&mut self, handle: &DatabaseHandle) {
        match handle.get() {
            Ok(opened) => self.read(&opened, &handle.path),
            Err(failure) => (self.failure, self.done) = (Some(failure), true),
        }
    }

    fn read(&mut self, opened: &OpenedDatabase, path: &std::path::Path) {
        let RowBuffer { cursor, table, options, issues, portion_rows, .. } = self;
        let raise = options.damage == DamagePolicy::Raise;
        let marks = options.additional.marks();
        let mut reading = RowReadOptions {
            additional: options.additional,
            row_limit: options.row_limit,
            limit_advice: TOO_LARGE_ADVICE,
            stop_at_missing: raise,
            ..RowReadOptions::default()
        };
        let (mut fields, mut rows, mut bytes, mut failure) = (Vec::new(), 0, 0, None);
        let mut visit = |row: ExportedRow<'_>| {
            let start = fields.len();
            for (column, cell) in table.columns.iter().zip(row.cells) {
                let field = OwnedValue::from_cell(column, cell);
                // The long values of a deleted row may already be deleted, so this is not an error.
                if let (true, true, Some(reason)) = (raise, row.is_current(), field.unreadable()) {
                    let name = &column.column.name;
                    let issue = cell_issue(table, &row, name, reason);
                    failure = Some(LocatedError::damaged(path, &issue).in_column(name));
                    fields.truncate(start);
                    return Ok(ControlFlow::Break(()));
                }
                bytes += field.size();
                fields.push(field);
            }
            fields.extend(
                marks.iter().map(|mark| row.mark(*mark).map_or(OwnedValue::Null, OwnedValue::from_value)),
            );
            rows += 1;
            let full = rows >= *portion_rows || bytes >= PORTION_BYTES;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        match cursor.read(&opened.source, &mut reading, issues, &mut visit) {
            Ok(PortionEnd::More) => self.done = failure.is_some(),
            Ok(PortionEnd::Missing) => {
                failure = issues.last_missing().map(|issue| LocatedError::damaged(path, issue));
                self.done = true;
            }
            Ok(PortionEnd::End) => self.done = true,
            Err(error) => (failure, self.done) = (Some(LocatedError::system(path, &error)), true),
        }
        self.portion_rows = PORTION_ROWS;
        self.fields = fields.into_iter();
        self.failure = failure;
    }
}

/// Returns the issue for an unreadable value.
pub fn cell_issue(table: &SourceTable, row: &ExportedRow<'_>, column: &str, reason: &str) -> ExportIssue {
    let what = format!("row {} of the page, column {column}: {reason}", row.index);
    ExportIssue { missing: true, table: Some(table.name.clone()), page: Some(row.page), message: what }
}

#[pymethods]
impl PyRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut reading = self.reading.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        loop {
            if reading.fields.len() > 0 {
                return self.dict(py, &mut reading.fields).map(Some);
            }
            if let Some(failure) = reading.failure.take() {
                return Err(failure.into());
            }
            if reading.done {
                return Ok(None);
            }
            let reading = &mut *reading;
            py.detach(|| reading.fill(&self.handle));
        }
    }

    /// Issues in the rows that were read so far: missing data, and notes.
    #[getter]
    fn issues(&self, py: Python<'_>) -> Vec<PyIssue> {
        let reading = self.reading.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        reading.issues.stored().iter().map(PyIssue::from).collect()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let reading = self.reading.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        format!("<jetcell.Rows of {:?}>", reading.table.name)
    }
}
