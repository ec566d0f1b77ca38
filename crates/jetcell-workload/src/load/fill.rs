//! The create phase: fills all databases to their size in parallel. One thread fills each table in key order and begins
//! after the last existing key. The records are those of [`filling`], no matter which thread adds them and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ese_engine::Error;
use parking_lot::Mutex;

use crate::engine::{Commit, Result, Session, Store};
use crate::layout::Plan;
use crate::load::record::{Place, filling, row};
use crate::measurement::Snapshot;
use crate::observer::{Heartbeat, Observer, Phase, StopSignal};
use crate::profile::Profile;

/// Records inserted in one transaction: few enough to keep the version store small.
const RECORDS_PER_TRANSACTION: usize = 32;

/// Fills the databases. A stop request ends it early; records that were added so far are committed.
pub(crate) fn fill(
    store: &dyn Store,
    plan: &Plan,
    profile: &Profile,
    stop: &StopSignal,
    observer: &mut dyn Observer,
) -> Result<()> {
    let total = plan.initial_bytes();
    let filled = || (0..plan.instances.len()).map(|database| store.database_bytes(database)).sum::<u64>();
    observer.begin(Phase::Create, total);
    observer.advance(filled().min(total), "");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = (processors / plan.instances.len()).clamp(1, plan.tables as usize);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let quit = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (database, instance) in plan.instances.iter().enumerate() {
            for worker in 0..workers {
                let filler = Filler { store, profile, database, target: instance.initial_bytes };
                let (stop, quit, failure) = (stop, &quit, &failure);
                let tables: Vec<u32> = (worker as u32..plan.tables).step_by(workers).collect();
                let done = move || stop.is_set() || quit.load(Ordering::Relaxed);
                running.push(scope.spawn(move || {
                    if let Err(error) = filler.run(&tables, &done) {
                        failure.lock().get_or_insert(error);
                        quit.store(true, Ordering::Relaxed);
                    }
                }));
            }
        }
        let (began, mut heartbeat) = (Instant::now(), Heartbeat::new());
        while !running.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            observer.advance(filled().min(total), "");
            heartbeat.beat(observer, || Snapshot {
                at: began.elapsed().as_secs_f64(),
                io: store.io(),
                cache: store.cache(),
                operations: 0,
            });
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

struct Filler<'a> {
    store: &'a dyn Store,
    profile: &'a Profile,
    database: usize,
    target: u64,
}

impl Filler<'_> {
    fn run(&self, tables: &[u32], done: &dyn Fn() -> bool) -> Result<()> {
        let mut session = self.store.session(self.database)?;
        session.begin()?;
        let ends = tables.iter().map(|table| Ok((*table, session.last(*table)?.unwrap_or(0) + 1)));
        let mut ends: Vec<(u32, i64)> = ends.collect::<Result<_>>()?;
        session.commit(Commit::Lazy)?;
        loop {
            for (table, next_id) in &mut ends {
                if done() || self.store.database_bytes(self.database) >= self.target {
                    return Ok(());
                }
                self.insert_some(&mut *session, *table, *next_id)?;
                *next_id += RECORDS_PER_TRANSACTION as i64;
            }
        }
    }

    fn insert_some(&self, session: &mut dyn Session, table: u32, first: i64) -> Result<()> {
        let place = Place { database: self.database as u32, table };
        session.begin()?;
        for id in first..first + RECORDS_PER_TRANSACTION as i64 {
            let row = row(&self.profile.records, place, id, &filling(self.profile, place, id));
            if let Err(error) = session.insert(table, &row) {
                // The first error says more than an error of the rollback after it.
                let _ = session.rollback();
                return Err(error);
            }
        }
        session.commit(Commit::Lazy)
    }
}
