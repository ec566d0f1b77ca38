//! Loads a store and drives it with the mix. All engines run through this code.

use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::store::{BenchStore, EngineTransfers, LOAD_BATCH, StoreStatement};
use crate::usage::{ProcessUsage, UsageDelta, peak_memory};
use crate::workload::{
    DrawnOperation, FastRandom, LiveRecord, MEAN_RECORD_BYTES, SessionRecords, StoreRecords, key_of, value,
};

/// Options of the load on a store.
#[derive(Clone, Copy, Debug)]
pub struct MixOptions {
    /// Threads, each with a session.
    pub threads: u32,
    /// Updates per transaction. With 1, each read is a transaction of its own.
    pub updates: u32,
    /// Percent of updating transactions that commit durably.
    pub durable_percent: u64,
    /// Measured time.
    pub window: Duration,
    /// If set, the threads replace only this many records each, instead of running the mail mix.
    pub hot_records: Option<usize>,
    /// Seed of the operations.
    pub seed: u64,
}

/// Result of the mix.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MixResult {
    /// Resources used in the window.
    pub used: UsageDelta,
    /// Operations in the window, including reads.
    pub operations: u64,
    /// Reads among the operations.
    pub reads: u64,
    /// Updating transactions.
    pub transactions: u64,
    /// Durable transactions among them.
    pub durable: u64,
    /// Bytes of keys and values that were inserted or replaced.
    pub logical: u64,
    /// Latency of lazy transactions in microseconds.
    pub lazy_us: BenchLatencies,
    /// Latency of durable transactions in microseconds.
    pub durable_us: BenchLatencies,
    /// Latency of reads in transactions of their own, in microseconds.
    pub read_us: BenchLatencies,
    /// I/O as the engine counts it, if it does.
    pub transfers: Option<EngineTransfers>,
    /// Peak resident memory in bytes.
    pub peak_memory: u64,
    /// Bytes of keys and values in the store at the end.
    pub live: u64,
}

/// Summary of a latency distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchLatencies {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
}

impl BenchLatencies {
    /// Summarizes a histogram.
    pub fn from_histogram(histogram: &Histogram<u64>) -> BenchLatencies {
        let at = |quantile| histogram.value_at_quantile(quantile);
        BenchLatencies { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: histogram.max() }
    }
}

/// Result of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadResult {
    /// Resources used from the first record to the closed store.
    pub used: UsageDelta,
    /// Bytes of keys and values.
    pub logical: u64,
    /// Records.
    pub records: u64,
    /// Peak resident memory in bytes.
    pub peak_memory: u64,
}

/// Fills a new store with about `bytes` of records in key order with one thread, and closes it. `bulk`: in the
/// engine's fastest way.
pub fn load(
    store: Box<dyn BenchStore>,
    bytes: u64,
    directory: &Path,
    bulk: bool,
) -> Result<(LoadResult, StoreRecords)> {
    let count = u32::try_from(bytes / MEAN_RECORD_BYTES)
        .context("the number of records exceeds the number of ids")?;
    let mut ids: Vec<u32> = (0..count).collect();
    ids.sort_unstable_by_key(|id| key_of(*id));
    let mut random = FastRandom::new(count.into());
    let mut live = Vec::with_capacity(ids.len());
    let before = ProcessUsage::now(directory)?;
    let mut logical = 0;
    let mut records = ids.into_iter().map(|id| {
        let (one, value) = value(&mut random, id);
        logical += one.bytes();
        live.push(one);
        (one.key(), value)
    });
    if bulk {
        store.bulk_load(&mut || records.next())?;
    } else {
        let mut session = store.session()?;
        loop {
            let batch = records.by_ref().take(LOAD_BATCH);
            let batch: Vec<StoreStatement> =
                batch.map(|(key, value)| StoreStatement::Insert(key, value)).collect();
            if batch.is_empty() {
                break;
            }
            session.execute(&batch, false)?;
        }
    }
    drop(records);
    store.close()?;
    let used = before.until_now(directory)?;
    let records = StoreRecords { live, next: count };
    let result = LoadResult { used, logical, records: u64::from(count), peak_memory: peak_memory() };
    Ok((result, records))
}

/// Phases of the mix.
const WARMING: u8 = 0;
const MEASURED: u8 = 1;
const STOPPED: u8 = 2;

/// Length of the warm-up before a window.
pub fn warm_up(window: Duration) -> Duration {
    (window / 4).max(Duration::from_secs(3))
}

/// Drives an open store through warm-up and window. Returns the result and the records that exist afterwards.
pub fn mix(
    store: &dyn BenchStore,
    mix: MixOptions,
    records: StoreRecords,
    directory: &Path,
) -> Result<(MixResult, StoreRecords)> {
    let warm_up = warm_up(mix.window);
    let phase = &AtomicU8::new(WARMING);
    let parts = records.partition(mix.threads, mix.seed);
    thread::scope(|scope| {
        let start = |records: SessionRecords| {
            // A failed thread stops the other threads.
            let work = move || {
                drive(store, mix, records, phase).inspect_err(|_| phase.store(STOPPED, Ordering::Release))
            };
            scope.spawn(work)
        };
        let threads: Vec<_> = parts.into_iter().map(start).collect();
        let wait = |time: Duration| {
            let end = Instant::now() + time;
            while Instant::now() < end && phase.load(Ordering::Acquire) != STOPPED {
                thread::sleep(Duration::from_millis(10).min(end - Instant::now()));
            }
        };
        wait(warm_up);
        let transfers = store.transfers();
        let before = ProcessUsage::now(directory)?;
        let _ = phase.compare_exchange(WARMING, MEASURED, Ordering::AcqRel, Ordering::Acquire);
        wait(mix.window);
        phase.store(STOPPED, Ordering::Release);
        let used = before.until_now(directory)?;
        let transfers = store.transfers().zip(transfers).map(|(now, then)| now.since(&then));
        let mut all = ThreadCounts::default();
        let mut parts = Vec::new();
        for thread in threads {
            let (records, tally) = thread.join().map_err(|_| anyhow!("a session panicked"))??;
            all.add(&tally);
            parts.push(records);
        }
        let records = StoreRecords::merge(parts);
        Ok((all.result(used, transfers, records.bytes()), records))
    })
}

/// Drives a store until `updates` updates have been made, without measuring. Each thread ends with a durable commit,
/// so a crash afterwards must lose nothing. Returns the number of updates and the records.
pub fn update(
    store: &dyn BenchStore,
    mix: MixOptions,
    updates: u64,
    records: StoreRecords,
) -> Result<(u64, StoreRecords)> {
    let made = &AtomicU64::new(0);
    thread::scope(|scope| {
        let start = |mut records: SessionRecords| {
            scope.spawn(move || -> Result<SessionRecords> {
                let mut session = store.session()?;
                loop {
                    let operations = draw_transaction(&mut records, mix);
                    let last = made.fetch_add(mix.updates.into(), Ordering::Relaxed) >= updates;
                    let durable = last || records.chance(mix.durable_percent);
                    session.execute(&operations, durable)?;
                    if last {
                        return Ok(records);
                    }
                }
            })
        };
        let threads: Vec<_> = records.partition(mix.threads, mix.seed).into_iter().map(start).collect();
        let mut parts = Vec::new();
        for thread in threads {
            parts.push(thread.join().map_err(|_| anyhow!("a session panicked"))??);
        }
        Ok((made.load(Ordering::Relaxed), StoreRecords::merge(parts)))
    })
}

/// Reads every `step`th record, starting with the last one, and compares it with what was written.
pub fn verify(store: &dyn BenchStore, records: &StoreRecords, step: usize) -> Result<()> {
    let mut session = store.session()?;
    let mut value = Vec::new();
    for one in records.live.iter().rev().step_by(step) {
        if !session.read(&one.key(), &mut value)? || !one.is_value(&value) {
            bail!("record {:02x?} differs from the written record", one.key());
        }
    }
    Ok(())
}

/// Draws the operations of one transaction with several updates. Reads are drawn in between.
fn draw_transaction(records: &mut SessionRecords, mix: MixOptions) -> Vec<StoreStatement> {
    let mut operations = Vec::with_capacity(2 * mix.updates as usize);
    let mut updates = 0;
    records.begin();
    while updates < mix.updates {
        let operation = match mix.hot_records {
            Some(count) => records.draw_hot(count),
            None => match records.draw() {
                DrawnOperation::Update(operation) => operation,
                DrawnOperation::Read(one) => StoreStatement::Read(one.key()),
            },
        };
        updates += u32::from(operation.is_update());
        operations.push(operation);
    }
    operations
}

fn drive(
    store: &dyn BenchStore,
    mix: MixOptions,
    mut records: SessionRecords,
    phase: &AtomicU8,
) -> Result<(SessionRecords, ThreadCounts)> {
    let mut session = store.session()?;
    let mut tally = ThreadCounts::default();
    let mut found = Vec::new();
    loop {
        let now = phase.load(Ordering::Acquire);
        if now == STOPPED {
            return Ok((records, tally));
        }
        let read =
            |one: LiveRecord, session: &mut Box<dyn crate::store::StoreSession + '_>, found: &mut Vec<u8>| {
                let start = Instant::now();
                if !session.read(&one.key(), found)? || !one.is_value(found) {
                    bail!("record {:02x?} differs from the written record", one.key());
                }
                Ok(start.elapsed())
            };
        let operations = if mix.updates == 1 && mix.hot_records.is_none() {
            records.begin();
            match records.draw() {
                DrawnOperation::Update(operation) => vec![operation],
                DrawnOperation::Read(one) => {
                    let took = read(one, &mut session, &mut found)?;
                    if now == MEASURED {
                        tally.operations += 1;
                        tally.reads += 1;
                        record(&mut tally.read_us, took);
                    }
                    continue;
                }
            }
        } else {
            draw_transaction(&mut records, mix)
        };
        let durable = records.chance(mix.durable_percent);
        let start = Instant::now();
        session.execute(&operations, durable)?;
        if now == MEASURED {
            tally.committed(&operations, durable, start.elapsed());
        }
    }
}

/// Counts of one thread in the window.
struct ThreadCounts {
    operations: u64,
    reads: u64,
    transactions: u64,
    durable: u64,
    logical: u64,
    lazy_us: Histogram<u64>,
    durable_us: Histogram<u64>,
    read_us: Histogram<u64>,
}

impl Default for ThreadCounts {
    fn default() -> ThreadCounts {
        let new = || Histogram::new_with_max(600_000_000, 3).expect("three digits are supported");
        ThreadCounts {
            operations: 0,
            reads: 0,
            transactions: 0,
            durable: 0,
            logical: 0,
            lazy_us: new(),
            durable_us: new(),
            read_us: new(),
        }
    }
}

fn record(histogram: &mut Histogram<u64>, took: Duration) {
    histogram.saturating_record(took.as_micros() as u64);
}

impl ThreadCounts {
    fn committed(&mut self, operations: &[StoreStatement], durable: bool, took: Duration) {
        self.operations += operations.len() as u64;
        self.reads += operations.iter().filter(|operation| !operation.is_update()).count() as u64;
        let written = |operation: &&StoreStatement| {
            matches!(operation, StoreStatement::Insert(..) | StoreStatement::Replace(..))
        };
        self.logical += operations.iter().filter(written).map(StoreStatement::bytes).sum::<u64>();
        self.transactions += 1;
        self.durable += u64::from(durable);
        record(if durable { &mut self.durable_us } else { &mut self.lazy_us }, took);
    }

    fn add(&mut self, other: &ThreadCounts) {
        self.operations += other.operations;
        self.reads += other.reads;
        self.transactions += other.transactions;
        self.durable += other.durable;
        self.logical += other.logical;
        self.lazy_us += &other.lazy_us;
        self.durable_us += &other.durable_us;
        self.read_us += &other.read_us;
    }

    fn result(&self, used: UsageDelta, transfers: Option<EngineTransfers>, live: u64) -> MixResult {
        MixResult {
            used,
            operations: self.operations,
            reads: self.reads,
            transactions: self.transactions,
            durable: self.durable,
            logical: self.logical,
            lazy_us: BenchLatencies::from_histogram(&self.lazy_us),
            durable_us: BenchLatencies::from_histogram(&self.durable_us),
            read_us: BenchLatencies::from_histogram(&self.read_us),
            transfers,
            peak_memory: peak_memory(),
            live,
        }
    }
}
