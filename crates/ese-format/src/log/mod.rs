//! The transaction log: file header, segments, and log records.

mod directories;
pub mod header;
pub mod parameters;
pub mod record;
pub mod scan;
pub mod segment;

pub use self::directories::{has_log_extension, log_directories};
