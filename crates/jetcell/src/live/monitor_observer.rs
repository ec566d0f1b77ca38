//! Run observer that updates the shared state and draws the progress line.

use jetcell_workload::measurement::CounterSnapshot;
use jetcell_workload::{Observer, RunPhase};

use super::monitor::{MonitorState, RunMonitor};
use super::progress::RunProgressDisplay;

/// An observer that updates a [`RunMonitor`] and draws the progress line.
pub struct MonitorObserver {
    monitor: RunMonitor,
    progress: Option<RunProgressDisplay>,
}

impl MonitorObserver {
    /// Creates an observer. Without `progress`, it draws nothing.
    pub fn new(monitor: RunMonitor, progress: Option<RunProgressDisplay>) -> MonitorObserver {
        MonitorObserver { monitor, progress }
    }

    /// Removes the progress line.
    pub fn finish(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.finish();
        }
    }

    fn update(&mut self, change: impl FnOnce(&mut MonitorState)) {
        self.monitor.update(change, |state| {
            if let Some(progress) = &mut self.progress {
                progress.show(state);
            }
        });
    }
}

impl Observer for MonitorObserver {
    fn begin_phase(&mut self, phase: RunPhase, total: u64) {
        self.update(|state| state.begin(phase, total));
    }

    fn advance(&mut self, done: u64, note: &str) {
        self.update(|state| {
            state.done = done;
            state.done_at_start.get_or_insert(done);
            if state.note != note {
                state.note = note.to_string();
            }
        });
    }

    fn log(&mut self, line: &str) {
        self.update(|state| state.log(line));
    }

    fn report_counters(&mut self, now: &CounterSnapshot) {
        self.update(|state| state.add_snapshot(now));
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::{Duration, Instant};

    use jetcell_workload::measurement::{CacheUsage, InstanceIo};

    use super::*;

    /// Returns the counters after `at` seconds of a steady load on two instances.
    pub fn snapshot(at: u64) -> CounterSnapshot {
        let mut io = InstanceIo::default();
        for _ in 0..at * 10 {
            io.database_read.record(32768, 2_000);
            io.database_write.record(32768, 4_000);
            io.log_write.record(4096, 500);
        }
        let cache = CacheUsage { used_bytes: 96 << 20, limit_bytes: 128 << 20, stalls: at };
        CounterSnapshot {
            at: at as f64,
            io: vec![io.clone(), io],
            cache,
            operations: at * 50,
            ..CounterSnapshot::default()
        }
    }

    /// Returns a run in its measurement phase, `seconds` after the databases were opened.
    pub fn measuring(seconds: u64) -> RunMonitor {
        let monitor = RunMonitor::default();
        let mut watcher = MonitorObserver::new(monitor.clone(), None);
        watcher.begin_phase(RunPhase::Measure, 60_000);
        watcher.log("Measuring");
        for at in 0..=seconds {
            watcher.advance(at * 1000, "");
            watcher.report_counters(&snapshot(at));
        }
        monitor
    }

    #[test]
    fn rates_cover_the_last_second() {
        let state = measuring(3).state();
        let rates = state.rates().unwrap();
        assert_eq!((rates.iops(), rates.read_ms, rates.write_ms, rates.log_write_ms), (40.0, 2.0, 4.0, 0.5));
        assert_eq!((rates.operations, rates.cache_percent, state.history.len()), (50.0, 75.0, 3));
        assert_eq!((state.fraction(), state.remaining()), (0.05, Some(Duration::from_secs(57))));
    }

    #[test]
    fn opening_databases_resets_the_counters() {
        let monitor = measuring(3);
        let mut watcher = MonitorObserver::new(monitor.clone(), None);
        watcher.begin_phase(RunPhase::Attach, 1);
        let state = monitor.state();
        assert!(state.counters.is_none() && state.history.is_empty() && state.remaining().is_none());
        assert!(!state.has_total() && state.bytes_per_second().is_none());
    }

    #[test]
    fn a_phase_measured_in_bytes_estimates_the_end() {
        let monitor = RunMonitor::default();
        let mut watcher = MonitorObserver::new(monitor.clone(), None);
        watcher.begin_phase(RunPhase::Create, 400);
        assert_eq!(monitor.state().remaining(), None);
        // Units that were completed earlier are not included in the rate.
        watcher.advance(0, "");
        monitor.update(|state| state.began = Instant::now() - Duration::from_secs(10), |_| ());
        watcher.advance(100, "");
        let left = monitor.state().remaining().unwrap().as_secs_f64();
        assert!((30.0..31.0).contains(&left), "{left}");
        watcher.advance(900, "");
        assert_eq!((monitor.state().fraction(), monitor.state().remaining()), (1.0, Some(Duration::ZERO)));
    }
}
