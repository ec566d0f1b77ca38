//! Compares file systems under the mail load, in interleaved turns, until differences can be distinguished from
//! noise.
//!
//! In each turn, the performance test runs once on every file system: A B, then B A, and so on. A slow drift in the
//! machine's speed affects all runs in a turn alike and cancels out. The test uses existing directories, or file
//! systems made by [`FilesystemMaker`].

mod aging;
mod comparison;
mod kind;
mod maker;
mod remarks;
mod rows;
mod specification;
mod work_directory;

pub use comparison::{
    FilesystemComparison, MetricResult, SCHEMA, SignConvention, SkippedFilesystem, TestedDirectory,
    TurnLimits, compare,
};
pub use kind::{FilesystemKind, UnknownFilesystemKind};
pub use maker::{FilesystemMaker, FilesystemMedium, MIN_IMAGE_BYTES, MakeError};
pub use remarks::remarks;
pub(crate) use rows::row;
pub use rows::{ComparedMetric, ROWS, figures};
pub use specification::{FilesystemSpecification, SpecificationError, check};
pub use work_directory::LeftoverDirectory;
