//! Placeholder writers for the formats that this build does not support. These types have no values, because
//! [`Format::is_built`] is checked first.
//!
//! [`Format::is_built`]: super::Format::is_built

use std::io;
use std::path::Path;

use crate::output::Stream;
use crate::rows::Row;
use crate::table::Table;
use crate::value_files::ValueFiles;

/// Placeholder for builds without the feature `parquet`.
#[cfg(not(feature = "parquet"))]
pub(crate) enum ParquetTable {}

#[cfg(not(feature = "parquet"))]
impl ParquetTable {
    pub fn new(_: Stream, _: &Table, _: bool) -> io::Result<ParquetTable> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn row(&mut self, _: &Table, _: &Row<'_>) -> io::Result<()> {
        match *self {}
    }

    pub fn finish(self, _: Option<ValueFiles>) -> io::Result<()> {
        match self {}
    }
}

/// Placeholder for builds without the feature `sqlite`.
#[cfg(not(feature = "sqlite"))]
pub(crate) enum SqliteFile {}

#[cfg(not(feature = "sqlite"))]
impl SqliteFile {
    pub fn new(_: &Path, _: bool, _: bool) -> io::Result<SqliteFile> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn begin(&mut self, _: &Table) -> io::Result<()> {
        match *self {}
    }

    pub fn row(&mut self, _: &Table, _: &Row<'_>) -> io::Result<()> {
        match *self {}
    }

    pub fn finish(self, _: Option<ValueFiles>) -> io::Result<()> {
        match self {}
    }
}
