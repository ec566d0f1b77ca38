//! The state of a compaction, stored in the database's table `MSysDefrag2`.

use ese_format::TreeId;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::state_table::{StateTable, date_time, named_numbers, number, unix_ms};
use crate::Result;
use crate::database::Database;
use crate::defrag::{DefragPosition, DefragState};
use crate::events::{DefragReport, DefragTotals};
use crate::table::{ColumnDefinition, TableDefinition};
use crate::task::StateStore;

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

/// Stores the state of defragmentation in the table `MSysDefrag2`.
#[doc(alias = "MSysDefrag2")]
pub(super) struct DefragTable(StateTable);

impl DefragTable {
    pub fn new(instance: &Instance, database: &Arc<Database>) -> DefragTable {
        let mut columns = vec![ColumnDefinition::new(PASS_START, ColumnType::DateTime)];
        columns.extend(NUMBERS.map(|name| ColumnDefinition::new(name, ColumnType::LongLong)));
        columns.push(ColumnDefinition::new(CURRENT_KEY, ColumnType::LongBinary));
        let definition =
            TableDefinition { name: "MSysDefrag2".to_string(), columns, ..TableDefinition::default() };
        DefragTable(StateTable::new(instance, database, definition))
    }
}

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
        let mut row = named_numbers(NUMBERS, numbers);
        row.push((PASS_START, date_time(pass.began_unix_ms)));
        let key = position.map(|position| &position.key).filter(|key| !key.is_empty());
        row.push((CURRENT_KEY, key.map_or(Value::Null, |key| Value::Binary(key.clone()))));
        self.0.save(&row)
    }
}
