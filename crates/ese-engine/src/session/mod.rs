//! Sessions: the transactions of one program thread, and the tables that it has open.

mod bulk_index;
mod bulk_load;
mod session_number;
#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod session;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use bulk_load::{BulkLoad, BulkLoadOptions, BulkLoadProgress};
pub(crate) use session_number::SessionNumbers;
pub use session::{CommitId, CommitMode, Session};
pub use table::Table;
