//! The transactional engine: instances, sessions and tables over real ESE databases and logs.
//!
//! [`Instance`] owns a log stream and the databases attached to it; a [`session::Session`] works on them in
//! transactions, through [`table::Table`]s. Inside, in the order data goes down: tables and catalog, B+-trees,
//! versions and space, cache, log. Only `instance` starts threads; each of them repeats a bounded step that also
//! runs without threads, so a simulation exercises the same code.

mod background;
pub mod btree;
pub mod cache;
pub mod catalog;
mod checkpoint;
pub mod cleanup;
pub mod core;
pub mod database;
mod double_write;
pub mod error;
mod instance;
pub mod log;
mod options;
pub mod recovery;
pub mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod session;
mod sharded;
mod space;
mod splitmix;
pub mod table;
pub mod versions;

pub use error::{Error, Result};
pub use instance::Instance;
pub use options::{CreateOptions, InstanceOptions};
pub use session::{CommitId, CommitMode, Session};
pub use table::{ColumnDefinition, IndexDefinition, Table, TableDefinition};
