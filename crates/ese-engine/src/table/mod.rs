//! Tables: records with their index entries and long values, and cursors over them.
//!
//! ```text
//!  tree of the table   key columns, or u32 BE number      -> record
//!  tree of an index    index columns                      -> key of the record
//!  long-value tree     u32 BE id [| u32 BE offset]        -> root or chunk
//! ```
//!
//! Invariants: a record, its index entries and its long values change together: a statement that fails half-way is
//! rolled back to where it began. A long value belongs to one record. Left out: several values in one column (they
//! are kept, and the first one is read), tuple indexes, escrow columns, version columns.

mod definition;
mod long_values;
mod open;
mod rows;
mod state;

pub use definition::{ColumnDefinition, IndexDefinition, TableDefinition};
pub use open::Table;
pub(crate) use rows::{fill_index, statement};
pub(crate) use state::TableState;
