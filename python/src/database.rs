//! `jetcell.open` and the class `Database`.

use std::path::PathBuf;
use std::sync::Arc;

use jetcell_export::RenderingOptions;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::check::{PyCheckReport, check};
use crate::errors::LocatedError;
use crate::findings::PyIssue;
use crate::handle::{DatabaseHandle, OpenOptions, OpenedDatabase};
use crate::options::{currency, damage, profile};
use crate::table::PyTable;

/// An open database. It is a context manager, an iterable of its tables, and a mapping from names to tables.
#[pyclass(frozen, module = "jetcell", name = "Database")]
pub struct PyDatabase {
    handle: Arc<DatabaseHandle>,
}

/// Opens an ESE database for reading. The file is never changed.
///
/// path:         a str or os.PathLike
/// profile:      names and forms of the columns of an application: "auto", "ntds", "srum", "ual", "search", "webcache", "none"
/// currency:     form of Currency columns: "auto" (integers in Active Directory), "decimal", "integer"
/// damage:       "raise" raises `DamagedError` for data that cannot be read; "report" marks it and reads on
/// `allow_dirty`:  open a database that was not shut down cleanly
/// `allow_in_use`: open a database that another process changes
#[pyfunction]
#[pyo3(
    name = "open",
    signature = (path, *, profile = "auto", currency = "auto", damage = "raise", allow_dirty = false, allow_in_use = false)
)]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    profile: &str,
    currency: &str,
    damage: &str,
    allow_dirty: bool,
    allow_in_use: bool,
) -> PyResult<PyDatabase> {
    let rendering = RenderingOptions {
        profile: self::profile(profile)?,
        currency: self::currency(currency)?,
        ..RenderingOptions::default()
    };
    let options = OpenOptions { rendering, damage: self::damage(damage)?, allow_dirty, allow_in_use };
    let handle = py.detach(|| DatabaseHandle::open(path, options))?;
    Ok(PyDatabase { handle: Arc::new(handle) })
}

impl PyDatabase {
    fn opened(&self) -> PyResult<Arc<OpenedDatabase>> {
        Ok(self.handle.get()?)
    }

    /// Returns the table at a position of the view.
    fn at(&self, position: usize) -> PyTable {
        PyTable::new(self.handle.clone(), position)
    }

    fn find(&self, name: &str) -> PyResult<Option<PyTable>> {
        let opened = self.opened()?;
        let pairs = || opened.view.tables().iter().zip(opened.source.tables());
        let shown = pairs().position(|(shown, _)| shown.name.eq_ignore_ascii_case(name));
        let found = shown.or_else(|| pairs().position(|(_, stored)| stored.name.eq_ignore_ascii_case(name)));
        Ok(found.map(|position| self.at(position)))
    }
}

#[pymethods]
impl PyDatabase {
    /// Path that was passed to `open()`.
    #[getter]
    fn path(&self) -> PathBuf {
        self.handle.path.clone()
    }

    /// Page size in bytes.
    #[getter]
    fn page_size(&self) -> PyResult<u32> {
        Ok(self.opened()?.source.database().page_size.get())
    }

    /// State of the header, such as "`CleanShutdown`".
    #[getter]
    fn state(&self) -> PyResult<String> {
        Ok(format!("{:?}", self.opened()?.source.database().header.state))
    }

    /// True if the database was shut down cleanly.
    #[getter]
    fn clean(&self) -> PyResult<bool> {
        Ok(self.opened()?.source.database().is_clean())
    }

    /// Issues that were found while the header and the catalog were read.
    #[getter]
    fn issues(&self) -> PyResult<Vec<PyIssue>> {
        Ok(self.opened()?.issues.iter().map(PyIssue::from).collect())
    }

    /// All tables, including system tables, in catalog order.
    #[getter]
    fn tables(&self) -> PyResult<Vec<PyTable>> {
        Ok((0..self.__len__()?).map(|position| self.at(position)).collect())
    }

    /// Verifies the file, as `jetcell.check()` does.
    #[pyo3(signature = (*, structure = true))]
    fn check(&self, py: Python<'_>, structure: bool) -> PyResult<PyCheckReport> {
        self.opened()?;
        check(py, self.handle.path.clone(), structure, true)
    }

    /// Closes the file. Tables and iterators raise `ClosedError` afterwards.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.handle.close());
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        this.opened()?;
        Ok(this)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.opened()?.view.tables().len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.tables()?.into_pyobject(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, name: &str) -> PyResult<bool> {
        Ok(self.find(name)?.is_some())
    }

    fn __getitem__(&self, name: &str) -> PyResult<PyTable> {
        let found = self.find(name)?;
        let path = self.handle.path.display();
        found.ok_or_else(|| LocatedError::unknown(format!("{path}: table {name} does not exist")).into())
    }

    fn __repr__(&self) -> String {
        match self.handle.get() {
            Ok(opened) => format!(
                "<jetcell.Database {:?}, {} tables, {:?}>",
                self.handle.path,
                opened.view.tables().len(),
                opened.source.database().header.state
            ),
            Err(_) => format!("<jetcell.Database {:?}, closed>", self.handle.path),
        }
    }
}
