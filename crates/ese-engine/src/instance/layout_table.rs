//! The queue for a sequential layout, stored in the database's table `MSysOLD2` with ESE's column names.

use ese_format::TreeId;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;

use super::Instance;
use super::state_table::{StateTable, date_time, named_numbers, number, number_value, unix_ms};
use crate::Result;
use crate::database::Database;
use crate::defrag::{DefragPosition, DefragState, QueuedTree};
use crate::events::DefragReport;
use crate::table::{ColumnDefinition, TableDefinition};
use crate::task::StateStore;

/// Stores the queue for a sequential layout in the table `MSysOLD2`.
#[doc(alias = "MSysOLD2")]
pub(super) struct LayoutTable(StateTable);

const TREE: &str = "ObjidFDP";
const NUMBERS: [&str; 5] = ["ObjidTable", "PagesVisited", "PagesFreed", "PartialMerges", "PageMoves"];
const TIMES: [&str; 2] = ["StartDateTime", "UpdateTime"];
/// Names of the position columns. ESE needs two columns, for a record's key and data. A layout position is a
/// separator, which is a single string.
const KEYS: [&str; 2] = ["BookmarkKey", "BookmarkData"];

impl LayoutTable {
    pub fn new(instance: &Instance, database: &Arc<Database>) -> LayoutTable {
        let mut columns = vec![ColumnDefinition::new(TREE, ColumnType::LongLong)];
        columns.extend(NUMBERS.map(|name| ColumnDefinition::new(name, ColumnType::LongLong)));
        columns.extend(TIMES.map(|name| ColumnDefinition::new(name, ColumnType::DateTime)));
        columns.extend(KEYS.map(|name| ColumnDefinition::new(name, ColumnType::LongBinary)));
        let definition =
            TableDefinition { name: "MSysOLD2".to_string(), columns, ..TableDefinition::default() };
        LayoutTable(StateTable::new(instance, database, definition))
    }
}

fn tree(value: &Value) -> TreeId {
    TreeId(u32::try_from(number(value)).unwrap_or_default())
}

impl StateStore<DefragState> for LayoutTable {
    fn load(&self) -> Result<Option<DefragState>> {
        let [table, visited, freed, merges, moves] = NUMBERS;
        let records =
            self.0.load_all([TREE, table, visited, freed, merges, moves, TIMES[0], TIMES[1], KEYS[0]])?;
        let queued =
            |[of, table, visited, freed, merges, moves, began, updated, key]: [Value; 9]| QueuedTree {
                table: tree(&table),
                tree: tree(&of),
                began_unix_ms: unix_ms(&began),
                updated_unix_ms: unix_ms(&updated).unwrap_or_default(),
                pages_visited: number(&visited),
                pages_freed: number(&freed),
                partial_merges: number(&merges),
                pages_moved: number(&moves),
                key: if let Value::Binary(key) = key { key } else { Vec::new() },
            };
        let mut queue: Vec<QueuedTree> = records.into_iter().map(queued).collect();
        queue.sort_by_key(|queued| queued.tree);
        let Some(first) = queue.first() else { return Ok(None) };
        let began_unix_ms = queue.iter().filter_map(|queued| queued.began_unix_ms).min();
        let pass = DefragReport {
            began_unix_ms: began_unix_ms.unwrap_or(first.updated_unix_ms),
            invocations: 1,
            pages_visited: first.pages_visited,
            pages_freed: first.pages_freed,
            partial_merges: first.partial_merges,
            pages_moved: first.pages_moved,
            ..DefragReport::default()
        };
        let position = Some(DefragPosition { tree: first.tree, key: first.key.clone() });
        Ok(Some(DefragState { pass, position, queue }))
    }

    fn save(&self, state: &DefragState) -> Result<()> {
        let record = |queued: &QueuedTree| {
            let numbers = [
                u64::from(queued.table.0),
                queued.pages_visited,
                queued.pages_freed,
                queued.partial_merges,
                queued.pages_moved,
            ];
            let mut values = named_numbers(NUMBERS, numbers);
            values.push((TIMES[0], queued.began_unix_ms.map_or(Value::Null, date_time)));
            values.push((TIMES[1], date_time(queued.updated_unix_ms)));
            let key = Some(&queued.key).filter(|key| !key.is_empty());
            values.push((KEYS[0], key.map_or(Value::Null, |key| Value::Binary(key.clone()))));
            (number_value(u64::from(queued.tree.0)), values)
        };
        self.0.save_all(state.queue.iter().map(record).collect())
    }
}
