//! Bulk loads of new tables, and the transaction of every bulk load.

use ese_format::catalog::TableSchema;
use ese_format::record::{ColumnId, Value};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::session::{CommitMode, Session};
use crate::bulk::Transfers;
use crate::cache::LoadBuffers;
use crate::database::Database;
use crate::error::BackupFault;
use crate::storage::DatabaseFile;
use crate::table::{LoadSettings, TableDefinition, TableLoad};
use crate::transaction::Services;
use crate::{Error, Result};

/// Settings of a bulk load.
#[derive(Clone, Debug)]
pub struct BulkLoadOptions {
    /// How full the pages of the table and of its indexes become, in percent, 20 to 100. By default the density of each.
    pub density: Option<u32>,
    /// Bytes of memory for the sorts of all secondary indexes together: 32 MiB by default, at least 2 MiB for each. What does
    /// not fit is sorted in a temporary file beside the database, which takes the length of all entries, or twice that.
    pub sort_bytes: usize,
    /// Bytes of one write: 1 MiB by default. Each tree that is being built has up to six buffers of this size.
    pub transfer_bytes: usize,
    /// Whether the unused bytes of pages are overwritten, so that the first pass of a scan that zeroes finds nothing to do
    /// on them.
    pub zero: bool,
    /// The buffers of the writes, and the memory of sorts, which stay here between loads: as much as the loads of one moment have
    /// needed. Loads that follow each other in a program need less processor time if they share them.
    pub buffers: Arc<LoadBuffers>,
    /// Bytes of rows out of order that are kept, and inserted one by one at the end: 1 MiB by default. Their inserts are logged.
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

/// How far a bulk load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkLoadProgress {
    /// Rows that were added.
    pub rows: u64,
    /// How many of them were out of order: they are inserted one by one at the end.
    pub out_of_order: u64,
    /// Pages that were filled, of the table, its long values and its indexes.
    pub pages: u64,
    /// Bytes of entries of secondary indexes for which pages will be filled at the end.
    pub entry_bytes: u64,
}

/// The bulk load of a new table: rows in the order of their keys become full pages, which are written once, in large writes
/// past the cache. Secondary indexes are sorted in bounded memory, and built at the end.
///
/// | moment | after a crash, or if the load is dropped |
/// | --- | --- |
/// | before [`BulkLoad::finish`] | as before the load; its space is available again |
/// | while `finish` runs | as before the load, or all of the table is there |
/// | after `finish` has returned | all of the table is there |
///
/// The load is one transaction, which creates the table. Its pages are not logged: they are durable before the first record
/// that refers to them. So no other session sees a part of the table, and no checkpoint covers a page that is not durable.
/// The log has the allocation of extents, which a rollback returns, and a few records at the end.
///
/// **Rows out of order** are kept in bounded memory, and inserted at the end, in the same transaction: they are logged, and leaves
/// that are full split. What exceeds the memory is refused with [`Error::OutOfOrder`], and the load goes on without it.
///
/// **Backups.** Logs alone cannot bring the table back. A load makes the databases forget their backups, so that the next
/// one must be a full one (-560 for others), and copies that follow the log must be made again. Redo on an older copy of
/// the database ends at the load, with [`Error::PageTime`] or [`Error::Corrupt`]: it never goes on without the pages. While
/// a load is running, no backup and no freeze can begin.
///
/// ```
/// use ese_engine::*;
///
/// # fn main() -> Result<()> {
/// # let directory = std::env::temp_dir().join(format!("ese-engine-bulk-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let instance = Instance::open(InstanceOptions::new(&directory)?)?;
/// # let database = instance.create_database(&directory.join("data.edb"), &CreateOptions::default())?;
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
/// assert!(table.seek(&mut session, &[Value::Long(30)], Seek::Equal)?);
/// assert_eq!(table.get(&mut session, square)?, Value::LongLong(900));
/// # drop((table, session, database));
/// # instance.shutdown()?;
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct BulkLoad<'s> {
    schema: TableSchema,
    /// Dropped before the transaction is rolled back: until then, its writes can be in flight.
    load: TableLoad,
    out_of_order: OutOfOrder,
    db: Arc<Database>,
    transaction: LoadTransaction<'s>,
}

/// Rows that wait for their insert.
#[derive(Default)]
struct OutOfOrder {
    rows: Vec<Vec<(ColumnId, Value)>>,
    bytes: usize,
    /// Bytes at most.
    most: usize,
}

impl OutOfOrder {
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

    /// Inserts the rows into the table of the same transaction.
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

/// Counts a load until it is dropped.
struct RunningLoad(Arc<Services>);

impl RunningLoad {
    fn begin(services: Arc<Services>) -> Result<RunningLoad> {
        services.bulk_loads.fetch_add(1, Ordering::SeqCst);
        let running = RunningLoad(services);
        match running.0.backup_running.load(Ordering::SeqCst) {
            false => Ok(running),
            true => Err(Error::Backup {
                fault: BackupFault::Running,
                what: "a backup of the instance is running, and would have a part of the load only; end it first"
                    .to_string(),
            }),
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
            return Err(Error::Usage(
                "a bulk load is a transaction of its own; end this one first".to_string(),
            ));
        }
        if options.density.is_some_and(|percent| !(20..=100).contains(&percent)) {
            return Err(Error::Usage("the density of a bulk load is 20 to 100 %".to_string()));
        }
        let running = RunningLoad::begin(session.active.services().clone())?;
        // A scan that overwrites deleted data would change pages before they are durable.
        db.scan.wait_for_step();
        session.begin()?;
        Ok(LoadTransaction { session, file: db.file.clone(), _running: running })
    }

    pub fn commit(self) -> Result<()> {
        self.session.commit(CommitMode::Durable).map(|_| ())
    }
}

impl Drop for LoadTransaction<'_> {
    /// Undoes a load that was not committed. No write of the load may be in flight, because the pages get another owner.
    fn drop(&mut self) {
        if self.session.level() > 0 {
            // A power failure behind the rollback must not tear them: no code would look at them again. If this fails, the
            // cache refuses further changes, and so the rollback is left to recovery.
            let _ = self.file.cache.sync_file(self.file.file_id);
            // If it fails, the session repeats it when it is dropped, and then recovery does.
            let _ = self.session.rollback();
        }
    }
}

impl BulkLoadOptions {
    pub(super) fn settings(&self) -> LoadSettings {
        let BulkLoadOptions { density, sort_bytes, transfer_bytes, zero, ref buffers, .. } = *self;
        let transfers = Transfers { bytes: transfer_bytes, zero, buffers: buffers.clone() };
        LoadSettings { density, sort_bytes, transfers }
    }
}

impl Session {
    /// Begins the bulk load of a new table. The session must not be in a transaction, and can do nothing else until the load
    /// ends. Loads of several sessions, of the same or of other databases, run in parallel.
    ///
    /// Errors: the definition is not valid, or the table exists; a backup is running (-505).
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
        let out_of_order = OutOfOrder { most: options.out_of_order_bytes, ..OutOfOrder::default() };
        let load = TableLoad::new(state, options.settings());
        Ok(BulkLoad { schema, load, out_of_order, db: db.clone(), transaction })
    }
}

impl BulkLoad<'_> {
    /// The table's definition.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// The column with this name. ASCII letters match in either case.
    pub fn column(&self, name: &str) -> Option<ColumnId> {
        self.schema.column_named(name).map(|column| column.id)
    }

    /// Adds a row. Its primary key should be above that of the row before: other rows are inserted one by one at the end, see
    /// [`BulkLoadOptions::out_of_order_bytes`]. A table without primary index takes any order.
    ///
    /// Errors: [`Error::OutOfOrder`] if there is no memory for another row out of order, and [`Error::KeyDuplicate`] if the row has
    /// the key of the row before, refuse this row, and the load can go on; insert it with
    /// [`Table::insert`](crate::Table::insert) after the load. So does [`Error::Usage`]. After any other error the load
    /// cannot be finished.
    pub fn push(&mut self, row: &[(ColumnId, Value)]) -> Result<()> {
        match self.load.push(row) {
            Err(Error::OutOfOrder) => self.out_of_order.keep(row),
            pushed => pushed,
        }
    }

    /// How far the load is.
    pub fn progress(&self) -> BulkLoadProgress {
        let (load, out_of_order) = (&self.load, self.out_of_order.rows.len() as u64);
        BulkLoadProgress {
            rows: load.rows + out_of_order,
            out_of_order,
            pages: load.pages(),
            entry_bytes: load.entry_bytes(),
        }
    }

    /// Ends the load. When this returns, the table is durable, and all sessions see it.
    ///
    /// Errors: [`Error::KeyDuplicate`] if two rows have the same key in a unique secondary index, or a row out of order has the
    /// primary key of another one; disk full; a failed write. Then nothing of the load is left.
    pub fn finish(self) -> Result<BulkLoadProgress> {
        self.finish_with(|_| true)
    }

    /// Like [`BulkLoad::finish`]. `goes_on` gets the progress while indexes are built; if it returns `false`, the result is
    /// [`Error::Cancelled`], and nothing of the load is left.
    pub fn finish_with(self, mut goes_on: impl FnMut(&BulkLoadProgress) -> bool) -> Result<BulkLoadProgress> {
        // If the load fails, the transaction is dropped behind it.
        let BulkLoad { schema, load, out_of_order, db, transaction } = self;
        let kept = out_of_order.rows.len() as u64;
        let mut progress = BulkLoadProgress::default();
        load.complete(&mut |rows, pages| {
            progress = BulkLoadProgress { rows: rows + kept, out_of_order: kept, pages, entry_bytes: 0 };
            goes_on(&progress)
        })?;
        out_of_order.insert(transaction.session, &db, &schema.name)?;
        transaction.commit()?;
        Ok(progress)
    }
}
