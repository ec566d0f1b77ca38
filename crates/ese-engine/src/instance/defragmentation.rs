//! Online defragmentation of the databases of the instance, and the tables that store its state.

use ese_format::TreeId;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::layout_table::LayoutTable;
use super::state_table::{StateTable, date_time, number, unix_ms};
use crate::Result;
use crate::database::Database;
use crate::defrag::{DefragKind, DefragOptions, DefragPass, DefragPosition, DefragState};
use crate::events::{DefragReport, DefragTotals};
use crate::table::{ColumnDefinition, TableDefinition};
use crate::task::StateStore;

impl Instance {
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
                DefragKind::Compaction => {
                    Box::new(DefragTable(StateTable::new(self, database, definition())))
                }
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

/// Names of the numeric columns, as in ESE. `ObjidFDP` is the tree where the pass resumes, or 0 when the pass is
/// complete.
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

fn definition() -> TableDefinition {
    let mut columns = vec![ColumnDefinition::new(PASS_START, ColumnType::DateTime)];
    columns.extend(NUMBERS.map(|name| ColumnDefinition::new(name, ColumnType::LongLong)));
    columns.push(ColumnDefinition::new(CURRENT_KEY, ColumnType::LongBinary));
    TableDefinition { name: "MSysDefrag2".to_string(), columns, ..TableDefinition::default() }
}

/// Stores the state of defragmentation in the table `MSysDefrag2`.
#[doc(alias = "MSysDefrag2")]
struct DefragTable(StateTable);

impl StateStore<DefragState> for DefragTable {
    fn load(&self) -> Result<Option<DefragState>> {
        let Some(numbers) = self.0.load(NUMBERS)? else { return Ok(None) };
        let Some([start, key]) = self.0.load([PASS_START, CURRENT_KEY])? else { return Ok(None) };
        let [tree, seconds, invocations, pages_visited, pages_freed, partial_merges, total @ ..] =
            numbers.map(|value| number(&value));
        let began_unix_ms = unix_ms(&start).unwrap_or_default();
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
            pages_moved: 0,
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
            queue: Vec::new(),
        }))
    }

    fn save(&self, state: &DefragState) -> Result<()> {
        let (pass, total) = (&state.pass, &state.pass.total);
        let position = state.position.as_ref();
        let numbers = [
            // No tree has id 0, so a position before the first tree is stored as 1.
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
        row.push((PASS_START, date_time(pass.began_unix_ms)));
        let key = position.map(|position| &position.key).filter(|key| !key.is_empty());
        row.push((CURRENT_KEY, key.map_or(Value::Null, |key| Value::Binary(key.clone()))));
        self.0.save(&row)
    }
}
