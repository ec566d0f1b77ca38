//! Interface between the load and a storage engine, limited to what the load needs. [`crate::engine_ese`] is the real
//! engine. The unit tests of this crate use a small in-memory model.
//!
//! Each database has `tables` tables of [`LoadRow`]s. The primary key is an ascending integer, and the secondary key
//! is random. Appends therefore always change the end of the primary tree, but may change any leaf of the secondary
//! tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::EventSink;
use ese_format::header::DatabaseHeader;
use jetcell_host::Cancellation;
use jetcell_host::machine::ArrayStorage;
use jetcell_vfs::Vfs;

use crate::error::Error;
use crate::layout::{CopyPlan, InstancePlan, RunPlan};
use crate::measurement::{
    ArrayCounters, CacheUsage, CopyCounters, DefragSummary, InstanceIo, LogCopySummary, ScanSummary,
    VerificationResult,
};
use crate::profile::{MaintenanceSettings, RecoveryMode};
use crate::start_error::StartError;
use crate::watch::{BackupWatch, ReplayWatch};

/// Result type of the engine interface.
pub type Result<T> = std::result::Result<T, Error>;

/// A record that the load writes to a database.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LoadRow {
    /// Primary key.
    pub id: i64,
    /// Secondary index key. It is random, so inserts are spread across the whole index.
    pub thread: Vec<u8>,
    /// Content that identifies the record. See `load/record.rs`.
    pub short: Vec<u8>,
    /// Long content, or `None` if the record has none.
    pub long: Option<Vec<u8>>,
}

/// Whether a commit returns before it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitDurability {
    /// The commit returns when the change is durable.
    Durable,
    /// The commit returns immediately, and the change becomes durable soon after. ESE: `JET_bitCommitLazyFlush`.
    Lazy,
}

/// Properties of an existing database, read from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingDatabase {
    /// Page size in bytes.
    pub page_bytes: u32,
    /// File length in bytes.
    pub file_bytes: u64,
}

/// How thoroughly to verify a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationDepth {
    /// Verifies each page by itself. The database may still need recovery.
    Pages,
    /// Verifies pages, trees and logs. The database must have been shut down cleanly.
    Full,
}

/// Mode in which databases are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseOpenMode {
    /// Creates missing databases without tables. Half of the page memory is reserved for bulk loads.
    Create,
    /// Opens existing databases.
    Attach,
}

/// The log position at which a database's replay starts.
#[derive(Clone, Debug)]
pub struct ReplayStart {
    /// Generation of the log in which the database was attached.
    pub generation: u32,
    /// Database header at the time of the attach.
    pub attached: DatabaseHeader,
}

/// How a bulk load proceeds, as decided by its data source.
#[derive(Debug)]
pub enum BulkLoadAction {
    /// Add the record that `next` has set. Its key must be greater than the previous key.
    Row,
    /// Complete the table.
    End,
    /// Abort the load and discard the table.
    Stop,
}

/// Interface to a storage engine that opens databases.
pub trait StorageEngine: Send + Sync {
    /// Sets the event sink for instances that are opened later.
    fn report_events(&self, _events: Arc<dyn EventSink>) {}

    /// Returns the file system that stores databases and logs.
    fn files(&self) -> Arc<dyn Vfs>;

    /// Returns the directory of the array that stores the databases and logs under a path. Returns `None` if they are
    /// on the machine's own file system.
    fn array_of(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// Returns the arrays that store databases and logs, each with the directory under which the test accesses it.
    fn array_storage(&self) -> &[(PathBuf, ArrayStorage)] {
        &[]
    }

    /// Examines an existing database without changing it.
    ///
    /// # Errors
    /// The file is not a database, has an unknown version, is damaged or in use, or is dirty and its logs are
    /// missing.
    fn inspect(&self, instance: &InstancePlan) -> std::result::Result<ExistingDatabase, StartError>;

    /// Verifies the closed databases. `progress` receives the number of bytes completed and the total, and returns
    /// `false` to cancel. Returns `None` if cancelled.
    fn verify(
        &self,
        plan: &RunPlan,
        depth: VerificationDepth,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<VerificationResult>;

    /// Opens every instance in the plan and recovers dirty databases.
    fn open(&self, plan: &RunPlan, opening: DatabaseOpenMode) -> Result<Box<dyn DatabaseStore>>;

    /// Returns true if another process has the database or its logs open.
    fn is_in_use(&self, instance: &InstancePlan) -> bool;

    /// Copies a closed database to preserve its state. `progress` receives the number of bytes copied, and returns
    /// `false` to cancel.
    fn preserve_state(&self, instance: &InstancePlan, progress: &mut dyn FnMut(u64) -> bool) -> Result<()>;

    /// Removes the preserved state, if it exists.
    fn remove_preserved_state(&self, instance: &InstancePlan) -> Result<()>;

    /// Restores a closed database to the state from which its replay starts.
    fn restore_state(&self, instance: &InstancePlan, start: &ReplayStart, mode: RecoveryMode) -> Result<()>;

    /// Replays all logs of a database from `start` and shuts it down cleanly. Stops early if `watch` requests it.
    fn replay(&self, plan: &RunPlan, database: usize, start: &ReplayStart, watch: &ReplayWatch)
    -> Result<()>;
}

/// Interface to a run's open databases.
pub trait DatabaseStore: Send + Sync {
    /// Creates a session on the plan's database with index `database`.
    fn session(&self, database: usize) -> Result<Box<dyn StorageSession>>;
    /// Returns the volume number of each database, in plan order.
    fn volumes(&self) -> Vec<usize>;
    /// Returns true if the table exists. A bulk-loaded table becomes visible only when it is complete.
    fn has_table(&self, database: usize, table: u32) -> Result<bool>;
    /// Bulk-loads a new table. `next` receives the current size of the table in bytes and a record to fill in. The
    /// load uses `memory` bytes for transfers and for sorting the index. During index builds, the load ends early if
    /// `stop` is cancelled. The table becomes visible only when the load is complete.
    fn load_table(
        &self,
        database: usize,
        table: u32,
        memory: usize,
        next: &mut dyn FnMut(u64, &mut LoadRow) -> BulkLoadAction,
        stop: &Cancellation,
    ) -> Result<()>;
    /// Returns the I/O counters of each instance, in plan order.
    fn io(&self) -> Vec<InstanceIo>;
    /// Returns the cache state.
    fn cache(&self) -> CacheUsage;
    /// Returns the counters of the arrays that store the databases. Returns `None` if no database is on an array.
    fn arrays(&self) -> Option<ArrayCounters> {
        None
    }
    /// Starts maintenance on every database. It runs until it is stopped or the store is shut down.
    fn start_maintenance(&self, settings: &MaintenanceSettings) -> Result<()>;
    /// Stops maintenance. It can be started again, with the same or other tasks.
    fn stop_maintenance(&self);
    /// Stops maintenance and returns the scan summaries in plan order. The result is empty if no scan was started.
    fn finish_scan(&self) -> Vec<ScanSummary>;
    /// Stops maintenance and returns the online defragmentation summaries. The result is empty if no defragmentation
    /// was started.
    fn finish_defragmentation(&self) -> Vec<DefragSummary>;
    /// Reads and verifies all pages of a database while sessions continue to work. If `to` is set, the pages and the
    /// logs needed to recover them are written to this directory. Stops early if `watch` requests it.
    fn back_up(&self, database: usize, to: Option<&Path>, watch: &Arc<BackupWatch>) -> Result<()>;
    /// Starts reading each log after it is closed, as many times as `copies` additional database copies would.
    fn start_log_copies(&self, copies: u32) -> Result<()>;
    /// Stops the log reads and returns their summaries in plan order. The result is empty if the reads were not
    /// started.
    fn finish_log_copies(&self) -> Vec<LogCopySummary>;
    /// Seeds passive copies from the open databases and starts replicating to them within this process. `progress`
    /// receives the total number of bytes copied, and returns `false` to cancel.
    fn replicate(
        &self,
        copies: &[CopyPlan],
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Box<dyn PassiveCopies>>;
    /// Returns the length of a log file in bytes.
    fn log_bytes(&self) -> u64;
    /// Returns the length of a database file in bytes.
    fn database_bytes(&self, database: usize) -> u64;
    /// Returns the position at which the replay of a newly opened database starts.
    fn replay_start(&self, database: usize) -> Result<ReplayStart>;
    /// Returns the generation of the current log of a database.
    fn generation(&self, database: usize) -> u32;
    /// Shuts down every instance, even if one of them fails, and returns the first error. All sessions must be closed
    /// first.
    fn shutdown(self: Box<Self>) -> Result<()>;
}

/// Interface to the passive copies that receive changes to the open databases.
pub trait PassiveCopies: Send + Sync {
    /// Suspends or resumes all copies.
    fn set_suspended(&self, held: bool);
    /// Returns the counters of each copy.
    fn counters(&self) -> Vec<CopyCounters>;
    /// Returns how many bytes of durable log each copy has not received. A failover to the copy would lose this part
    /// of the log.
    fn missing_log(&self) -> Vec<u64>;
    /// Closes the current log of each database. Each copy stops once it has replayed this log.
    fn drain(&self) -> Result<()>;
    /// Returns true if every copy has stopped or failed.
    fn has_ended(&self) -> bool;
    /// Stops all copies and returns their counters. After that, the databases no longer retain logs for the copies.
    fn finish(self: Box<Self>) -> Vec<CopyCounters>;
}

/// Interface to a session on one database. It may move between threads, but only one thread uses it at a
/// time.
pub trait StorageSession: Send {
    /// Begins a transaction.
    fn begin(&mut self) -> Result<()>;
    /// Commits the transaction.
    fn commit(&mut self, commit: CommitDurability) -> Result<()>;
    /// Rolls back the transaction.
    fn rollback(&mut self) -> Result<()>;
    /// Adds a record.
    fn insert(&mut self, table: u32, row: &LoadRow) -> Result<()>;
    /// Moves to the first record whose key is at least `id`, and returns its key.
    fn seek(&mut self, table: u32, id: i64) -> Result<Option<i64>>;
    /// Reads the current record.
    fn read(&mut self, table: u32) -> Result<LoadRow>;
    /// Replaces the columns of the current record, except the primary key.
    fn replace(&mut self, table: u32, row: &LoadRow) -> Result<()>;
    /// Deletes the current record.
    fn delete(&mut self, table: u32) -> Result<()>;
    /// Returns the highest key of the table.
    fn last(&mut self, table: u32) -> Result<Option<i64>>;
}
