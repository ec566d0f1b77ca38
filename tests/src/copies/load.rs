//! The active side of a story: an instance with one table, the work of a client, and the commits on which the client
//! relies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, Database, DatabaseOptions, DefragKind, DefragOptions,
    Error, IndexDefinition, Instance, InstanceOptions, MaintenanceThrottle, Result, ScanOptions,
    SeekRelation, Session, Table, TableDefinition,
};
use ese_format::record::{ColumnType, Value};
use ese_format::{LogPosition, PageSize};
use jetcell_vfs::Vfs;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::hosts::HostDisks;

/// Page size of the databases.
pub const SIZE: PageSize = PageSize::KIB_4;
/// Key of the row that contains the number of the last transaction.
const NUMBER_KEY: i32 = -1;
/// First key of the rows of the transaction that stays open.
const UNFINISHED_KEYS: i32 = 10_000;

/// Rows by key: length and byte value of the body.
type RowBodies = BTreeMap<i32, (usize, u8)>;

/// Every committed state, and the last state that the client knows to be durable.
pub struct CommittedModel {
    /// State after each transaction; the first state is empty.
    states: Vec<RowBodies>,
    /// Log position of each commit.
    positions: Vec<LogPosition>,
    /// Number of the last transaction that was acknowledged as durable.
    pub durable: usize,
}

impl CommittedModel {
    /// Creates a model without any commits.
    pub fn new() -> CommittedModel {
        CommittedModel { states: vec![RowBodies::new()], positions: vec![LogPosition::MIN], durable: 0 }
    }

    /// Returns the number of committed transactions.
    pub fn commits(&self) -> usize {
        self.states.len() - 1
    }

    /// Returns the number of the last transaction that was committed before a generation.
    pub fn last_before(&self, generation: u32) -> usize {
        self.positions.iter().rposition(|position| position.generation.0 < generation).unwrap_or(0)
    }

    /// Makes the state that an instance found the current and durable state.
    pub fn continue_from(&mut self, number: usize) {
        self.states.truncate(number + 1);
        self.positions.truncate(number + 1);
        self.durable = number;
    }
}

impl Default for CommittedModel {
    fn default() -> CommittedModel {
        CommittedModel::new()
    }
}

/// A running active side.
pub struct ActiveSide {
    pub instance: Arc<Instance>,
    pub database: Arc<Database>,
    session: Session,
    /// Session with a transaction that stays open. An activation has to roll it back.
    other_session: Session,
}

impl ActiveSide {
    /// Opens the instance on a host, with recovery. Creates the database and the table if they do not exist.
    pub fn open(hosts: &HostDisks, host: usize, seed: u64) -> Result<ActiveSide> {
        let directory = HostDisks::store(host);
        let vfs: Arc<dyn Vfs> = Arc::new(hosts.clone());
        vfs.create_directory(&directory).map_err(|e| Error::io(&directory, &e))?;
        let cache = Cache::new(CacheOptions::new(96 * SIZE.bytes(), SIZE, vfs.clock()));
        let mut options = InstanceOptions::with_cache(vfs.clone(), directory.clone(), cache);
        (options.background, options.log.file_size, options.log.circular) =
            (BackgroundThreads::None, 64 << 10, true);
        (options.checkpoint.depth, options.seed) = (96 << 10, Some(seed));
        let instance = Instance::open(options)?;
        let path = directory.join("data.edb");
        let exists = vfs.exists(&path).map_err(|e| Error::io(&path, &e))?;
        let database = if exists {
            instance.attach(&path, 32)?
        } else {
            instance.create_database(&path, &DatabaseOptions::default())?
        };
        let mut session = instance.session();
        if !exists {
            create_table(&mut session, &database)?;
        }
        let other = instance.session();
        Ok(ActiveSide { instance, database, session, other_session: other })
    }

    /// Runs one transaction of the client.
    pub fn commit(&mut self, model: &mut CommittedModel, rng: &mut ChaCha8Rng) -> Result<()> {
        let mut table = self.session.open_table(&self.database, "t")?;
        let mut rows = model.states.last().cloned().unwrap_or_default();
        self.session.begin()?;
        for _ in 0..rng.random_range(1..6) {
            let key = rng.random_range(0..150);
            let row = (rng.random_range(1..2500), rng.random());
            if rows.contains_key(&key) && rng.random_bool(0.4) {
                seek(&mut table, &mut self.session, key)?;
                table.delete(&mut self.session)?;
                rows.remove(&key);
            } else {
                put(&mut table, &mut self.session, key, row)?;
                rows.insert(key, row);
            }
        }
        let number = model.states.len();
        put(&mut table, &mut self.session, NUMBER_KEY, (number, 0))?;
        let durable = rng.random_bool(0.4);
        // A commit that returns an error may still be durable.
        model.states.push(rows);
        model.positions.push(LogPosition::MAX);
        let id = self.session.commit(if durable { CommitMode::Durable } else { CommitMode::Lazy })?;
        model.positions[number] = id.0;
        if durable {
            model.durable = number;
        }
        Ok(())
    }

    /// Changes rows in the open transaction, or rolls it back.
    pub fn change_rows(&mut self, rng: &mut ChaCha8Rng) -> Result<()> {
        if rng.random_bool(0.2) {
            return self.end_other();
        }
        let mut table = self.other_session.open_table(&self.database, "t")?;
        if self.other_session.level() == 0 {
            self.other_session.begin()?;
        }
        put(
            &mut table,
            &mut self.other_session,
            UNFINISHED_KEYS + rng.random_range(0..20),
            (rng.random_range(1..2000), 1),
        )
    }

    /// Rolls back the open transaction that runs alongside the client's transactions.
    pub fn end_other(&mut self) -> Result<()> {
        if self.other_session.level() > 0 { self.other_session.rollback() } else { Ok(()) }
    }

    /// Runs a step of the background work.
    pub fn step(&mut self, rng: &mut ChaCha8Rng) -> Result<()> {
        match rng.random_range(0..6) {
            0 => drop(self.instance.flush()?),
            1 => drop(self.instance.checkpoint()?),
            2 => self.instance.core().log().roll_over()?,
            _ => {}
        }
        self.instance.exchange_pages()?;
        self.instance.step()
    }

    /// Begins maintenance, or runs some steps of it.
    pub fn maintain(&mut self, rng: &mut ChaCha8Rng) -> Result<()> {
        let throttle = MaintenanceThrottle::default();
        match rng.random_range(0..4) {
            0 => drop(self.start_scan(rng.random_bool(0.5))?),
            1 => {
                let kind =
                    if rng.random_bool(0.5) { DefragKind::Compaction } else { DefragKind::SequentialLayout };
                let options = DefragOptions { kind, throttle, single_pass: true, ..DefragOptions::default() };
                self.instance.start_defragmentation(&self.database, options)?;
            }
            _ => {}
        }
        (0..rng.random_range(1..12)).try_for_each(|_| self.instance.step())
    }

    fn start_scan(&self, zero: bool) -> Result<bool> {
        let options = ScanOptions {
            throttle: MaintenanceThrottle::default(),
            batch_bytes: 64 << 10,
            zero,
            single_pass: true,
            ..ScanOptions::default()
        };
        self.instance.start_maintenance(&self.database, options)
    }

    /// Reads all pages of the database, and logs their states.
    pub fn scan(&self) -> Result<()> {
        self.instance.stop_scan(&self.database);
        self.start_scan(false)?;
        while self.database.scan_progress().running {
            self.instance.step()?;
        }
        Ok(())
    }

    /// Rolls over the log.
    pub fn roll(&self) -> Result<()> {
        self.instance.core().log().roll_over()?;
        self.instance.step()
    }

    /// Returns the number of the last transaction in the table. Fails unless the rows are those of that transaction.
    pub fn number(&mut self, model: &CommittedModel, context: &str) -> usize {
        let found = rows(&mut self.session, &self.database);
        let found = found.unwrap_or_else(|error| panic!("{context}: reading: {error}"));
        let number = found.get(&NUMBER_KEY).map_or(0, |(number, _)| *number);
        let rows: RowBodies = found.into_iter().filter(|(key, _)| *key != NUMBER_KEY).collect();
        let Some(expected) = model.states.get(number) else {
            panic!("{context}: transaction {number} of {} is there", model.commits())
        };
        assert!(rows == *expected, "{context}: the rows are not those of transaction {number}");
        number
    }

    /// Shuts down cleanly.
    pub fn shut_down(mut self) -> Result<()> {
        self.end_other()?;
        let ActiveSide { instance, database, session, other_session: other } = self;
        drop((session, other, database));
        instance.shutdown()
    }
}

fn create_table(session: &mut Session, database: &Arc<Database>) -> Result<()> {
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("key", ColumnType::Long),
            ColumnDefinition::new("number", ColumnType::Long),
            ColumnDefinition::new("body", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("by key", &["key"]).primary(),
            IndexDefinition::new("by number", &["number"]),
        ],
        ..TableDefinition::default()
    };
    session.begin()?;
    session.create_table(database, &definition)?;
    session.commit(CommitMode::Durable).map(|_| ())
}

fn seek(table: &mut Table, session: &mut Session, key: i32) -> Result<bool> {
    table.seek(session, &[Value::Long(key)], SeekRelation::Equal)
}

/// Inserts or replaces a row. The row with the transaction number has no body.
fn put(table: &mut Table, session: &mut Session, key: i32, (len, byte): (usize, u8)) -> Result<()> {
    let [id, number, body] = ["key", "number", "body"].map(|name| table.column(name).expect("it has it"));
    let bytes = if key == NUMBER_KEY { Vec::new() } else { vec![byte; len] };
    let values = [(number, Value::Long(len as i32)), (body, Value::Binary(bytes))];
    if seek(table, session, key)? {
        table.replace(session, &values)
    } else {
        table.insert(session, &[&[(id, Value::Long(key))][..], &values].concat())
    }
}

fn rows(session: &mut Session, database: &Arc<Database>) -> Result<RowBodies> {
    let mut table = session.open_table(database, "t")?;
    let [id, number, body] = ["key", "number", "body"].map(|name| table.column(name).expect("it has it"));
    let mut rows = RowBodies::new();
    let mut found = table.first(session)?;
    while found {
        let Value::Long(key) = table.get(session, id)? else { return Err(Error::RecordNotFound) };
        let Value::Long(len) = table.get(session, number)? else { return Err(Error::RecordNotFound) };
        let bytes = if let Value::Binary(bytes) = table.get(session, body)? { bytes } else { Vec::new() };
        let byte = bytes.first().copied().unwrap_or(0);
        let whole = key == NUMBER_KEY || bytes.len() == len as usize && bytes.iter().all(|b| *b == byte);
        assert!(whole, "only a part of row {key} exists");
        rows.insert(key, (len as usize, byte));
        found = table.next(session)?;
    }
    Ok(rows)
}

/// Returns the comparable pages of a host's database.
pub fn pages(hosts: &HostDisks, host: usize) -> Vec<Vec<u8>> {
    let path = HostDisks::store(host).join("data.edb");
    let database = hosts.disk(host).contents(Path::new(&path)).expect("the database is there");
    testkit::pages::comparable(&database, SIZE.bytes())
}

/// Returns the numbers of the pages that differ.
pub fn difference(theirs: &[Vec<u8>], ours: &[Vec<u8>]) -> Vec<usize> {
    let differs = |at: &usize| theirs.get(*at) != ours.get(*at);
    (0..theirs.len().max(ours.len())).filter(differs).map(|at| at + 1).collect()
}
