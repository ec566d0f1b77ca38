//! Tables of ESE databases to CSV, JSON Lines, Parquet and SQLite, without the engine.
//!
//! [`Source`] opens a database and reads rows as raw cells; [`export`] turns them into files. What cannot be read is
//! an [`Issue`], never a panic and never left out in silence.
//!
//! Invariants: no more than one row, one batch of a format's writer and two small page caches are in memory,
//! whatever the file says; of long values as much as fits a limit is part of the row, the others go chunk by chunk to
//! files of their own. A page is entered at most once per table, so links on disk cannot make a run endless. Output
//! appears under its name only when it is complete.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cell;
mod format;
mod issue;
mod long_values;
mod output;
mod rows;
mod run;
mod source;
mod table;
mod value;
mod value_files;
mod walk;

pub use cell::{Cell, Elsewhere, Item, Unreadable};
pub use format::Format;
pub use issue::{Issue, Issues};
pub use output::Destination;
pub use rows::{ROW_LIMIT, Reading, Row, read_rows};
pub use run::{ExportError, Exported, Options, export};
pub use source::Source;
pub use table::{Table, TableColumn};
pub use value::{Time, Value};
pub use value_files::ValueFiles;
