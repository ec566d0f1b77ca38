//! The transactional engine: instances, sessions and tables over real ESE databases and logs.
//!
//! [`Instance`] owns a log stream and the databases attached to it; a [`session::Session`] works on them in
//! transactions, through [`table::Table`]s. Inside, in the order data goes down: tables and catalog, B+-trees,
//! versions and space, cache, log. Only `instance` starts threads; each of them repeats a bounded step that also
//! runs without threads, so a simulation exercises the same code.

pub mod btree;
pub mod cache;
mod catalog;
pub mod core;
pub mod database;
mod double_write;
pub mod error;
mod instance;
pub mod log;
mod maintenance;
mod options;
mod pages;
pub mod recovery;
pub mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod session;
mod sharded;
mod space;
mod splitmix;
mod storage;
pub mod table;
pub mod transaction;

pub use error::{Error, Result};
pub use instance::Instance;
pub use options::{CreateOptions, InstanceOptions};
pub use session::{CommitId, CommitMode, Session, Table};
pub use table::{ColumnDefinition, IndexDefinition, TableDefinition};
