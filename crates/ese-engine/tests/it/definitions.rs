//! What sessions see while another session changes a definition, and after that change was rolled back.

use ese_engine::{ColumnDefinition, CommitMode, Error, IndexDefinition, Session, Table, TableDefinition};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnId, ColumnType, Value};

use super::tables::{World, in_transaction};

/// The first column of variable size and the first column of fixed size.
const NAME: ColumnId = ColumnId(128);
const NUMBER: ColumnId = ColumnId(1);

/// A table without indexes: a name and an auto-increment number.
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

/// An instance with a database that has the table.
fn world() -> World {
    let world = World::new(PageSize::KIB_4);
    let mut s = world.instance.session();
    in_transaction(&mut s, |s| s.create_table(&world.db, &definition()).unwrap());
    world
}

fn open(s: &mut Session, world: &World) -> Table {
    s.open_table(&world.db, "Log").unwrap()
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
    let world = world();
    let [mut s, mut old, mut other] = [(); 3].map(|()| world.instance.session());
    in_transaction(&mut s, |s| {
        let mut table = open(s, &world);
        (0..3).for_each(|_| insert(s, &mut table));
    });
    old.begin().unwrap();
    in_transaction(&mut s, |s| s.create_index(&world.db, "Log", &by_name("Kept")).unwrap());
    let refused = old.open_table(&world.db, "Log").err();
    assert!(
        matches!(refused, Some(Error::WriteConflict)),
        "the snapshot does not see the entries of the index: {refused:?}"
    );

    // A later change that is rolled back must not hide the committed one.
    s.begin().unwrap();
    s.create_index(&world.db, "Log", &by_name("Taken back")).unwrap();
    s.rollback().unwrap();
    for round in 0..2 {
        let refused = old.open_table(&world.db, "Log").err();
        assert!(matches!(refused, Some(Error::WriteConflict)), "{round}: {refused:?}");
        let mut table = open(&mut other, &world);
        in_transaction(&mut other, |other| insert(other, &mut table));
        assert_eq!(numbers(&mut other, &mut table, Some("Kept")).len(), 4 + round);
        assert!(table.set_index(Some("Taken back")).is_err());
    }
    old.rollback().unwrap();
    let mut table = open(&mut old, &world);
    assert_eq!(numbers(&mut old, &mut table, Some("Kept")), [1, 2, 3, 4, 5]);
    drop((table, s, old, other));
    world.end();
}

#[test]
fn an_open_under_an_old_snapshot_keeps_the_index_for_other_sessions() {
    let world = world();
    let [mut s, mut old] = [(); 2].map(|()| world.instance.session());
    in_transaction(&mut s, |s| {
        let mut table = open(s, &world);
        (0..3).for_each(|_| insert(s, &mut table));
    });
    old.begin().unwrap();
    in_transaction(&mut s, |s| s.create_index(&world.db, "Log", &by_name("Kept")).unwrap());
    s.begin().unwrap();
    s.create_index(&world.db, "Log", &by_name("Taken back")).unwrap();
    s.rollback().unwrap();
    let _ = old.open_table(&world.db, "Log");
    let mut table = open(&mut s, &world);
    in_transaction(&mut s, |s| insert(s, &mut table));
    assert_eq!(numbers(&mut s, &mut table, Some("Kept")), [1, 2, 3, 4]);
    drop((table, s, old));
    world.end();
}

#[test]
fn an_open_table_is_refused_in_other_sessions() {
    let world = world();
    let row = [(NAME, Value::Text("x".into()))];
    for new in [true, false] {
        let [mut own, mut other] = [(); 2].map(|()| world.instance.session());
        own.begin().unwrap();
        let name = if new { "New" } else { "Log" };
        match new {
            true => own.create_table(&world.db, &TableDefinition { name: name.into(), ..definition() }),
            false => own.create_index(&world.db, name, &by_name("Name")),
        }
        .unwrap();
        let mut table = own.open_table(&world.db, name).unwrap();
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
    let mut s = world.instance.session();
    assert_eq!(s.tables(&world.db).unwrap(), ["Log"]);
    let mut table = open(&mut s, &world);
    assert!(table.set_index(Some("Name")).is_err());
    assert!(numbers(&mut s, &mut table, None).is_empty());
    drop((table, s));
    world.end();
}

#[test]
fn a_definition_change_does_not_reuse_numbers() {
    let world = world();
    let [mut s, mut other] = [(); 2].map(|()| world.instance.session());
    other.begin().unwrap();
    let mut table = open(&mut other, &world);
    (0..2).for_each(|_| insert(&mut other, &mut table));
    drop(table);

    // Refused, because the other transaction is still open.
    s.begin().unwrap();
    let refused = s.create_index(&world.db, "Log", &by_name("Refused"));
    assert!(matches!(refused, Err(Error::WriteConflict)), "{refused:?}");
    s.rollback().unwrap();
    let mut table = open(&mut s, &world);
    in_transaction(&mut s, |s| insert(s, &mut table));
    assert_eq!(numbers(&mut s, &mut table, None), [3]);
    other.commit(CommitMode::Lazy).unwrap();
    drop(table);

    // The same within one transaction.
    s.begin().unwrap();
    let next = |s: &mut Session| {
        let mut table = open(s, &world);
        insert(s, &mut table);
    };
    next(&mut s);
    s.create_index(&world.db, "Log", &by_name("Kept")).unwrap();
    next(&mut s);
    s.begin().unwrap();
    s.create_index(&world.db, "Log", &by_name("Taken back")).unwrap();
    s.rollback().unwrap();
    next(&mut s);
    s.commit(CommitMode::Lazy).unwrap();
    let mut table = open(&mut s, &world);
    assert_eq!(numbers(&mut s, &mut table, None), [1, 2, 3, 4, 5, 6]);
    drop((table, s, other));
    world.end();
}

#[test]
fn a_replace_with_a_chosen_number_raises_the_next_number() {
    let world = world();
    let mut s = world.instance.session();
    let mut table = open(&mut s, &world);
    s.begin().unwrap();
    insert(&mut s, &mut table);
    assert!(table.first(&mut s).unwrap());
    table.replace(&mut s, &[(NUMBER, Value::Long(2))]).unwrap();
    insert(&mut s, &mut table);
    s.commit(CommitMode::Lazy).unwrap();
    assert_eq!(numbers(&mut s, &mut table, None), [2, 3]);
    drop((table, s));
    world.end();
}

#[test]
fn a_failed_insert_does_not_use_up_its_number() {
    let world = world();
    let mut s = world.instance.session();
    in_transaction(&mut s, |s| s.create_index(&world.db, "Log", &by_name("Name").unique()).unwrap());
    let mut table = open(&mut s, &world);
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
    world.end();
}

#[test]
fn a_column_given_twice_is_refused() {
    let world = World::new(PageSize::KIB_4);
    let mut s = world.instance.session();
    let body = ColumnDefinition::new("Body", ColumnType::LongBinary);
    let wanted = TableDefinition { name: "Long".into(), columns: vec![body], ..TableDefinition::default() };
    in_transaction(&mut s, |s| s.create_table(&world.db, &wanted).unwrap());
    let mut table = s.open_table(&world.db, "Long").unwrap();
    let value = |byte| (ColumnId::FIRST_TAGGED, Value::Binary(vec![byte; 9000]));
    s.begin().unwrap();
    assert!(matches!(table.insert(&mut s, &[value(1), value(2)]), Err(Error::Usage(_))));
    table.insert(&mut s, &[value(1)]).unwrap();
    assert!(table.first(&mut s).unwrap());
    assert!(matches!(table.replace(&mut s, &[value(2), value(3)]), Err(Error::Usage(_))));
    assert_eq!(table.row(&mut s).unwrap(), [value(1)]);
    s.commit(CommitMode::Lazy).unwrap();
    drop((table, s));
    world.end();
}
