//! The stored catalog of a database: its tables and their definitions.
//!
//! Rows of `MSysObjects` are read under the caller's view, like other records. A table therefore exists for a session
//! if and only if the session can see its row.
//!
//! Invariants: both catalogs, their indexes and `MSysObjids` change in the same transaction. Only one session per
//! database can change definitions at a time. Not implemented: column changes, deleting and renaming, creation of
//! template tables and derived tables.

mod initial;
mod read;
mod write;

use jetcell_sync::Arc;

use jetcell_sync::Mutex;

#[cfg(test)]
pub(crate) use self::initial::OBJIDS_ROOT;
pub(crate) use self::initial::{SYSTEM_ROOT, initial_pages};
pub(crate) use self::read::CatalogTree;
use crate::btree::OpenTrees;

/// The system tables of one database.
pub(crate) struct SystemTables {
    /// The trees of the database.
    pub trees: Arc<OpenTrees>,
    /// Serializes changes to table definitions. This lock is acquired before the structure lock of any tree.
    pub changing: Mutex<()>,
}

impl SystemTables {
    pub fn new(trees: Arc<OpenTrees>) -> SystemTables {
        SystemTables { trees, changing: Mutex::default() }
    }
}
