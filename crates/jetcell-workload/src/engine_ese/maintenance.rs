//! Maintenance of the databases during a run, and its results.

use std::time::{Duration, Instant};

use ese_engine::{DefragKind, DefragOptions, MaintenanceThrottle, ScanOptions};

use super::{EseStore, OpenInstance};
use crate::engine::Result;
use crate::measurement::{DefragSummary, ScanSummary};
use crate::profile::{Maintenance, MaintenanceSettings};

/// Accumulated running time of a maintenance task.
#[derive(Default)]
struct TaskRuntime {
    since: Option<Instant>,
    /// Running time accumulated up to the last stop, or `None` if the task was never stopped.
    accumulated: Option<Duration>,
}

impl TaskRuntime {
    fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.accumulated = Some(self.accumulated.unwrap_or_default() + since.elapsed());
        }
    }
}

/// Accumulated running times for a run's maintenance tasks.
#[derive(Default)]
pub(super) struct TaskRuntimes {
    scan: TaskRuntime,
    defrag: TaskRuntime,
    layout: TaskRuntime,
}

impl EseStore {
    /// Starts the maintenance tasks. Without a time window, all databases of a test are scanned concurrently, as in
    /// Jetstress. A scan starts from the beginning and does not resume a pass from a previous test.
    pub(super) fn start_tasks(&self, settings: &MaintenanceSettings) -> Result<()> {
        let Maintenance { scan, zero, defrag, layout } = settings.tasks;
        let mut times = self.worked.lock();
        if scan {
            times.scan.start();
        }
        if defrag {
            times.defrag.start();
        }
        if layout {
            times.layout.start();
        }
        for (index, unit) in self.units.iter().enumerate() {
            let windows = settings.windows(self.disk_positions[index])?;
            let throttle = MaintenanceThrottle::pausing(settings.pause);
            if scan {
                let (throttle, window) = (throttle.clone(), windows.scan);
                let options = ScanOptions { throttle, window, zero, ..ScanOptions::default() };
                unit.instance.start_maintenance(&unit.database, options)?;
            }
            let kinds = [
                (defrag, DefragKind::Compaction, windows.defrag),
                (layout, DefragKind::SequentialLayout, windows.layout),
            ];
            for (_, kind, window) in kinds.into_iter().filter(|(wanted, ..)| *wanted) {
                let throttle = throttle.clone();
                let options = DefragOptions { kind, throttle, window, ..DefragOptions::default() };
                unit.instance.start_defragmentation(&unit.database, options)?;
            }
        }
        Ok(())
    }

    pub(super) fn stop_tasks(&self) {
        for unit in &self.units {
            unit.instance.stop_defragmentation(&unit.database);
            unit.instance.stop_scan(&unit.database);
        }
        let mut times = self.worked.lock();
        times.scan.stop();
        times.defrag.stop();
        times.layout.stop();
    }

    pub(super) fn scans(&self) -> Vec<ScanSummary> {
        let Some(worked) = self.worked.lock().scan.accumulated else { return Vec::new() };
        let summary = |unit: &OpenInstance| {
            let path = unit.database.path().to_path_buf();
            ScanSummary::new(path, worked.as_secs_f64(), &unit.database.scan_progress())
        };
        self.units.iter().map(summary).collect()
    }

    pub(super) fn defragmentations(&self) -> Vec<DefragSummary> {
        let times = self.worked.lock();
        let mut all = Vec::new();
        for unit in &self.units {
            let path = || unit.database.path().to_path_buf();
            if let Some(worked) = times.defrag.accumulated {
                let progress = unit.database.defrag_progress();
                all.push(DefragSummary::new(path(), worked.as_secs_f64(), &progress));
            }
            if let Some(worked) = times.layout.accumulated {
                let progress = unit.database.layout_progress();
                all.push(DefragSummary::for_layout(path(), worked.as_secs_f64(), &progress));
            }
        }
        all
    }
}
