//! Closed-loop load: keeps a fixed number of transfers in flight and replaces each transfer as soon as it completes.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jetcell_host::Cancellation;
use jetcell_vfs::{Clock, File, IoBuffer, IoReason, Transfer, TransferKind};
use jetcell_workload::measurement::LatencyHistogram;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::progress::TransferredBytes;

/// Size of a stamped block in bytes. Every written block of this size has unique content, which prevents the device
/// from deduplicating blocks.
const STAMPED_BLOCK_BYTES: usize = 4096;
/// Maximum number of transfers whose offset and latency are retained for a chart.
const MAX_POINTS: usize = 1000;

/// The order in which a load accesses offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessPattern {
    /// Sequential from start to end, one pass.
    OnePass,
    /// Sequential from start to end, repeated until the time is up.
    Sequential,
    /// Random offsets that are multiples of the transfer size.
    Random,
    /// Always the first transfer of the region.
    SingleOffset,
}

/// Parameters for running a load on one file.
#[derive(Clone, Debug)]
pub(super) struct DriveLoad {
    /// Byte range of the file that the load accesses.
    pub(super) region: Range<u64>,
    pub(super) access: AccessPattern,
    /// Size of a transfer in bytes.
    pub(super) size: u64,
    /// Number of transfers in flight.
    pub(super) depth: usize,
    /// Percentage of the transfers that are reads.
    pub(super) reads_percent: u32,
    pub(super) time: Duration,
    /// Seed for random offsets, transfer kinds, and data.
    pub(super) seed: u64,
    /// Counter of the bytes transferred by all completed transfers.
    pub(super) moved: TransferredBytes,
}

/// Measurements from one load.
#[derive(Default, Debug)]
pub(super) struct DriveLoadResult {
    pub(super) reads: LatencyHistogram,
    pub(super) writes: LatencyHistogram,
    pub(super) operations: u64,
    pub(super) bytes: u64,
    /// Time from the start of the load until the last transfer completed.
    pub(super) elapsed: Duration,
    /// Offset and latency of the first [`MAX_POINTS`] transfers.
    pub(super) points: Vec<(u64, Duration)>,
}

/// Converts a latency to microseconds, rounded to the nearest.
pub(super) fn microseconds(latency: Duration) -> u64 {
    u64::try_from((latency.as_nanos() + 500) / 1000).unwrap_or(u64::MAX)
}

/// Runs a load until its time is up, its single pass is complete, or it is cancelled.
///
/// # Errors
/// Returns the error of the first transfer that fails. No transfer is started after that.
pub(super) fn run(
    file: &Arc<dyn File>,
    clock: &Arc<dyn Clock>,
    load: &DriveLoad,
    cancel: &Cancellation,
) -> io::Result<DriveLoadResult> {
    let slots = (load.region.end.saturating_sub(load.region.start)) / load.size.max(1);
    if slots == 0 {
        return Ok(DriveLoadResult::default());
    }
    let mut rng = ChaCha8Rng::seed_from_u64(load.seed);
    let buffers: Option<Vec<IoBuffer>> = (0..load.depth)
        .map(|_| {
            let mut buffer = IoBuffer::try_zeroed(usize::try_from(load.size).ok()?)?;
            if load.reads_percent < 100 {
                rng.fill_bytes(&mut buffer);
            }
            Some(buffer)
        })
        .collect();
    let buffers = buffers.ok_or(io::ErrorKind::OutOfMemory)?;
    let begun = clock.monotonic();
    let state = DriveLoadState {
        rng,
        next: 0,
        stamps: 0,
        in_flight: 0,
        measured: DriveLoadResult::default(),
        failure: None,
    };
    let running = Arc::new(RunningDriveLoad {
        file: file.clone(),
        clock: clock.clone(),
        cancel: cancel.clone(),
        load: load.clone(),
        slots,
        begun,
        state: Mutex::new(state),
        ended: Condvar::new(),
    });
    let batch: Vec<Transfer> =
        buffers.into_iter().filter_map(|buffer| running.next_transfer(buffer, true)).collect();
    if !batch.is_empty() {
        file.submit(batch);
    }
    let mut state = running.lock();
    while state.in_flight > 0 {
        state = running.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    match state.failure.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut state.measured)),
    }
}

struct RunningDriveLoad {
    file: Arc<dyn File>,
    clock: Arc<dyn Clock>,
    cancel: Cancellation,
    load: DriveLoad,
    /// Number of transfer-sized slots in the region.
    slots: u64,
    begun: Duration,
    state: Mutex<DriveLoadState>,
    ended: Condvar,
}

struct DriveLoadState {
    rng: ChaCha8Rng,
    /// Next slot for a sequential load.
    next: u64,
    /// Number of blocks written so far.
    stamps: u64,
    in_flight: usize,
    measured: DriveLoadResult,
    failure: Option<io::Error>,
}

impl RunningDriveLoad {
    fn lock(&self) -> MutexGuard<'_, DriveLoadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next transfer and counts it as in flight. Returns `None` when the load is complete.
    fn next_transfer(self: &Arc<RunningDriveLoad>, mut buffer: IoBuffer, new: bool) -> Option<Transfer> {
        let mut state = self.lock();
        let now = self.clock.monotonic();
        let over = now.saturating_sub(self.begun) >= self.load.time && state.measured.operations > 0;
        let pass_ends = self.load.access == AccessPattern::OnePass && state.next >= self.slots;
        if over || pass_ends || state.failure.is_some() || self.cancel.is_cancelled() {
            return None;
        }
        let slot = match self.load.access {
            AccessPattern::SingleOffset => 0,
            AccessPattern::Random => state.rng.random_range(0..self.slots),
            AccessPattern::OnePass | AccessPattern::Sequential => {
                state.next += 1;
                (state.next - 1) % self.slots
            }
        };
        let reads = match self.load.reads_percent {
            0 => false,
            100 => true,
            percent => state.rng.random_range(0..100) < percent,
        };
        if !reads {
            // An array may keep a write buffer and return a newly allocated, zeroed buffer instead.
            if buffer.ends_with(&[0; 8]) {
                state.rng.fill_bytes(&mut buffer);
            }
            for block in buffer.chunks_mut(STAMPED_BLOCK_BYTES) {
                state.stamps += 1;
                let stamp = state.stamps.to_le_bytes();
                block.iter_mut().zip(stamp).for_each(|(byte, stamp)| *byte = stamp);
            }
        }
        state.in_flight += usize::from(new);
        drop(state);
        let (running, begun) = (self.clone(), self.clock.monotonic());
        let offset = self.load.region.start + slot * self.load.size;
        let kind = if reads { TransferKind::Read } else { TransferKind::Write };
        let done = move |result, buffer| running.completed(kind, offset, begun, result, buffer);
        Some(Transfer { kind, offset, buffer, reason: IoReason::Other, done: Box::new(done) })
    }

    fn completed(
        self: Arc<RunningDriveLoad>,
        kind: TransferKind,
        offset: u64,
        begun: Duration,
        result: io::Result<()>,
        buffer: IoBuffer,
    ) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        match result {
            Ok(()) => {
                let latency = now.saturating_sub(begun);
                let measured = &mut state.measured;
                let latencies = match kind {
                    TransferKind::Read => &mut measured.reads,
                    TransferKind::Write => &mut measured.writes,
                };
                latencies.record(microseconds(latency));
                measured.operations += 1;
                measured.bytes += buffer.len() as u64;
                self.load.moved.add(buffer.len() as u64);
                measured.elapsed = now.saturating_sub(self.begun);
                if measured.points.len() < MAX_POINTS {
                    measured.points.push((offset, latency));
                }
            }
            Err(error) => {
                state.failure.get_or_insert(error);
            }
        }
        drop(state);
        // The lock is released first because a simulated file may call back from `submit`.
        if let Some(transfer) = self.next_transfer(buffer, false) {
            return self.file.submit(vec![transfer]);
        }
        let mut state = self.lock();
        state.in_flight -= 1;
        if state.in_flight == 0 {
            self.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::simulated_drive::FakeDrive;

    const MIB: u64 = 1 << 20;

    fn load(access: AccessPattern, depth: usize, reads_percent: u32) -> DriveLoad {
        let time = Duration::from_secs(1);
        let moved = TransferredBytes::default();
        DriveLoad { region: 0..16 * MIB, access, size: 4096, depth, reads_percent, time, seed: 7, moved }
    }

    fn measured(drive: FakeDrive, load: &DriveLoad) -> DriveLoadResult {
        let (file, clock) = drive.start();
        run(&file, &clock, load, &Cancellation::default()).unwrap()
    }

    #[test]
    fn measured_throughput_and_latency_match_a_simulated_drive() {
        // Each transfer takes 100 µs and the drive serves four in parallel: 10,000 transfers per second at depth 1,
        // and at most 40,000.
        for (depth, iops, us) in [(1, 10_000.0, 100), (4, 40_000.0, 100), (16, 40_000.0, 400)] {
            let drive = FakeDrive::new(16 * MIB, Duration::from_micros(100), 4);
            let found = measured(drive, &load(AccessPattern::Random, depth, 100));
            let rate = found.operations as f64 / found.elapsed.as_secs_f64();
            assert!((rate / iops - 1.0).abs() < 0.01, "depth {depth}: {rate}");
            let summary = found.reads.summary();
            assert!(summary.p50.abs_diff(us) <= us / 100 + 1, "depth {depth}: {summary:?}");
            assert_eq!((summary.count, found.bytes), (found.operations, found.operations * 4096));
            assert_eq!(found.writes.summary().count, 0);
        }
    }

    #[test]
    fn a_pass_writes_every_offset_once_and_stops() {
        let drive = FakeDrive::new(16 * MIB, Duration::from_micros(1), 1);
        let written = drive.written();
        let pass = DriveLoad { time: Duration::MAX, ..load(AccessPattern::OnePass, 3, 0) };
        let found = measured(drive, &pass);
        assert_eq!((found.operations, found.bytes, pass.moved.bytes()), (4096, 16 * MIB, 16 * MIB));
        let mut offsets = written.lock().unwrap().clone();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..4096).map(|slot| slot * 4096).collect::<Vec<u64>>());
    }

    #[test]
    fn write_content_is_random_even_with_recycled_buffers() {
        let (file, clock) = FakeDrive::new(16 * MIB, Duration::from_micros(1), 1).retaining_buffers().start();
        let pass = DriveLoad { time: Duration::MAX, ..load(AccessPattern::OnePass, 3, 0) };
        run(&file, &clock, &pass, &Cancellation::default()).unwrap();
        let mut content = vec![0; 16 << 20];
        file.read_at(0, &mut content, IoReason::Other).unwrap();
        let halves: std::collections::BTreeSet<&[u8]> = content.chunks(2048).skip(1).step_by(2).collect();
        // Blocks written from the same buffer contain the same random bytes after their stamps.
        assert!(halves.len() > 4000, "{} of 4096 are different", halves.len());
    }

    #[test]
    fn mixed_loads_have_the_configured_read_share() {
        let drive = FakeDrive::new(16 * MIB, Duration::from_micros(100), 8);
        let found = measured(drive, &load(AccessPattern::Random, 8, 65));
        let share = found.reads.summary().count as f64 / found.operations as f64;
        // 80,000 random choices with 65 % reads: the standard error of the share is 0.17 %.
        assert!((share - 0.65).abs() < 0.01, "{share}");
    }

    #[test]
    fn the_first_error_ends_the_load_and_is_reported() {
        let drive = FakeDrive::new(16 * MIB, Duration::from_micros(100), 2).failing_after(50);
        let (file, clock) = drive.start();
        let error =
            run(&file, &clock, &load(AccessPattern::Random, 8, 100), &Cancellation::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_cancelled_load_stops_without_further_transfers() {
        let (file, clock) = FakeDrive::new(16 * MIB, Duration::from_micros(100), 2).start();
        let cancel = Cancellation::default();
        cancel.cancel();
        let found = run(&file, &clock, &load(AccessPattern::Random, 8, 100), &cancel).unwrap();
        assert_eq!(found.operations, 0);
        let none = DriveLoad { region: 0..100, ..load(AccessPattern::Random, 1, 100) };
        assert_eq!(run(&file, &clock, &none, &Cancellation::default()).unwrap().operations, 0);
    }
}
