//! Bulk loads of new indexes.

use jetcell_sync::Arc;

use super::bulk_load::{BulkLoadOptions, BulkLoadProgress, LoadTransaction};
use super::session::Session;
use crate::Result;
use crate::database::Database;
use crate::table::{IndexDefinition, IndexProgress, create_index_in_bulk};

impl Session {
    /// Creates an index of a table that no session has open: its entries are sorted in bounded memory, and become full pages
    /// that are written once, past the cache, and not logged. When this returns, the index is durable, and all sessions
    /// see it. Until then no other session can open the table.
    ///
    /// The load is a transaction of its own. After a crash in between, or an error, nothing of the index is left. For backups
    /// and copies, what [`BulkLoad`](super::BulkLoad) says holds.
    ///
    /// Errors: as [`Session::create_index`]; [`Error::Usage`](crate::Error::Usage) in a transaction; a backup is running (-505).
    pub fn bulk_create_index(
        &mut self,
        db: &Arc<Database>,
        table: &str,
        index: &IndexDefinition,
        options: BulkLoadOptions,
    ) -> Result<BulkLoadProgress> {
        self.bulk_create_index_with(db, table, index, options, |_| true)
    }

    /// Like [`Session::bulk_create_index`]. `goes_on` gets the progress, in rows that were read and then in pages; if it returns
    /// `false`, the result is [`Error::Cancelled`](crate::Error::Cancelled), and nothing of the index is left.
    pub fn bulk_create_index_with(
        &mut self,
        db: &Arc<Database>,
        table: &str,
        index: &IndexDefinition,
        options: BulkLoadOptions,
        mut goes_on: impl FnMut(&BulkLoadProgress) -> bool,
    ) -> Result<BulkLoadProgress> {
        let settings = options.settings();
        let transaction = LoadTransaction::begin(self, db, &options)?;
        let active = &mut transaction.session.active;
        let mut goes_on = |now: IndexProgress| goes_on(&now.into());
        let (tree, progress) =
            create_index_in_bulk(active, &db.tables, table, index, settings, &mut goes_on)?;
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
