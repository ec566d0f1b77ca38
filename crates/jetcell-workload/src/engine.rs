//! The interface between the load and a storage engine, with no more than the load needs. [`crate::engine_ese`] is the
//! real engine; the unit tests of this crate use a small model in memory.
//!
//! Each database has `tables` tables of [`Row`]s with an ascending integer as primary key and a random,
//! unordered secondary key, so that appends touch one end of the primary tree and any leaf of the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{Error, EventSink};
use ese_format::header::DatabaseHeader;
use jetcell_vfs::Vfs;

use crate::layout::{CopyPlan, InstancePlan, Plan};
use crate::measurement::{
    ArrayCounters, CacheState, CopyCounters, DefragSummary, InstanceIo, LogCopies, ScanSummary, Verification,
};
use crate::profile::{MaintenanceSettings, RecoveryMode};
use crate::refusal::Refusal;
use crate::watch::{BackupWatch, ReplayWatch};

/// Result of the calls of a session.
pub type Result<T> = std::result::Result<T, Error>;

/// One record of the load.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Row {
    /// Primary key.
    pub id: i64,
    /// Secondary index key; random, so that index inserts go everywhere.
    pub thread: Vec<u8>,
    /// Content that proves which record it belongs to; see `load/record.rs`.
    pub short: Vec<u8>,
    /// Long content; not every record has it.
    pub long: Option<Vec<u8>>,
}

/// How a commit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Returns when the change is on disk.
    Durable,
    /// Returns at once; the change becomes durable soon. ESE: `JET_bitCommitLazyFlush`.
    Lazy,
}

/// What the header of an existing database says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingDatabase {
    /// Page size in bytes.
    pub page_bytes: u32,
    /// File length in bytes.
    pub file_bytes: u64,
}

/// How much a verification reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every page by itself, for a database that may still need recovery.
    Pages,
    /// Pages, trees and logs, for a database that was shut down.
    Everything,
}

/// How databases are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Databases that are missing are created, without tables. Half of the memory for pages is left to loads.
    Create,
    /// All databases exist.
    Attach,
}

/// Where the replay of a database has to begin.
#[derive(Clone, Debug)]
pub struct ReplayStart {
    /// Generation of the log in which the database was attached.
    pub generation: u32,
    /// The header of the database since then.
    pub attached: DatabaseHeader,
}

/// What a load of a table does next.
#[derive(Debug)]
pub enum LoadStep {
    /// Adds the record that `next` has set, whose key is above that of the record before.
    Row,
    /// Completes the table.
    End,
    /// Ends, and leaves nothing of the table.
    Stop,
}

/// Opens databases.
pub trait Engine: Send + Sync {
    /// Reports the events of instances that are opened from now on.
    fn report_events(&self, _events: Arc<dyn EventSink>) {}

    /// The file system of databases and logs.
    fn files(&self) -> Arc<dyn Vfs>;

    /// The directory of the array that has the databases and logs below a path; `None` if the machine's file system has them.
    fn array_of(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// Examines an existing database without changing it. Refuses a file that is not a database, has an unknown version,
    /// is damaged or in use, or is dirty while its logs are missing.
    fn inspect(&self, instance: &InstancePlan) -> std::result::Result<ExistingDatabase, Refusal>;

    /// Verifies the closed databases. `progress` gets the bytes that are done and the total; it returns `false` to cancel.
    /// `None` after a cancellation.
    fn verify(
        &self,
        plan: &Plan,
        depth: Depth,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<Verification>;

    /// Opens every instance of the plan, and recovers databases that are dirty.
    fn open(&self, plan: &Plan, opening: Opening) -> Result<Box<dyn Store>>;

    /// Whether another process has the database or its logs open.
    fn in_use(&self, instance: &InstancePlan) -> bool;

    /// Keeps the state of a closed database as a copy. `progress` gets the bytes that are copied, and returns `false` to
    /// cancel.
    fn keep_state(&self, instance: &InstancePlan, progress: &mut dyn FnMut(u64) -> bool) -> Result<()>;

    /// Removes the kept state, if there is one.
    fn forget_state(&self, instance: &InstancePlan) -> Result<()>;

    /// Puts a closed database back to the state from which its replay begins.
    fn put_back(&self, instance: &InstancePlan, start: &ReplayStart, mode: RecoveryMode) -> Result<()>;

    /// Replays all logs of a database from `start` on, and leaves it clean. Ends early when the watch says so.
    fn replay(&self, plan: &Plan, database: usize, start: &ReplayStart, watch: &ReplayWatch) -> Result<()>;
}

/// The open databases of a run.
pub trait Store: Send + Sync {
    /// A session on database number `database` of the plan.
    fn session(&self, database: usize) -> Result<Box<dyn Session>>;
    /// The volume of each database, in the order of the plan.
    fn volumes(&self) -> Vec<usize>;
    /// Whether a table exists. One that was loaded is complete.
    fn has_table(&self, database: usize, table: u32) -> Result<bool>;
    /// Loads a new table with what `next` gives; `next` gets the bytes that the table takes so far, and a record to set. Takes `memory` bytes
    /// for transfers and for the sort of the index. While indexes are built, `stopped` ends the load. Until the load is complete, nothing of the
    /// table is there.
    fn load_table(
        &self,
        database: usize,
        table: u32,
        memory: usize,
        next: &mut dyn FnMut(u64, &mut Row) -> LoadStep,
        stopped: &dyn Fn() -> bool,
    ) -> Result<()>;
    /// I/O per instance, in the order of the plan.
    fn io(&self) -> Vec<InstanceIo>;
    /// Cache state.
    fn cache(&self) -> CacheState;
    /// Arrays below the databases; `None` if they are on none.
    fn arrays(&self) -> Option<ArrayCounters> {
        None
    }
    /// Starts maintenance of every database. It runs until it is ended, or until shutdown.
    fn start_maintenance(&self, settings: &MaintenanceSettings) -> Result<()>;
    /// Interrupts maintenance. It can be started again, also with other tasks.
    fn stop_maintenance(&self);
    /// Ends maintenance and gives the summaries of the scans in the order of the plan; none if no scan was started.
    fn end_scan(&self) -> Vec<ScanSummary>;
    /// The same, of online defragmentation.
    fn end_defragmentation(&self) -> Vec<DefragSummary>;
    /// Reads all pages of a database and verifies each, while sessions may go on. Writes them to a directory, if there is
    /// one, with the logs that they need. Ends early when the watch says so.
    fn back_up(&self, database: usize, to: Option<&Path>, watch: &Arc<BackupWatch>) -> Result<()>;
    /// Starts to read each log that is closed from now on, as often as `copies` further copies of a database would.
    fn start_copies(&self, copies: u32) -> Result<()>;
    /// Ends these reads and gives their summaries in the order of the plan; none if they were not started.
    fn end_copies(&self) -> Vec<LogCopies>;
    /// Seeds passive copies from the open databases, and makes each follow in this process. `progress` gets the bytes that are
    /// copied of all of them, and returns `false` to cancel.
    fn replicate(
        &self,
        copies: &[CopyPlan],
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Box<dyn Copies>>;
    /// Length of a log file in bytes.
    fn log_bytes(&self) -> u64;
    /// Length of a database file in bytes.
    fn database_bytes(&self, database: usize) -> u64;
    /// Where the replay of a database that was just opened has to begin.
    fn replay_start(&self, database: usize) -> Result<ReplayStart>;
    /// Generation of the log that a database is writing.
    fn generation(&self, database: usize) -> u32;
    /// Shuts down every instance, even if one fails; returns the first error. All sessions must have ended.
    fn shutdown(self: Box<Self>) -> Result<()>;
}

/// Passive copies that follow open databases.
pub trait Copies: Send + Sync {
    /// Lets all copies wait, or go on.
    fn hold(&self, held: bool);
    /// The counters of each copy.
    fn counters(&self) -> Vec<CopyCounters>;
    /// Bytes of log that are durable and that each copy does not have: what a failover to it would lose.
    fn missing_log(&self) -> Vec<u64>;
    /// Closes the log of each database. Copies end when they have replayed it.
    fn drain(&self) -> Result<()>;
    /// Whether every copy has ended, or failed.
    fn ended(&self) -> bool;
    /// Ends all copies, and gives their counters. The databases keep no logs for them any more.
    fn end(self: Box<Self>) -> Vec<CopyCounters>;
}

/// One session on one database. It may move between threads; one thread uses it at a time.
pub trait Session: Send {
    /// Begins a transaction.
    fn begin(&mut self) -> Result<()>;
    /// Commits the transaction.
    fn commit(&mut self, commit: Commit) -> Result<()>;
    /// Rolls the transaction back.
    fn rollback(&mut self) -> Result<()>;
    /// Adds a record.
    fn insert(&mut self, table: u32, row: &Row) -> Result<()>;
    /// Makes the first record with a key of at least `id` the current one, and returns its key.
    fn seek(&mut self, table: u32, id: i64) -> Result<Option<i64>>;
    /// Reads the current record.
    fn read(&mut self, table: u32) -> Result<Row>;
    /// Replaces the columns of the current record, except the primary key.
    fn replace(&mut self, table: u32, row: &Row) -> Result<()>;
    /// Deletes the current record.
    fn delete(&mut self, table: u32) -> Result<()>;
    /// The highest key of the table.
    fn last(&mut self, table: u32) -> Result<Option<i64>>;
}
