//! Scans of the databases of the instance, and their progress in the databases.

use std::time::Duration;

use ese_format::PageNumber;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::state_table::StateTable;
use crate::Result;
use crate::database::Database;
use crate::events::PassReport;
use crate::pace::Throttle;
use crate::scan::{ProgressKeeper, ScanOptions};
use crate::table::{ColumnDefinition, IndexDefinition, TableDefinition};

/// Minimum pause after a step of a scan that failed.
const SCAN_RETRY: Duration = Duration::from_millis(100);

impl Instance {
    /// Starts a continuous checksum scan of a database: it runs pass after pass, with `pause` after each read, until it
    /// is stopped or the database is detached; see [`Database::scan_progress`]. Does nothing if a scan is running.
    #[doc(alias = "JetDatabaseScan")]
    pub fn start_scan(&self, database: &Arc<Database>, pause: Duration) {
        // Without stored progress, nothing can fail.
        let _ = self.begin_scan(
            database,
            ScanOptions { throttle: Throttle::pausing(pause), ..ScanOptions::default() },
            None,
        );
    }

    /// Starts a scan of a database that verifies its pages, and overwrites what deleted data leave behind if the options
    /// say so. It runs until it is stopped, the database is detached or the instance is shut down. Returns `false` if a
    /// scan is running.
    ///
    /// Errors: the options are impossible; the instance refuses changes, and the scan would make some; the stored progress
    /// cannot be read.
    #[doc(alias = "JetDatabaseScan")]
    pub fn start_maintenance(&self, database: &Arc<Database>, options: ScanOptions) -> Result<bool> {
        options.check()?;
        if options.zero || options.keep_progress {
            self.core.check_writable()?;
        }
        let keeper = options.keep_progress.then(|| -> Box<dyn ProgressKeeper> {
            Box::new(ProgressTable(StateTable::new(self, database, definition())))
        });
        self.begin_scan(database, options, keeper)
    }

    fn begin_scan(
        &self,
        database: &Arc<Database>,
        options: ScanOptions,
        keeper: Option<Box<dyn ProgressKeeper>>,
    ) -> Result<bool> {
        let pause = options.throttle.pause.max(SCAN_RETRY);
        if !database.scan.begin(options, keeper)? {
            return Ok(false);
        }
        if self.options.threads {
            let database = Arc::downgrade(database);
            // The scan reports a step that failed as an event, and in its progress.
            let step = move || database.upgrade()?.scan.step().unwrap_or(Some(pause));
            self.background.repeat_after("scan", step);
        }
        Ok(true)
    }

    /// Stops the scan of a database, and stores its progress if it keeps any. Returns within milliseconds, unless the
    /// device is slow to answer the last read.
    pub fn stop_scan(&self, database: &Database) {
        database.scan.stop();
        self.background.wake();
    }
}

/// The key of the only record.
const KEY: &str = "Id";

/// The columns: `Page` is the next page, 0 when the pass is complete; times in milliseconds since 1970 UTC.
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

/// Stores the progress of a scan in a table of its database. ESE has one of this name.
#[doc(alias = "MSysDatabaseMaintenance")]
struct ProgressTable(StateTable);

impl ProgressKeeper for ProgressTable {
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
