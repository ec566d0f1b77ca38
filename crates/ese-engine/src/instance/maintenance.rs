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
use crate::pace::MaintenanceThrottle;
use crate::scan::{ScanOptions, ScanProgressStore};
use crate::table::{ColumnDefinition, IndexDefinition, TableDefinition};

/// Minimum pause after a scan step that failed.
const SCAN_RETRY: Duration = Duration::from_millis(100);

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
        let keeper = options.keep_progress.then(|| -> Box<dyn ScanProgressStore> {
            Box::new(ProgressTable(StateTable::new(self, database, definition())))
        });
        self.begin_scan(database, options, keeper)
    }

    fn begin_scan(
        &self,
        database: &Arc<Database>,
        options: ScanOptions,
        keeper: Option<Box<dyn ScanProgressStore>>,
    ) -> Result<bool> {
        let pause = options.throttle.pause.max(SCAN_RETRY);
        if !database.scan.begin(options, keeper)? {
            return Ok(false);
        }
        if self.options.threads {
            let database = Arc::downgrade(database);
            // The scan reports a failed step as an event and in its progress information.
            let step = move || database.upgrade()?.scan.step().unwrap_or(Some(pause));
            self.background.repeat_after("scan", step);
        }
        Ok(true)
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

impl ScanProgressStore for ProgressTable {
    fn load(&self) -> Result<Option<(PassReport, PageNumber)>> {
        let Some(values) = self.0.load(COLUMNS)? else { return Ok(None) };
        let number = |value| if let Value::LongLong(stored) = value { stored.max(0) } else { 0 };
        let [page, zeroing, began, counts @ ..] = values.map(number);
        let [seconds, invocations, pages, bad, uninitialized, unchanged, unused_zeroed, used, zeroed] =
            counts.map(|count| count as u64);
        let pass = PassReport {
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
        Ok(u32::try_from(page).ok().and_then(PageNumber::new).map(|next| (pass, next)))
    }

    fn save(&self, pass: &PassReport, next: Option<PageNumber>) -> Result<()> {
        let values = [
            next.map_or(0, |page| u64::from(page.get())),
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
