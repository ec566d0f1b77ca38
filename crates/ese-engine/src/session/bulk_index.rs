//! Bulk loads of new indexes.

use jetcell_sync::Arc;

use super::bulk_load::{BulkLoadOptions, BulkLoadProgress, LoadTransaction};
use super::session::Session;
use crate::Result;
use crate::database::Database;
use crate::table::{IndexDefinition, IndexProgress, create_index_in_bulk};

impl Session {
    /// Creates an index on a table that no session has open. The entries are sorted in bounded memory and stored in
    /// full pages, which bypass the cache, are written once, and are not logged. When this returns, the index is
    /// durable and visible to all sessions. Until then, no other session can open the table.
    ///
    /// The load runs in its own transaction. If an error or a crash interrupts it, nothing of the index remains. The
    /// restrictions on backups and copies are the same as for [`BulkLoad`](super::BulkLoad).
    ///
    /// # Errors
    /// Returns the errors of [`Session::create_index`], [`Error::Usage`](crate::Error::Usage) if the session is in a
    /// transaction, and -505 if a backup is running.
    pub fn bulk_create_index(
        &mut self,
        db: &Arc<Database>,
        table: &str,
        index: &IndexDefinition,
        options: BulkLoadOptions,
    ) -> Result<BulkLoadProgress> {
        self.bulk_create_index_with(db, table, index, options, |_| true)
    }

    /// Creates an index like [`Session::bulk_create_index`], and reports progress to `should_continue`: first in rows
    /// read, then in pages. If `should_continue` returns `false`, the result is
    /// [`Error::Cancelled`](crate::Error::Cancelled), and nothing of the index remains.
    pub fn bulk_create_index_with(
        &mut self,
        db: &Arc<Database>,
        table: &str,
        index: &IndexDefinition,
        options: BulkLoadOptions,
        mut should_continue: impl FnMut(&BulkLoadProgress) -> bool,
    ) -> Result<BulkLoadProgress> {
        let settings = options.settings();
        let transaction = LoadTransaction::begin(self, db, &options)?;
        let active = &mut transaction.session.active;
        let mut should_continue = |now: IndexProgress| should_continue(&now.into());
        let (tree, progress) =
            create_index_in_bulk(active, &db.tables, table, index, settings, &mut should_continue)?;
        transaction.session.defined(db, tree, false);
        transaction.commit()?;
        Ok(progress.into())
    }
}

impl From<IndexProgress> for BulkLoadProgress {
    fn from(progress: IndexProgress) -> BulkLoadProgress {
        let IndexProgress { records, entry_bytes, pages } = progress;
        BulkLoadProgress { rows: records, pages, entry_bytes, ..BulkLoadProgress::default() }
    }
}
