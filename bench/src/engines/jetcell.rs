//! Our engine: one table with a key and a value column.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::{
    BulkLoadOptions, ColumnDefinition, CommitMode, DatabaseOptions, IndexDefinition, Instance,
    InstanceOptions, Table, TableDefinition, TornPageProtection,
};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnId, ColumnType, Value};
use jetcell_vfs::{CountedVfs, IoOperation, IoReason, RealOptions, RealVfs, Vfs};

use crate::store::{
    BenchStore, EngineTransfers, RecordKey, StoreOptions, StoreRecovery, StoreSession, StoreStatement,
};

const PAGE_SIZE: u32 = 32 << 10;
/// Bytes by which the file grows.
const EXTENSION: u32 = 8 << 20;
/// Bytes of a log file.
const LOG_FILE: u32 = 16 << 20;
/// Transactions of at most this many operations use preread. A load in key order touches few leaves.
const MAX_PREREAD: usize = 100;
const TABLE: &str = "Records";

pub struct Jetcell {
    files: Arc<CountedVfs>,
    cache: Arc<Cache>,
    instance: Arc<Instance>,
    database: Arc<Database>,
    batch_reads: bool,
}

impl Jetcell {
    pub fn open(options: &StoreOptions) -> Result<Jetcell> {
        let files = Arc::new(CountedVfs::new(Arc::new(RealVfs::new(RealOptions::default())?)));
        let page_size = PageSize::new(PAGE_SIZE).ok_or_else(|| anyhow!("page size"))?;
        let mut cache = CacheOptions::new(options.cache as usize, page_size, files.clock());
        if !options.delta_store {
            cache.eviction = EvictionPolicy::WriteBack;
        }
        let cache = Cache::new(cache);
        cache.start_threads()?;
        let instance = Instance::open(
            InstanceOptions::with_cache(files.clone(), options.directory.clone(), cache.clone())
                .log_file_size(LOG_FILE)
                .circular_log(options.circular_logging)
                .checkpoint_depth(options.checkpoint_depth)
                .torn_page_protection(if options.page_protection {
                    TornPageProtection::DoubleWrite
                } else {
                    TornPageProtection::Off
                }),
        )?;
        let path = options.directory.join("records.edb");
        let extension_pages = EXTENSION / PAGE_SIZE;
        let database = if path.exists() {
            instance.attach(&path, extension_pages)?
        } else {
            let create = DatabaseOptions { initial_pages: extension_pages, extension_pages };
            let database = instance.create_database(&path, &create)?;
            // A bulk load creates the table.
            if !options.bulk_load {
                let mut session = instance.session();
                session.begin()?;
                session.create_table(&database, &definition())?;
                session.commit(CommitMode::Durable)?;
            }
            database
        };
        Ok(Jetcell { files, cache, instance, database, batch_reads: options.batch_reads })
    }
}

fn definition() -> TableDefinition {
    TableDefinition {
        name: TABLE.to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::LongLong).with_flags(ColumnFlags::NOT_NULL),
            ColumnDefinition::new("Value", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        separate_from: Some(2048),
        // Leaves as much free space as the goal of row 13 allows.
        density: Some(98),
        ..TableDefinition::default()
    }
}

impl BenchStore for Jetcell {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
        let mut session = self.instance.session();
        let table = session.open_table(&self.database, TABLE)?;
        let column = |name| table.column(name).ok_or_else(|| anyhow!("column {name} does not exist"));
        let (id, value) = (column("Id")?, column("Value")?);
        let row = [(id, Value::Null), (value, Value::Binary(Vec::new()))];
        Ok(Box::new(JetcellSession { value, row, session, table, batch_reads: self.batch_reads }))
    }

    fn transfers(&self) -> Option<EngineTransfers> {
        let snapshot = self.files.snapshot();
        let total = |reasons: &[IoReason], operation| {
            let count = snapshot.total(reasons, operation);
            (count.operations, count.bytes)
        };
        let (reads, read_bytes) = total(&[IoReason::DatabaseRead, IoReason::Preread], IoOperation::Read);
        let (writes, write_bytes) =
            total(&[IoReason::CheckpointWrite, IoReason::EvictionWrite], IoOperation::Write);
        let (log_writes, log_bytes) = total(&[IoReason::LogWrite], IoOperation::Write);
        Some(EngineTransfers { reads, read_bytes, writes, write_bytes, log_writes, log_bytes })
    }

    fn recovered(&self) -> StoreRecovery {
        StoreRecovery { records: Some(self.instance.recovery().records) }
    }

    fn checkpoint(&self) -> Result<()> {
        self.instance.flush()?;
        self.cache.flush_file(self.database.file_id())?;
        self.instance.checkpoint()?;
        Ok(())
    }

    fn bulk_load(&self, next: &mut dyn FnMut() -> Option<(RecordKey, Vec<u8>)>) -> Result<()> {
        let mut session = self.instance.session();
        let mut load = session.bulk_load(&self.database, &definition(), BulkLoadOptions::default())?;
        let column = |name| load.column(name).ok_or_else(|| anyhow!("column {name} does not exist"));
        let (id, value_column) = (column("Id")?, column("Value")?);
        while let Some((key, value)) = next() {
            load.push(&[(id, id_of(&key)), (value_column, Value::Binary(value))])?;
        }
        load.finish()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let closed = self.instance.shutdown();
        self.cache.shutdown();
        Ok(closed?)
    }
}

struct JetcellSession {
    session: ese_engine::Session,
    table: Table,
    value: ColumnId,
    /// The row of an update. Its memory is reused.
    row: [(ColumnId, Value); 2],
    batch_reads: bool,
}

/// The column compares as a signed number, the key as bytes.
fn id_of(key: &RecordKey) -> Value {
    Value::LongLong((u64::from_be_bytes(*key) ^ 1 << 63) as i64)
}

impl JetcellSession {
    fn seek(&mut self, key: &RecordKey) -> Result<bool> {
        Ok(self.table.seek(&mut self.session, &[id_of(key)], SeekRelation::Equal)?)
    }

    fn run(&mut self, operation: &StoreStatement) -> Result<()> {
        if let StoreStatement::Insert(key, value) | StoreStatement::Replace(key, value) = operation {
            self.row[0].1 = id_of(key);
            if let Value::Binary(bytes) = &mut self.row[1].1 {
                bytes.clear();
                bytes.extend_from_slice(value);
            }
        }
        if let StoreStatement::Insert(..) = operation {
            return Ok(self.table.insert(&mut self.session, &self.row)?);
        }
        ensure!(self.seek(operation.key())?, "record {:02x?} does not exist", operation.key());
        match operation {
            StoreStatement::Delete(_) => self.table.delete(&mut self.session)?,
            StoreStatement::Replace(..) => self.table.replace(&mut self.session, &self.row[1..])?,
            StoreStatement::Insert(..) | StoreStatement::Read(_) => {
                self.table.get(&mut self.session, self.value)?;
            }
        }
        Ok(())
    }
}

impl StoreSession for JetcellSession {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        if self.batch_reads && (2..=MAX_PREREAD).contains(&operations.len()) {
            let keys: Vec<_> = operations.iter().map(|operation| [id_of(operation.key())]).collect();
            self.table.preread(&keys.iter().map(<[Value; 1]>::as_slice).collect::<Vec<_>>())?;
        }
        self.session.begin()?;
        for operation in operations {
            self.run(operation)?;
        }
        self.session.commit(if durable { CommitMode::Durable } else { CommitMode::Lazy })?;
        Ok(())
    }

    /// Runs in a transaction, so that the seek and the read see the same record.
    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        self.session.begin()?;
        let found = self.seek(key)?;
        if found {
            match self.table.get(&mut self.session, self.value)? {
                Value::Binary(bytes) => *value = bytes,
                other => bail!("unexpected value {other:?}"),
            }
        }
        self.session.commit(CommitMode::Lazy)?;
        Ok(found)
    }
}
