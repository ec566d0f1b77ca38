//! The transaction log: file header, segments, and log records.

pub mod header;
pub mod parameters;
pub mod record;
pub mod scan;
pub mod segment;
