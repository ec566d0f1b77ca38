//! A decorator that counts operations, bytes, errors and latencies per reason.
//!
//! Latency is the time from issue to completion in microseconds, measured with the clock of the decorated file
//! system. Failed operations are counted only as errors. Transfers that the caller has merged are counted as one.

use std::io;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, LazyLock, Mutex};

use crate::{Clock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs, VfsLayer};

/// Kind of file operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum IoOperation {
    /// Synchronous or asynchronous read.
    Read,
    /// Synchronous or asynchronous write. The latency of a durable write includes its sync.
    Write,
    /// Sync that makes a file durable. It transfers no bytes.
    Sync,
    /// Growth of a file. The byte count is the increase in length, and the reason is [`IoReason::DatabaseExtend`].
    Grow,
}

impl IoOperation {
    /// All operations, in declaration order.
    pub const ALL: [IoOperation; 4] =
        [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Grow];
}

/// I/O totals for one kind of operation.
#[derive(Clone, Debug)]
pub struct IoCount {
    /// Number of operations that completed successfully.
    pub operations: u64,
    /// Number of bytes transferred by completed operations.
    pub bytes: u64,
    /// Number of failed operations. A full volume is not a storage failure, so operations that fail for that reason
    /// are not counted.
    pub errors: u64,
    /// Sum of the latencies in microseconds.
    pub latency_us: u64,
    /// Distribution of the latencies in microseconds, with two or three significant digits. Latencies below one
    /// microsecond are recorded as one.
    pub latencies: Histogram<u64>,
}

impl Default for IoCount {
    fn default() -> IoCount {
        IoCount::with_digits(LatencyPrecision::Three)
    }
}

/// Number of significant digits in I/O latency distributions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyPrecision {
    /// Precision of one percent. Each distribution uses a few KiB.
    Two,
    /// Precision of a tenth of a percent. Each distribution uses tens of KiB.
    Three,
}

impl IoCount {
    fn with_digits(digits: LatencyPrecision) -> IoCount {
        let digits = if digits == LatencyPrecision::Two { 2 } else { 3 };
        let mut latencies = Histogram::new(digits).expect("as many digits are supported");
        // The histogram resizes to the latencies that occur, so most histograms stay small.
        latencies.auto(true);
        IoCount { operations: 0, bytes: 0, errors: 0, latency_us: 0, latencies }
    }

    fn record<T>(&mut self, bytes: u64, latency: Duration, result: &io::Result<T>) {
        if let Err(error) = result {
            use io::ErrorKind::{QuotaExceeded, StorageFull};
            self.errors += u64::from(!matches!(error.kind(), StorageFull | QuotaExceeded));
            return;
        }
        let us = latency.as_micros() as u64;
        self.operations += 1;
        self.bytes += bytes;
        self.latency_us += us;
        // `saturating_record` would not let the histogram grow.
        let _ = self.latencies.record(us.max(1));
    }

    /// Adds the totals of `other`.
    pub fn add(&mut self, other: &IoCount) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency_us += other.latency_us;
        self.latencies += &other.latencies;
    }

    /// Returns the difference between this count and `earlier`, an earlier state of the same count.
    #[must_use]
    pub fn since(&self, earlier: &IoCount) -> IoCount {
        let mut latencies = self.latencies.clone();
        latencies.subtract(&earlier.latencies).expect("counts only grow");
        IoCount {
            operations: self.operations - earlier.operations,
            bytes: self.bytes - earlier.bytes,
            errors: self.errors - earlier.errors,
            latency_us: self.latency_us - earlier.latency_us,
            latencies,
        }
    }
}

/// Shared empty count. Combinations of reason and operation that never occur are not stored, because a histogram uses
/// tens of KiB.
static NOTHING: LazyLock<IoCount> = LazyLock::new(IoCount::default);

const KINDS: usize = IoReason::ALL.len() * IoOperation::ALL.len();

fn kind(reason: IoReason, operation: IoOperation) -> usize {
    reason as usize * IoOperation::ALL.len() + operation as usize
}

/// I/O counts from a [`CountedVfs`] at one point in time, or the difference between two snapshots.
#[derive(Clone, Debug)]
pub struct IoSnapshot {
    counts: Vec<Option<IoCount>>,
    in_flight: Vec<u64>,
}

impl IoSnapshot {
    /// Returns the totals for one reason and operation.
    pub fn get(&self, reason: IoReason, operation: IoOperation) -> &IoCount {
        self.counts[kind(reason, operation)].as_ref().unwrap_or(&NOTHING)
    }

    /// Returns the totals for several reasons combined.
    pub fn total(&self, reasons: &[IoReason], operation: IoOperation) -> IoCount {
        let mut counts = reasons.iter().filter_map(|reason| self.counts[kind(*reason, operation)].as_ref());
        let mut total = counts.next().unwrap_or(&NOTHING).clone();
        counts.for_each(|count| total.add(count));
        total
    }

    /// Returns the number of operations that were issued but not completed when the snapshot was taken.
    pub fn in_flight(&self, reason: IoReason, operation: IoOperation) -> u64 {
        self.in_flight[kind(reason, operation)]
    }

    /// Returns the number of failed operations of all kinds.
    pub fn errors(&self) -> u64 {
        self.counts.iter().flatten().map(|count| count.errors).sum()
    }

    /// Returns the difference between this snapshot and `earlier`, an earlier snapshot of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &IoSnapshot) -> IoSnapshot {
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts = pairs.map(|(now, then)| match (now, then) {
            (Some(now), Some(then)) => Some(now.since(then)),
            (now, _) => now.clone(),
        });
        let counts = counts.collect();
        IoSnapshot { counts, in_flight: self.in_flight.clone() }
    }
}

/// I/O counters that are shared by threads. Each combination of reason and operation has its own lock.
pub struct IoCounters {
    counts: Vec<Mutex<Option<IoCount>>>,
    in_flight: Vec<AtomicU64>,
    clock: Arc<dyn Clock>,
    digits: LatencyPrecision,
}

impl IoCounters {
    fn new(clock: Arc<dyn Clock>, digits: LatencyPrecision) -> IoCounters {
        let counts = (0..KINDS).map(|_| Mutex::default()).collect();
        IoCounters { counts, in_flight: (0..KINDS).map(|_| AtomicU64::new(0)).collect(), clock, digits }
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> IoSnapshot {
        IoSnapshot {
            counts: self.counts.iter().map(|count| count.lock().clone()).collect(),
            in_flight: self.in_flight.iter().map(|number| number.load(Ordering::Relaxed)).collect(),
        }
    }

    fn issued(&self, kind: usize) {
        self.in_flight[kind].fetch_add(1, Ordering::Relaxed);
    }

    fn completed<T>(&self, kind: usize, bytes: u64, issued: Duration, result: &io::Result<T>) {
        let latency = self.clock.monotonic().saturating_sub(issued);
        let mut count = self.counts[kind].lock();
        count.get_or_insert_with(|| IoCount::with_digits(self.digits)).record(bytes, latency, result);
        drop(count);
        self.in_flight[kind].fetch_sub(1, Ordering::Relaxed);
    }

    fn measure<T>(&self, kind: usize, bytes: u64, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let issued = self.clock.monotonic();
        self.issued(kind);
        let result = call();
        self.completed(kind, bytes, issued, &result);
        result
    }
}

/// A file system that counts the transfers, syncs and extensions of the files of `inner`.
pub struct CountedVfs {
    inner: Arc<dyn Vfs>,
    counters: Arc<IoCounters>,
}

impl CountedVfs {
    /// Creates a file system with zeroed counters. Latency distributions have three significant digits.
    pub fn new(inner: Arc<dyn Vfs>) -> CountedVfs {
        CountedVfs::with_digits(inner, LatencyPrecision::Three)
    }

    /// Like [`CountedVfs::new`], but with the given number of significant digits for latency distributions.
    pub fn with_digits(inner: Arc<dyn Vfs>, digits: LatencyPrecision) -> CountedVfs {
        let counters = Arc::new(IoCounters::new(inner.clock(), digits));
        CountedVfs { inner, counters }
    }

    /// Returns the counters. They remain valid after the file system is dropped.
    pub fn counters(&self) -> Arc<IoCounters> {
        self.counters.clone()
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> IoSnapshot {
        self.counters.snapshot()
    }
}

impl VfsLayer for CountedVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(CountedFile { inner, counters: self.counters.clone() }))
    }
}

struct CountedFile {
    inner: Arc<dyn File>,
    counters: Arc<IoCounters>,
}

impl CountedFile {
    fn counted(&self, transfer: Transfer, issued: Duration) -> Transfer {
        let operation = match transfer.kind {
            TransferKind::Read => IoOperation::Read,
            TransferKind::Write => IoOperation::Write,
        };
        let kind = kind(transfer.reason, operation);
        let (counters, done) = (self.counters.clone(), transfer.done);
        counters.issued(kind);
        let done = Box::new(move |result: io::Result<()>, buffer: crate::IoBuffer| {
            counters.completed(kind, buffer.len() as u64, issued, &result);
            done(result, buffer);
        });
        Transfer { done, ..transfer }
    }
}

impl File for CountedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        let kind = kind(reason, IoOperation::Read);
        let len = buffer.len() as u64;
        self.counters.measure(kind, len, || self.inner.read_at(offset, buffer, reason))
    }

    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let kind = kind(reason, IoOperation::Write);
        self.counters.measure(kind, data.len() as u64, || self.inner.write_at(offset, data, reason))
    }

    fn write_durable(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let kind = kind(reason, IoOperation::Write);
        self.counters.measure(kind, data.len() as u64, || self.inner.write_durable(offset, data, reason))
    }

    fn write_parts_durable(&self, offset: u64, parts: &[&[u8]], reason: IoReason) -> io::Result<()> {
        let kind = kind(reason, IoOperation::Write);
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.counters.measure(kind, len, || self.inner.write_parts_durable(offset, parts, reason))
    }

    fn submit(&self, batch: Vec<Transfer>) {
        let issued = self.counters.clock.monotonic();
        self.inner.submit(batch.into_iter().map(|transfer| self.counted(transfer, issued)).collect());
    }

    fn sync(&self, reason: IoReason) -> io::Result<()> {
        self.counters.measure(kind(reason, IoOperation::Sync), 0, || self.inner.sync(reason))
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.inner.next_data(offset)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let growth = len.saturating_sub(self.inner.len()?);
        let kind = kind(IoReason::DatabaseExtend, IoOperation::Grow);
        self.counters.measure(kind, growth, || self.inner.grow(len))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.punch_hole(offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.reserve(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use jetcell_sync::Arc;

    use super::{CountedVfs, IoOperation, IoSnapshot};
    use crate::{
        FaultEffect, FaultTarget, FaultVfs, InjectedFault, IoBuffer, IoReason, OpenMode, SimVfs, Transfer,
        TransferKind, Vfs,
    };

    #[test]
    fn a_full_volume_is_not_counted_as_a_device_error() {
        let faults = Arc::new(FaultVfs::new(Arc::new(SimVfs::new())));
        let vfs = CountedVfs::new(faults.clone());
        let file = vfs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
        let fails = |effect| {
            for target in [FaultTarget::Grow, FaultTarget::Write] {
                faults.inject(InjectedFault::new(target, effect));
            }
            assert!(file.grow(1 << 20).is_err() && file.write_at(0, &[1; 4096], IoReason::LogWrite).is_err());
            vfs.snapshot().errors()
        };
        assert_eq!(fails(FaultEffect::NoSpace), 0);
        assert_eq!(fails(FaultEffect::IoError), 2);
    }

    #[test]
    fn operations_bytes_errors_and_latencies_are_counted_by_reason() {
        let disk = SimVfs::new();
        let clock = disk.sim_clock();
        let vfs = CountedVfs::new(Arc::new(disk.clone()));
        let file = vfs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
        file.grow(16384).unwrap();
        file.write_at(0, &[1; 8192], IoReason::LogWrite).unwrap();
        file.sync(IoReason::LogWrite).unwrap();
        let before = vfs.snapshot();
        assert!(file.read_at(16384, &mut [0; 512], IoReason::DatabaseRead).is_err());
        let counters = vfs.counters();
        let transfer = |offset: u64| {
            let (clock, counters) = (clock.clone(), counters.clone());
            // The first completion advances the clock before the second transfer completes.
            let done = Box::new(move |result: io::Result<()>, _| {
                result.unwrap();
                let left = counters.snapshot().in_flight(IoReason::Preread, IoOperation::Read);
                assert_eq!(left, if offset == 0 { 1 } else { 0 });
                clock.advance(Duration::from_micros(7_000));
            });
            let buffer = IoBuffer::zeroed(4096);
            Transfer { kind: TransferKind::Read, offset, buffer, reason: IoReason::Preread, done }
        };
        file.submit(vec![transfer(0), transfer(4096)]);
        let after = vfs.snapshot();
        let delta = after.since(&before);
        let count = |snapshot: &IoSnapshot, reason, operation| {
            let count = snapshot.get(reason, operation);
            (count.operations, count.bytes, count.errors, count.latency_us)
        };
        assert_eq!(count(&delta, IoReason::Preread, IoOperation::Read), (2, 8192, 0, 7_000));
        assert_eq!(count(&delta, IoReason::DatabaseRead, IoOperation::Read), (0, 0, 1, 0));
        assert_eq!(count(&delta, IoReason::LogWrite, IoOperation::Write), (0, 0, 0, 0));
        assert_eq!(count(&after, IoReason::LogWrite, IoOperation::Write), (1, 8192, 0, 0));
        assert_eq!(count(&after, IoReason::LogWrite, IoOperation::Sync), (1, 0, 0, 0));
        assert_eq!(count(&after, IoReason::DatabaseExtend, IoOperation::Grow), (1, 16384, 0, 0));
        let reads = delta.total(&[IoReason::DatabaseRead, IoReason::Preread], IoOperation::Read);
        assert_eq!((reads.operations, reads.latency_us, reads.latencies.len()), (2, 7_000, 2));
        let max = reads.latencies.max();
        assert!(reads.latencies.equivalent(max, 7_000), "{max}");
        assert_eq!(delta.errors(), 1);
    }
}
