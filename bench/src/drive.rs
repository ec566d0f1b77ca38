//! Loads and drives a store; the same code for every engine.

use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::store::{Operation, Store, Transfers};
use crate::usage::{Usage, Used, peak_memory};
use crate::work::{Drawn, Live, MEAN_RECORD, Random, Records, Share, key_of, value};

/// Records per transaction of a load.
const LOAD_BATCH: usize = 1000;

/// How a store is driven.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Threads, each with a session.
    pub threads: u32,
    /// Updating statements per transaction. With 1, reads are transactions of their own.
    pub updates: u32,
    /// Percent of the updating transactions that are durable.
    pub durable_percent: u64,
    /// Measured time.
    pub window: Duration,
    /// Replace only the first records of each thread, as many as this, instead of the mail mix.
    pub near: Option<usize>,
    /// For the streams of operations.
    pub seed: u64,
}

/// What driving a store came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MixResult {
    /// CPU, disk and other processes in the window.
    pub used: Used,
    /// Operations in the window, reads included.
    pub operations: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Updating transactions.
    pub transactions: u64,
    /// Of these, durable.
    pub durable: u64,
    /// Bytes of keys and values that inserts and replaces brought.
    pub logical: u64,
    /// Microseconds of transactions that were not durable.
    pub lazy_us: Latencies,
    /// Microseconds of durable transactions.
    pub durable_us: Latencies,
    /// Microseconds of reads on their own.
    pub read_us: Latencies,
    /// I/O as the engine counts it.
    pub transfers: Option<Transfers>,
    /// Most memory used, in bytes.
    pub peak_memory: u64,
    /// Bytes of keys and values in the store at the end.
    pub live: u64,
}

/// A distribution in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Median.
    pub p50: u64,
    /// 99 of 100 are not longer.
    pub p99: u64,
    /// 999 of 1000 are not longer.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latencies {
    /// The short form of a distribution.
    pub fn of(histogram: &Histogram<u64>) -> Latencies {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Latencies { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: histogram.max() }
    }
}

/// What a load came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadResult {
    /// CPU and disk from the first record to the closed store.
    pub used: Used,
    /// Bytes of keys and values.
    pub logical: u64,
    /// Records.
    pub records: u64,
    /// Most memory used, in bytes.
    pub peak_memory: u64,
}

/// Fills a new store with about `bytes` of records in key order, one thread, and closes it.
pub fn load(store: Box<dyn Store>, bytes: u64, directory: &Path) -> Result<(LoadResult, Records)> {
    let count = u32::try_from(bytes / MEAN_RECORD).context("so many records have no ids")?;
    let mut ids: Vec<u32> = (0..count).collect();
    ids.sort_unstable_by_key(|id| key_of(*id));
    let mut random = Random::new(count.into());
    let mut live = Vec::with_capacity(ids.len());
    let before = Usage::now(directory)?;
    let mut logical = 0;
    let mut session = store.session()?;
    for batch in ids.chunks(LOAD_BATCH) {
        let mut operations = Vec::with_capacity(batch.len());
        for id in batch {
            let (one, value) = value(&mut random, *id);
            logical += one.bytes();
            operations.push(Operation::Insert(one.key(), value));
            live.push(one);
        }
        session.execute(&operations, false)?;
    }
    drop(session);
    store.close()?;
    let used = before.until_now(directory)?;
    let records = Records { live, next: count };
    let result = LoadResult { used, logical, records: u64::from(count), peak_memory: peak_memory() };
    Ok((result, records))
}

/// What threads are doing.
const WARMING: u8 = 0;
const MEASURED: u8 = 1;
const STOPPED: u8 = 2;

/// How long a store is driven before a window.
pub fn warm_up(window: Duration) -> Duration {
    (window / 4).max(Duration::from_secs(3))
}

/// Drives an open store through warm-up and window. The records are those afterwards.
pub fn mix(store: &dyn Store, mix: Mix, records: Records, directory: &Path) -> Result<(MixResult, Records)> {
    let warm_up = warm_up(mix.window);
    let phase = &AtomicU8::new(WARMING);
    let shares = records.deal(mix.threads, mix.seed);
    thread::scope(|scope| {
        let start = |share: Share| {
            // A thread that fails stops the others.
            let work = move || {
                drive(store, mix, share, phase).inspect_err(|_| phase.store(STOPPED, Ordering::Release))
            };
            scope.spawn(work)
        };
        let threads: Vec<_> = shares.into_iter().map(start).collect();
        let wait = |time: Duration| {
            let end = Instant::now() + time;
            while Instant::now() < end && phase.load(Ordering::Acquire) != STOPPED {
                thread::sleep(Duration::from_millis(10).min(end - Instant::now()));
            }
        };
        wait(warm_up);
        let transfers = store.transfers();
        let before = Usage::now(directory)?;
        let _ = phase.compare_exchange(WARMING, MEASURED, Ordering::AcqRel, Ordering::Acquire);
        wait(mix.window);
        phase.store(STOPPED, Ordering::Release);
        let used = before.until_now(directory)?;
        let transfers = store.transfers().zip(transfers).map(|(now, then)| now.since(&then));
        let mut all = Tally::default();
        let mut shares = Vec::new();
        for thread in threads {
            let (share, tally) = thread.join().map_err(|_| anyhow!("a session panicked"))??;
            all.add(&tally);
            shares.push(share);
        }
        let records = Records::gather(shares);
        Ok((all.result(used, transfers, records.bytes()), records))
    })
}

/// Drives a store until so many updates have been made; nothing is measured. Every thread ends with a durable commit,
/// so nothing may be lost afterwards. Returns the updates and the records.
pub fn update(store: &dyn Store, mix: Mix, updates: u64, records: Records) -> Result<(u64, Records)> {
    let made = &AtomicU64::new(0);
    thread::scope(|scope| {
        let start = |mut share: Share| {
            scope.spawn(move || -> Result<Share> {
                let mut session = store.session()?;
                loop {
                    let operations = gather(&mut share, mix);
                    let last = made.fetch_add(mix.updates.into(), Ordering::Relaxed) >= updates;
                    let durable = last || share.chance(mix.durable_percent);
                    session.execute(&operations, durable)?;
                    if last {
                        return Ok(share);
                    }
                }
            })
        };
        let threads: Vec<_> = records.deal(mix.threads, mix.seed).into_iter().map(start).collect();
        let mut shares = Vec::new();
        for thread in threads {
            shares.push(thread.join().map_err(|_| anyhow!("a session panicked"))??);
        }
        Ok((made.load(Ordering::Relaxed), Records::gather(shares)))
    })
}

/// Reads every `step`th record, beginning with the last, and compares.
pub fn verify(store: &dyn Store, records: &Records, step: usize) -> Result<()> {
    let mut session = store.session()?;
    let mut value = Vec::new();
    for one in records.live.iter().rev().step_by(step) {
        if !session.read(&one.key(), &mut value)? || !one.is_value(&value) {
            bail!("record {:02x?} is not what was written", one.key());
        }
    }
    Ok(())
}

/// The operations of a transaction of several updates; with reads in between.
fn gather(share: &mut Share, mix: Mix) -> Vec<Operation> {
    let mut operations = Vec::with_capacity(2 * mix.updates as usize);
    let mut updates = 0;
    share.begin();
    while updates < mix.updates {
        let operation = match mix.near {
            Some(count) => share.draw_near(count),
            None => match share.draw() {
                Drawn::Update(operation) => operation,
                Drawn::Read(one) => Operation::Read(one.key()),
            },
        };
        updates += u32::from(operation.is_update());
        operations.push(operation);
    }
    operations
}

fn drive(store: &dyn Store, mix: Mix, mut share: Share, phase: &AtomicU8) -> Result<(Share, Tally)> {
    let mut session = store.session()?;
    let mut tally = Tally::default();
    let mut found = Vec::new();
    loop {
        let now = phase.load(Ordering::Acquire);
        if now == STOPPED {
            return Ok((share, tally));
        }
        let read = |one: Live, session: &mut Box<dyn crate::store::Session + '_>, found: &mut Vec<u8>| {
            let start = Instant::now();
            if !session.read(&one.key(), found)? || !one.is_value(found) {
                bail!("record {:02x?} is not what was written", one.key());
            }
            Ok(start.elapsed())
        };
        let operations = if mix.updates == 1 && mix.near.is_none() {
            share.begin();
            match share.draw() {
                Drawn::Update(operation) => vec![operation],
                Drawn::Read(one) => {
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
            gather(&mut share, mix)
        };
        let durable = share.chance(mix.durable_percent);
        let start = Instant::now();
        session.execute(&operations, durable)?;
        if now == MEASURED {
            tally.committed(&operations, durable, start.elapsed());
        }
    }
}

/// What a thread did in the window.
struct Tally {
    operations: u64,
    reads: u64,
    transactions: u64,
    durable: u64,
    logical: u64,
    lazy_us: Histogram<u64>,
    durable_us: Histogram<u64>,
    read_us: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        let new = || Histogram::new_with_max(600_000_000, 3).expect("three digits are supported");
        Tally {
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

impl Tally {
    fn committed(&mut self, operations: &[Operation], durable: bool, took: Duration) {
        self.operations += operations.len() as u64;
        self.reads += operations.iter().filter(|operation| !operation.is_update()).count() as u64;
        let written =
            |operation: &&Operation| matches!(operation, Operation::Insert(..) | Operation::Replace(..));
        self.logical += operations.iter().filter(written).map(Operation::bytes).sum::<u64>();
        self.transactions += 1;
        self.durable += u64::from(durable);
        record(if durable { &mut self.durable_us } else { &mut self.lazy_us }, took);
    }

    fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.reads += other.reads;
        self.transactions += other.transactions;
        self.durable += other.durable;
        self.logical += other.logical;
        self.lazy_us += &other.lazy_us;
        self.durable_us += &other.durable_us;
        self.read_us += &other.read_us;
    }

    fn result(&self, used: Used, transfers: Option<Transfers>, live: u64) -> MixResult {
        MixResult {
            used,
            operations: self.operations,
            reads: self.reads,
            transactions: self.transactions,
            durable: self.durable,
            logical: self.logical,
            lazy_us: Latencies::of(&self.lazy_us),
            durable_us: Latencies::of(&self.durable_us),
            read_us: Latencies::of(&self.read_us),
            transfers,
            peak_memory: peak_memory(),
            live,
        }
    }
}
