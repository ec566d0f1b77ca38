//! The transaction log: file header, segments, and the records in them.

pub mod header;
pub mod parameters;
pub mod record;
pub mod scan;
pub mod segment;
