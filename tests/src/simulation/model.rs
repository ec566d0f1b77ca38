//! Expected content of the simulated databases: every committed state, and the comparison with the content of the
//! engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ese_engine::Database;
use ese_engine::{ColumnDefinition, IndexDefinition, Result, Session, Table, TableDefinition};
use ese_format::record::{ColumnFlags, ColumnId, ColumnType, Value};

use super::deep::{is_deep, long_key, with_long_keys};

/// A record. Its id is the key in [`TableModel::rows`].
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ModelRow {
    pub group: Option<i32>,
    pub code: String,
    pub short: Option<Arc<[u8]>>,
    pub long: Option<Arc<[u8]>>,
}

/// Expected content of a table.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct TableModel {
    pub rows: BTreeMap<i32, ModelRow>,
    /// True if the index that is created later exists.
    pub extra: bool,
}

impl TableModel {
    pub fn has_code(&self, code: &str, except: Option<i32>) -> bool {
        self.rows.iter().any(|(id, row)| Some(*id) != except && row.code == code)
    }
}

/// All tables of all databases, by database number and table name.
pub(super) type ModelState = BTreeMap<(usize, String), Arc<TableModel>>;

/// Databases by number; `None` if the database is detached or does not exist yet.
pub(super) type AttachedDatabases = Vec<Option<Arc<Database>>>;

/// Describes the differences between two states. The description is empty if the states are equal.
pub(super) fn difference(expected: &ModelState, found: &ModelState) -> String {
    let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        match (expected.get(name), found.get(name)) {
            (Some(expected), Some(found)) if expected == found => {}
            (Some(expected), Some(found)) => {
                let ids: BTreeSet<_> = expected.rows.keys().chain(found.rows.keys()).collect();
                let differing = ids.into_iter().filter(|id| expected.rows.get(id) != found.rows.get(id));
                let differing: Vec<_> = differing
                    .map(|id| match (expected.rows.contains_key(id), found.rows.contains_key(id)) {
                        (true, false) => format!("{id} missing"),
                        (false, true) => format!("{id} too many"),
                        _ => format!("{id} differs"),
                    })
                    .collect();
                lines.push(format!("{name:?}: {differing:?}, index {} {}", expected.extra, found.extra));
            }
            (Some(_), None) => lines.push(format!("{name:?} is missing")),
            (None, _) => lines.push(format!("{name:?} should not be there")),
        }
    }
    lines.join("; ")
}

/// Returns the definition of a simulated table.
pub(super) fn definition(name: &str, auto: bool) -> TableDefinition {
    let definition = plain_definition(name, auto);
    if is_deep(name) { with_long_keys(definition) } else { definition }
}

fn plain_definition(name: &str, auto: bool) -> TableDefinition {
    let increment = if auto { ColumnFlags::AUTO_INCREMENT } else { ColumnFlags::empty() };
    TableDefinition {
        name: name.to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL | increment),
            ColumnDefinition::new("Group", ColumnType::Long),
            ColumnDefinition::new("Code", ColumnType::Text),
            ColumnDefinition::new("Short", ColumnType::Binary),
            ColumnDefinition::new("Long", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition {
                name: "ByGroup".to_string(),
                primary: false,
                unique: false,
                columns: vec![("Group".to_string(), true)],
            },
            IndexDefinition::new("ByCode", &["Code"]).unique(),
        ],
        pages: 4,
        ..TableDefinition::default()
    }
}

/// Returns the definition of the index that is created later.
pub(super) fn extra_index() -> IndexDefinition {
    IndexDefinition::new("Extra", &["Short", "Group"])
}

/// Columns of a table, by their meaning.
pub(super) struct TableColumns {
    id: ColumnId,
    group: ColumnId,
    code: ColumnId,
    short: ColumnId,
    long: ColumnId,
    /// Long key of a deep table.
    key: Option<ColumnId>,
}

impl TableColumns {
    pub fn from_table(table: &Table) -> TableColumns {
        let column = |name: &str| table.column(name).expect("simulated tables have these columns");
        TableColumns {
            id: column("Id"),
            group: column("Group"),
            code: column("Code"),
            short: column("Short"),
            long: column("Long"),
            key: table.column("Key"),
        }
    }

    /// Returns the key of a record in the primary index.
    pub fn key(&self, id: i32) -> Value {
        if self.key.is_some() { Value::Binary(long_key(id)) } else { Value::Long(id) }
    }

    /// Returns the id, and the long key if the table has one.
    pub fn identity(&self, id: i32) -> Vec<(ColumnId, Value)> {
        let key = self.key.map(|key| (key, Value::Binary(long_key(id))));
        [(self.id, Value::Long(id))].into_iter().chain(key).collect()
    }

    pub fn values(&self, row: &ModelRow) -> Vec<(ColumnId, Value)> {
        let binary =
            |bytes: &Option<Arc<[u8]>>| bytes.as_ref().map_or(Value::Null, |b| Value::Binary(b.to_vec()));
        vec![
            (self.group, row.group.map_or(Value::Null, Value::Long)),
            (self.code, Value::Text(row.code.clone())),
            (self.short, binary(&row.short)),
            (self.long, binary(&row.long)),
        ]
    }

    pub fn row(&self, table: &mut Table, s: &mut Session) -> Result<(i32, ModelRow)> {
        let mut get = |column| table.get(s, column);
        let Value::Long(id) = get(self.id)? else { panic!("a record without id") };
        let bytes = |value| if let Value::Binary(bytes) = value { Some(Arc::from(bytes)) } else { None };
        let row = ModelRow {
            group: if let Value::Long(group) = get(self.group)? { Some(group) } else { None },
            code: if let Value::Text(code) = get(self.code)? { code } else { String::new() },
            short: bytes(get(self.short)?),
            long: bytes(get(self.long)?),
        };
        Ok((id, row))
    }
}

/// Reads the whole content of a database in primary index order.
pub(super) fn read_all(number: usize, db: &Arc<Database>, s: &mut Session) -> Result<ModelState> {
    let mut state = ModelState::new();
    for name in s.tables(db)? {
        if name.starts_with("MSys") {
            continue;
        }
        let mut table = s.open_table(db, &name)?;
        let columns = TableColumns::from_table(&table);
        let mut model = TableModel { rows: BTreeMap::new(), extra: table.set_index(Some("Extra")).is_ok() };
        table.set_index(None)?;
        let mut found = table.first(s)?;
        while found {
            let (id, row) = columns.row(&mut table, s)?;
            assert!(model.rows.last_key_value().is_none_or(|(last, _)| *last < id), "{name}: order of {id}");
            model.rows.insert(id, row);
            found = table.next(s)?;
        }
        state.insert((number, name), Arc::new(model));
    }
    Ok(state)
}

/// Checks that every index lists the expected rows in order, in both directions.
pub(super) fn check_indexes(
    db: &Arc<Database>,
    s: &mut Session,
    name: &str,
    model: &TableModel,
) -> Result<()> {
    let mut table = s.open_table(db, name)?;
    let columns = TableColumns::from_table(&table);
    let sorted = |key: &dyn Fn(&ModelRow) -> Vec<u8>| {
        let mut all: Vec<(Vec<u8>, i32)> = model.rows.iter().map(|(id, row)| (key(row), *id)).collect();
        all.sort();
        all.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    // Descending, nulls last.
    let by_group = sorted(&|row| match row.group {
        Some(group) => [&[0][..], &(!(group as u32 ^ 0x8000_0000)).to_be_bytes()].concat(),
        None => vec![1],
    });
    let by_code = sorted(&|row| row.code.to_ascii_uppercase().into_bytes());
    for (index, expected) in [("ByGroup", by_group), ("ByCode", by_code)] {
        table.set_index(Some(index))?;
        let mut seen = Vec::new();
        let mut found = table.first(s)?;
        while found {
            seen.push(columns.row(&mut table, s)?.0);
            found = table.next(s)?;
        }
        assert_eq!(seen, expected, "{name}, index {index}");
        seen.clear();
        let mut found = table.last(s)?;
        while found {
            seen.push(columns.row(&mut table, s)?.0);
            found = table.previous(s)?;
        }
        seen.reverse();
        assert_eq!(seen, expected, "{name}, index {index} backwards");
    }
    if model.extra {
        table.set_index(Some("Extra"))?;
        let mut seen = BTreeSet::new();
        let mut found = table.first(s)?;
        while found {
            assert!(seen.insert(columns.row(&mut table, s)?.0), "{name}, index Extra: twice");
            found = table.next(s)?;
        }
        assert!(seen.iter().eq(model.rows.keys()), "{name}, index Extra");
    }
    Ok(())
}
