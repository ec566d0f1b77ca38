//! The extension module `jetcell._jetcell`: databases, tables, rows as dicts, Arrow streams, and check findings for
//! Python.
//!
//! Invariants: Files are read and rows are decoded without the interpreter lock; Python objects are created with it.
//! At most one portion of rows or one record batch is in memory per iterator. Content of a file never causes a panic:
//! it becomes a value, an [`ExportIssue`](findings::PyIssue), or an exception in `jetcell.errors`.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arrow_columns;
mod arrow_stream;
mod check;
mod database;
mod errors;
mod fields;
mod findings;
mod handle;
mod options;
mod rows;
mod table;
mod unreadable;

#[pyo3::pymodule]
mod _jetcell {
    #[pymodule_export]
    use crate::arrow_stream::PyArrowRows;
    #[pymodule_export]
    use crate::check::{PyCheckReport, check};
    #[pymodule_export]
    use crate::database::{PyDatabase, open};
    #[pymodule_export]
    use crate::findings::{PyFinding, PyIssue};
    #[pymodule_export]
    use crate::rows::PyRows;
    #[pymodule_export]
    use crate::table::{PyColumn, PyTable};
    #[pymodule_export]
    use crate::unreadable::PyUnreadable;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
