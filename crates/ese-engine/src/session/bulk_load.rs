//! Bulk loads of new tables, and the transaction that all bulk loads use.

use ese_format::catalog::TableSchema;
use ese_format::record::{ColumnId, Value};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::session::{CommitMode, Session};
use crate::btree::DENSITIES;
use crate::bulk::BulkWriteOptions;
use crate::cache::LoadBuffers;
use crate::database::Database;
use crate::error::BackupErrorKind;
use crate::storage::DatabaseFile;
use crate::table::{LoadSettings, TableDefinition, TableLoad};
use crate::transaction::Services;
use crate::{Error, Result, UsageError};

/// Settings for a bulk load.
#[derive(Clone, Debug)]
pub struct BulkLoadOptions {
    /// Fill factor for the pages of the table and its indexes, from 20 to 100 percent. By default, each index's own
    /// density is used.
    pub density: Option<u32>,
    /// Memory in bytes for sorting all secondary indexes together. The default is 32 MiB, and the minimum is 2 MiB
    /// per index. Entries that do not fit are sorted in a temporary file in the database's directory. This file needs
    /// one to two times the total length of all entries.
    pub sort_bytes: usize,
    /// Size of one write in bytes. The default is 1 MiB. Each tree that is being built has up to six buffers of this
    /// size.
    pub transfer_bytes: usize,
    /// Whether to zero the unused bytes of pages. If so, the first pass of a zeroing scan has nothing to do on these
    /// pages.
    pub zero: bool,
    /// Pool of write buffers and sort memory that is retained between loads. It grows to the peak demand of
    /// concurrent loads. Consecutive loads need less processor time if they share the pool.
    pub buffers: Arc<LoadBuffers>,
    /// Memory in bytes for rows that are out of order. The default is 1 MiB. These rows are inserted individually at
    /// the end, and their inserts are logged.
    pub out_of_order_bytes: usize,
}

impl Default for BulkLoadOptions {
    fn default() -> BulkLoadOptions {
        BulkLoadOptions {
            density: None,
            sort_bytes: 32 << 20,
            transfer_bytes: 1 << 20,
            zero: false,
            buffers: Arc::default(),
            out_of_order_bytes: 1 << 20,
        }
    }
}

/// Progress of a bulk load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkLoadProgress {
    /// Number of rows added so far.
    pub rows: u64,
    /// Number of added rows that were out of order. They are inserted individually at the end.
    pub out_of_order: u64,
    /// Number of pages filled for the table, its long values and its indexes.
    pub pages: u64,
    /// Size in bytes of the secondary index entries for which no pages have been filled yet.
    pub entry_bytes: u64,
}

/// A bulk load of a new table. Rows in key order are stored in full pages, which are written once, in large writes
/// that bypass the cache. Secondary indexes are sorted in bounded memory, and built at the end.
///
/// | moment | state after a crash, or if the load is dropped |
/// | --- | --- |
/// | before [`BulkLoad::finish`] | the state before the load; its space is available again |
/// | while `finish` runs | the state before the load, or the complete table |
/// | after `finish` has returned | the complete table |
///
/// The load is one transaction, which creates the table. Its pages are not logged: they are durable before the first
/// record that refers to them. Therefore no other session sees an incomplete table, and no checkpoint covers a page
/// that is not durable. The log contains the allocation of extents, which a rollback undoes, and a few records at the
/// end.
///
/// **Out-of-order rows** are buffered in bounded memory, and inserted at the end in the same transaction. Their
/// inserts are logged, and may split full leaves. When the memory is full, further out-of-order rows are refused with
/// [`Error::OutOfOrder`], and the load can continue without them.
///
/// **Backups.** The table cannot be recreated from logs alone. A load clears the backup information of the databases.
/// The next backup must therefore be a full backup (others fail with -560), and copies that follow the log must be
/// reseeded. On an older copy of the database, redo stops at the load with [`Error::PageTime`] or [`Error::Corrupt`];
/// it never continues without the pages. While a load is running, no backup and no freeze can begin.
///
/// ```
/// use ese_engine::*;
///
/// # fn main() -> Result<()> {
/// # let directory = std::env::temp_dir().join(format!("ese-engine-bulk-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let instance = Instance::open(InstanceOptions::new(&directory)?)?;
/// # let database = instance.create_database(&directory.join("data.edb"), &DatabaseOptions::default())?;
/// let mut session = instance.session();
/// let definition = TableDefinition {
///     name: "Squares".into(),
///     columns: vec![
///         ColumnDefinition::new("Number", ColumnType::Long),
///         ColumnDefinition::new("Square", ColumnType::LongLong),
///     ],
///     indexes: vec![IndexDefinition::new("ByNumber", &["Number"]).primary()],
///     ..TableDefinition::default()
/// };
/// let mut load = session.bulk_load(&database, &definition, BulkLoadOptions::default())?;
/// let [number, square] = ["Number", "Square"].map(|name| load.column(name).unwrap());
/// for n in 0..1000 {
///     load.push(&[(number, Value::Long(n)), (square, Value::LongLong(i64::from(n) * i64::from(n)))])?;
/// }
/// load.push(&[(number, Value::Long(-5)), (square, Value::LongLong(25))])?;
/// assert_eq!(load.finish()?.out_of_order, 1);
///
/// let mut table = session.open_table(&database, "Squares")?;
/// assert!(table.seek(&mut session, &[Value::Long(30)], SeekRelation::Equal)?);
/// assert_eq!(table.get(&mut session, square)?, Value::LongLong(900));
/// # drop((table, session, database));
/// # instance.shutdown()?;
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct BulkLoad<'s> {
    schema: TableSchema,
    /// Dropped before the transaction is rolled back, because the load's writes can be in flight until then.
    load: TableLoad,
    out_of_order: OutOfOrderRows,
    db: Arc<Database>,
    transaction: LoadTransaction<'s>,
}

/// Out-of-order rows that wait to be inserted.
#[derive(Default)]
struct OutOfOrderRows {
    rows: Vec<Vec<(ColumnId, Value)>>,
    bytes: usize,
    /// Maximum total size of the buffered rows in bytes.
    most: usize,
}

impl OutOfOrderRows {
    fn keep(&mut self, row: &[(ColumnId, Value)]) -> Result<()> {
        let of_value = |value: &Value| match value {
            Value::Binary(bytes) => bytes.len(),
            Value::Text(text) => text.len(),
            _ => 0,
        };
        let fixed = size_of_val(row) + size_of::<Vec<Value>>();
        let bytes = fixed + row.iter().map(|(_, value)| of_value(value)).sum::<usize>();
        if self.bytes.saturating_add(bytes) > self.most {
            return Err(Error::OutOfOrder);
        }
        self.bytes += bytes;
        self.rows.push(row.to_vec());
        Ok(())
    }

    /// Inserts the rows into the table in the same transaction.
    fn insert(self, session: &mut Session, db: &Arc<Database>, table: &str) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut table = session.open_table(db, table)?;
        self.rows.iter().try_for_each(|row| table.insert(session, row))
    }
}

/// The transaction of a bulk load. It is rolled back when it is dropped, unless it was committed.
pub(super) struct LoadTransaction<'s> {
    pub session: &'s mut Session,
    file: Arc<DatabaseFile>,
    _running: RunningLoad,
}

/// Registers a running load until it is dropped.
struct RunningLoad(Arc<Services>);

impl RunningLoad {
    fn begin(services: Arc<Services>) -> Result<RunningLoad> {
        services.bulk_loads.fetch_add(1, Ordering::SeqCst);
        let running = RunningLoad(services);
        if running.0.backup_running.load(Ordering::SeqCst) {
            // The backup would contain only part of the load.
            Err(BackupErrorKind::Running.into())
        } else {
            Ok(running)
        }
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.0.bulk_loads.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<'s> LoadTransaction<'s> {
    pub fn begin(
        session: &'s mut Session,
        db: &Arc<Database>,
        options: &BulkLoadOptions,
    ) -> Result<LoadTransaction<'s>> {
        session.check_same_instance(db)?;
        if session.level() > 0 {
            return Err(UsageError::LoadInTransaction.into());
        }
        if let Some(density) = options.density.filter(|percent| !DENSITIES.contains(percent)) {
            return Err(UsageError::Density(density).into());
        }
        let running = RunningLoad::begin(session.active.services().clone())?;
        // A scan that zeroes deleted data would otherwise change pages before they are durable.
        db.scan.wait_for_step();
        session.begin()?;
        Ok(LoadTransaction { session, file: db.file.clone(), _running: running })
    }

    pub fn commit(self) -> Result<()> {
        self.session.commit(CommitMode::Durable).map(|_| ())
    }
}

impl Drop for LoadTransaction<'_> {
    /// Rolls back a load that was not committed. None of its writes may be in flight, because the pages will be
    /// reused.
    fn drop(&mut self) {
        if self.session.level() > 0 {
            // A power failure after the rollback must not leave torn pages, because nothing would check these pages
            // again. If the sync fails, the cache refuses further changes, and recovery does the rollback.
            let _ = self.file.cache.sync_file(self.file.file_id);
            // If the rollback fails, the session repeats it when it is dropped. If that fails too, recovery rolls
            // back the transaction.
            let _ = self.session.rollback();
        }
    }
}

impl BulkLoadOptions {
    pub(super) fn settings(&self) -> LoadSettings {
        let BulkLoadOptions { density, sort_bytes, transfer_bytes, zero, ref buffers, .. } = *self;
        let transfers = BulkWriteOptions { bytes: transfer_bytes, zero, buffers: buffers.clone() };
        LoadSettings { density, sort_bytes, transfers }
    }
}

impl Session {
    /// Begins a bulk load of a new table. The session must not be in a transaction, and cannot be used for anything
    /// else until the load ends. Loads in several sessions can run in parallel, whether in the same database or in
    /// different ones.
    ///
    /// Returns an error if the definition is invalid, if the table already exists, or if a backup is running (-505).
    pub fn bulk_load(
        &mut self,
        db: &Arc<Database>,
        definition: &TableDefinition,
        options: BulkLoadOptions,
    ) -> Result<BulkLoad<'_>> {
        let transaction = LoadTransaction::begin(self, db, &options)?;
        transaction.session.create_table(db, definition)?;
        let active = &transaction.session.active;
        let state = db.tables.open(active.services(), &active.view(), &definition.name)?;
        let schema = state.schema.clone();
        let out_of_order = OutOfOrderRows { most: options.out_of_order_bytes, ..OutOfOrderRows::default() };
        let load = TableLoad::new(state, options.settings());
        Ok(BulkLoad { schema, load, out_of_order, db: db.clone(), transaction })
    }
}

impl BulkLoad<'_> {
    /// Returns the definition of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Returns the id of the column with this name. The case of ASCII letters is ignored.
    pub fn column(&self, name: &str) -> Option<ColumnId> {
        self.schema.column_named(name).map(|column| column.id)
    }

    /// Adds a row. Its primary key should be greater than the key of the previous row. Out-of-order rows are inserted
    /// individually at the end; see [`BulkLoadOptions::out_of_order_bytes`]. A table without a primary index accepts
    /// any order.
    ///
    /// Returns [`Error::OutOfOrder`] if there is no memory for another out-of-order row, and [`Error::KeyDuplicate`]
    /// if the row has the same key as the previous row. In both cases, and after [`Error::Usage`], the row is refused
    /// and the load can continue; insert the row with [`Table::insert`](crate::Table::insert) after the load. After
    /// any other error the load cannot be finished.
    pub fn push(&mut self, row: &[(ColumnId, Value)]) -> Result<()> {
        match self.load.push(row) {
            Err(Error::OutOfOrder) => self.out_of_order.keep(row),
            pushed => pushed,
        }
    }

    /// Returns the progress of the load.
    pub fn progress(&self) -> BulkLoadProgress {
        let (load, out_of_order) = (&self.load, self.out_of_order.rows.len() as u64);
        BulkLoadProgress {
            rows: load.rows + out_of_order,
            out_of_order,
            pages: load.pages(),
            entry_bytes: load.entry_bytes(),
        }
    }

    /// Completes the load. When this returns, the table is durable and visible to all sessions.
    ///
    /// Returns [`Error::KeyDuplicate`] if two rows have the same key in a unique secondary index, or if an
    /// out-of-order row has the same primary key as another row. Returns other errors if the disk is full or a write
    /// fails. After an error, nothing of the load remains.
    pub fn finish(self) -> Result<BulkLoadProgress> {
        self.finish_with(|_| true)
    }

    /// Completes the load like [`BulkLoad::finish`], and reports progress to `should_continue` while indexes are
    /// built. If `should_continue` returns `false`, the result is [`Error::Cancelled`], and nothing of the load
    /// remains.
    pub fn finish_with(
        self,
        mut should_continue: impl FnMut(&BulkLoadProgress) -> bool,
    ) -> Result<BulkLoadProgress> {
        // If the load fails, `load` is dropped before the transaction.
        let BulkLoad { schema, load, out_of_order, db, transaction } = self;
        let kept = out_of_order.rows.len() as u64;
        let mut progress = BulkLoadProgress::default();
        load.complete(&mut |rows, pages| {
            progress = BulkLoadProgress { rows: rows + kept, out_of_order: kept, pages, entry_bytes: 0 };
            should_continue(&progress)
        })?;
        out_of_order.insert(transaction.session, &db, &schema.name)?;
        transaction.commit()?;
        Ok(progress)
    }
}
