//! The shared state of a running test.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jetcell_workload::measurement::{CounterSnapshot, IoTotals};
use jetcell_workload::{ProgressUnit, RunPhase};
use parking_lot::Mutex;

/// Time span shown in the charts of the terminal view.
pub const HISTORY_DURATION: Duration = Duration::from_secs(300);

/// Maximum number of test log lines that are kept for the terminal view.
const MAX_LOG_LINES: usize = 50;

/// A shared handle to the state of a run. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct RunMonitor(Arc<Mutex<MonitorState>>);

/// State of a run, for display and metrics.
#[derive(Clone, Debug)]
pub struct MonitorState {
    /// The current phase, or `None` before the first one.
    pub phase: Option<RunPhase>,
    /// Time at which the phase started.
    pub began: Instant,
    /// Number of completed units in the phase.
    pub done: u64,
    /// Number of units that were completed before the phase started, for example by an earlier run that created
    /// databases.
    pub done_at_start: Option<u64>,
    /// Total number of units in the phase.
    pub total: u64,
    /// A note about the current step.
    pub note: String,
    /// All counters, or `None` while no databases are open.
    pub counters: Option<CounterSnapshot>,
    /// Recent rates while databases are open, each with the time of its [`CounterSnapshot::at`].
    pub history: VecDeque<(f64, RunIoRates)>,
    /// Most recent lines of the test log.
    pub log: VecDeque<String>,
    /// True if the end of the run was requested.
    pub is_stopping: bool,
}

impl Default for MonitorState {
    fn default() -> MonitorState {
        MonitorState {
            phase: None,
            began: Instant::now(),
            done: 0,
            done_at_start: None,
            total: 0,
            note: String::new(),
            counters: None,
            history: VecDeque::new(),
            log: VecDeque::new(),
            is_stopping: false,
        }
    }
}

/// I/O rates of all instances over about one second. Latencies are means weighted by the number of transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunIoRates {
    /// Database reads per second.
    pub reads: f64,
    /// Database writes per second.
    pub writes: f64,
    /// Log writes per second.
    pub log_writes: f64,
    /// Mean latency of database reads in milliseconds.
    pub read_ms: f64,
    /// Mean latency of database writes in milliseconds.
    pub write_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
    /// Load operations per second.
    pub operations: f64,
    /// Share of the cache in use, in percent.
    pub cache_percent: f64,
}

impl RunIoRates {
    fn between(before: &CounterSnapshot, after: &CounterSnapshot) -> RunIoRates {
        let seconds = (after.at - before.at).max(1e-3);
        // Only the totals are needed here, not the histograms.
        let rate = |kind: fn(&jetcell_workload::measurement::InstanceIo) -> &IoTotals| {
            let sum = |snapshot: &CounterSnapshot, figure: fn(&IoTotals) -> u64| {
                snapshot.io.iter().map(|io| figure(kind(io))).sum::<u64>()
            };
            let delta = |figure| sum(after, figure).saturating_sub(sum(before, figure)) as f64;
            let (transfers, us) = (delta(|totals| totals.operations), delta(|totals| totals.latency_us));
            (transfers / seconds, if transfers > 0.0 { us / transfers / 1000.0 } else { 0.0 })
        };
        let (reads, read_ms) = rate(|io| &io.database_read);
        let (writes, write_ms) = rate(|io| &io.database_write);
        let (log_writes, log_write_ms) = rate(|io| &io.log_write);
        let limit = after.cache.limit_bytes.max(1) as f64;
        RunIoRates {
            reads,
            writes,
            log_writes,
            read_ms,
            write_ms,
            log_write_ms,
            operations: after.operations.saturating_sub(before.operations) as f64 / seconds,
            cache_percent: after.cache.used_bytes as f64 * 100.0 / limit,
        }
    }

    /// Returns the transactional I/O operations per second.
    pub fn iops(&self) -> f64 {
        self.reads + self.writes
    }
}

impl MonitorState {
    pub(super) fn begin(&mut self, phase: RunPhase, total: u64) {
        if matches!(phase, RunPhase::Create | RunPhase::Alone | RunPhase::Attach | RunPhase::Verify) {
            // The databases are reopened, so their counters start at zero.
            (self.counters, self.history) = (None, VecDeque::new());
        }
        (self.phase, self.total, self.done, self.done_at_start) = (Some(phase), total, 0, None);
        (self.began, self.note) = (Instant::now(), String::new());
    }

    pub(super) fn add_snapshot(&mut self, now: &CounterSnapshot) {
        if let Some(before) = &self.counters
            && now.at > before.at
        {
            self.history.push_back((now.at, RunIoRates::between(before, now)));
        }
        self.counters = Some(now.clone());
        while self.history.front().is_some_and(|(at, _)| now.at - at > HISTORY_DURATION.as_secs_f64()) {
            self.history.pop_front();
        }
    }

    pub(super) fn log(&mut self, line: &str) {
        self.log.push_back(line.to_string());
        if self.log.len() > MAX_LOG_LINES {
            self.log.pop_front();
        }
    }

    /// Returns the rates of the last second.
    pub fn rates(&self) -> Option<&RunIoRates> {
        self.history.back().map(|(_, rates)| rates)
    }

    /// Returns true if the total number of units in the phase is known.
    pub fn has_total(&self) -> bool {
        self.total > 1
    }

    /// Returns the completed fraction of the phase, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        if self.total == 0 { 1.0 } else { (self.done as f64 / self.total as f64).min(1.0) }
    }

    /// Returns the estimated time until the end of the phase.
    pub fn remaining(&self) -> Option<Duration> {
        let phase = self.phase.filter(|_| self.has_total())?;
        let left = self.total.saturating_sub(self.done);
        if phase.unit() == ProgressUnit::Milliseconds {
            return Some(Duration::from_millis(left));
        }
        let seconds = self.began.elapsed().as_secs_f64() * left as f64 / self.done_since_start() as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn done_since_start(&self) -> u64 {
        self.done.saturating_sub(self.done_at_start.unwrap_or(0))
    }

    /// Returns the phase's throughput in bytes per second.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let phase = self.phase.filter(|_| self.has_total())?;
        (phase.unit() == ProgressUnit::Bytes)
            .then(|| self.done_since_start() as f64 / self.began.elapsed().as_secs_f64().max(1e-3))
    }
}

impl RunMonitor {
    /// Returns a copy of the state.
    pub fn state(&self) -> MonitorState {
        self.0.lock().clone()
    }

    /// Changes the state, and passes the new state to `view`.
    pub(super) fn update(&self, change: impl FnOnce(&mut MonitorState), view: impl FnOnce(&MonitorState)) {
        let mut state = self.0.lock();
        change(&mut state);
        view(&state);
    }

    /// Records that the end of the run was requested.
    pub fn mark_stopping(&self) {
        self.0.lock().is_stopping = true;
    }
}
