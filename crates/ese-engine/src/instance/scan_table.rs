//! The progress of a scan, stored in the database's table `MSysDatabaseMaintenance`.

use ese_format::PageNumber;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::state_table::{StateTable, named_numbers};
use crate::Result;
use crate::database::Database;
use crate::events::PassReport;
use crate::scan::ScanState;
use crate::table::{ColumnDefinition, IndexDefinition, TableDefinition};
use crate::task::StateStore;

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

/// Stores the progress of a scan in a table of its database. ESE has a table with the same name.
#[doc(alias = "MSysDatabaseMaintenance")]
pub(super) struct ScanTable(StateTable);

impl ScanTable {
    pub fn new(instance: &Instance, database: &Arc<Database>) -> ScanTable {
        let mut columns = vec![ColumnDefinition::new(KEY, ColumnType::Long)];
        columns.extend(COLUMNS.map(|name| ColumnDefinition::new(name, ColumnType::LongLong)));
        let definition = TableDefinition {
            name: "MSysDatabaseMaintenance".to_string(),
            columns,
            indexes: vec![IndexDefinition::new("ById", &[KEY]).primary()],
            ..TableDefinition::default()
        };
        ScanTable(StateTable::new(instance, database, definition))
    }
}

impl StateStore<ScanState> for ScanTable {
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
        let mut row = named_numbers(COLUMNS, values);
        row.push((KEY, Value::Long(1)));
        self.0.save(&row)
    }
}
