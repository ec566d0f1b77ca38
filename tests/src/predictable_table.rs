//! A table whose rows can be predicted from their keys, for tests of failing storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use ese_engine::{
    ColumnDefinition, Database, IndexDefinition, Result, SeekRelation, Session, TableDefinition,
};
use ese_format::record::{ColumnFlags, ColumnType, Value};

/// Committed rows: length in bytes by key.
pub type PredictableRows = BTreeMap<i32, usize>;

/// Returns the definition of the table.
pub fn definition() -> TableDefinition {
    TableDefinition {
        name: "Things".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        pages: 4,
        ..TableDefinition::default()
    }
}

/// Inserts or replaces some rows, chosen by the number of the round, without a commit.
///
/// # Errors
/// Returns the first error of the engine.
pub fn change(s: &mut Session, db: &Arc<Database>, model: &mut PredictableRows, round: i32) -> Result<()> {
    let mut table = s.open_table(db, "Things")?;
    let (id, body) = (table.column("Id").unwrap(), table.column("Body").unwrap());
    for i in 0..4 {
        let key = (round * 7919 + i * 613) % 4000;
        let len = [100, 900, 1500, 6000][(key as usize + round as usize) % 4];
        let value = (body, Value::Binary(vec![key as u8; len]));
        if table.seek(s, &[Value::Long(key)], SeekRelation::Equal)? {
            table.replace(s, &[value])?;
        } else {
            table.insert(s, &[(id, Value::Long(key)), value])?;
        }
        model.insert(key, len);
    }
    Ok(())
}

/// Returns all rows, and verifies each byte.
pub fn contents(s: &mut Session, db: &Arc<Database>) -> PredictableRows {
    let mut table = s.open_table(db, "Things").unwrap();
    let (id, body) = (table.column("Id").unwrap(), table.column("Body").unwrap());
    let mut all = PredictableRows::new();
    let mut found = table.first(s).unwrap();
    while found {
        let Value::Long(key) = table.get(s, id).unwrap() else { panic!("no id") };
        let Value::Binary(bytes) = table.get(s, body).unwrap() else { panic!("no body") };
        assert!(bytes.iter().all(|byte| *byte == key as u8));
        all.insert(key, bytes.len());
        found = table.next(s).unwrap();
    }
    all
}
