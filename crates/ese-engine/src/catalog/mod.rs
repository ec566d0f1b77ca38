//! The catalog of a database as it is stored: which tables there are, and what they look like.
//!
//! Rows of MSysObjects are read under the caller's view like any record, so that a table exists for a session
//! exactly when its row does.
//!
//! Invariants: both catalogs, their indexes and MSysObjids change in the same transaction; only one session of a
//! database changes definitions at a time. Left out: changing columns, deleting and renaming anything, template tables.

mod initial;
mod read;
mod write;

use jetcell_sync::Arc;

use jetcell_sync::Mutex;

#[cfg(test)]
pub(crate) use self::initial::OBJIDS_ROOT;
pub(crate) use self::initial::{SYSTEM_ROOT, initial_pages};
use crate::btree::OpenTrees;

/// The system tables of one database.
pub(crate) struct SystemTables {
    /// The trees of the database.
    pub trees: Arc<OpenTrees>,
    /// Serialises changes of definitions. Taken before `Tree::structure`.
    pub changing: Mutex<()>,
}

impl SystemTables {
    pub fn new(trees: Arc<OpenTrees>) -> SystemTables {
        SystemTables { trees, changing: Mutex::default() }
    }
}
