//! What the driver asks of an engine. It knows no engine, so that all of them get the same work.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Key of a record; keys compare as bytes.
pub type Key = [u8; 8];

/// A statement of a transaction.
pub enum Operation {
    /// A new record.
    Insert(Key, Vec<u8>),
    /// Removes a record that is there.
    Delete(Key),
    /// Gives a record that is there another value.
    Replace(Key, Vec<u8>),
    /// Reads a record that is there.
    Read(Key),
}

impl Operation {
    /// Does it change anything?
    pub fn is_update(&self) -> bool {
        !matches!(self, Operation::Read(_))
    }

    /// The key it is about.
    pub fn key(&self) -> &Key {
        match self {
            Operation::Insert(key, _) | Operation::Delete(key) => key,
            Operation::Replace(key, _) | Operation::Read(key) => key,
        }
    }

    /// Bytes of key and value that it brings.
    pub fn bytes(&self) -> u64 {
        let value = match self {
            Operation::Insert(_, value) | Operation::Replace(_, value) => value.len(),
            Operation::Delete(_) | Operation::Read(_) => 0,
        };
        (size_of::<Key>() + value) as u64
    }
}

/// Where and with how much memory a store works.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Its own directory.
    pub directory: PathBuf,
    /// Bytes of its cache, everything included that it lets one set.
    pub cache: u64,
    /// Bytes of log that a restart may have to read; engines that cannot set it use their habit.
    pub checkpoint_depth: u64,
    /// Our engine writes every dirty page before it leaves the cache, instead of keeping its edits.
    pub write_all: bool,
    /// Images of pages before the pages, where the engine writes in place and leaves the choice.
    pub page_protection: bool,
}

/// I/O that an engine counts itself; those that do not leave it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
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

impl Transfers {
    /// What happened after `earlier`.
    pub fn since(&self, earlier: &Transfers) -> Transfers {
        Transfers {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            log_writes: self.log_writes - earlier.log_writes,
            log_bytes: self.log_bytes - earlier.log_bytes,
        }
    }
}

/// What opening a store after a crash did, as far as the engine tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// Log records that change data and were read; `None` if the engine does not count.
    pub records: Option<u64>,
}

/// An open store.
pub trait Store: Send + Sync {
    /// What one thread works with.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// I/O since the store was opened.
    fn transfers(&self) -> Option<Transfers> {
        None
    }

    /// What opening it had to do.
    fn recovered(&self) -> Recovered {
        Recovered::default()
    }

    /// Writes everything to the files and syncs them; the store stays open.
    fn checkpoint(&self) -> Result<()>;

    /// Closes it cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A thread's way to a store.
pub trait Session {
    /// Runs the statements as one transaction and commits it, so that it survives a crash if `durable`, at some
    /// later time otherwise. The session may look ahead in the list. Deleting, replacing or reading a record that
    /// is not there is an error: the driver knows what is.
    fn execute(&mut self, operations: &[Operation], durable: bool) -> Result<()>;

    /// Reads one record, in no transaction but its own. False: it is not there.
    fn read(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool>;
}
