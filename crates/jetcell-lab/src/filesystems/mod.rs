//! Directories on different file systems under the mail load, in turns, until a difference can be told from noise.
//!
//! A turn is a run of the performance test on each directory: A B, then B A, and so on. What changes the machine slowly affects
//! both alike, and cancels out of the differences of a turn.

mod comparison;
mod rows;

pub use comparison::{FilesystemTest, Limits, RowResult, SCHEMA, TestedDirectory, compare};
pub(crate) use rows::row;
pub use rows::{ROWS, Row, figures};
