//! The classes `SourceTable` and `Column`.

use std::sync::Arc;

use ese_format::record::ColumnFlags;
use jetcell_export::{AdditionalRows, SelectedTable};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_stream::PyArrowRows;
use crate::errors::LocatedError;
use crate::handle::{DatabaseHandle, OpenedDatabase};
use crate::options::{RowOptions, RowSelection};
use crate::rows::PyRows;

/// A table. It is an iterable of its rows, and can be consumed as an Arrow stream.
#[pyclass(frozen, module = "jetcell", name = "Table")]
pub struct PyTable {
    handle: Arc<DatabaseHandle>,
    /// Index of the table in the database.
    position: usize,
}

/// A column of a table.
#[pyclass(frozen, get_all, module = "jetcell", name = "Column")]
pub struct PyColumn {
    /// Name, unique in the table.
    name: String,
    /// Name in the catalog.
    stored_name: String,
    /// Identifier in the catalog.
    id: u32,
    /// Type in the catalog, such as "`LongText`".
    r#type: String,
    /// True if the catalog permits several values.
    multi_valued: bool,
}

#[pymethods]
impl PyColumn {
    fn __repr__(&self) -> String {
        format!("<jetcell.Column {:?}, {}>", self.name, self.r#type)
    }
}

impl PyTable {
    pub fn new(handle: Arc<DatabaseHandle>, position: usize) -> PyTable {
        PyTable { handle, position }
    }

    fn named<T>(&self, take: impl Fn(&jetcell_export::SourceTable) -> T, shown: bool) -> PyResult<T> {
        let opened = self.handle.get()?;
        let tables = if shown { opened.view.tables() } else { opened.source.tables() };
        Ok(tables.get(self.position).map(take).ok_or_else(|| LocatedError::closed(&self.handle.path))?)
    }

    fn select(&self, options: &RowOptions) -> PyResult<(Arc<OpenedDatabase>, SelectedTable)> {
        let opened = self.handle.get()?;
        let selected = opened
            .view
            .select_from(&opened.source, self.position, &options.selection)
            .map_err(|error| LocatedError::from_export_error(&self.handle.path, error))?
            .ok_or_else(|| {
                LocatedError::unknown("the table does not have any of these columns".to_owned())
            })?;
        Ok((opened, selected))
    }
}

#[pymethods]
impl PyTable {
    /// Name as shown by the profile; unique in the database.
    #[getter]
    fn name(&self) -> PyResult<String> {
        self.named(|table| table.name.clone(), true)
    }

    /// Name in the catalog.
    #[getter]
    fn stored_name(&self) -> PyResult<String> {
        self.named(|table| table.name.clone(), false)
    }

    /// The columns, in catalog order. The columns of a template come first.
    #[getter]
    fn columns(&self) -> PyResult<Vec<PyColumn>> {
        let stored = self.named(|table| table.columns.clone(), false)?;
        let shown = self.named(|table| table.columns.clone(), true)?;
        let pairs = stored.iter().zip(shown);
        let columns = pairs.map(|(stored, shown)| PyColumn {
            name: shown.column.name,
            stored_name: stored.column.name.clone(),
            id: shown.column.id.number().into(),
            r#type: format!("{:?}", stored.column.kind),
            multi_valued: stored.column.flags.contains(ColumnFlags::MULTI_VALUED),
        });
        Ok(columns.collect())
    }

    /// Iterates over the rows as dicts, in the order of the table's tree.
    ///
    /// columns:       patterns of names (* and ?); all columns by default
    /// since, before: rows with a time in this range: datetime, date or text in ISO 8601; times without a zone are UTC
    /// `time_columns`:  patterns of the columns whose times are compared with this range
    /// deleted:       also rows that are flagged deleted but are still on their pages; adds the key "_deleted"
    /// carve:         also removed rows from free space and unused pages; adds "`_carved_page`", "`_carved_offset`" and
    ///                "_confidence" ("high", "medium" or "low"), which are None in other rows
    /// `include_damaged`: also rows of pages with a bad checksum that can be decoded; adds "_damaged"; damage is "report"
    /// damage:        "raise" or "report"; the default is the value passed to `open()`
    /// `row_limit`:     maximum bytes of long values per row; 24 MiB by default, at most 512 MiB
    #[pyo3(signature = (*, columns = None, since = None, before = None, time_columns = None, deleted = false, carve = false, include_damaged = false, damage = None, row_limit = None))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments of Python.
    fn rows(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        since: Option<&Bound<'_, PyAny>>,
        before: Option<&Bound<'_, PyAny>>,
        time_columns: Option<Vec<String>>,
        deleted: bool,
        carve: bool,
        include_damaged: bool,
        damage: Option<&str>,
        row_limit: Option<usize>,
    ) -> PyResult<PyRows> {
        let additional = AdditionalRows { deleted, carved: carve, damaged: include_damaged };
        let arguments = RowSelection { columns, since, before, time_columns, additional, damage, row_limit };
        let options = arguments.options(self.handle.damage)?;
        let (opened, selected) = self.select(&options)?;
        PyRows::new(py, self.handle.clone(), &opened, selected, options)
    }

    /// Returns the rows as an Arrow stream. Takes the same arguments as `rows()`.
    ///
    /// `batch_rows`: maximum number of rows per record batch; a batch also ends after 8 MiB of values
    #[pyo3(signature = (*, columns = None, since = None, before = None, time_columns = None, deleted = false, carve = false, include_damaged = false, damage = None, row_limit = None, batch_rows = 65536))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments of Python.
    fn arrow(
        &self,
        columns: Option<Vec<String>>,
        since: Option<&Bound<'_, PyAny>>,
        before: Option<&Bound<'_, PyAny>>,
        time_columns: Option<Vec<String>>,
        deleted: bool,
        carve: bool,
        include_damaged: bool,
        damage: Option<&str>,
        row_limit: Option<usize>,
        batch_rows: usize,
    ) -> PyResult<PyArrowRows> {
        if batch_rows == 0 {
            return Err(LocatedError::argument(
                "batch_rows=0: a batch must have at least one row".to_owned(),
            )
            .into());
        }
        let additional = AdditionalRows { deleted, carved: carve, damaged: include_damaged };
        let arguments = RowSelection { columns, since, before, time_columns, additional, damage, row_limit };
        let options = arguments.options(self.handle.damage)?;
        let (_, selected) = self.select(&options)?;
        Ok(PyArrowRows::new(self.handle.clone(), selected, options, batch_rows))
    }

    /// Returns the stream of `arrow()` with default arguments, for polars.DataFrame(table), pyarrow.table(table), and
    /// others.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.arrow(None, None, None, None, false, false, false, None, None, 65536)?
            .stream(py, requested_schema)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PyRows> {
        self.rows(py, None, None, None, None, false, false, false, None, None)
    }

    fn __repr__(&self) -> String {
        match (self.name(), self.columns()) {
            (Ok(name), Ok(columns)) => format!("<jetcell.Table {name:?}, {} columns>", columns.len()),
            _ => "<jetcell.Table, closed>".to_owned(),
        }
    }
}
