//! The file of an attached database: its handle, header and counters, and the guards that run before its pages are
//! written.
//!
//! This layer does not access nodes on pages. The tree, space and catalog layers use [`DatabaseFile`].

mod checkpoint_pins;
mod database_file;
mod database_paths;
pub(crate) mod double_write;
mod file_error;
mod header;
mod release_pages;
mod torn_page_protection;
mod unsettled_pages;
mod write_guard;

pub(crate) use checkpoint_pins::{CheckpointPin, CheckpointPins};
pub use database_file::DatabaseFile;
pub(crate) use database_file::{FileServices, OpenedFile};
pub(crate) use database_file::{add_backup_to_header, backup_scope};
pub use database_paths::DatabasePaths;
pub use file_error::FileError;
pub(crate) use header::{check_format, read_header, repair_shadow, write_header};
pub(crate) use release_pages::ReleasedRanges;
pub use torn_page_protection::TornPageProtection;
