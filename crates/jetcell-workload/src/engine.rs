//! What the load needs of a storage engine, and nothing more. Production is [`crate::engine_ese`]; the unit
//! tests of this crate use a small model in memory.
//!
//! Each database has `tables` tables of [`Row`]s with an ascending integer as primary key and a random,
//! unordered secondary key, so that appends touch one end of the primary tree and any leaf of the other.

use std::time::Duration;

use ese_engine::Error;

use crate::layout::{InstancePlan, Plan};
use crate::measurement::{CacheState, InstanceIo, ScanSummary, Verification};
use crate::refusal::Refusal;

/// Result of the calls of a session.
pub type Result<T> = std::result::Result<T, Error>;

/// One record of the load.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Row {
    /// Primary key.
    pub id: i64,
    /// Secondary index key; random, so that index inserts go everywhere.
    pub thread: [u8; 16],
    /// Content that proves which record it belongs to; see [`crate::generator`].
    pub short: Vec<u8>,
    /// Long content; not every record has one.
    pub long: Option<Vec<u8>>,
}

/// How a commit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Returns when the change is on disk.
    Durable,
    /// Returns at once; the change becomes durable soon.
    Lazy,
}

/// What an existing database says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingDatabase {
    /// Page size in bytes.
    pub page_bytes: u32,
    /// File length in bytes.
    pub file_bytes: u64,
}

/// How much is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every page by itself: a database that may still need recovery.
    Pages,
    /// Pages, trees and logs of a database that was shut down.
    Everything,
}

/// What becomes of the databases when they are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Those that are missing are created, with their tables.
    Create,
    /// All of them exist.
    Attach,
}

/// Opens databases.
pub trait Engine: Send + Sync {
    /// Looks at an existing database without changing anything. The error is one line for the user: the file is
    /// not a database, of an unknown version, damaged, in use, or dirty while its logs are missing.
    fn inspect(&self, instance: &InstancePlan) -> std::result::Result<ExistingDatabase, Refusal>;

    /// Reads the closed databases. `progress` gets bytes done and in all, and returns `false` to give up, which gives
    /// `None`.
    fn verify(
        &self,
        plan: &Plan,
        depth: Depth,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<Verification>;

    /// Opens every instance of the plan; databases that are dirty are recovered.
    fn open(&self, plan: &Plan, opening: Opening) -> Result<Box<dyn Store>>;

    /// Whether another process has the database or its logs open. Changes nothing.
    fn in_use(&self, instance: &InstancePlan) -> bool;
}

/// The open databases of a run.
pub trait Store: Send + Sync {
    /// A session on database number `database` of the plan.
    fn session(&self, database: usize) -> Result<Box<dyn Session>>;
    /// I/O per instance, in the order of the plan.
    fn io(&self) -> Vec<InstanceIo>;
    /// Cache state.
    fn cache(&self) -> CacheState;
    /// Starts a checksum scan of every database, with a pause after each read; it goes on until shutdown.
    fn start_scan(&self, pause: Duration);
    /// Ends the scans and tells what they saw, in the order of the plan. Empty when none was started.
    fn end_scan(&self) -> Vec<ScanSummary>;
    /// Length of a database file in bytes.
    fn database_bytes(&self, database: usize) -> u64;
    /// Shuts every instance down cleanly; all of them are tried, the first error is returned. Sessions are gone.
    fn shutdown(self: Box<Self>) -> Result<()>;
}

/// One session on one database; moves between threads but is used by one at a time.
pub trait Session: Send {
    /// Begins a transaction.
    fn begin(&mut self) -> Result<()>;
    /// Commits it.
    fn commit(&mut self, commit: Commit) -> Result<()>;
    /// Undoes it.
    fn rollback(&mut self) -> Result<()>;
    /// Adds a record.
    fn insert(&mut self, table: u32, row: &Row) -> Result<()>;
    /// Positions on the first record with a key of at least `id` and returns its key.
    fn seek(&mut self, table: u32, id: i64) -> Result<Option<i64>>;
    /// The record positioned on.
    fn read(&mut self, table: u32) -> Result<Row>;
    /// Replaces the columns, except the key, of the record positioned on.
    fn replace(&mut self, table: u32, row: &Row) -> Result<()>;
    /// Deletes the record positioned on.
    fn delete(&mut self, table: u32) -> Result<()>;
    /// The highest key of the table.
    fn last(&mut self, table: u32) -> Result<Option<i64>>;
}
