//! Online defragmentation of the databases of the instance, and its state in the databases.

use std::time::Duration;

use ese_format::TreeId;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::state_table::StateTable;
use crate::Result;
use crate::database::Database;
use crate::defrag::{DefragKeeper, DefragOptions, DefragPosition, DefragState};
use crate::events::{DefragReport, DefragTotals};
use crate::table::{ColumnDefinition, TableDefinition};

/// Minimum pause after a step that failed.
const RETRY: Duration = Duration::from_millis(100);

impl Instance {
    /// Starts online defragmentation of a database. It runs until it is stopped, the database is detached or the instance is
    /// shut down. Returns `false` if it is running.
    ///
    /// Errors: the options are impossible; the instance refuses changes; the stored state cannot be read.
    #[doc(alias = "JetDefragment")]
    pub fn start_defragmentation(&self, database: &Arc<Database>, options: DefragOptions) -> Result<bool> {
        options.check()?;
        self.core.check_writable()?;
        let keeper = options.keep_progress.then(|| -> Box<dyn DefragKeeper> {
            Box::new(DefragTable(StateTable::new(self, database, definition())))
        });
        let pause = options.throttle.pause.max(RETRY);
        if !database.defragmentation.begin(options, keeper)? {
            return Ok(false);
        }
        if self.options.threads {
            let database = Arc::downgrade(database);
            // A step that failed is reported as an event, and in the progress.
            let step = move || database.upgrade()?.defragmentation.step().unwrap_or(Some(pause));
            self.background.repeat_after("defrag", step);
        }
        Ok(true)
    }

    /// Stops the defragmentation of a database after its current step, and stores its state if it keeps any.
    #[doc(alias = "JET_bitDefragmentBatchStop")]
    pub fn stop_defragmentation(&self, database: &Database) {
        database.defragmentation.stop();
        self.background.wake();
    }
}

/// The columns with numbers, as ESE names them. `ObjidFDP` is the tree of the position, 0 when the pass is complete.
const NUMBERS: [&str; 13] = [
    "ObjidFDP",
    "PassElapsedSeconds",
    "PassInvocations",
    "PassPagesVisited",
    "PassPagesFreed",
    "PassPartialMerges",
    "TotalPasses",
    "TotalElapsedSeconds",
    "TotalInvocations",
    "TotalDefragDays",
    "TotalPagesVisited",
    "TotalPagesFreed",
    "TotalPartialMerges",
];
const PASS_START: &str = "PassStartDateTime";
const CURRENT_KEY: &str = "CurrentKey";

/// The beginning of 1970 as ESE counts days.
const DAYS_TO_1970: f64 = 25_569.0;
const DAY_MS: f64 = 86_400_000.0;

fn definition() -> TableDefinition {
    let mut columns = vec![ColumnDefinition::new(PASS_START, ColumnType::DateTime)];
    columns.extend(NUMBERS.map(|name| ColumnDefinition::new(name, ColumnType::LongLong)));
    columns.push(ColumnDefinition::new(CURRENT_KEY, ColumnType::LongBinary));
    TableDefinition { name: "MSysDefrag2".to_string(), columns, ..TableDefinition::default() }
}

/// Stores the state in the table `MSysDefrag2`.
#[doc(alias = "MSysDefrag2")]
struct DefragTable(StateTable);

fn number(value: &Value) -> u64 {
    match value {
        Value::LongLong(number) => u64::try_from(*number).unwrap_or_default(),
        _ => 0,
    }
}

impl DefragKeeper for DefragTable {
    fn load(&self) -> Result<Option<DefragState>> {
        let Some(numbers) = self.0.load(NUMBERS)? else { return Ok(None) };
        let Some([start, key]) = self.0.load([PASS_START, CURRENT_KEY])? else { return Ok(None) };
        let [tree, seconds, invocations, pages_visited, pages_freed, partial_merges, total @ ..] =
            numbers.map(|value| number(&value));
        let began_unix_ms = match start {
            Value::DateTime(days) => ((days - DAYS_TO_1970) * DAY_MS).round() as i64,
            _ => 0,
        };
        let key = if let Value::Binary(key) = key { key } else { Vec::new() };
        let position = u32::try_from(tree).ok().filter(|tree| *tree > 0);
        let pass = DefragReport {
            began_unix_ms,
            seconds,
            invocations,
            days: 0,
            pages_visited,
            pages_freed,
            partial_merges,
            total: DefragTotals {
                passes: total[0],
                seconds: total[1],
                invocations: total[2],
                days: total[3],
                pages_visited: total[4],
                pages_freed: total[5],
                partial_merges: total[6],
            },
        };
        Ok(Some(DefragState {
            pass,
            position: position.map(|tree| DefragPosition { tree: TreeId(tree), key }),
        }))
    }

    fn save(&self, state: &DefragState) -> Result<()> {
        let (pass, total) = (&state.pass, &state.pass.total);
        let position = state.position.as_ref();
        let numbers = [
            // No tree has the id 0, and 1 is before all others.
            position.map_or(0, |position| u64::from(position.tree.0.max(1))),
            pass.seconds,
            pass.invocations,
            pass.pages_visited,
            pass.pages_freed,
            pass.partial_merges,
            total.passes,
            total.seconds,
            total.invocations,
            total.days,
            total.pages_visited,
            total.pages_freed,
            total.partial_merges,
        ];
        let mut row: Vec<(&str, Value)> = NUMBERS
            .into_iter()
            .zip(numbers.map(|number| Value::LongLong(i64::try_from(number).unwrap_or(i64::MAX))))
            .collect();
        row.push((PASS_START, Value::DateTime(pass.began_unix_ms as f64 / DAY_MS + DAYS_TO_1970)));
        let key = position.map(|position| &position.key).filter(|key| !key.is_empty());
        row.push((CURRENT_KEY, key.map_or(Value::Null, |key| Value::Binary(key.clone()))));
        self.0.save(&row)
    }
}
