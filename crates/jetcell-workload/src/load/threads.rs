//! Threads of the load. The threads dispatch batches to the databases in turn ([`ThreadAssignment`]). A batch
//! consists of 16 updates and the matching share of reads. Each update is a separate transaction, so the share of
//! lazy commits applies to each update.
//!
//! The load does not remember live keys, so its memory does not grow with the database. The load finds a record with
//! a seek to a random position of the key range. If there is no record, or another thread has locked the record, the
//! thread tries once in each other table. If all attempts fail, the operation counts as a miss or a conflict.
//!
//! Each table has one counter for the keys of inserts, so no two threads insert the same key.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use ese_engine::Error::{RecordNotFound, VersionStoreFull, WriteConflict};
use parking_lot::Mutex;

use crate::engine::{CommitDurability, DatabaseStore, Result, StorageSession};
use crate::error::Error;
use crate::load::generator::{LoadOperation, LoadOperationKind, OperationGenerator};
use crate::load::load_schedule::{LoadSchedule, OperationPermit};
use crate::load::record::{TableLocation, row, verify};
use crate::load::thread_assignment::ThreadAssignment;
use crate::measurement::{LoadTally, OpenLoopBacklog};
use crate::profile::Profile;

/// Maximum number of operations in a batch, as a multiple of its updates. The limit applies to a mix with few
/// updates. A usual batch has about 25 operations.
const MAX_BATCH: u32 = 8;

/// Maximum number of tallies. A tally contains a few hundred KiB of distributions. If there are more threads, several
/// threads share a tally.
const MAX_TALLIES: usize = 16;

/// The load on a set of open databases.
pub(crate) struct DatabaseLoad<'a> {
    store: &'a dyn DatabaseStore,
    profile: &'a Profile,
    databases: usize,
    next_ids: Vec<Vec<AtomicI64>>,
    tallies: Vec<Mutex<LoadTally>>,
    turns: ThreadAssignment,
    pace: LoadSchedule,
    quit: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl<'a> DatabaseLoad<'a> {
    /// Creates the load. Reads the last key of each table.
    pub(crate) fn new(
        store: &'a dyn DatabaseStore,
        databases: usize,
        profile: &'a Profile,
    ) -> Result<DatabaseLoad<'a>> {
        let mut next_ids = Vec::new();
        for database in 0..databases {
            let mut session = store.session(database)?;
            session.begin()?;
            let ends = (0..profile.records.tables)
                .map(|table| Ok(AtomicI64::new(session.last(table)?.unwrap_or(0) + 1)));
            next_ids.push(ends.collect::<Result<Vec<_>>>()?);
            session.commit(CommitDurability::Lazy)?;
        }
        let tally = || Mutex::new(LoadTally { batches: vec![0; databases], ..LoadTally::default() });
        Ok(DatabaseLoad {
            store,
            profile,
            databases,
            next_ids,
            tallies: (0..profile.threads.clamp(1, MAX_TALLIES)).map(|_| tally()).collect(),
            turns: ThreadAssignment::new(store.volumes(), profile.threads),
            pace: LoadSchedule::default(),
            quit: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// Runs the threads while `control` runs, then stops them. Returns the first error that stopped a thread.
    pub(crate) fn run<R>(&self, control: impl FnOnce(&DatabaseLoad<'a>) -> R) -> (R, Option<Error>) {
        let outcome = std::thread::scope(|scope| {
            for thread in 0..self.profile.threads {
                scope.spawn(move || {
                    if let Err(error) = self.run_thread(thread) {
                        self.failure.lock().get_or_insert(error);
                    }
                });
            }
            let outcome = control(self);
            self.quit.store(true, Relaxed);
            outcome
        });
        (outcome, self.failure.lock().clone())
    }

    /// Starts the open loop: all further operations start at this rate. Before this call, each thread runs without
    /// pauses.
    pub(crate) fn start_pace(&self, rate: f64) {
        self.pace.start(rate);
    }

    /// Returns how well the load keeps its rate.
    pub(crate) fn open_loop(&self) -> Option<OpenLoopBacklog> {
        self.pace.state()
    }

    /// Returns true if a thread has stopped with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Returns the number of operations so far, without copying histograms.
    pub(crate) fn operations(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.lock().total()).sum()
    }

    /// Returns the work since the last call of [`DatabaseLoad::take_tally`].
    pub(crate) fn tally(&self) -> LoadTally {
        let mut sum = LoadTally::default();
        self.tallies.iter().for_each(|tally| sum.add(&tally.lock()));
        sum
    }

    /// Returns the work done since the last call and resets the tallies.
    pub(crate) fn take_tally(&self) -> LoadTally {
        let mut sum = LoadTally::default();
        for tally in &self.tallies {
            let fresh = LoadTally { batches: vec![0; self.databases], ..LoadTally::default() };
            sum.add(&std::mem::replace(&mut *tally.lock(), fresh));
        }
        sum
    }

    fn run_thread(&self, thread: usize) -> Result<()> {
        let sessions: Result<Vec<_>> =
            (0..self.databases).map(|database| self.store.session(database)).collect();
        let mut worker = LoadWorker {
            load: self,
            sessions: sessions?,
            generator: OperationGenerator::new(self.profile, thread),
            tally: &self.tallies[thread % self.tallies.len()],
        };
        while !self.quit.load(Relaxed) {
            let turn = self.turns.take();
            worker.batch(turn.database)?;
        }
        Ok(())
    }
}

struct LoadWorker<'a> {
    load: &'a DatabaseLoad<'a>,
    sessions: Vec<Box<dyn StorageSession>>,
    generator: OperationGenerator,
    tally: &'a Mutex<LoadTally>,
}

/// Result of an operation that did not fail.
enum OperationOutcome {
    Done,
    Missed,
    Wrong(String),
}

impl LoadWorker<'_> {
    fn batch(&mut self, database: usize) -> Result<()> {
        let updates_wanted = self.load.profile.batch_updates;
        let (mut updates, mut operations) = (0, 0);
        while updates < updates_wanted && operations < updates_wanted * MAX_BATCH {
            if self.load.quit.load(Relaxed) {
                return Ok(());
            }
            let Some(turn) = self.load.pace.wait(&self.load.quit) else { return Ok(()) };
            let operation = self.generator.operation();
            operations += 1;
            updates += u32::from(operation.kind != LoadOperationKind::Read);
            self.operation(database, &operation, &turn)?;
        }
        self.tally.lock().batches[database] += 1;
        Ok(())
    }

    fn operation(
        &mut self,
        database: usize,
        operation: &LoadOperation,
        turn: &OperationPermit,
    ) -> Result<()> {
        let mut outcome = self.transaction(database, operation);
        for attempt in 1..=self.load.profile.records.tables {
            if operation.kind == LoadOperationKind::Insert || !is_miss(&outcome) {
                break;
            }
            let elsewhere = self.generator.redraw(operation, attempt);
            outcome = self.transaction(database, &elsewhere);
        }
        let us = turn.due.elapsed().as_micros() as u64;
        let mut tally = self.tally.lock();
        match outcome {
            Ok(OperationOutcome::Done) => {
                turn.complete();
                tally.operations[operation.kind as usize].record(us);
                tally.counts[operation.kind as usize] += 1;
            }
            Ok(OperationOutcome::Missed) => tally.misses += 1,
            Ok(OperationOutcome::Wrong(what)) => {
                tally.add_wrong(what);
            }
            Err(error) if is_retryable(&error) => tally.conflicts += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn transaction(&mut self, database: usize, operation: &LoadOperation) -> Result<OperationOutcome> {
        let session = &mut *self.sessions[database];
        session.begin()?;
        let place = TableLocation { database: database as u32, table: operation.table };
        let next_id = &self.load.next_ids[database][operation.table as usize];
        let outcome = change(session, self.load.profile, place, operation, next_id);
        let durable = operation.durable && operation.kind != LoadOperationKind::Read;
        match outcome {
            Ok(outcome) => {
                let started = Instant::now();
                session.commit(if durable { CommitDurability::Durable } else { CommitDurability::Lazy })?;
                if durable {
                    self.tally.lock().durable_commits.record(started.elapsed().as_micros() as u64);
                }
                Ok(outcome)
            }
            Err(error) => match session.rollback() {
                Err(second) if is_retryable(&error) => Err(second),
                _ => Err(error),
            },
        }
    }
}

/// Returns true if another table may have a record for the operation.
fn is_miss(outcome: &Result<OperationOutcome>) -> bool {
    matches!(outcome, Ok(OperationOutcome::Missed) | Err(Error::Engine(WriteConflict | RecordNotFound)))
}

/// Returns true if the load can continue with the next operation.
fn is_retryable(error: &Error) -> bool {
    matches!(error, Error::Engine(WriteConflict | RecordNotFound | VersionStoreFull { .. }))
}

fn change(
    session: &mut dyn StorageSession,
    profile: &Profile,
    place: TableLocation,
    operation: &LoadOperation,
    next_id: &AtomicI64,
) -> Result<OperationOutcome> {
    let table = place.table;
    if operation.kind == LoadOperationKind::Insert {
        let id = next_id.fetch_add(1, Relaxed);
        session.insert(table, &row(&profile.records, place, id, operation))?;
        return Ok(OperationOutcome::Done);
    }
    let wanted = operation.id_below(next_id.load(Relaxed));
    let found = match session.seek(table, wanted)? {
        Some(id) => Some(id),
        // All keys from here to the end are deleted, so the search continues at the first key.
        None => session.seek(table, 1)?,
    };
    let Some(id) = found else { return Ok(OperationOutcome::Missed) };
    match operation.kind {
        LoadOperationKind::Delete => session.delete(table)?,
        LoadOperationKind::Replace => session.replace(table, &row(&profile.records, place, id, operation))?,
        LoadOperationKind::Read | LoadOperationKind::Insert => {
            if let Err(wrong) = verify(place, &session.read(table)?) {
                return Ok(OperationOutcome::Wrong(wrong.to_string()));
            }
        }
    }
    Ok(OperationOutcome::Done)
}
