//! Tables: their definitions, and records with their index entries and long values.
//!
//! ```text
//!  tree of the table   key columns, or u32 BE number      -> record
//!  tree of an index    index columns                      -> key of the record
//!  long-value tree     u32 BE id [| u32 BE offset]        -> root or chunk
//! ```
//!
//! Invariants: a record, its index entries and its long values change together. A statement that fails is rolled back
//! to its start. A long value belongs to exactly one record. Not implemented: several values in one column (they are
//! preserved, and the first one is read), tuple indexes, escrow columns, version columns.

mod bulk_index;
mod bulk_load;
mod create;
mod definition;
mod long_values;
mod open_tables;
pub(crate) mod rows;
mod separation;
mod state;

pub(crate) use bulk_index::{IndexProgress, create_index_in_bulk};
pub(crate) use bulk_load::{LoadSettings, TableLoad};
pub(crate) use create::{create_index, create_table};
pub use definition::{ColumnDefinition, IndexDefinition, TableDefinition};
pub(crate) use open_tables::OpenTables;
pub(crate) use state::TableState;

/// Size in pages of a new index or long-value tree.
const SMALL_TREE: u32 = 3;
