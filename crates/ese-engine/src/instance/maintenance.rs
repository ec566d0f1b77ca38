//! Scans of the instance's databases, and the table that stores their progress.

use std::time::Duration;

use ese_format::PageNumber;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::state_table::StateTable;
use crate::Result;
use crate::database::Database;
use crate::events::PassReport;
use crate::scan::{ScanOptions, ScanPass, ScanState};
use crate::table::{ColumnDefinition, IndexDefinition, TableDefinition};
use crate::task::{MaintenancePass, MaintenanceTask, MaintenanceThrottle, StateStore};

/// Minimum pause after a step that failed.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Instance {
    /// Starts a continuous checksum scan of a database. The scan runs pass after pass, with `pause` after each read,
    /// until it is stopped or the database is detached; see [`Database::scan_progress`]. Does nothing if a scan is
    /// already running.
    #[doc(alias = "JetDatabaseScan")]
    pub fn start_scan(&self, database: &Arc<Database>, pause: Duration) {
        // This can fail only when stored progress is accessed, and this scan does not store any.
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
        let store = options.keep_progress.then(|| -> Box<dyn StateStore<ScanState>> {
            Box::new(ProgressTable(StateTable::new(self, database, definition())))
        });
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
}

/// Key column of the table's only record.
const KEY: &str = "Id";

/// Names of the columns. `Page` is the next page, or 0 when the pass is complete. Times are in milliseconds since
/// 1970 UTC.
const COLUMNS: [&str; 12] = [
    "Page",
    "Zeroing",
    "Began",
    "Seconds",
    "Invocations",
    "Pages",
    "BadChecksums",
    "Uninitialized",
    "Unchanged",
    "UnusedZeroed",
    "Used",
    "Zeroed",
];

fn definition() -> TableDefinition {
    let mut columns = vec![ColumnDefinition::new(KEY, ColumnType::Long)];
    columns.extend(COLUMNS.map(|name| ColumnDefinition::new(name, ColumnType::LongLong)));
    TableDefinition {
        name: "MSysDatabaseMaintenance".to_string(),
        columns,
        indexes: vec![IndexDefinition::new("ById", &[KEY]).primary()],
        ..TableDefinition::default()
    }
}

/// Stores the progress of a scan in a table of its database. ESE has a table with the same name.
#[doc(alias = "MSysDatabaseMaintenance")]
struct ProgressTable(StateTable);

impl StateStore<ScanState> for ProgressTable {
    fn load(&self) -> Result<Option<ScanState>> {
        let Some(values) = self.0.load(COLUMNS)? else { return Ok(None) };
        let number = |value| if let Value::LongLong(stored) = value { stored.max(0) } else { 0 };
        let [page, zeroing, began, counts @ ..] = values.map(number);
        let [seconds, invocations, pages, bad, uninitialized, unchanged, unused_zeroed, used, zeroed] =
            counts.map(|count| count as u64);
        let report = PassReport {
            zeroing: zeroing != 0,
            began_unix_ms: began,
            seconds,
            invocations,
            pages,
            bad,
            uninitialized,
            unchanged,
            unused_zeroed,
            used,
            records_zeroed: zeroed & u64::from(u32::MAX),
            chunks_zeroed: zeroed >> 32,
            ..PassReport::default()
        };
        let next = u32::try_from(page).ok().and_then(PageNumber::new);
        Ok(next.is_some().then_some(ScanState { report, next }))
    }

    fn save(&self, state: &ScanState) -> Result<()> {
        let pass = &state.report;
        let values = [
            state.next.map_or(0, |page| u64::from(page.get())),
            u64::from(pass.zeroing),
            pass.began_unix_ms.max(0) as u64,
            pass.seconds,
            pass.invocations,
            pass.pages,
            pass.bad,
            pass.uninitialized,
            pass.unchanged,
            pass.unused_zeroed,
            pass.used,
            pass.chunks_zeroed << 32 | pass.records_zeroed & u64::from(u32::MAX),
        ];
        let values = values.map(|value| Value::LongLong(i64::try_from(value).unwrap_or(i64::MAX)));
        let mut row: Vec<(&str, Value)> = COLUMNS.into_iter().zip(values).collect();
        row.push((KEY, Value::Long(1)));
        self.0.save(&row)
    }
}
