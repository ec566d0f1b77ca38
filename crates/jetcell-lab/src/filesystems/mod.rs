//! File systems under the mail load, in turns, until a difference can be told from noise.
//!
//! A turn is a run of the performance test on each of them: A B, then B A, and so on. What changes the machine slowly affects
//! both alike, and cancels out of the differences of a turn. They are directories that exist, or file systems that [`FilesystemMaker`] makes.

mod aging;
mod comparison;
mod kind;
mod maker;
mod remarks;
mod rows;
mod specification;
mod work_directory;

pub use comparison::{
    FilesystemTest, Limits, RowResult, SCHEMA, Signs, SkippedFilesystem, TestedDirectory, compare,
};
pub use kind::FilesystemKind;
pub use maker::{FilesystemMaker, MakeError, Medium, SMALLEST_IMAGE};
pub use remarks::remarks;
pub(crate) use rows::row;
pub use rows::{ROWS, Row, figures};
pub use specification::{Specification, check};
pub use work_directory::Leftover;
