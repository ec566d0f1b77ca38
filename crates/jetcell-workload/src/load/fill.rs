//! The create phase. It loads the tables of all databases in parallel and in key order, with one thread per table.
//! [`fill_operation`] determines the records, so they do not depend on threads or timing.
//!
//! A table is loaded completely or not at all, so an interrupted creation resumes with the missing tables. If a
//! database is then smaller than its target size, records are inserted as in the load of a test.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jetcell_host::Cancellation;
use parking_lot::Mutex;

use crate::engine::{BulkLoadAction, CommitDurability, DatabaseStore, LoadRow, Result, StorageSession};
use crate::error::Error;
use crate::layout::RunPlan;
use crate::load::record::{TableLocation, fill_operation, row, set_row};
use crate::measurement::CounterSnapshot;
use crate::observer::{CounterHeartbeat, Observer, RunPhase};
use crate::profile::Profile;

/// Number of records inserted in one transaction. The number is small to limit the size of the version store.
const RECORDS_PER_TRANSACTION: usize = 32;
/// Size of a database without tables, in bytes.
const EMPTY_DATABASE_BYTES: u64 = 1 << 20;
/// Maximum size of a small table, in bytes. Loads of small tables mostly wait for syncs, so twice as many run as
/// there are processors.
const SMALL_TABLE_BYTES: u64 = 64 << 20;
/// Granularity of progress updates during a load, in bytes.
const PROGRESS_GRANULARITY_BYTES: u64 = 256 << 10;
/// Minimum and maximum memory for one load, in bytes.
const LOAD_MEMORY_RANGE: std::ops::RangeInclusive<u64> = 4 << 20..=96 << 20;

/// Fills the databases. A stop request ends the phase early. Completed tables and inserted records remain.
pub(crate) fn fill(
    store: &dyn DatabaseStore,
    plan: &RunPlan,
    profile: &Profile,
    stop: &Cancellation,
    observer: &mut dyn Observer,
) -> Result<()> {
    let total = plan.initial_bytes();
    observer.begin_phase(RunPhase::Create, total);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Bulk loads hardly use the page cache, so half of its memory is given to them.
    let largest = plan.instances.iter().map(|instance| instance.initial_bytes).max().unwrap_or(0);
    let wanted = max_concurrent_loads(largest / u64::from(plan.tables.max(1)), processors);
    let (workers, load_bytes) = memory_shares(plan.cache_bytes / 2, wanted);
    let filling = DatabaseFill {
        store,
        plan,
        profile,
        load_bytes,
        next: AtomicUsize::new(0),
        missing: plan.instances.iter().map(|_| AtomicU32::new(plan.tables)).collect(),
        filled: AtomicU64::new(0),
        failure: Mutex::default(),
        stop: stop.child(),
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(|| filling.load_tables())).collect();
        let (began, mut heartbeat) = (Instant::now(), CounterHeartbeat::new());
        while !running.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(100));
            observer.advance(filling.filled.load(Ordering::Relaxed).min(total), "");
            heartbeat.beat(observer, || CounterSnapshot {
                at: began.elapsed().as_secs_f64(),
                io: store.io(),
                cache: store.cache(),
                ..CounterSnapshot::default()
            });
        }
    });
    filling.failure.into_inner().map_or(Ok(()), Err)
}

/// Returns the maximum number of concurrent loads of tables up to this size.
fn max_concurrent_loads(table_bytes: u64, processors: usize) -> usize {
    if table_bytes <= SMALL_TABLE_BYTES { 2 * processors } else { processors }
}

/// Divides memory among at most `wanted` loads. Returns the number of loads and the memory of each in bytes.
fn memory_shares(memory: u64, wanted: usize) -> (usize, usize) {
    let most = usize::try_from(memory / LOAD_MEMORY_RANGE.start()).unwrap_or(usize::MAX).max(1);
    let workers = wanted.min(most);
    (workers, (memory / workers as u64).clamp(*LOAD_MEMORY_RANGE.start(), *LOAD_MEMORY_RANGE.end()) as usize)
}

/// State that all load threads share.
struct DatabaseFill<'a> {
    store: &'a dyn DatabaseStore,
    plan: &'a RunPlan,
    profile: &'a Profile,
    /// Memory for each load, in bytes.
    load_bytes: usize,
    /// Index of the next table to load, in the order of [`DatabaseFill::load_tables`].
    next: AtomicUsize,
    /// Number of tables in each database that are not loaded yet.
    missing: Vec<AtomicU32>,
    /// Number of bytes filled so far.
    filled: AtomicU64,
    failure: Mutex<Option<Error>>,
    /// Cancelled on request, or after a failure.
    stop: Cancellation,
}

impl DatabaseFill<'_> {
    /// Loads tables until all tables are loaded. The first tables of all databases are loaded first, so all volumes
    /// are busy.
    fn load_tables(&self) {
        let databases = self.plan.instances.len();
        let tables = databases * self.plan.tables as usize;
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            if next >= tables || self.stop.is_cancelled() {
                return;
            }
            let place =
                TableLocation { database: (next % databases) as u32, table: (next / databases) as u32 };
            let loaded = self.load(place);
            let is_last = self.missing[next % databases].fetch_sub(1, Ordering::AcqRel) == 1;
            let filled = loaded.and_then(|()| {
                if is_last && !self.stop.is_cancelled() { self.top_up(place.database) } else { Ok(()) }
            });
            if let Err(error) = filled {
                self.failure.lock().get_or_insert(error);
                self.stop.cancel();
            }
        }
    }

    /// Loads a table, unless it exists. Each table gets an equal share of the size of its database.
    fn load(&self, place: TableLocation) -> Result<()> {
        let database = place.database as usize;
        let target = self.plan.instances[database].initial_bytes.saturating_sub(EMPTY_DATABASE_BYTES);
        let part = target / u64::from(self.plan.tables.max(1));
        let mut counted = 0;
        // Counting every row would cause contention between the threads.
        let mut count = |bytes: u64, least: u64| {
            let more = bytes.saturating_sub(counted);
            if more >= least {
                self.filled.fetch_add(more, Ordering::Relaxed);
                counted = bytes;
            }
        };
        if self.store.has_table(database, place.table)? {
            count(part, 1);
            return Ok(());
        }
        let mut id = 0;
        let mut next = |bytes: u64, row: &mut LoadRow| {
            if self.stop.is_cancelled() {
                return BulkLoadAction::Stop;
            }
            if bytes >= part {
                return BulkLoadAction::End;
            }
            count(bytes, PROGRESS_GRANULARITY_BYTES);
            id += 1;
            set_row(row, &self.profile.records, place, id, &fill_operation(self.profile, place, id));
            BulkLoadAction::Row
        };
        self.store.load_table(database, place.table, self.load_bytes, &mut next, &self.stop)?;
        if !self.stop.is_cancelled() {
            count(part, 1);
        }
        Ok(())
    }

    /// Inserts records until the database has its target size.
    fn top_up(&self, database: u32) -> Result<()> {
        let target = self.plan.instances[database as usize].initial_bytes;
        let is_full = || self.stop.is_cancelled() || self.store.database_bytes(database as usize) >= target;
        if is_full() {
            return Ok(());
        }
        let mut session = self.store.session(database as usize)?;
        session.begin()?;
        let ends = (0..self.plan.tables).map(|table| Ok((table, session.last(table)?.unwrap_or(0) + 1)));
        let mut ends: Vec<(u32, i64)> = ends.collect::<Result<_>>()?;
        session.commit(CommitDurability::Lazy)?;
        loop {
            for (table, next_id) in &mut ends {
                if is_full() {
                    return Ok(());
                }
                self.insert_some(&mut *session, TableLocation { database, table: *table }, *next_id)?;
                *next_id += RECORDS_PER_TRANSACTION as i64;
            }
        }
    }

    fn insert_some(&self, session: &mut dyn StorageSession, place: TableLocation, first: i64) -> Result<()> {
        session.begin()?;
        for id in first..first + RECORDS_PER_TRANSACTION as i64 {
            let row = row(&self.profile.records, place, id, &fill_operation(self.profile, place, id));
            if let Err(error) = session.insert(place.table, &row) {
                // The first error is more informative than an error of the rollback that follows.
                let _ = session.rollback();
                return Err(error);
            }
        }
        session.commit(CommitDurability::Lazy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_stay_within_memory_with_any_processor_count() {
        assert_eq!(memory_shares(128 << 20, 2), (2, 64 << 20));
        assert_eq!(memory_shares(48 << 20, 64), (12, 4 << 20));
        assert_eq!(memory_shares(4 << 30, 2), (2, 96 << 20));
        assert_eq!((max_concurrent_loads(64 << 20, 2), max_concurrent_loads(65 << 20, 2)), (4, 2));
        // A load always gets the minimum memory, even if the available memory is smaller.
        assert_eq!(memory_shares(1 << 20, 64), (1, 4 << 20));
    }
}
