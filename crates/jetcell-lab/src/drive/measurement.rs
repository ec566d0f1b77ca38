//! Measures one step on one target once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jetcell_host::Cancellation;
use jetcell_input::number::MIB;
use jetcell_vfs::{Clock, File, IoBuffer, IoReason};
use jetcell_workload::measurement::{LatencyHistogram, LatencySummary};
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::load::{self, DriveLoad, DriveLoadResult, microseconds};
use super::progress::TransferredBytes;
use super::step::{SEEK_CURVE, StepGroup, StepUnit, TestStep};

/// Result of running a test step once on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMeasurement {
    /// Seconds from the start until the last transfer, or the final sync if there is one, has completed.
    pub seconds: f64,
    /// Number of completed transfers.
    pub operations: u64,
    /// Total size of the completed transfers in bytes.
    pub bytes: u64,
    /// Read latencies in microseconds. In the read-after-write step, only reads that follow a write are included.
    pub reads: LatencySummary,
    /// Write latencies in microseconds.
    pub writes: LatencySummary,
    /// Sync latencies in microseconds.
    pub syncs: LatencySummary,
    /// Histogram of read latencies.
    pub read_latencies: LatencyHistogram,
    /// Histogram of write latencies.
    pub write_latencies: LatencyHistogram,
    /// Histogram of sync latencies.
    pub sync_latencies: LatencyHistogram,
    /// Zones of the target. Empty except in steps that measure a transfer curve.
    pub zones: Vec<TransferZone>,
    /// The first transfers of the step. Empty except in the step that measures access times.
    pub points: Vec<AccessTimePoint>,
    /// Seeks by distance. Empty except in the seek curve step.
    #[serde(default)]
    pub seeks: Vec<SeekMeasurement>,
    /// Number of reads that did not return the data that had been written.
    pub mismatches: u64,
}

/// Read latency at a given distance from the previous read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeekMeasurement {
    /// Distance in bytes, forward or backward.
    pub distance: u64,
    /// Number of reads.
    pub reads: u64,
    /// Mean latency of these reads in milliseconds.
    pub ms: f64,
}

/// Measurement of one zone of a target, as part of its transfer curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferZone {
    /// Start offset in bytes.
    pub offset: u64,
    /// Number of bytes transferred, starting at `offset`.
    pub bytes: u64,
    /// Time that the transfers took, in seconds.
    pub seconds: f64,
}

impl TransferZone {
    /// Returns the rate in mebibytes per second, or `None` if nothing was transferred.
    pub fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / MIB / self.seconds)
    }
}

/// Offset and latency of one transfer in the access time step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessTimePoint {
    /// Offset in bytes.
    pub offset: u64,
    /// Latency in milliseconds.
    pub ms: f64,
}

/// The target, clock and options for running a step.
pub(super) struct StepContext<'t> {
    pub(super) file: &'t Arc<dyn File>,
    pub(super) clock: &'t Arc<dyn Clock>,
    pub(super) bytes: u64,
    pub(super) cancel: &'t Cancellation,
    /// Counter of the bytes transferred by all completed transfers.
    pub(super) moved: &'t TransferredBytes,
    /// Number of zones in the transfer curve.
    pub(super) zones: u64,
    pub(super) time: Duration,
    /// If true, steps that write end with a sync, whose duration counts as part of the step.
    pub(super) end_sync: bool,
    pub(super) seed: u64,
}

impl StepMeasurement {
    /// Runs a step once.
    ///
    /// # Errors
    /// Returns the error of the first transfer that fails.
    pub(super) fn run(step: &TestStep, context: &StepContext<'_>) -> io::Result<StepMeasurement> {
        let mut one = match step.group {
            StepGroup::Transfer => measure_transfer_curve(step, context)?,
            StepGroup::ReadAfterWrite | StepGroup::Sync => write_and_follow(step, context)?,
            StepGroup::Seek if step.name == SEEK_CURVE => measure_seek_curve(step, context)?,
            _ => run_closed_loop(step, context)?,
        };
        if context.end_sync
            && step.writes()
            && !matches!(step.group, StepGroup::ReadAfterWrite | StepGroup::Sync)
        {
            let before = context.clock.monotonic();
            context.file.sync(IoReason::Other)?;
            let latency = context.clock.monotonic() - before;
            one.sync_latencies.record(microseconds(latency));
            one.seconds += latency.as_secs_f64();
        }
        one.reads = one.read_latencies.summary();
        one.writes = one.write_latencies.summary();
        one.syncs = one.sync_latencies.summary();
        Ok(one)
    }

    /// Returns the step's figure, or `None` if nothing was transferred.
    pub fn figure(&self, step: &TestStep) -> Option<f64> {
        if self.operations == 0 || self.seconds <= 0.0 {
            return None;
        }
        Some(match step.unit {
            StepUnit::MibPerSecond => self.bytes as f64 / MIB / self.seconds,
            StepUnit::Iops => self.operations as f64 / self.seconds,
            StepUnit::Milliseconds if step.group == StepGroup::Sync => self.syncs.mean / 1000.0,
            StepUnit::Milliseconds => self.reads.mean / 1000.0,
        })
    }

    fn add(&mut self, measured: &DriveLoadResult) {
        self.seconds += measured.elapsed.as_secs_f64();
        self.operations += measured.operations;
        self.bytes += measured.bytes;
        self.read_latencies.add(&measured.reads);
        self.write_latencies.add(&measured.writes);
    }
}

fn load_of(step: &TestStep, context: &StepContext<'_>) -> DriveLoad {
    DriveLoad {
        region: 0..context.bytes,
        access: step.access(),
        size: step.size,
        depth: step.depth,
        reads_percent: step.reads_percent,
        time: context.time,
        seed: context.seed,
        moved: context.moved.clone(),
    }
}

fn run_closed_loop(step: &TestStep, context: &StepContext<'_>) -> io::Result<StepMeasurement> {
    let measured = load::run(context.file, context.clock, &load_of(step, context), context.cancel)?;
    let mut one = StepMeasurement::default();
    one.add(&measured);
    if step.group == StepGroup::AccessTime {
        let point = |(offset, latency): &(u64, Duration)| AccessTimePoint {
            offset: *offset,
            ms: latency.as_secs_f64() * 1e3,
        };
        one.points = measured.points.iter().map(point).collect();
    }
    Ok(one)
}

/// Reads or writes sequentially from the start of each zone. The time is divided equally among the zones.
fn measure_transfer_curve(step: &TestStep, context: &StepContext<'_>) -> io::Result<StepMeasurement> {
    let blocks = context.bytes / step.size;
    let zones = context.zones.clamp(1, blocks.max(1));
    let mut one = StepMeasurement::default();
    for zone in 0..zones {
        let begin = |zone: u64| {
            u64::try_from(u128::from(blocks) * u128::from(zone) / u128::from(zones)).unwrap_or(blocks)
                * step.size
        };
        let load = DriveLoad {
            region: begin(zone)..begin(zone + 1),
            time: context.time / u32::try_from(zones).unwrap_or(u32::MAX),
            seed: context.seed.wrapping_add(zone),
            ..load_of(step, context)
        };
        let measured = load::run(context.file, context.clock, &load, context.cancel)?;
        one.zones.push(TransferZone {
            offset: load.region.start,
            bytes: measured.bytes,
            seconds: measured.elapsed.as_secs_f64(),
        });
        one.add(&measured);
    }
    Ok(one)
}

/// Shortest seek distance. Each further distance is [`SEEK_FACTOR`] times the previous one.
const MIN_SEEK: u64 = 64 << 10;
const SEEK_FACTOR: u64 = 4;

/// Reads at a random offset, then at a known distance from it. Only the second read is measured.
fn measure_seek_curve(step: &TestStep, bench: &StepContext<'_>) -> io::Result<StepMeasurement> {
    let (clock, mut rng) = (bench.clock, ChaCha8Rng::seed_from_u64(bench.seed));
    let size = usize::try_from(step.size).unwrap_or(usize::MAX);
    let mut buffer = IoBuffer::try_zeroed(size).ok_or(io::ErrorKind::OutOfMemory)?;
    let last = bench.bytes.saturating_sub(step.size);
    let distances: Vec<u64> =
        std::iter::successors(Some(MIN_SEEK), |distance| distance.checked_mul(SEEK_FACTOR))
            .take_while(|distance| *distance <= last)
            .collect();
    let share = bench.time / u32::try_from(distances.len().max(1)).unwrap_or(u32::MAX);
    let (mut one, began) = (StepMeasurement::default(), clock.monotonic());
    for distance in distances {
        let (begun, mut reads, mut total) = (clock.monotonic(), 0_u64, Duration::ZERO);
        while !bench.cancel.is_cancelled() && (reads == 0 || clock.monotonic() - begun < share) {
            let near = rng.random_range(0..=(last - distance) / step.size) * step.size;
            let (from, to) = if rng.random() { (near, near + distance) } else { (near + distance, near) };
            bench.file.read_at(from, &mut buffer, IoReason::Other)?;
            let between = clock.monotonic();
            bench.file.read_at(to, &mut buffer, IoReason::Other)?;
            let latency = clock.monotonic() - between;
            one.read_latencies.record(microseconds(latency));
            (reads, total) = (reads + 1, total + latency);
            bench.moved.add(2 * step.size);
        }
        let ms = total.as_secs_f64() * 1e3 / reads.max(1) as f64;
        one.seeks.push(SeekMeasurement { distance, reads, ms });
        one.operations += reads;
        one.bytes += reads * step.size;
    }
    one.seconds = (clock.monotonic() - began).as_secs_f64();
    Ok(one)
}

/// Writes at random offsets. Each write is followed by a read of the same block or by a sync.
fn write_and_follow(step: &TestStep, bench: &StepContext<'_>) -> io::Result<StepMeasurement> {
    let (file, clock, mut rng) = (bench.file, bench.clock, ChaCha8Rng::seed_from_u64(bench.seed));
    let size = usize::try_from(step.size).unwrap_or(usize::MAX);
    let (mut written, mut read) = match (IoBuffer::try_zeroed(size), IoBuffer::try_zeroed(size)) {
        (Some(written), Some(read)) => (written, read),
        _ => return Err(io::ErrorKind::OutOfMemory.into()),
    };
    let slots = (bench.bytes / step.size).max(1);
    let (mut one, begun) = (StepMeasurement::default(), clock.monotonic());
    while !bench.cancel.is_cancelled() && (one.operations == 0 || clock.monotonic() - begun < bench.time) {
        let offset = rng.random_range(0..slots) * step.size;
        rng.fill_bytes(&mut written);
        let before = clock.monotonic();
        file.write_at(offset, &written, IoReason::Other)?;
        let between = clock.monotonic();
        one.write_latencies.record(microseconds(between - before));
        if step.group == StepGroup::Sync {
            file.sync(IoReason::Other)?;
            one.sync_latencies.record(microseconds(clock.monotonic() - between));
        } else {
            file.read_at(offset, &mut read, IoReason::Other)?;
            one.read_latencies.record(microseconds(clock.monotonic() - between));
            one.mismatches += u64::from(written[..] != read[..]);
        }
        one.operations += 1;
        one.bytes += step.size;
        bench.moved.add(step.size);
    }
    one.seconds = (clock.monotonic() - begun).as_secs_f64();
    Ok(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::simulated_drive::FakeDrive;
    use crate::drive::step::steps;

    const SIZE: u64 = 64 << 20;

    fn measured(name: &str, drive: FakeDrive) -> (TestStep, StepMeasurement) {
        measured_with(name, drive, false)
    }

    fn measured_with(name: &str, drive: FakeDrive, end_sync: bool) -> (TestStep, StepMeasurement) {
        let step = steps(4096).into_iter().find(|step| step.name == name).unwrap();
        let ((file, clock), cancel) = (drive.start(), Cancellation::default());
        let moved = &TransferredBytes::default();
        let bench = StepContext {
            file: &file,
            clock: &clock,
            bytes: SIZE,
            cancel: &cancel,
            moved,
            zones: 8,
            time: Duration::from_secs(2),
            end_sync,
            seed: 7,
        };
        let one = StepMeasurement::run(&step, &bench).unwrap();
        (step, one)
    }

    fn drive() -> FakeDrive {
        FakeDrive::new(SIZE, Duration::from_micros(200), 1)
    }

    #[test]
    fn the_measured_curve_follows_the_drive_rate_by_position() {
        // The rate falls from 100 MiB/s at the start to 50 MiB/s at the end. The time suffices to read the whole drive.
        let fast = FakeDrive::new(SIZE, Duration::ZERO, 1).with_rates(100.0 * MIB, 50.0 * MIB);
        let (step, one) = measured("transfer_read", fast);
        assert_eq!((one.zones.len(), one.bytes), (8, SIZE));
        for (number, zone) in one.zones.iter().enumerate() {
            // The rate at the block in the middle of the zone.
            let expected = 100.0 - 50.0 * (number as f64 * 8.0 + 3.5) / 64.0;
            let rate = zone.rate().unwrap();
            assert!((rate / expected - 1.0).abs() < 0.01, "zone {number}: {rate}, expected {expected}");
            assert_eq!((zone.offset, zone.bytes), (number as u64 * (8 << 20), 8 << 20));
        }
        let mean = one.figure(&step).unwrap();
        assert!((70.0..75.0).contains(&mean), "the harmonic mean is 72: {mean}");
    }

    #[test]
    fn slow_drive_divides_time_equally_among_zones() {
        let (_, one) = measured(
            "transfer_read",
            FakeDrive::new(SIZE, Duration::ZERO, 1).with_rates(8.0 * MIB, 8.0 * MIB),
        );
        assert!(one.zones.iter().all(|zone| zone.bytes >= 1 << 20 && zone.bytes < 8 << 20), "{one:?}");
        assert!(one.zones.iter().all(|zone| (zone.rate().unwrap() - 8.0).abs() < 1e-6), "{one:?}");
    }

    #[test]
    fn final_sync_adds_to_write_time_only() {
        let seconds = |name: &str, end_sync: bool| {
            let drive = FakeDrive::new(SIZE, Duration::ZERO, 1).with_rates(64.0 * MIB, 64.0 * MIB);
            let (_, one) = measured_with(name, drive.with_sync(Duration::from_millis(500)), end_sync);
            ((one.seconds * 10.0).round(), one.syncs.count)
        };
        assert_eq!(
            [seconds("transfer_write", false), seconds("transfer_write", true)],
            [(10.0, 0), (15.0, 1)]
        );
        assert_eq!(seconds("transfer_read", true), (10.0, 0));
        let writes = |end_sync| seconds("random_write_4k", end_sync);
        assert_eq!((writes(true).0 - writes(false).0, writes(true).1), (5.0, 1));
    }

    #[test]
    fn every_step_kind_measures_known_latencies() {
        let figure = |name: &str, drive: FakeDrive| {
            let (step, one) = measured(name, drive);
            one.figure(&step).unwrap()
        };
        assert!((figure("access_time", drive()) - 0.2).abs() < 0.001);
        assert!((figure("random_write_4k", drive()) / 5000.0 - 1.0).abs() < 0.01);
        assert!(
            (figure("depth_read_64", FakeDrive::new(SIZE, Duration::from_micros(200), 32)) / 160_000.0 - 1.0)
                .abs()
                < 0.01
        );
        assert!((figure("sync", drive().with_sync(Duration::from_millis(5))) - 5.0).abs() < 0.01);
        assert!((figure("read_after_write", drive()) - 0.2).abs() < 0.001);
        // 64 KiB in 200 µs.
        assert!((figure("burst_read", drive()) / 312.5 - 1.0).abs() < 0.01);
    }

    #[test]
    fn seek_time_depends_on_distance() {
        // Distances from 64 KiB to 16 MiB. A seek takes 1 ms, plus 0.5 ms per MiB.
        let moving = drive().with_seeks(Duration::from_millis(1), Duration::from_micros(500));
        let (step, one) = measured("seek_curve", moving);
        let distances: Vec<u64> = one.seeks.iter().map(|seek| seek.distance >> 10).collect();
        assert_eq!(distances, [64, 256, 1024, 4096, 16384]);
        for seek in &one.seeks {
            // The head is at the end of the previous read.
            let moved = seek.distance as f64 / MIB;
            let expected = 0.2 + 1.0 + 0.5 * moved;
            assert!((seek.ms - expected).abs() < 0.01, "{seek:?}, expected {expected}");
            assert!(seek.reads > 5);
        }
        assert!(one.figure(&step).unwrap() > 1.2);
    }

    #[test]
    fn access_time_points_cover_the_whole_drive() {
        let (_, one) = measured("access_time", drive());
        assert_eq!(one.points.len(), 1000);
        assert!(one.points.iter().all(|point| (point.ms - 0.2).abs() < 1e-9 && point.offset < SIZE));
        assert!((0..8).all(|zone| one.points.iter().any(|point| point.offset / (SIZE / 8) == zone)));
    }

    #[test]
    fn a_drive_that_discards_writes_is_detected() {
        let (_, honest) = measured("read_after_write", drive());
        assert_eq!((honest.mismatches, honest.reads.count), (0, honest.operations));
        let (_, lying) = measured("read_after_write", drive().discarding_writes());
        assert_eq!(lying.mismatches, lying.operations);
    }
}
