//! Tests of the view of other sessions while a session changes a definition, and after that change was rolled back.

use ese_engine::{ColumnDefinition, CommitMode, Error, IndexDefinition, Session, Table, TableDefinition};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnId, ColumnType, Value};

use super::tables::{AttachedDatabase, in_transaction};

/// Id of the first column of variable size. The next constant is the first column of fixed size.
const NAME: ColumnId = ColumnId(128);
const NUMBER: ColumnId = ColumnId(1);

/// Returns the definition of a table without indexes, with a name and an auto-increment number.
fn definition() -> TableDefinition {
    let number = ColumnDefinition::new("Number", ColumnType::Long).with_flags(ColumnFlags::AUTO_INCREMENT);
    TableDefinition {
        name: "Log".into(),
        columns: vec![ColumnDefinition::new("Name", ColumnType::Text), number],
        ..TableDefinition::default()
    }
}

fn by_name(index: &str) -> IndexDefinition {
    IndexDefinition::new(index, &["Name"])
}

/// Creates an instance with a database that contains the table.
fn attached() -> AttachedDatabase {
    let attached = AttachedDatabase::new(PageSize::KIB_4);
    let mut s = attached.instance.session();
    in_transaction(&mut s, |s| s.create_table(&attached.db, &definition()).unwrap());
    attached
}

fn open(s: &mut Session, attached: &AttachedDatabase) -> Table {
    s.open_table(&attached.db, "Log").unwrap()
}

fn insert(s: &mut Session, table: &mut Table) {
    table.insert(s, &[(NAME, Value::Text("x".into()))]).unwrap();
}

fn numbers(s: &mut Session, table: &mut Table, index: Option<&str>) -> Vec<i32> {
    table.set_index(index).unwrap();
    let mut numbers = Vec::new();
    let mut found = table.first(s).unwrap();
    while found {
        let Value::Long(number) = table.get(s, NUMBER).unwrap() else { panic!("no number") };
        numbers.push(number);
        found = table.next(s).unwrap();
    }
    numbers
}

#[test]
fn a_snapshot_older_than_an_index_cannot_open_the_table() {
    let attached = attached();
    let [mut s, mut old, mut other] = [(); 3].map(|()| attached.instance.session());
    in_transaction(&mut s, |s| {
        let mut table = open(s, &attached);
        (0..3).for_each(|_| insert(s, &mut table));
    });
    old.begin().unwrap();
    in_transaction(&mut s, |s| s.create_index(&attached.db, "Log", &by_name("Kept")).unwrap());
    let refused = old.open_table(&attached.db, "Log").err();
    assert!(
        matches!(refused, Some(Error::WriteConflict)),
        "the snapshot does not see the entries of the index: {refused:?}"
    );

    // A later change that is rolled back must not hide the committed one.
    s.begin().unwrap();
    s.create_index(&attached.db, "Log", &by_name("Taken back")).unwrap();
    s.rollback().unwrap();
    for round in 0..2 {
        let refused = old.open_table(&attached.db, "Log").err();
        assert!(matches!(refused, Some(Error::WriteConflict)), "{round}: {refused:?}");
        let mut table = open(&mut other, &attached);
        in_transaction(&mut other, |other| insert(other, &mut table));
        assert_eq!(numbers(&mut other, &mut table, Some("Kept")).len(), 4 + round);
        assert!(table.set_index(Some("Taken back")).is_err());
    }
    old.rollback().unwrap();
    let mut table = open(&mut old, &attached);
    assert_eq!(numbers(&mut old, &mut table, Some("Kept")), [1, 2, 3, 4, 5]);
    drop((table, s, old, other));
    attached.end();
}

#[test]
fn an_open_under_an_old_snapshot_keeps_the_index_for_other_sessions() {
    let attached = attached();
    let [mut s, mut old] = [(); 2].map(|()| attached.instance.session());
    in_transaction(&mut s, |s| {
        let mut table = open(s, &attached);
        (0..3).for_each(|_| insert(s, &mut table));
    });
    old.begin().unwrap();
    in_transaction(&mut s, |s| s.create_index(&attached.db, "Log", &by_name("Kept")).unwrap());
    s.begin().unwrap();
    s.create_index(&attached.db, "Log", &by_name("Taken back")).unwrap();
    s.rollback().unwrap();
    let _ = old.open_table(&attached.db, "Log");
    let mut table = open(&mut s, &attached);
    in_transaction(&mut s, |s| insert(s, &mut table));
    assert_eq!(numbers(&mut s, &mut table, Some("Kept")), [1, 2, 3, 4]);
    drop((table, s, old));
    attached.end();
}

#[test]
fn an_open_table_is_refused_in_other_sessions() {
    let attached = attached();
    let row = [(NAME, Value::Text("x".into()))];
    for new in [true, false] {
        let [mut own, mut other] = [(); 2].map(|()| attached.instance.session());
        own.begin().unwrap();
        let name = if new { "New" } else { "Log" };
        if new {
            own.create_table(&attached.db, &TableDefinition { name: name.into(), ..definition() })
        } else {
            own.create_index(&attached.db, name, &by_name("Name"))
        }
        .unwrap();
        let mut table = own.open_table(&attached.db, name).unwrap();
        insert(&mut own, &mut table);
        assert!(table.first(&mut own).unwrap());
        other.begin().unwrap();
        let mut refused = vec![
            table.get(&mut other, NAME).err(),
            table.replace(&mut other, &row).err(),
            table.delete(&mut other).err(),
            table.first(&mut other).err(),
        ];
        drop(own);
        refused.push(table.insert(&mut other, &row).err());
        refused.push(table.first(&mut other).err());
        refused.push(table.preread(&[]).err());
        assert!(refused.iter().all(|error| matches!(error, Some(Error::Usage(_)))), "{refused:#?}");
        other.commit(CommitMode::Lazy).unwrap();
    }
    let mut s = attached.instance.session();
    assert_eq!(s.tables(&attached.db).unwrap(), ["Log"]);
    let mut table = open(&mut s, &attached);
    assert!(table.set_index(Some("Name")).is_err());
    assert!(numbers(&mut s, &mut table, None).is_empty());
    drop((table, s));
    attached.end();
}

#[test]
fn a_definition_change_does_not_reuse_numbers() {
    let attached = attached();
    let [mut s, mut other] = [(); 2].map(|()| attached.instance.session());
    other.begin().unwrap();
    let mut table = open(&mut other, &attached);
    (0..2).for_each(|_| insert(&mut other, &mut table));
    drop(table);

    // This is refused because the other transaction is still open.
    s.begin().unwrap();
    let refused = s.create_index(&attached.db, "Log", &by_name("Refused"));
    assert!(matches!(refused, Err(Error::WriteConflict)), "{refused:?}");
    s.rollback().unwrap();
    let mut table = open(&mut s, &attached);
    in_transaction(&mut s, |s| insert(s, &mut table));
    assert_eq!(numbers(&mut s, &mut table, None), [3]);
    other.commit(CommitMode::Lazy).unwrap();
    drop(table);

    // Repeat the test within one transaction.
    s.begin().unwrap();
    let next = |s: &mut Session| {
        let mut table = open(s, &attached);
        insert(s, &mut table);
    };
    next(&mut s);
    s.create_index(&attached.db, "Log", &by_name("Kept")).unwrap();
    next(&mut s);
    s.begin().unwrap();
    s.create_index(&attached.db, "Log", &by_name("Taken back")).unwrap();
    s.rollback().unwrap();
    next(&mut s);
    s.commit(CommitMode::Lazy).unwrap();
    let mut table = open(&mut s, &attached);
    assert_eq!(numbers(&mut s, &mut table, None), [1, 2, 3, 4, 5, 6]);
    drop((table, s, other));
    attached.end();
}

#[test]
fn a_replace_with_an_explicit_number_raises_the_next_number() {
    let attached = attached();
    let mut s = attached.instance.session();
    let mut table = open(&mut s, &attached);
    s.begin().unwrap();
    insert(&mut s, &mut table);
    assert!(table.first(&mut s).unwrap());
    table.replace(&mut s, &[(NUMBER, Value::Long(2))]).unwrap();
    insert(&mut s, &mut table);
    s.commit(CommitMode::Lazy).unwrap();
    assert_eq!(numbers(&mut s, &mut table, None), [2, 3]);
    drop((table, s));
    attached.end();
}

#[test]
fn a_failed_insert_does_not_consume_an_auto_increment_number() {
    let attached = attached();
    let mut s = attached.instance.session();
    in_transaction(&mut s, |s| s.create_index(&attached.db, "Log", &by_name("Name").unique()).unwrap());
    let mut table = open(&mut s, &attached);
    let highest = (NUMBER, Value::Long(i32::MAX));
    let named = |name: &str| (NAME, Value::Text(name.into()));
    let refused = table.insert(&mut s, &[highest.clone(), named("a")]);
    assert!(matches!(refused, Err(Error::Usage(_))), "no transaction");
    s.begin().unwrap();
    table.insert(&mut s, &[named("a")]).unwrap();
    table.insert(&mut s, &[named("b")]).unwrap();
    assert!(matches!(table.insert(&mut s, &[highest.clone(), named("a")]), Err(Error::KeyDuplicate)));
    assert!(table.first(&mut s).unwrap());
    assert!(matches!(table.replace(&mut s, &[highest, named("b")]), Err(Error::KeyDuplicate)));
    table.insert(&mut s, &[named("c")]).unwrap();
    s.commit(CommitMode::Lazy).unwrap();
    assert_eq!(numbers(&mut s, &mut table, None), [1, 2, 3]);
    drop((table, s));
    attached.end();
}

#[test]
fn a_column_given_twice_is_refused() {
    let attached = AttachedDatabase::new(PageSize::KIB_4);
    let mut s = attached.instance.session();
    let body = ColumnDefinition::new("Body", ColumnType::LongBinary);
    let wanted = TableDefinition { name: "Long".into(), columns: vec![body], ..TableDefinition::default() };
    in_transaction(&mut s, |s| s.create_table(&attached.db, &wanted).unwrap());
    let mut table = s.open_table(&attached.db, "Long").unwrap();
    let value = |byte| (ColumnId::FIRST_TAGGED, Value::Binary(vec![byte; 9000]));
    s.begin().unwrap();
    assert!(matches!(table.insert(&mut s, &[value(1), value(2)]), Err(Error::Usage(_))));
    table.insert(&mut s, &[value(1)]).unwrap();
    assert!(table.first(&mut s).unwrap());
    assert!(matches!(table.replace(&mut s, &[value(2), value(3)]), Err(Error::Usage(_))));
    assert_eq!(table.row(&mut s).unwrap(), [value(1)]);
    s.commit(CommitMode::Lazy).unwrap();
    drop((table, s));
    attached.end();
}
