//! Compares file systems under the mail load, in interleaved turns, until a difference can be distinguished from
//! noise.
//!
//! A turn runs the performance test once on each file system: A B, then B A, and so on. A slow drift of the machine
//! affects both runs of a turn alike and cancels out of their difference. The test uses existing directories, or file
//! systems that [`FilesystemMaker`] makes.

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
pub use maker::{FilesystemMaker, MIN_IMAGE, MakeError, Medium};
pub use remarks::remarks;
pub(crate) use rows::row;
pub use rows::{ROWS, Row, figures};
pub use specification::{Specification, check};
pub use work_directory::Leftover;
