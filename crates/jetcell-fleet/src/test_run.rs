//! A host's test within a fleet: a normal run with an observer that waits at the barriers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jetcell_workload::engine_ese::{Backend, EseEngine};
use jetcell_workload::measurement::{CounterSnapshot, InstanceIo, IoTotals};
use jetcell_workload::{FinishedRun, Observer, Profile, RunPhase, run};

use crate::clock::HostClocks;
use crate::directory_mark::{DirectoryMark, DirectoryMarks};
use crate::host::HostProgress;
use crate::host_error::{HostRefusal, HostTestError};
use crate::host_limits::HostLimits;
use crate::message::{Assignment, Barrier, LiveMetrics};
use crate::result_transfer::{HostResult, ResultTransfer};

/// Maximum time to sleep before checking the start time again. A restarted coordinator may change the start time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The work that a fleet host performs, on a separate thread.
pub trait HostTask: Send {
    /// Accepts an assignment before the first barrier, or returns the reason why it cannot be accepted. This step
    /// takes little time and no disk space.
    fn accept(&mut self, order: &Assignment, mark: &DirectoryMark) -> Result<(), HostRefusal>;
    /// Checks after the first barrier that no other host uses the same directories.
    fn confirm(&mut self) -> Result<(), HostRefusal>;
    /// Runs the test and returns its result.
    fn run(&mut self, progress: &HostProgress, clocks: HostClocks) -> Result<ResultTransfer, HostTestError>;
}

/// The task that real fleet hosts perform: testing their storage.
pub struct StorageTestTask<'a> {
    limits: HostLimits,
    /// Additional observer of the run.
    observer: &'a mut (dyn Observer + Send),
    /// Called on the host with the result of its run.
    ended: Box<dyn FnMut(&FinishedRun) + Send + 'a>,
    /// The accepted test, and the time for which its load is measured alone beforehand.
    accepted: Option<(Profile, Option<Duration>)>,
    marks: DirectoryMarks,
}

impl<'a> StorageTestTask<'a> {
    /// Creates the task of a host, within these limits.
    pub fn new(
        limits: HostLimits,
        observer: &'a mut (dyn Observer + Send),
        ended: impl FnMut(&FinishedRun) + Send + 'a,
    ) -> StorageTestTask<'a> {
        StorageTestTask {
            limits,
            observer,
            ended: Box::new(ended),
            accepted: None,
            marks: DirectoryMarks::default(),
        }
    }
}

impl HostTask for StorageTestTask<'_> {
    fn accept(&mut self, order: &Assignment, mark: &DirectoryMark) -> Result<(), HostRefusal> {
        let profile = self.limits.profile(order)?;
        let all: Vec<PathBuf> =
            profile.dirs.iter().chain(&profile.log_dirs).chain(&profile.copy_dirs).cloned().collect();
        self.marks = DirectoryMarks::write(mark, &all)?;
        self.accepted = Some((profile, order.alone.map(|span| span.0)));
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), HostRefusal> {
        self.marks.confirm()
    }

    fn run(&mut self, progress: &HostProgress, clocks: HostClocks) -> Result<ResultTransfer, HostTestError> {
        let (profile, alone) = self.accepted.take().ok_or(HostTestError::NotAccepted)?;
        let engine = EseEngine::new(Backend::Auto).map_err(HostTestError::Backend)?;
        let mut observer = FleetObserver {
            progress,
            clocks,
            alone,
            inner: self.observer,
            phase: None,
            total: 0,
            last: None,
        };
        let outcome = run(&profile, &engine, &mut observer, progress.stop_signal());
        observer.window_ended();
        let finished = outcome?;
        (self.ended)(&finished);
        // The directories now belong to the test, so they must not be removed with the marks.
        self.marks = DirectoryMarks::default();
        let result = HostResult { result: finished.result, samples: finished.samples };
        let bytes = serde_json::to_vec(&result)?;
        let length = bytes.len();
        ResultTransfer::new(bytes).ok_or(HostTestError::LargeResult { bytes: length })
    }
}

/// Observes a run and waits at the barriers.
struct FleetObserver<'a> {
    progress: &'a HostProgress,
    clocks: HostClocks,
    alone: Option<Duration>,
    inner: &'a mut (dyn Observer + Send),
    phase: Option<RunPhase>,
    total: u64,
    last: Option<(f64, InstanceTotals)>,
}

/// Sums over all instances.
#[derive(Clone, Copy, Default)]
struct InstanceTotals {
    transfers: u64,
    bytes: u64,
    reads: u64,
    read_us: u64,
    log_writes: u64,
    log_write_us: u64,
}

impl InstanceTotals {
    fn from_snapshot(snapshot: &CounterSnapshot) -> InstanceTotals {
        let sum = |kind: fn(&InstanceIo) -> &IoTotals, figure: fn(&IoTotals) -> u64| -> u64 {
            snapshot.io.iter().map(|io| figure(kind(io))).sum()
        };
        let (reads, writes) = (
            sum(|io| &io.database_read, |totals| totals.operations),
            sum(|io| &io.database_write, |totals| totals.operations),
        );
        let bytes = |kind| sum(kind, |totals| totals.bytes);
        InstanceTotals {
            transfers: reads + writes,
            bytes: bytes(|io| &io.database_read) + bytes(|io| &io.database_write),
            reads,
            read_us: sum(|io| &io.database_read, |totals| totals.latency_us),
            log_writes: sum(|io| &io.log_write, |totals| totals.operations),
            log_write_us: sum(|io| &io.log_write, |totals| totals.latency_us),
        }
    }

    fn figures_since(&self, before: &InstanceTotals, seconds: f64) -> LiveMetrics {
        let less = |figure: fn(&InstanceTotals) -> u64| figure(self).saturating_sub(figure(before)) as f64;
        let ms = |us: f64, count: f64| if count > 0.0 { us / count / 1000.0 } else { 0.0 };
        LiveMetrics {
            iops: less(|totals| totals.transfers) / seconds,
            bytes_per_second: less(|totals| totals.bytes) / seconds,
            read_ms: ms(less(|totals| totals.read_us), less(|totals| totals.reads)),
            log_write_ms: ms(less(|totals| totals.log_write_us), less(|totals| totals.log_writes)),
        }
    }
}

impl FleetObserver<'_> {
    fn now_ns(&self) -> u64 {
        self.clocks.monotonic_ns(Instant::now())
    }

    fn has_measured(&self) -> bool {
        self.progress.is_released(Barrier::Measure)
    }

    fn window_ended(&self) {
        if self.has_measured() {
            self.progress.set_measurement_end(self.now_ns());
        }
    }

    /// Waits until all hosts are warm, and then until the common start of the measurement.
    fn begin_window(&self) {
        if self.has_measured() {
            return;
        }
        self.progress.wait_at_barrier(Barrier::Measure);
        while !self.progress.stop_signal().is_cancelled() {
            let Some(start) = self.progress.start_ns() else {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            let left = Duration::from_nanos(start.saturating_sub(self.now_ns()));
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
        self.progress.set_measurement_start(self.now_ns());
    }
}

impl Observer for FleetObserver<'_> {
    fn before_phase(&mut self, phase: RunPhase) {
        self.progress.set_phase(phase, 0.0);
        match phase {
            RunPhase::Alone => self.progress.wait_for_turn(),
            RunPhase::Attach | RunPhase::Warm => self.progress.wait_at_barrier(Barrier::WarmUp),
            RunPhase::Measure | RunPhase::Search | RunPhase::Backup | RunPhase::Replay => self.begin_window(),
            RunPhase::Shutdown | RunPhase::Drain | RunPhase::Verify if self.has_measured() => {
                self.window_ended();
                self.progress.wait_at_barrier(Barrier::Verify);
            }
            _ => {}
        }
        // A load has ended. It may have been the load that was measured alone.
        if matches!(phase, RunPhase::Shutdown | RunPhase::Attach) {
            self.progress.set_live_figures(None);
        }
    }

    fn alone_duration(&mut self) -> Option<Duration> {
        self.alone
    }

    fn must_hold_load(&mut self) -> bool {
        // In a recovery test, the load generates logs before the measurement starts.
        if !self.has_measured() {
            return false;
        }
        self.window_ended();
        self.progress.reach_barrier(Barrier::Verify);
        !self.progress.is_released(Barrier::Verify)
    }

    fn begin_phase(&mut self, phase: RunPhase, total: u64) {
        (self.phase, self.total, self.last) = (Some(phase), total, None);
        self.inner.begin_phase(phase, total);
    }

    fn advance(&mut self, done: u64, note: &str) {
        if let Some(phase) = self.phase {
            let fraction = if self.total == 0 { 1.0 } else { done as f64 / self.total as f64 };
            self.progress.set_phase(phase, fraction.min(1.0));
        }
        self.inner.advance(done, note);
    }

    fn log(&mut self, line: &str) {
        self.inner.log(line);
    }

    fn report_counters(&mut self, now: &CounterSnapshot) {
        let totals = InstanceTotals::from_snapshot(now);
        if let Some((at, before)) = self.last.replace((now.at, totals))
            && now.at > at
        {
            self.progress.set_live_figures(Some(totals.figures_since(&before, now.at - at)));
        }
        self.inner.report_counters(now);
    }
}
