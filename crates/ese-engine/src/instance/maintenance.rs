//! Starts and stops the scans and the defragmentation of the instance's databases.

use std::time::Duration;

use jetcell_sync::Arc;

use super::Instance;
use super::defrag_table::DefragTable;
use super::layout_table::LayoutTable;
use super::scan_table::ScanTable;
use crate::Result;
use crate::database::Database;
use crate::defrag::{DefragKind, DefragOptions, DefragPass, DefragState};
use crate::scan::{ScanOptions, ScanPass, ScanState};
use crate::task::{MaintenancePass, MaintenanceTask, MaintenanceThrottle, StateStore};

/// Minimum pause after a step that failed.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Instance {
    /// Starts a continuous checksum scan of a database. The scan runs pass after pass, with `pause` after each read,
    /// until it is stopped or the database is detached; see [`Database::scan_progress`]. Does nothing if a scan is
    /// already running.
    #[doc(alias = "JetDatabaseScan")]
    pub fn start_scan(&self, database: &Arc<Database>, pause: Duration) {
        // Starting a scan can fail only when it accesses stored progress. This scan does not store any.
        let _ = self.begin_scan(
            database,
            ScanOptions { throttle: MaintenanceThrottle::pausing(pause), ..ScanOptions::default() },
            None,
        );
    }

    /// Starts a scan that verifies the pages of a database. If the options request it, the scan also overwrites
    /// remnants of deleted data. The scan runs until it is stopped, the database is detached or the instance is shut
    /// down. Returns `false` if a scan is already running.
    ///
    /// Returns an error if the options are invalid, if the scan would make changes but the instance refuses them, or
    /// if the stored progress cannot be read.
    #[doc(alias = "JetDatabaseScan")]
    pub fn start_maintenance(&self, database: &Arc<Database>, options: ScanOptions) -> Result<bool> {
        options.check()?;
        if options.zero || options.keep_progress {
            self.core.check_writable()?;
        }
        let store = options
            .keep_progress
            .then(|| -> Box<dyn StateStore<ScanState>> { Box::new(ScanTable::new(self, database)) });
        self.begin_scan(database, options, store)
    }

    fn begin_scan(
        &self,
        database: &Arc<Database>,
        options: ScanOptions,
        store: Option<Box<dyn StateStore<ScanState>>>,
    ) -> Result<bool> {
        let schedule = options.schedule();
        let pause = schedule.throttle.pause;
        if !database.scan.begin(schedule, |host| ScanPass::new(host, options, store))? {
            return Ok(false);
        }
        self.repeat_task("scan", database, pause, |database| &database.scan);
        Ok(true)
    }

    /// Runs the steps of a maintenance task in the background, if the instance has threads.
    pub(super) fn repeat_task<P: MaintenancePass + 'static>(
        &self,
        name: &str,
        database: &Arc<Database>,
        pause: Duration,
        task: impl Fn(&Database) -> &MaintenanceTask<P> + Send + 'static,
    ) {
        if !self.options.background.has_threads() {
            return;
        }
        let (database, retry_pause) = (Arc::downgrade(database), pause.max(MIN_RETRY_PAUSE));
        // The task reports a failed step as an event and in its progress information.
        let step = move || task(&*database.upgrade()?).step().unwrap_or(Some(retry_pause));
        self.background.repeat_after(name, step);
    }

    /// Stops the scan of a database, and stores its progress if the options request it. Returns within milliseconds,
    /// unless the last read is slow.
    pub fn stop_scan(&self, database: &Database) {
        database.scan.stop();
        self.background.wake();
    }

    /// Starts online defragmentation of a database. It runs until it is stopped, the database is detached or the
    /// instance is shut down. Returns `false` if this kind of defragmentation is already running.
    ///
    /// Returns an error if the options are invalid, if the instance refuses changes, or if the stored state cannot be
    /// read.
    #[doc(alias = "JetDefragment")]
    pub fn start_defragmentation(&self, database: &Arc<Database>, options: DefragOptions) -> Result<bool> {
        options.check()?;
        self.core.check_writable()?;
        let store = options.keep_progress.then(|| -> Box<dyn StateStore<DefragState>> {
            match options.kind {
                DefragKind::Compaction => Box::new(DefragTable::new(self, database)),
                DefragKind::SequentialLayout => Box::new(LayoutTable::new(self, database)),
            }
        });
        let (kind, schedule) = (options.kind, options.schedule());
        let (pause, tables) = (schedule.throttle.pause, database.system.clone());
        let task = database.defragmentation(kind);
        if !task.begin(schedule, |host| DefragPass::new(host, tables, options, store))? {
            return Ok(false);
        }
        self.repeat_task("defrag", database, pause, move |database| database.defragmentation(kind));
        Ok(true)
    }

    /// Stops all defragmentation of a database after the current steps, and stores the state if the options request
    /// it.
    #[doc(alias = "JET_bitDefragmentBatchStop")]
    pub fn stop_defragmentation(&self, database: &Database) {
        database.stop_defragmentation();
        self.background.wake();
    }
}
