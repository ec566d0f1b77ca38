//! The class `Unreadable`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A value that cannot be read.
#[pyclass(frozen, module = "jetcell", name = "Unreadable")]
pub struct PyUnreadable {
    #[pyo3(get)]
    reason: String,
    stored: Py<PyBytes>,
}

impl PyUnreadable {
    pub fn new(py: Python<'_>, reason: String, stored: &[u8]) -> PyUnreadable {
        PyUnreadable { reason, stored: PyBytes::new(py, stored).unbind() }
    }
}

#[pymethods]
impl PyUnreadable {
    /// Bytes that the record stores for the value.
    #[getter]
    fn stored(&self, py: Python<'_>) -> Py<PyBytes> {
        self.stored.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("<jetcell.Unreadable {}>", self.reason)
    }
}
