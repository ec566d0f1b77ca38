//! What a simulated session does. Each has tables of its own, so that transactions overlap without conflicts and
//! a state is simply the tables each session committed last.

use std::sync::Arc;

use ese_engine::btree::Seek;
use ese_engine::{CommitMode, Error, Result, Session};
use ese_format::LogPosition;
use ese_format::record::Value;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::World;
use super::life::Databases;
use super::model::{Columns, Row, State, definition, extra_index};

/// Tables a session may have in a database.
const TABLES: usize = 3;

/// One session and what its transaction should see.
pub(super) struct Worker {
    number: usize,
    session: Session,
    /// Own tables, as the innermost level sees them.
    own: State,
    /// The same at each begin.
    saved: Vec<State>,
}

/// Commits by id, with the number of the state they made.
pub(super) type Commits = Vec<(LogPosition, usize)>;

impl Worker {
    pub fn new(number: usize, session: Session) -> Worker {
        Worker { number, session, own: State::new(), saved: Vec::new() }
    }

    fn owns(&self, name: &str) -> bool {
        name.starts_with(&format!("S{}", self.number))
    }

    /// Some operations, maybe the begin or the end of a level.
    pub fn step(&mut self, world: &mut World, databases: &Databases, commits: &mut Commits) -> Result<()> {
        if self.saved.is_empty() {
            let committed = world.states.last().expect("there is a state");
            self.own = committed
                .iter()
                .filter(|(key, _)| self.owns(&key.1))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            self.begin()?;
        }
        for _ in 0..world.rng.random_range(1..10) {
            match world.rng.random_range(0..100) {
                0..6 if self.saved.len() < 4 => self.begin()?,
                6..10 if self.saved.len() > 1 => self.rollback()?,
                10..14 if self.saved.len() > 1 => {
                    self.session.commit(CommitMode::Lazy)?;
                    self.saved.pop();
                }
                14..17 => self.define(world, databases)?,
                _ => self.change(world, databases)?,
            }
        }
        if world.rng.random_bool(0.6) { self.finish(world, commits) } else { Ok(()) }
    }

    fn begin(&mut self) -> Result<()> {
        self.session.begin()?;
        self.saved.push(self.own.clone());
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.session.rollback()?;
        self.own = self.saved.pop().expect("levels are counted");
        Ok(())
    }

    /// Ends the transaction, if there is one.
    pub fn finish(&mut self, world: &mut World, commits: &mut Commits) -> Result<()> {
        if !self.saved.is_empty() && world.rng.random_bool(0.2) {
            while !self.saved.is_empty() {
                self.rollback()?;
            }
        }
        while self.saved.len() > 1 {
            self.session.commit(CommitMode::Lazy)?;
            self.saved.pop();
        }
        if self.saved.pop().is_none() {
            return Ok(());
        }
        let mut state = world.states.last().expect("there is a state").clone();
        state.retain(|key, _| !self.owns(&key.1));
        state.extend(std::mem::take(&mut self.own));
        // A commit that fails may have happened.
        world.states.push(state);
        let durable = world.rng.random_bool(0.3);
        let id = self.session.commit(if durable { CommitMode::Durable } else { CommitMode::Lazy })?;
        world.tally.commits += 1;
        let number = world.states.len() - 1;
        commits.push((id.0, number));
        if durable && id.0 > LogPosition::MIN {
            world.durable = number;
        }
        Ok(())
    }

    /// Creates a table or an index.
    fn define(&mut self, world: &mut World, databases: &Databases) -> Result<()> {
        let number = world.rng.random_range(0..databases.len());
        let Some(db) = &databases[number] else { return Ok(()) };
        let name = format!("S{}T{}", self.number, world.rng.random_range(0..TABLES));
        match self.own.get_mut(&(number, name.clone())) {
            None => {
                let auto = name.ends_with('0');
                self.session.create_table(db, &definition(&name, auto))?;
                self.own.insert((number, name), Arc::default());
            }
            Some(table) if !table.extra => {
                self.session.create_index(db, &name, &extra_index())?;
                Arc::make_mut(table).extra = true;
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Inserts, replaces or deletes one record, or many.
    fn change(&mut self, world: &mut World, databases: &Databases) -> Result<()> {
        if self.own.is_empty() {
            return self.define(world, databases);
        }
        let which = world.rng.random_range(0..self.own.len());
        let (key, model) = self.own.iter_mut().nth(which).expect("within the length");
        let Some(db) = &databases[key.0] else { return Ok(()) };
        let model = Arc::make_mut(model);
        let s = &mut self.session;
        let mut table = s.open_table(db, &key.1)?;
        let columns = Columns::of(&table);
        let auto = key.1.ends_with('0');
        let rng = &mut world.rng;
        let page = world.plan.size.bytes();
        let choice = rng.random_range(0..100);
        // Now and then most of a table goes, so that pages become empty.
        let several = if rng.random_bool(0.06) { rng.random_range(10..60) } else { 1 };
        for _ in 0..several {
            let id = rng.random_range(0..220);
            let there = table.seek(s, &[Value::Long(id)], Seek::GreaterOrEqual)?;
            let next = model.rows.range(id..).next().map(|(id, _)| *id);
            assert_eq!(there, next.is_some(), "{}: {key:?}: seek {id}", world.context);
            let size = if several > 1 { 300 } else { 3 * page };
            match (choice, next) {
                (0..50, _) => {
                    let row = random_row(rng, size);
                    let mut values = columns.values(&row);
                    if !auto {
                        values.push((columns.id, Value::Long(id)));
                    }
                    let duplicate = model.has_code(&row.code, None) || !auto && model.rows.contains_key(&id);
                    match table.insert(s, &values) {
                        Ok(()) => {
                            assert!(!duplicate, "{}: {key:?}: a duplicate was taken", world.context);
                            assert!(table.go_to_inserted(s)?, "{}: inserted row is gone", world.context);
                            let (stored, found) = columns.row(&mut table, s)?;
                            assert!(auto || stored == id);
                            assert_eq!(found, row, "{}: {key:?}: row {stored}", world.context);
                            assert!(
                                model.rows.insert(stored, row).is_none(),
                                "{}: {key:?}: id {stored} was given twice",
                                world.context
                            );
                        }
                        Err(Error::KeyDuplicate) if duplicate => {}
                        Err(error) => return Err(error),
                    }
                }
                (50..75, Some(id)) => {
                    let row = random_row(rng, size);
                    let duplicate = model.has_code(&row.code, Some(id));
                    match table.replace(s, &columns.values(&row)) {
                        Ok(()) => {
                            assert!(!duplicate, "{}: {key:?}: a duplicate was taken", world.context);
                            model.rows.insert(id, row);
                        }
                        Err(Error::KeyDuplicate) if duplicate => {}
                        Err(error) => return Err(error),
                    }
                }
                (75.., Some(id)) => {
                    table.delete(s)?;
                    model.rows.remove(&id);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn random_row(rng: &mut ChaCha8Rng, longest: usize) -> Row {
    Row {
        group: rng.random_bool(0.8).then(|| rng.random_range(-4..4)),
        code: format!("c{}", rng.random_range(0..2000)),
        short: rng.random_bool(0.7).then(|| bytes(rng, 200)),
        long: rng.random_bool(0.4).then(|| match rng.random_range(0..6) {
            0 => bytes(rng, longest),
            _ => bytes(rng, longest.min(1500)),
        }),
    }
}

/// Some random bytes; half of the time easy to compress.
fn bytes(rng: &mut ChaCha8Rng, longest: usize) -> Arc<[u8]> {
    let len = rng.random_range(1..longest);
    let same: u8 = rng.random();
    let noise = rng.random_bool(0.5);
    (0..len).map(|_| if noise { rng.random() } else { same }).collect()
}
