//! The transaction log: file header, segments, and the records in them.

pub mod parameters;
pub mod record;
