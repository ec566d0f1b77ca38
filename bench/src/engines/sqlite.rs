//! SQLite in WAL mode: a rowid table, pages of 4 KiB. One connection writes, under a mutex; each session reads with a
//! connection of its own. `synchronous` is FULL for durable transactions and NORMAL for others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Result, anyhow, ensure};
use rusqlite::{Connection, OptionalExtension, params};

use crate::store::{BenchStore, RecordKey, StoreOptions, StoreSession, StoreStatement};

/// Pages in the log at which SQLite writes the log back: 64 MiB.
const CHECKPOINT_PAGES: u32 = 16 << 10;
/// Sessions that share the readers' half of the cache.
const READERS: u64 = 8;

pub struct Sqlite {
    path: PathBuf,
    reader_cache: u64,
    writer: Mutex<Connection>,
}

impl Sqlite {
    pub fn open(options: &StoreOptions) -> Result<Sqlite> {
        let path = options.directory.join("records.sqlite");
        let writer = connect(&path, options.cache / 2)?;
        writer.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        writer.execute(
            "CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, value BLOB NOT NULL)",
            [],
        )?;
        Ok(Sqlite { path, reader_cache: options.cache / 2 / READERS, writer: Mutex::new(writer) })
    }
}

fn connect(path: &Path, cache: u64) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "cache_size", -i64::try_from(cache >> 10)?)?;
    connection.busy_timeout(std::time::Duration::from_secs(60))?;
    Ok(connection)
}

/// Row ids are signed.
fn id_of(key: &RecordKey) -> i64 {
    (u64::from_be_bytes(*key) ^ 1 << 63) as i64
}

fn get(connection: &Connection, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT value FROM records WHERE id = ?")?;
    let found = statement
        .query_row([id_of(key)], |row| {
            value.clear();
            value.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        })
        .optional()?;
    Ok(found.is_some())
}

impl BenchStore for Sqlite {
    fn session(&self) -> Result<Box<dyn StoreSession + '_>> {
        Ok(Box::new(SqliteSession { store: self, reader: connect(&self.path, self.reader_cache)? }))
    }

    fn checkpoint(&self) -> Result<()> {
        let writer = self.writer.lock().map_err(|_| anyhow!("a session panicked"))?;
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// One transaction without a journal, as SQLite's documentation advises: what a crash leaves of it is of no use.
    /// The file is synced at the end.
    fn bulk_load(&self, next: &mut dyn FnMut() -> Option<(RecordKey, Vec<u8>)>) -> Result<()> {
        let writer = self.writer.lock().map_err(|_| anyhow!("a session panicked"))?;
        writer.pragma_update(None, "journal_mode", "OFF")?;
        writer.pragma_update(None, "synchronous", "OFF")?;
        writer.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = writer.prepare_cached("INSERT INTO records (id, value) VALUES (?, ?)")?;
        while let Some((key, value)) = next() {
            insert.execute(params![id_of(&key), value])?;
        }
        writer.prepare_cached("COMMIT")?.execute([])?;
        File::open(&self.path)?.sync_all()?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()?;
        let writer = self.writer.into_inner().map_err(|_| anyhow!("a session panicked"))?;
        writer.close().map_err(|(_, error)| error.into())
    }
}

struct SqliteSession<'a> {
    store: &'a Sqlite,
    reader: Connection,
}

impl StoreSession for SqliteSession<'_> {
    fn execute(&mut self, operations: &[StoreStatement], durable: bool) -> Result<()> {
        let mut value = Vec::new();
        let writer = self.store.writer.lock().map_err(|_| anyhow!("a session panicked"))?;
        let synchronous = if durable { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
        writer.prepare_cached(synchronous)?.execute([])?;
        writer.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for operation in operations {
            let id = id_of(operation.key());
            let done = match operation {
                StoreStatement::Insert(_, value) => writer
                    .prepare_cached("INSERT INTO records (id, value) VALUES (?, ?)")?
                    .execute(params![id, value])?,
                StoreStatement::Delete(_) => {
                    writer.prepare_cached("DELETE FROM records WHERE id = ?")?.execute([id])?
                }
                StoreStatement::Replace(_, value) => writer
                    .prepare_cached("UPDATE records SET value = ? WHERE id = ?")?
                    .execute(params![value, id])?,
                StoreStatement::Read(key) => usize::from(get(&writer, key, &mut value)?),
            };
            ensure!(done == 1, "record {id} does not exist");
        }
        writer.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn read(&mut self, key: &RecordKey, value: &mut Vec<u8>) -> Result<bool> {
        get(&self.reader, key, value)
    }
}
