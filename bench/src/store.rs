//! Interface between the driver and an engine. The driver knows no engine, so all engines get the same work.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Records per transaction of a load.
pub const LOAD_BATCH: usize = 1000;

/// Key of a record; keys compare as bytes.
pub type RecordKey = [u8; 8];

/// A statement of a transaction.
pub enum StoreStatement {
    /// A new record.
    Insert(RecordKey, Vec<u8>),
    /// Removes an existing record.
    Delete(RecordKey),
    /// Gives an existing record another value.
    Replace(RecordKey, Vec<u8>),
    /// Reads an existing record.
    Read(RecordKey),
}

impl StoreStatement {
    /// Whether the operation changes a record.
    pub fn is_update(&self) -> bool {
        !matches!(self, StoreStatement::Read(_))
    }

    /// Key of the record.
    pub fn key(&self) -> &RecordKey {
        match self {
            StoreStatement::Insert(key, _) | StoreStatement::Delete(key) => key,
            StoreStatement::Replace(key, _) | StoreStatement::Read(key) => key,
        }
    }

    /// Bytes of key and value that the operation writes.
    pub fn bytes(&self) -> u64 {
        let value = match self {
            StoreStatement::Insert(_, value) | StoreStatement::Replace(_, value) => value.len(),
            StoreStatement::Delete(_) | StoreStatement::Read(_) => 0,
        };
        (size_of::<RecordKey>() + value) as u64
    }
}

/// Directory, memory and modes of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Directory of this store alone.
    pub directory: PathBuf,
    /// Bytes of cache, including every buffer whose size the engine lets us set.
    pub cache: u64,
    /// Bytes of log that a restart may have to read. Engines without such a setting use their default.
    pub checkpoint_depth: u64,
    /// Our engine only: keep the changes of dirty pages that are evicted without being written.
    pub delta_store: bool,
    /// Our engine only: protect pages against torn writes. The peers never overwrite a live page, or log its image.
    pub page_protection: bool,
    /// Our engine only: delete logs that recovery no longer needs.
    pub circular_logging: bool,
    /// Read the records of a transaction together before its first statement: preread of our engine, MultiGet of
    /// RocksDB. Engines without such a call ignore this.
    pub batch_reads: bool,
    /// The store will be filled by [`BenchStore::bulk_load`]. Engines may open it in another way for that.
    pub bulk_load: bool,
}

/// I/O that an engine counts itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineTransfers {
    /// Transfers from database files.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Transfers to database files.
    pub writes: u64,
    /// Bytes of these.
    pub write_bytes: u64,
    /// Transfers to the log.
    pub log_writes: u64,
    /// Bytes of these.
    pub log_bytes: u64,
}

impl EngineTransfers {
    /// Differences since `earlier`.
    pub fn since(&self, earlier: &EngineTransfers) -> EngineTransfers {
        EngineTransfers {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            log_writes: self.log_writes - earlier.log_writes,
            log_bytes: self.log_bytes - earlier.log_bytes,
        }
    }
}

/// Work of opening a store after a crash, if the engine reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreRecovery {
    /// Log records read that change data; `None` if the engine does not count them.
    pub records: Option<u64>,
}

/// An open store.
pub trait BenchStore: Send + Sync {
    /// Opens a session for one thread.
    fn session(&self) -> Result<Box<dyn StoreSession + '_>>;

    /// I/O since the store was opened.
    fn transfers(&self) -> Option<EngineTransfers> {
        None
    }

    /// Work of opening the store.
    fn recovered(&self) -> StoreRecovery {
        StoreRecovery::default()
    }

    /// Writes all changes to the files and syncs them. The store stays open.
    fn checkpoint(&self) -> Result<()>;

    /// Fills the empty store, which was opened with [`StoreOptions::bulk_load`], with records in the order of their
    /// keys, in the engine's fastest way. All of them are durable when it returns. By default, they are inserted as
    /// by a program that knows no such way.
    fn bulk_load(&self, next: &mut dyn FnMut() -> Option<(RecordKey, Vec<u8>)>) -> Result<()> {
        let mut session = self.session()?;
        loop {
            let batch: Vec<StoreStatement> = std::iter::from_fn(&mut *next)
                .take(LOAD_BATCH)
                .map(|(key, value)| StoreStatement::Insert(key, value))
                .collect();
            if batch.is_empty() {
                break;
            }
            session.execute(&batch, false)?;
        }
        drop(session);
        self.checkpoint()
    }

    /// Closes the store cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Access of one thread to a store.
pub trait StoreSession {
    /// Runs the operations as one transaction and commits it. A `durable` transaction survives a crash after the
    /// return; any other survives at some later time. The session may look ahead in the list. To delete, replace or
    /// read a record that does not exist is an error, because the driver knows which records exist.
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()>;

    /// Reads one record in a transaction of its own. Returns false if the record does not exist.
    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool>;
}
