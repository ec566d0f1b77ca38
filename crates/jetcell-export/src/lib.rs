//! Exports tables from ESE databases to CSV, JSON Lines, Parquet and SQLite, without using the database engine.
//!
//! [`export`] writes tables to files or to standard output. For direct access to the rows, [`SourceDatabase`] opens a
//! database, and an [`ExportView`] provides its tables with the names and types of a profile. A [`RowCursor`] reads
//! each row as cells of stored bytes, which [`TableColumn::value`] decodes. Data that cannot be read is reported as
//! an [`ExportIssue`] and marked in the output; it is never silently omitted. [`export_timeline`] writes all times of
//! several databases as one table, and [`compare_rows`] compares two versions of a database.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use jetcell_export::{
//!     AdditionalRows, ExportDestination, ExportFormat, ExportOptions, ROW_LIMIT, RenderingOptions, Selection, export,
//! };
//! use jetcell_vfs::{RealOptions, RealVfs};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ExportOptions {
//!     selection: Selection { tables: vec!["Datatable".to_owned()], ..Selection::default() },
//!     format: ExportFormat::JsonLines,
//!     destination: ExportDestination::File("datatable.jsonl".into()),
//!     additional: AdditionalRows::default(),
//!     force: false,
//!     row_limit: ROW_LIMIT,
//!     rendering: RenderingOptions::default(),
//! };
//! let vfs = RealVfs::new(RealOptions::default())?;
//! let summary = export(&vfs, Path::new("ntds.dit"), &options, &mut |table, rows| {
//!     eprintln!("{table}: {rows} rows");
//! })?;
//! for issue in summary.issues.stored() {
//!     eprintln!("{issue}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - At most one row, one writer batch and two small page caches are held in memory, whatever the file contains. Long
//!   values that exceed a limit are written to separate files in chunks. Carving also needs at most eight bytes per page
//!   of the file, and the positions of a limited number of rows. A time line is sorted with 32 MiB of memory.
//! - A page is visited at most once per table, so damaged links cannot cause an endless export.
//! - An output file gets its final name only when it is complete.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod additional_rows;
mod carve;
mod cell;
mod comparison;
mod error;
mod format;
mod issue;
mod leaf_pages;
mod long_values;
mod names;
mod output;
mod profile;
mod record_cells;
mod rendering;
mod rows;
mod run;
mod sddl;
mod selected_table;
mod selection;
mod source_database;
mod table;
mod target;
mod time_filter;
mod timeline;
mod value;
mod value_files;
mod value_json;
mod view;
mod walk;

pub use additional_rows::{AdditionalRows, CarveConfidence, CarvedOrigin, RowMark};
pub use cell::{CellItem, ExportedCell, UnreadableValue, ValueFileRef};
pub use comparison::{
    RowComparison, RowComparisonObserver, RowDifference, RowDifferenceKind, RowPairCounts, compare_rows,
};
pub use error::ExportError;
pub use format::{ExportFormat, UnknownFormat, ValueMarker, item_value, write_cell_text};
pub use issue::{ExportIssue, ExportIssues};
pub use output::ExportDestination;
pub use profile::ApplicationProfile;
pub use rendering::{CurrencyFormat, RenderingOptions};
pub use rows::{ExportedRow, PortionEnd, ROW_LIMIT, RowCursor, RowReadOptions, read_rows};
pub use run::{ExportOptions, ExportSummary, export};
pub use selected_table::SelectedTable;
pub use selection::{Selection, TimeCondition};
pub use source_database::SourceDatabase;
pub use table::{ColumnFormat, ColumnMeaning, SourceTable, TableColumn};
pub use timeline::export_timeline;
pub use value::{ExportedValue, Timestamp, ValueDecodeError};
pub use value_files::ValueFiles;
pub use view::ExportView;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
