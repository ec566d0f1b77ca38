//! The class `ArrowRows`: a stream of Arrow record batches with the rows of a table, for any consumer of the C stream
//! interface.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use jetcell_export::{
    ExportIssues, ExportedRow, ExportedValue, PortionEnd, RowCursor, RowMark, RowReadOptions, SelectedTable,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyCapsule;

use crate::arrow_columns::{ColumnBuilder, RowNotes};
use crate::errors::LocatedError;
use crate::findings::PyIssue;
use crate::handle::{DatabaseHandle, OpenedDatabase};
use crate::options::{DamagePolicy, RowOptions};
use crate::rows::{TOO_LARGE_ADVICE, cell_issue};

/// Maximum approximate size of the values in a batch in bytes. [`BATCH_CELLS`] is the maximum number of cells.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_CELLS: usize = 1 << 21;
/// Name of the column for values that do not fit into the other columns.
const UNREADABLE: &str = "_unreadable";

/// Stream of Arrow record batches with the rows of a table. Each consumer reads from the first row.
#[pyclass(frozen, module = "jetcell", name = "ArrowRows")]
pub struct PyArrowRows {
    handle: Arc<DatabaseHandle>,
    selected: SelectedTable,
    options: RowOptions,
    batch_rows: usize,
    /// Issues of the most recent stream.
    issues: Arc<Mutex<ExportIssues>>,
}

impl PyArrowRows {
    pub fn new(
        handle: Arc<DatabaseHandle>,
        selected: SelectedTable,
        options: RowOptions,
        batch_rows: usize,
    ) -> PyArrowRows {
        PyArrowRows { handle, selected, options, batch_rows, issues: Arc::default() }
    }

    /// Returns a C stream in a capsule. The capsule owns the stream and releases it, unless a consumer has taken it.
    pub fn stream<'py>(
        &self,
        py: Python<'py>,
        _requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let opened = self.handle.get()?;
        let batches = TableBatchReader {
            columns: BatchBuilders::new(&self.selected, &self.options),
            cursor: RowCursor::new(&opened.source, self.selected.clone()),
            selected: self.selected.clone(),
            handle: self.handle.clone(),
            options: self.options.clone(),
            batch_rows: self.batch_rows,
            issues: self.issues.clone(),
            failure: None,
            done: false,
        };
        let mut issues = self.issues.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        *issues = ExportIssues::default();
        issues.set_table(Some(&self.selected.table.name));
        drop(issues);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

#[pymethods]
impl PyArrowRows {
    /// Returns the rows through the Arrow `PyCapsule` interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.stream(py, requested_schema)
    }

    /// Returns the schema through the Arrow `PyCapsule` interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = BatchBuilders::new(&self.selected, &self.options).schema;
        let schema = FFI_ArrowSchema::try_from(schema.as_ref())
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Issues in the rows that the most recent consumer has read so far.
    #[getter]
    fn issues(&self, py: Python<'_>) -> Vec<PyIssue> {
        let issues = self.issues.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        issues.stored().iter().map(PyIssue::from).collect()
    }

    fn __repr__(&self) -> String {
        format!("<jetcell.ArrowRows of {:?}>", self.selected.table.name)
    }
}

/// Builders for all columns.
struct BatchBuilders {
    builders: Vec<ColumnBuilder>,
    marks: Vec<(RowMark, ColumnBuilder)>,
    unreadable: ColumnBuilder,
    schema: SchemaRef,
}

impl BatchBuilders {
    fn new(selected: &SelectedTable, options: &RowOptions) -> BatchBuilders {
        let builders: Vec<ColumnBuilder> = selected.table.columns.iter().map(ColumnBuilder::new).collect();
        let marks = options.additional.marks().into_iter();
        let marks: Vec<_> = marks.map(|mark| (mark, ColumnBuilder::mark(mark))).collect();
        let unreadable = ColumnBuilder::text(UNREADABLE);
        let all = builders.iter().chain(marks.iter().map(|(_, builder)| builder)).chain([&unreadable]);
        let schema = Arc::new(Schema::new(all.map(ColumnBuilder::field).collect::<Vec<_>>()));
        BatchBuilders { builders, marks, unreadable, schema }
    }

    /// Appends a row. Returns its approximate size, and the values that do not fit into its columns.
    fn row(&mut self, selected: &SelectedTable, row: &ExportedRow<'_>) -> (usize, RowNotes) {
        let (mut notes, mut size) = (RowNotes::default(), 0);
        for ((column, cell), builder) in selected.table.columns.iter().zip(row.cells).zip(&mut self.builders)
        {
            size += builder.cell(column, cell, &mut notes);
        }
        for (mark, builder) in &mut self.marks {
            builder.value(row.mark(*mark));
        }
        size += notes.text.len();
        self.unreadable
            .value((!notes.text.is_empty()).then(|| ExportedValue::Text(notes.text.as_str().into())));
        (size, notes)
    }

    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let marks = self.marks.iter_mut().map(|(_, builder)| builder);
        let all = self.builders.iter_mut().chain(marks).chain([&mut self.unreadable]);
        let arrays = all.map(ColumnBuilder::finish).collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(self.schema.clone(), arrays)
    }
}

/// The batches of a table. A consumer may call this from any thread, without holding the interpreter lock.
struct TableBatchReader {
    handle: Arc<DatabaseHandle>,
    selected: SelectedTable,
    options: RowOptions,
    batch_rows: usize,
    cursor: RowCursor,
    columns: BatchBuilders,
    issues: Arc<Mutex<ExportIssues>>,
    /// Failure to report after the batch that was returned last.
    failure: Option<LocatedError>,
    done: bool,
}

impl TableBatchReader {
    /// Reads a batch and returns the number of its rows.
    fn read(&mut self, opened: &OpenedDatabase) -> usize {
        let TableBatchReader { handle, selected, options, batch_rows, cursor, columns, issues, .. } = self;
        let mut issues = issues.lock().unwrap_or_else(PoisonError::into_inner);
        let raise = options.damage == DamagePolicy::Raise;
        let mut reading = RowReadOptions {
            additional: options.additional,
            row_limit: options.row_limit,
            limit_advice: TOO_LARGE_ADVICE,
            stop_at_missing: raise,
            ..RowReadOptions::default()
        };
        let cells = selected.table.columns.len().max(1);
        let (mut rows, mut bytes, mut failure) = (0, 0, None);
        let mut visit = |row: ExportedRow<'_>| {
            let (size, notes) = columns.row(selected, &row);
            // The long values of a deleted row may already be deleted, so this is not an error.
            if let (true, true, Some((column, reason))) = (raise, row.is_current(), notes.unreadable) {
                let issue = cell_issue(&selected.table, &row, &column, &reason);
                failure = Some(LocatedError::damaged(&handle.path, &issue).in_column(&column));
                // The row is already in the builders, and the batch ends before it.
                return Ok(ControlFlow::Break(()));
            }
            bytes += size;
            rows += 1;
            let full = rows >= *batch_rows || bytes >= BATCH_BYTES || rows * cells >= BATCH_CELLS;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let portion = cursor.read(&opened.source, &mut reading, &mut issues, &mut visit);
        self.done = !matches!(portion, Ok(PortionEnd::More)) || failure.is_some();
        self.failure = match portion {
            Ok(PortionEnd::Missing) => {
                issues.last_missing().map(|issue| LocatedError::damaged(&handle.path, issue))
            }
            Ok(_) => failure,
            Err(error) => Some(LocatedError::system(&handle.path, &error)),
        };
        rows
    }
}

impl Iterator for TableBatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(failure) = self.failure.take() {
            return Some(Err(ArrowError::ExternalError(Box::new(failure))));
        }
        if self.done {
            return None;
        }
        let opened = match self.handle.get() {
            Ok(opened) => opened,
            Err(failure) => {
                self.done = true;
                return Some(Err(ArrowError::ExternalError(Box::new(failure))));
            }
        };
        match self.read(&opened) {
            // The stream ends here, possibly with a failure.
            0 => self.next(),
            rows => Some(self.columns.finish().map(|batch| batch.slice(0, rows))),
        }
    }
}

impl RecordBatchReader for TableBatchReader {
    fn schema(&self) -> SchemaRef {
        self.columns.schema.clone()
    }
}
