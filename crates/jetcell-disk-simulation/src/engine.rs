//! Discrete-event simulation of host load, drive accesses, consistency points, and a rebuild.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::{BLOCK, CHUNK, Config, SimulatedLayout, WriteAnywhereConfig};
use crate::disk::{OperationId, SimulatedDisk, StartedActivity};
use crate::drive::{DriveAccess, DriveModel};
use crate::in_place::{ConcurrentAccesses, DriveGroups};
use crate::simulated_logs::SimulatedLogs;
use crate::write_anywhere::{DriveCommand, WriteAnywhereVolume};

/// Length in bytes of each run in a sampled rebuild. The ranges between the runs are skipped.
const RUN: u64 = 16 << 20;
/// Maximum number of lost drives.
const SPARES: usize = 2;

/// Parameters for one simulation.
#[derive(Clone, Copy)]
pub struct SimulationSetup<'a> {
    pub config: &'a Config,
    pub layout: &'a SimulatedLayout,
    pub drive: &'a DriveModel,
    /// Volume returned by [`prepare_volume`].
    pub volume: Option<&'a WriteAnywhereVolume>,
    /// Target rate of host I/O operations per second.
    pub iops: f64,
    /// Durations of the warm-up and the measurement, in seconds.
    pub warm_up: f64,
    pub seconds: f64,
    /// Number of drives that fail.
    pub lost: usize,
    /// Time at which the drives fail, in seconds. `rebuild` is the time at which the rebuild starts.
    pub failure: Option<f64>,
    pub rebuild: Option<f64>,
    /// Parameters for a sampled rebuild. It covers each drive from the first byte to the last, but rebuilds only the
    /// given number of bytes, in evenly distributed runs of [`RUN`]. The simulation ends `tail` seconds after the
    /// rebuild.
    pub pass: Option<SampledRebuild>,
}

/// Returns the filled and aged volume of a write-anywhere layout, with which all simulations of the layout start.
pub fn prepare_volume(
    config: &Config,
    layout: &SimulatedLayout,
    drive: &DriveModel,
) -> Option<WriteAnywhereVolume> {
    let options = layout.write_anywhere?;
    let groups: Vec<(usize, usize)> =
        (0..layout.groups.len()).map(|group| (layout.data_drives(group), layout.level.parities())).collect();
    let stripes = (drive.capacity() / BLOCK / options.scale) as usize;
    let blocks = (config.load.page_bytes / BLOCK) as u32;
    let rng = ChaCha8Rng::seed_from_u64(config.seed ^ 0x5EED);
    let mut volume =
        WriteAnywhereVolume::new(&groups, stripes, layout.fill(&config.load, drive), blocks, rng);
    let writes = (f64::from(volume.pages()) * options.overwritten) as u64;
    volume.age(writes, options.log_writes);
    Some(volume)
}

/// A rebuild of whole drives, simulated only for sampled ranges.
#[derive(Clone, Copy)]
pub struct SampledRebuild {
    pub bytes: u64,
    pub tail: f64,
}

/// Measurements from one second of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecondMeasurements {
    pub reads: u64,
    pub read_ms: f64,
    pub writes: u64,
    pub write_ms: f64,
    pub log_writes: u64,
    pub log_ms: f64,
    pub disk_writes: u64,
    pub rebuilt_bytes: u64,
}

/// Measurements from an entire simulation.
#[derive(Clone, Debug, Default)]
pub struct SimulationMeasurements {
    pub read_ms: Vec<f32>,
    pub write_ms: Vec<f32>,
    pub log_ms: Vec<f32>,
    /// Number of write commands to drives, excluding those of the rebuild.
    pub disk_writes: u64,
    pub disk_reads: u64,
    pub disk_written_bytes: u64,
    pub rebuilt_bytes: u64,
    /// Mean fraction of the time during which a drive was busy.
    pub utilisation: f64,
    /// Time at which the sampled rebuild completed.
    pub rebuild_ended: Option<f64>,
    /// Measurements for each second, including the seconds before the measured period.
    pub seconds: Vec<SecondMeasurements>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimulationEvent {
    Arrival,
    Done { drive: usize, started: StartedActivity },
    LogWritten { operation: OperationId },
    ConsistencyPoint,
    Failure,
    RebuildBegins,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SimulatedOperationKind {
    Read,
    Write,
    /// A log write.
    Log {
        log: usize,
    },
    Rebuild {
        bytes: u64,
    },
    ConsistencyPoint,
}

struct SimulatedOperation {
    kind: SimulatedOperationKind,
    began: Duration,
    phases: VecDeque<ConcurrentAccesses>,
    outstanding: usize,
}

/// A write-anywhere volume and its write log.
struct WriteAnywhereState {
    options: WriteAnywhereConfig,
    volume: WriteAnywhereVolume,
    /// Pages in the half of the log that is being filled. `log_writes` is the total number of writes in this half.
    logged: Vec<u32>,
    log_writes: usize,
    is_writing: bool,
    /// Writes that wait for room in the write log. Log writes have no page.
    stalled: VecDeque<(OperationId, Option<u32>)>,
}

struct LayoutSimulation<'a> {
    setup: SimulationSetup<'a>,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, SimulationEvent)>>,
    sequence: u64,
    rng: ChaCha8Rng,
    disks: Vec<SimulatedDisk>,
    groups: DriveGroups,
    write_anywhere: Option<WriteAnywhereState>,
    logs: Option<SimulatedLogs>,
    operations: Vec<Option<SimulatedOperation>>,
    vacant: Vec<OperationId>,
    /// Number of host accesses in flight. `waiting` is the number of accesses that wait in the host.
    outstanding: usize,
    waiting: usize,
    cursor: u64,
    /// Number of bytes that have been rebuilt.
    rebuilt: u64,
    end: Duration,
    measured: SimulationMeasurements,
    /// Size of the data on each data drive in bytes, if blocks are overwritten in place.
    region: u64,
}

/// Runs a simulation.
pub fn simulate(setup: SimulationSetup<'_>) -> SimulationMeasurements {
    let mut simulation = LayoutSimulation::new(setup);
    simulation.run();
    simulation.measured
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0))
}

impl<'a> LayoutSimulation<'a> {
    fn new(setup: SimulationSetup<'a>) -> LayoutSimulation<'a> {
        let SimulationSetup { config, layout, drive, .. } = setup;
        let fill = layout.fill(&config.load, drive);
        let anywhere = layout.write_anywhere.zip(setup.volume).map(|(options, volume)| WriteAnywhereState {
            options,
            volume: volume.clone(),
            logged: vec![],
            log_writes: 0,
            is_writing: false,
            stalled: VecDeque::new(),
        });
        let first_of_logs = layout.drives() + SPARES;
        let logs =
            config.log.map(|log| SimulatedLogs::new(log, layout.level, first_of_logs, drive.capacity()));
        let all = first_of_logs + config.log.map_or(0, |log| log.drives);
        let cursor = match setup.pass {
            Some(_) => 0,
            None => (drive.capacity() as f64 * 0.35) as u64 / BLOCK * BLOCK,
        };
        LayoutSimulation {
            setup,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            sequence: 0,
            rng: ChaCha8Rng::seed_from_u64(config.seed),
            disks: (0..all).map(|_| SimulatedDisk::default()).collect(),
            groups: DriveGroups::new(layout),
            write_anywhere: anywhere,
            logs,
            operations: vec![],
            vacant: vec![],
            outstanding: 0,
            waiting: 0,
            cursor,
            rebuilt: 0,
            end: seconds(setup.warm_up + setup.seconds),
            measured: SimulationMeasurements::default(),
            region: ((fill * drive.capacity() as f64) as u64 / CHUNK * CHUNK).max(CHUNK),
        }
    }

    fn schedule(&mut self, time: Duration, event: SimulationEvent) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn run(&mut self) {
        self.schedule(Duration::ZERO, SimulationEvent::Arrival);
        if let Some(anywhere) = &self.write_anywhere {
            self.schedule(seconds(anywhere.options.seconds), SimulationEvent::ConsistencyPoint);
        }
        for (time, event) in [
            (self.setup.failure, SimulationEvent::Failure),
            (self.setup.rebuild, SimulationEvent::RebuildBegins),
        ] {
            if let Some(time) = time {
                self.schedule(seconds(time), event);
            }
        }
        let (mut before, mut is_warm) = (Duration::ZERO, false);
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time >= self.end {
                break;
            }
            if !is_warm && time >= seconds(self.setup.warm_up) {
                is_warm = true;
                before = self.busy();
                for disk in &mut self.disks {
                    disk.counters.written_bytes = 0;
                    disk.counters.reads = 0;
                }
            }
            self.now = time;
            self.handle(event);
        }
        let drives = self.setup.layout.drives();
        self.measured.utilisation =
            (self.busy() - before).as_secs_f64() / (drives as f64 * self.setup.seconds);
        self.measured.disk_written_bytes =
            self.disks[..drives].iter().map(|disk| disk.counters.written_bytes).sum();
        self.measured.disk_reads = self.disks[..drives].iter().map(|disk| disk.counters.reads).sum();
    }

    fn busy(&self) -> Duration {
        self.disks[..self.setup.layout.drives()].iter().map(|disk| disk.counters.busy).sum()
    }

    fn handle(&mut self, event: SimulationEvent) {
        match event {
            SimulationEvent::Arrival => {
                let gap = -(1.0 - self.rng.random::<f64>()).ln() / self.setup.iops;
                self.schedule(self.now + seconds(gap), SimulationEvent::Arrival);
                self.waiting += 1;
                self.issue();
            }
            SimulationEvent::Done { drive, started } => {
                self.disks[drive].finish(started);
                self.start(drive);
                if let Some(operation) = started.operation {
                    self.finish_access(operation);
                }
            }
            SimulationEvent::LogWritten { operation } => self.finish_operation(operation),
            SimulationEvent::ConsistencyPoint => self.consistency_point(),
            SimulationEvent::Failure => self.groups.mark_lost(self.setup.lost, self.setup.layout.drives()),
            SimulationEvent::RebuildBegins => {
                (0..self.setup.config.rebuild.pieces).for_each(|_| self.rebuild_piece());
            }
        }
    }

    /// Starts host accesses until the maximum number of simultaneous accesses is reached.
    fn issue(&mut self) {
        while self.waiting > 0 && self.outstanding < self.setup.config.load.outstanding {
            self.waiting -= 1;
            self.outstanding += 1;
            let is_read = self.rng.random::<f64>() < self.setup.config.load.read_share;
            if self.write_anywhere.is_some() {
                self.issue_write_anywhere(is_read);
            } else {
                self.issue_in_place(is_read);
            }
            let owed = if is_read { 0 } else { self.logs.as_mut().map_or(0, SimulatedLogs::take_due_writes) };
            (0..owed).for_each(|_| self.issue_log());
        }
    }

    /// Starts a log write.
    fn issue_log(&mut self) {
        if let Some((log, bytes)) = self.logs.as_mut().and_then(SimulatedLogs::add) {
            self.write_log(log, bytes);
        }
    }

    fn write_log(&mut self, log: usize, bytes: u64) {
        let Some(logs) = &mut self.logs else { return };
        if self.write_anywhere.is_some() {
            logs.record_logged(bytes);
            let operation = self.new_operation(SimulatedOperationKind::Log { log }, VecDeque::new());
            return self.log(operation, None);
        }
        let phases = logs.write(log, bytes);
        self.begin(SimulatedOperationKind::Log { log }, phases);
    }

    fn issue_in_place(&mut self, is_read: bool) {
        let bytes = self.setup.config.load.page_bytes;
        let columns: usize = (0..self.groups.len()).map(|group| self.groups.data_drives(group)).sum();
        let mut column = self.rng.random_range(0..columns);
        let mut group = 0;
        while column >= self.groups.data_drives(group) {
            column -= self.groups.data_drives(group);
            group += 1;
        }
        let position = self.rng.random_range(0..self.region / bytes) * bytes;
        let cells = self.groups.row(group, position / CHUNK);
        let phases = if is_read {
            self.groups.read(&cells, column, position, bytes, &mut self.rng)
        } else {
            self.groups.write(&cells, column, position, bytes)
        };
        self.begin(
            if is_read { SimulatedOperationKind::Read } else { SimulatedOperationKind::Write },
            phases,
        );
    }

    fn issue_write_anywhere(&mut self, is_read: bool) {
        let anywhere = self.write_anywhere.as_mut().expect("the volume uses write-anywhere");
        let page = self.rng.random_range(0..anywhere.volume.pages());
        if is_read {
            let mut reads = ConcurrentAccesses::new();
            for part in anywhere.volume.locate(page) {
                let position = part.stripe * anywhere.options.scale * BLOCK;
                let (cells, bytes) = (self.groups.row(part.group, 0), part.blocks * BLOCK);
                let phases = self.groups.read(&cells, part.column, position, bytes, &mut self.rng);
                reads.extend(phases.into_iter().flatten());
            }
            self.begin(SimulatedOperationKind::Read, [reads].into());
            return;
        }
        let operation = self.new_operation(SimulatedOperationKind::Write, VecDeque::new());
        self.log(operation, Some(page));
    }

    /// Puts a page or a log write into the volume's write log, or waits until there is room.
    fn log(&mut self, operation: OperationId, page: Option<u32>) {
        let anywhere = self.write_anywhere.as_mut().expect("the volume uses write-anywhere");
        if anywhere.log_writes >= anywhere.options.log_writes {
            anywhere.stalled.push_back((operation, page));
            return;
        }
        anywhere.log_writes += 1;
        anywhere.logged.extend(page);
        let is_full = anywhere.log_writes >= anywhere.options.log_writes;
        let written = self.now + seconds(anywhere.options.log_ms / 1e3);
        let begins = is_full && !anywhere.is_writing;
        self.schedule(written, SimulationEvent::LogWritten { operation });
        if begins {
            self.write_logged_pages();
        }
    }

    /// Schedules the next consistency point, and starts one unless one is already being written.
    fn consistency_point(&mut self) {
        let anywhere = self.write_anywhere.as_ref().expect("the volume uses write-anywhere");
        let (next, is_writing) = (seconds(anywhere.options.seconds), anywhere.is_writing);
        self.schedule(self.now + next, SimulationEvent::ConsistencyPoint);
        if !is_writing {
            self.write_logged_pages();
        }
    }

    /// Assigns new locations to all logged pages, and starts to write them.
    fn write_logged_pages(&mut self) {
        let anywhere = self.write_anywhere.as_mut().expect("the volume uses write-anywhere");
        let pages = std::mem::take(&mut anywhere.logged);
        anywhere.log_writes = 0;
        let (mut reads, mut writes) = (ConcurrentAccesses::new(), ConcurrentAccesses::new());
        let scale = anywhere.options.scale;
        anywhere.volume.consistency_point(&pages, &mut |DriveCommand { drive, stripe, blocks, is_write }| {
            let position = stripe as u64 * scale * BLOCK;
            let access = DriveAccess { position, bytes: blocks as u64 * BLOCK, is_write };
            if is_write { writes.push((drive, access)) } else { reads.push((drive, access)) }
        });
        let on_content_drives = |phase: ConcurrentAccesses| {
            let home = |(drive, access): (usize, DriveAccess)| {
                Some((self.groups.content_drive(drive, access.position)?, access))
            };
            phase.into_iter().filter_map(home).collect::<ConcurrentAccesses>()
        };
        writes.extend(self.logs.as_mut().map(SimulatedLogs::consistency_point).unwrap_or_default());
        let phases: VecDeque<ConcurrentAccesses> = [on_content_drives(reads), on_content_drives(writes)]
            .into_iter()
            .filter(|phase| !phase.is_empty())
            .collect();
        let has_work = !phases.is_empty();
        if let Some(anywhere) = &mut self.write_anywhere {
            anywhere.is_writing = has_work;
        }
        if has_work {
            self.begin(SimulatedOperationKind::ConsistencyPoint, phases);
        }
        // The other half of the log has room.
        let stalled = self
            .write_anywhere
            .as_mut()
            .map(|anywhere| std::mem::take(&mut anywhere.stalled))
            .unwrap_or_default();
        for (operation, page) in stalled {
            self.log(operation, page);
        }
    }

    fn rebuild_piece(&mut self) {
        let capacity = self.setup.drive.capacity();
        let all = self.setup.pass.map_or(capacity, |pass| pass.bytes);
        let mut bytes = self.setup.config.rebuild.piece_bytes.min(all.saturating_sub(self.cursor));
        if bytes == 0 {
            return;
        }
        let mut position = self.cursor;
        if self.setup.pass.is_some() {
            let (run, inside) = (self.cursor / RUN, self.cursor % RUN);
            bytes = bytes.min(RUN - inside);
            let share = (run * RUN) as f64 / all as f64;
            position = (share * capacity as f64) as u64 / BLOCK * BLOCK + inside;
        }
        let phases = self.groups.rebuild(position, bytes);
        self.cursor += bytes;
        self.begin(SimulatedOperationKind::Rebuild { bytes }, phases);
    }

    /// Records that a piece was rebuilt, and starts to rebuild the next one.
    fn finish_rebuild_piece(&mut self, bytes: u64) {
        self.second().rebuilt_bytes += bytes;
        if self.is_measured() {
            self.measured.rebuilt_bytes += bytes;
        }
        self.rebuilt += bytes;
        if let Some(SampledRebuild { bytes: all, tail }) = self.setup.pass {
            let share = self.rebuilt as f64 / all as f64;
            self.groups.mark_rebuilt((share * self.setup.drive.capacity() as f64) as u64);
            if self.rebuilt >= all {
                self.groups.mark_rebuilt(u64::MAX);
                self.measured.rebuild_ended = Some(self.now.as_secs_f64());
                self.end = self.end.min(self.now + seconds(tail));
            }
        }
        self.rebuild_piece();
    }

    fn new_operation(
        &mut self,
        kind: SimulatedOperationKind,
        phases: VecDeque<ConcurrentAccesses>,
    ) -> OperationId {
        let operation = SimulatedOperation { kind, began: self.now, phases, outstanding: 0 };
        match self.vacant.pop() {
            Some(place) => {
                self.operations[place] = Some(operation);
                place
            }
            None => {
                self.operations.push(Some(operation));
                self.operations.len() - 1
            }
        }
    }

    fn begin(&mut self, kind: SimulatedOperationKind, phases: VecDeque<ConcurrentAccesses>) {
        let operation = self.new_operation(kind, phases);
        self.next_phase(operation);
    }

    fn next_phase(&mut self, id: OperationId) {
        let operation = self.operations[id].as_mut().expect("the operation is in flight");
        let Some(phase) = operation.phases.pop_front() else { return self.finish_operation(id) };
        operation.outstanding = phase.len();
        let kind = operation.kind;
        let is_background = !matches!(
            kind,
            SimulatedOperationKind::Read | SimulatedOperationKind::Write | SimulatedOperationKind::Log { .. }
        );
        for (drive, access) in phase {
            let is_of_logs = drive >= self.setup.layout.drives() + SPARES;
            if access.is_write && !is_of_logs && !matches!(kind, SimulatedOperationKind::Rebuild { .. }) {
                if self.is_measured() {
                    self.measured.disk_writes += 1;
                }
                self.second().disk_writes += 1;
            }
            self.disks[drive].push(self.setup.drive, self.now, id, access, is_background);
            self.start(drive);
        }
    }

    fn start(&mut self, drive: usize) {
        let patience = seconds(self.setup.config.rebuild.patience_ms / 1e3);
        while let Some(started) = self.disks[drive].start(self.setup.drive, self.now, patience) {
            self.schedule(self.now + started.time, SimulationEvent::Done { drive, started });
        }
    }

    fn finish_access(&mut self, id: OperationId) {
        let operation = self.operations[id].as_mut().expect("the operation is in flight");
        operation.outstanding -= 1;
        if operation.outstanding == 0 {
            self.next_phase(id);
        }
    }

    fn finish_operation(&mut self, id: OperationId) {
        let SimulatedOperation { kind, began, .. } =
            self.operations[id].take().expect("the operation is in flight");
        self.vacant.push(id);
        let milliseconds = (self.now - began).as_secs_f64() * 1e3;
        let is_measured = self.is_measured();
        match kind {
            SimulatedOperationKind::Read | SimulatedOperationKind::Write => {
                let second = self.second();
                let (count, sum) = match kind {
                    SimulatedOperationKind::Read => (&mut second.reads, &mut second.read_ms),
                    _ => (&mut second.writes, &mut second.write_ms),
                };
                *count += 1;
                *sum += milliseconds;
                if is_measured {
                    let all = if kind == SimulatedOperationKind::Read {
                        &mut self.measured.read_ms
                    } else {
                        &mut self.measured.write_ms
                    };
                    all.push(milliseconds as f32);
                }
                self.outstanding -= 1;
                self.issue();
            }
            SimulatedOperationKind::Log { log } => {
                let second = self.second();
                second.log_writes += 1;
                second.log_ms += milliseconds;
                if is_measured {
                    self.measured.log_ms.push(milliseconds as f32);
                }
                if let Some((log, bytes)) = self.logs.as_mut().and_then(|logs| logs.finish_write(log)) {
                    self.write_log(log, bytes);
                }
            }
            SimulatedOperationKind::Rebuild { bytes } => self.finish_rebuild_piece(bytes),
            SimulatedOperationKind::ConsistencyPoint => {
                let anywhere = self.write_anywhere.as_mut().expect("the volume uses write-anywhere");
                anywhere.is_writing = false;
                if anywhere.log_writes >= anywhere.options.log_writes {
                    self.write_logged_pages();
                }
            }
        }
    }

    fn is_measured(&self) -> bool {
        self.now >= seconds(self.setup.warm_up)
    }

    fn second(&mut self) -> &mut SecondMeasurements {
        let place = self.now.as_secs() as usize;
        if self.measured.seconds.len() <= place {
            self.measured.seconds.resize(place + 1, SecondMeasurements::default());
        }
        &mut self.measured.seconds[place]
    }
}
