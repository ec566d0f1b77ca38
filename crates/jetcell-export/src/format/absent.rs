//! Placeholder writers for the formats that this build does not support. These types have no values, because
//! [`ExportFormat::is_built`] is checked first.
//!
//! [`ExportFormat::is_built`]: super::ExportFormat::is_built

use std::io;
use std::path::Path;

use crate::additional_rows::RowMark;
use crate::output::OutputStream;
use crate::rows::ExportedRow;
use crate::table::SourceTable;
use crate::value_files::ValueFiles;

/// Placeholder for builds without the `parquet` feature.
#[cfg(not(feature = "parquet"))]
pub(crate) enum ParquetTable {}

#[cfg(not(feature = "parquet"))]
impl ParquetTable {
    pub fn new(_: OutputStream, _: &SourceTable, _: Vec<RowMark>) -> io::Result<ParquetTable> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn row(&mut self, _: &SourceTable, _: &ExportedRow<'_>) -> io::Result<()> {
        match *self {}
    }

    pub fn finish(self, _: Option<ValueFiles>) -> io::Result<()> {
        match self {}
    }
}

/// Placeholder for builds without the `sqlite` feature.
#[cfg(not(feature = "sqlite"))]
pub(crate) enum SqliteFile {}

#[cfg(not(feature = "sqlite"))]
impl SqliteFile {
    pub fn new(_: &Path, _: bool, _: Vec<RowMark>) -> io::Result<SqliteFile> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn begin(&mut self, _: &SourceTable) -> io::Result<()> {
        match *self {}
    }

    pub fn row(&mut self, _: &SourceTable, _: &ExportedRow<'_>) -> io::Result<()> {
        match *self {}
    }

    pub fn finish(self, _: Option<ValueFiles>) -> io::Result<()> {
        match self {}
    }
}
