//! Sessions: the transactions of one program thread, and the tables that it has open.

mod bulk_index;
mod bulk_load;
#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod session;
mod session_number;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use bulk_load::{BulkLoad, BulkLoadOptions, BulkLoadProgress};
pub use session::{CommitId, CommitMode, Session};
pub(crate) use session_number::SessionNumbers;
pub use table::Table;
