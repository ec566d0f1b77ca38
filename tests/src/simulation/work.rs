//! Operations of a simulated session. Each session has separate tables. Transactions therefore overlap without
//! conflicts, and a state consists of the tables that each session committed last.

use std::sync::Arc;

use ese_engine::SeekRelation;
use ese_engine::{CommitMode, Error, Result, Session, Table};
use ese_format::LogPosition;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::EngineSimulation;
use super::deep::{IDS, MAX_RANGE, is_deep};
use super::model::{
    AttachedDatabases, ModelRow, ModelState, TableColumns, TableModel, definition, extra_index,
};

/// Maximum number of tables per session and database.
const TABLES: usize = 3;

/// A session, and the content that its transaction should see.
pub(super) struct SimulatedSession {
    number: usize,
    session: Session,
    /// Tables of the session, as the innermost transaction level sees them.
    transaction_state: ModelState,
    /// Tables at the start of each transaction level.
    savepoints: Vec<ModelState>,
}

/// Commits by id, with the number of the resulting state.
pub(super) type CommitPositions = Vec<(LogPosition, usize)>;

impl SimulatedSession {
    pub fn new(number: usize, session: Session) -> SimulatedSession {
        SimulatedSession { number, session, transaction_state: ModelState::new(), savepoints: Vec::new() }
    }

    fn owns(&self, name: &str) -> bool {
        name.starts_with(&format!("S{}", self.number))
    }

    /// Runs some operations, and sometimes begins or ends a transaction level.
    pub fn step(
        &mut self,
        simulation: &mut EngineSimulation,
        databases: &AttachedDatabases,
        commits: &mut CommitPositions,
    ) -> Result<()> {
        if self.savepoints.is_empty() {
            let committed = simulation.states.last().expect("there is a state");
            self.transaction_state = committed
                .iter()
                .filter(|(key, _)| self.owns(&key.1))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            self.begin()?;
        }
        for _ in 0..simulation.rng.random_range(1..10) {
            match simulation.rng.random_range(0..100) {
                0..6 if self.savepoints.len() < 4 => self.begin()?,
                6..10 if self.savepoints.len() > 1 => self.rollback()?,
                10..14 if self.savepoints.len() > 1 => {
                    self.session.commit(CommitMode::Lazy)?;
                    self.savepoints.pop();
                }
                14..17 => self.define(simulation, databases)?,
                _ => self.change(simulation, databases)?,
            }
        }
        if simulation.rng.random_bool(0.6) { self.finish(simulation, commits) } else { Ok(()) }
    }

    fn begin(&mut self) -> Result<()> {
        self.session.begin()?;
        self.savepoints.push(self.transaction_state.clone());
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.session.rollback()?;
        self.transaction_state = self.savepoints.pop().expect("levels are counted");
        Ok(())
    }

    /// Ends the transaction, if there is one.
    pub fn finish(&mut self, simulation: &mut EngineSimulation, commits: &mut CommitPositions) -> Result<()> {
        if !self.savepoints.is_empty() && simulation.rng.random_bool(0.2) {
            while !self.savepoints.is_empty() {
                self.rollback()?;
            }
        }
        while self.savepoints.len() > 1 {
            self.session.commit(CommitMode::Lazy)?;
            self.savepoints.pop();
        }
        if self.savepoints.pop().is_none() {
            return Ok(());
        }
        let mut state = simulation.states.last().expect("there is a state").clone();
        state.retain(|key, _| !self.owns(&key.1));
        state.extend(std::mem::take(&mut self.transaction_state));
        // A commit that returned an error may still be durable.
        simulation.states.push(state);
        let durable = simulation.rng.random_bool(0.3);
        let id = self.session.commit(if durable { CommitMode::Durable } else { CommitMode::Lazy })?;
        simulation.tally.commits += 1;
        let number = simulation.states.len() - 1;
        commits.push((id.0, number));
        if durable && id.0 > LogPosition::MIN {
            simulation.durable = number;
        }
        Ok(())
    }

    /// Creates a table or an index.
    fn define(&mut self, simulation: &mut EngineSimulation, databases: &AttachedDatabases) -> Result<()> {
        let number = simulation.rng.random_range(0..databases.len());
        let Some(db) = &databases[number] else { return Ok(()) };
        let table = simulation.rng.random_range(0..TABLES);
        let name = match table {
            0 | 1 if simulation.plan.deep => format!("S{}D", self.number),
            _ => format!("S{}T{table}", self.number),
        };
        match self.transaction_state.get_mut(&(number, name.clone())) {
            None => {
                let auto = name.ends_with('0');
                self.session.create_table(db, &definition(&name, auto))?;
                self.transaction_state.insert((number, name), Arc::default());
            }
            Some(table) if !table.extra => {
                self.session.create_index(db, &name, &extra_index())?;
                Arc::make_mut(table).extra = true;
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Inserts, replaces, or deletes one or many records.
    fn change(&mut self, simulation: &mut EngineSimulation, databases: &AttachedDatabases) -> Result<()> {
        if self.transaction_state.is_empty() {
            return self.define(simulation, databases);
        }
        let which = simulation.rng.random_range(0..self.transaction_state.len());
        let (key, model) = self.transaction_state.iter_mut().nth(which).expect("within the length");
        let Some(db) = &databases[key.0] else { return Ok(()) };
        let s = &mut self.session;
        let table = s.open_table(db, &key.1)?;
        let columns = TableColumns::from_table(&table);
        let model = Arc::make_mut(model);
        let context = format!("{}: {key:?}", simulation.context);
        let auto = key.1.ends_with('0');
        let mut records = SessionRecordsView { s, table, columns, model, auto, context };
        let rng = &mut simulation.rng;
        if is_deep(&key.1) && rng.random_bool(0.15) {
            return records.change_range(rng);
        }
        let (ids, page) = (if is_deep(&key.1) { IDS } else { 220 }, simulation.plan.size.bytes());
        let choice = rng.random_range(0..100);
        // Occasionally the session deletes most of a table, which empties pages.
        let several = if rng.random_bool(0.06) { rng.random_range(10..60) } else { 1 };
        for _ in 0..several {
            let id = rng.random_range(0..ids);
            let next = records.seek(id)?;
            let size = if several > 1 { 300 } else { 3 * page };
            match (choice, next) {
                (0..50, _) => records.insert(id, random_row(rng, size))?,
                (50..75, Some(id)) => records.replace(id, random_row(rng, size))?,
                (75.., Some(id)) => records.delete(id)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The records of one table in the transaction of a session, and the expected content of the table.
struct SessionRecordsView<'a> {
    s: &'a mut Session,
    table: Table,
    columns: TableColumns,
    model: &'a mut TableModel,
    /// True if the engine assigns the ids.
    auto: bool,
    context: String,
}

impl SessionRecordsView<'_> {
    /// Positions the cursor on the first record with at least this id, and returns the id of that record.
    fn seek(&mut self, id: i32) -> Result<Option<i32>> {
        let there = self.table.seek(self.s, &[self.columns.key(id)], SeekRelation::GreaterOrEqual)?;
        let next = self.model.rows.range(id..).next().map(|(id, _)| *id);
        assert_eq!(there, next.is_some(), "{}: seek {id}", self.context);
        Ok(next)
    }

    fn insert(&mut self, id: i32, row: ModelRow) -> Result<()> {
        let mut values = self.columns.values(&row);
        if !self.auto {
            values.extend(self.columns.identity(id));
        }
        let duplicate =
            self.model.has_code(&row.code, None) || !self.auto && self.model.rows.contains_key(&id);
        match self.table.insert(self.s, &values) {
            Ok(()) => {
                assert!(!duplicate, "{}: the engine accepted a duplicate", self.context);
                assert!(self.table.go_to_inserted(self.s)?, "{}: no inserted record", self.context);
                let (stored, found) = self.columns.row(&mut self.table, self.s)?;
                assert!(self.auto || stored == id);
                assert_eq!(found, row, "{}: record {stored}", self.context);
                let before = self.model.rows.insert(stored, row);
                assert!(before.is_none(), "{}: the engine gave out id {stored} twice", self.context);
                Ok(())
            }
            Err(Error::KeyDuplicate) if duplicate => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the record under the cursor.
    fn replace(&mut self, id: i32, row: ModelRow) -> Result<()> {
        let duplicate = self.model.has_code(&row.code, Some(id));
        match self.table.replace(self.s, &self.columns.values(&row)) {
            Ok(()) => {
                assert!(!duplicate, "{}: the engine accepted a duplicate", self.context);
                self.model.rows.insert(id, row);
                Ok(())
            }
            Err(Error::KeyDuplicate) if duplicate => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the record under the cursor.
    fn delete(&mut self, id: i32) -> Result<()> {
        self.table.delete(self.s)?;
        self.model.rows.remove(&id);
        Ok(())
    }

    /// Fills or empties a range of keys.
    fn change_range(&mut self, rng: &mut ChaCha8Rng) -> Result<()> {
        let first = rng.random_range(0..IDS);
        let last = (first + rng.random_range(1..=MAX_RANGE)).min(IDS);
        // A table with few records grows, and a table with many records shrinks.
        let fill = rng.random_range(0..IDS as usize) > self.model.rows.len();
        for id in first..last {
            let next = self.seek(id)?;
            if !fill && next == Some(id) {
                self.delete(id)?;
            } else if fill && next != Some(id) {
                self.insert(id, wide_row(rng, id))?;
            }
        }
        Ok(())
    }
}

/// Creates a row that needs at least a third of a 4 KiB leaf.
fn wide_row(rng: &mut ChaCha8Rng, id: i32) -> ModelRow {
    let len = rng.random_range(700..1000);
    ModelRow {
        group: Some(rng.random_range(-4..4)),
        code: format!("wide{id}"),
        short: None,
        long: Some((0..len).map(|_| rng.random()).collect()),
    }
}

fn random_row(rng: &mut ChaCha8Rng, longest: usize) -> ModelRow {
    ModelRow {
        group: rng.random_bool(0.8).then(|| rng.random_range(-4..4)),
        code: format!("c{}", rng.random_range(0..2000)),
        short: rng.random_bool(0.7).then(|| bytes(rng, 200)),
        long: rng.random_bool(0.4).then(|| match rng.random_range(0..6) {
            0 => bytes(rng, longest),
            _ => bytes(rng, longest.min(1500)),
        }),
    }
}

/// Returns random bytes. Half of the results are easy to compress.
fn bytes(rng: &mut ChaCha8Rng, longest: usize) -> Arc<[u8]> {
    let len = rng.random_range(1..longest);
    let same: u8 = rng.random();
    let noise = rng.random_bool(0.5);
    (0..len).map(|_| if noise { rng.random() } else { same }).collect()
}
