//! Tests that compare tables with an ordered map: rows, indexes, long values, savepoints and definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, Error, IndexDefinition, Instance,
    InstanceOptions, Session, Table, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnId, ColumnType, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(super) const DB: &str = "/db/tables.edb";
const SIZES: [PageSize; 4] = [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32];

pub(super) struct AttachedDatabase {
    pub(super) disk: SimVfs,
    pub(super) instance: Arc<Instance>,
    pub(super) db: Arc<Database>,
}

fn open(disk: &SimVfs, size: PageSize) -> Arc<Instance> {
    open_with(disk, size, false)
}

pub(super) fn open_with(disk: &SimVfs, size: PageSize, threads: bool) -> Arc<Instance> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(512 * size.bytes(), size, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::own_if(threads);
    options.seed = Some(1);
    Instance::open(options).unwrap()
}

impl AttachedDatabase {
    pub(super) fn new(size: PageSize) -> AttachedDatabase {
        let disk = SimVfs::new();
        let instance = open(&disk, size);
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        AttachedDatabase { disk, instance, db }
    }

    /// Shuts the instance down and checks the file with `ese-check`.
    pub(super) fn end(self) -> SimVfs {
        self.instance.shutdown().unwrap();
        let report = check_database(&self.disk, Path::new(DB), &CheckOptions::default()).unwrap();
        let errors: Vec<_> = report.errors().collect();
        assert!(report.is_sound(), "{errors:#?}");
        self.disk
    }
}

pub(super) fn in_transaction<T>(s: &mut Session, work: impl FnOnce(&mut Session) -> T) -> T {
    s.begin().unwrap();
    let done = work(s);
    s.commit(CommitMode::Lazy).unwrap();
    done
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TestRow {
    pub(super) group: Option<i32>,
    pub(super) code: Option<String>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) more: Option<Vec<u8>>,
}

type Model = BTreeMap<i32, TestRow>;

pub(super) fn definition() -> TableDefinition {
    TableDefinition {
        name: "Things".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long).with_flags(ColumnFlags::NOT_NULL),
            ColumnDefinition::new("Group", ColumnType::Long),
            ColumnDefinition::new("Code", ColumnType::Text),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
            ColumnDefinition::new("More", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition {
                name: "ByGroup".to_string(),
                primary: false,
                unique: false,
                columns: vec![("Group".to_string(), true), ("Id".to_string(), false)],
            },
            IndexDefinition::new("ByCode", &["Code", "Id"]).unique(),
        ],
        pages: 8,
        ..TableDefinition::default()
    }
}

pub(super) struct TestColumns {
    pub(super) id: ColumnId,
    pub(super) group: ColumnId,
    code: ColumnId,
    pub(super) body: ColumnId,
    more: ColumnId,
}

impl TestColumns {
    pub(super) fn for_table(table: &Table) -> TestColumns {
        let column = |name: &str| table.column(name).unwrap();
        TestColumns {
            id: column("id"),
            group: column("GROUP"),
            code: column("Code"),
            body: column("Body"),
            more: column("More"),
        }
    }

    pub(super) fn values(&self, row: &TestRow) -> Vec<(ColumnId, Value)> {
        vec![
            (self.group, row.group.map_or(Value::Null, Value::Long)),
            (self.code, row.code.clone().map_or(Value::Null, Value::Text)),
            (self.body, row.body.clone().map_or(Value::Null, Value::Binary)),
            (self.more, row.more.clone().map_or(Value::Null, Value::Binary)),
        ]
    }

    pub(super) fn row(&self, table: &mut Table, s: &mut Session) -> (i32, TestRow) {
        let mut get = |column| table.get(s, column).unwrap();
        let Value::Long(id) = get(self.id) else { panic!("no id") };
        let bytes = |value| if let Value::Binary(bytes) = value { Some(bytes) } else { None };
        let row = TestRow {
            group: if let Value::Long(group) = get(self.group) { Some(group) } else { None },
            code: if let Value::Text(code) = get(self.code) { Some(code) } else { None },
            body: bytes(get(self.body)),
            more: bytes(get(self.more)),
        };
        (id, row)
    }
}

fn bytes(rng: &mut ChaCha8Rng, size: PageSize) -> Option<Vec<u8>> {
    let longest = match rng.random_range(0..10) {
        0 => return None,
        1..=5 => 200,
        6 | 7 => 1300,
        8 => size.bytes(),
        _ => 4 * size.bytes(),
    };
    let len = rng.random_range(0..longest);
    // Some values start with bytes that readers could mistake for the mark of compressed data.
    let first = [0x18, 0x2a, b'x', 0][rng.random_range(0..4)];
    let noise = rng.random_bool(0.5);
    Some((0..len).map(|_| if noise { rng.random() } else { first }).collect())
}

pub(super) fn random_row(rng: &mut ChaCha8Rng, size: PageSize) -> TestRow {
    TestRow {
        group: rng.random_bool(0.8).then(|| rng.random_range(-4..4)),
        code: rng.random_bool(0.8).then(|| format!("c{}", rng.random_range(0..50))),
        body: bytes(rng, size),
        more: bytes(rng, size),
    }
}

pub(super) fn contents(table: &mut Table, s: &mut Session, columns: &TestColumns) -> Model {
    table.set_index(None).unwrap();
    let mut all = Model::new();
    let mut found = table.first(s).unwrap();
    while found {
        let (id, row) = columns.row(table, s);
        assert!(all.last_key_value().is_none_or(|(last, _)| *last < id));
        all.insert(id, row);
        found = table.next(s).unwrap();
    }
    all
}

/// Checks that every index lists the expected rows in its order.
pub(super) fn check_indexes(table: &mut Table, s: &mut Session, columns: &TestColumns, model: &Model) {
    let mut order: Vec<(Option<i32>, i32)> = model.iter().map(|(id, row)| (row.group, *id)).collect();
    order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    table.set_index(Some("bygroup")).unwrap();
    let mut seen = Vec::new();
    let mut found = table.first(s).unwrap();
    while found {
        let (id, row) = columns.row(table, s);
        seen.push((row.group, id));
        found = table.next(s).unwrap();
    }
    assert_eq!(seen, order);
    let group = Value::Long(1);
    let mut expected: Vec<i32> =
        model.iter().filter(|(_, row)| row.group == Some(1)).map(|(id, _)| *id).collect();
    let mut ids = Vec::new();
    let mut found = table.seek(s, std::slice::from_ref(&group), SeekRelation::Equal).unwrap();
    table.set_range(std::slice::from_ref(&group), true).unwrap();
    while found {
        ids.push(columns.row(table, s).0);
        found = table.next(s).unwrap();
    }
    assert_eq!(ids, expected);
    expected.reverse();
    ids.clear();
    let mut found = table.seek(s, std::slice::from_ref(&group), SeekRelation::LessOrEqual).unwrap();
    while found && table.get(s, columns.group).unwrap() == group {
        ids.push(columns.row(table, s).0);
        found = table.previous(s).unwrap();
    }
    assert_eq!(ids, expected, "backwards");
    table.set_index(Some("ByCode")).unwrap();
    let mut codes = BTreeSet::new();
    let mut found = table.last(s).unwrap();
    while found {
        let (id, row) = columns.row(table, s);
        codes.insert((row.code, id));
        found = table.previous(s).unwrap();
    }
    assert_eq!(codes, model.iter().map(|(id, row)| (row.code.clone(), *id)).collect());
}

fn check_seeks(table: &mut Table, s: &mut Session, columns: &TestColumns, model: &Model, key: i32) {
    table.set_index(None).unwrap();
    let ids: Vec<i32> = model.keys().copied().collect();
    for how in [
        SeekRelation::Equal,
        SeekRelation::GreaterOrEqual,
        SeekRelation::Greater,
        SeekRelation::LessOrEqual,
        SeekRelation::Less,
    ] {
        let expected = match how {
            SeekRelation::Equal => ids.iter().find(|id| **id == key),
            SeekRelation::GreaterOrEqual => ids.iter().find(|id| **id >= key),
            SeekRelation::Greater => ids.iter().find(|id| **id > key),
            SeekRelation::LessOrEqual => ids.iter().rev().find(|id| **id <= key),
            SeekRelation::Less => ids.iter().rev().find(|id| **id < key),
        };
        let found = table.seek(s, &[Value::Long(key)], how).unwrap();
        assert_eq!(found.then(|| columns.row(table, s).0).as_ref(), expected, "{how:?} {key}");
    }
}

fn change(
    rng: &mut ChaCha8Rng,
    table: &mut Table,
    s: &mut Session,
    columns: &TestColumns,
    model: &mut Model,
) {
    let size = table_size(rng);
    table.set_index(None).unwrap();
    let id = rng.random_range(-60..60);
    let there = table.seek(s, &[Value::Long(id)], SeekRelation::Equal).unwrap();
    assert_eq!(there, model.contains_key(&id));
    match rng.random_range(0..10) {
        0..=4 => {
            let row = random_row(rng, size);
            let mut values = columns.values(&row);
            values.push((columns.id, Value::Long(id)));
            match table.insert(s, &values) {
                Ok(()) => assert!(model.insert(id, row).is_none()),
                Err(Error::KeyDuplicate) => assert!(there),
                Err(error) => panic!("{error}"),
            }
        }
        5..=7 if there => {
            let new = random_row(rng, size);
            let all = columns.values(&new);
            let row = model.get_mut(&id).unwrap();
            let changes: Vec<_> = all.into_iter().filter(|_| rng.random_bool(0.5)).collect();
            table.replace(s, &changes).unwrap();
            for (column, _) in &changes {
                match *column {
                    c if c == columns.group => row.group = new.group,
                    c if c == columns.code => row.code = new.code.clone(),
                    c if c == columns.body => row.body = new.body.clone(),
                    _ => row.more = new.more.clone(),
                }
            }
            assert_eq!(
                columns.row(table, s),
                (id, row.clone()),
                "the current record has the inserted values"
            );
        }
        _ if there => {
            table.delete(s).unwrap();
            model.remove(&id);
            assert!(matches!(table.get(s, columns.id), Err(Error::RecordNotFound)));
        }
        _ => {}
    }
}

fn table_size(rng: &mut ChaCha8Rng) -> PageSize {
    SIZES[rng.random_range(0..2)]
}

#[test]
fn tables_match_a_model_under_savepoints_and_rollback() {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed as u64);
        let attached = AttachedDatabase::new(size);
        let mut s = attached.instance.session();
        in_transaction(&mut s, |s| s.create_table(&attached.db, &definition()).unwrap());
        let mut table = s.open_table(&attached.db, "things").unwrap();
        let columns = TestColumns::for_table(&table);
        let mut model = Model::new();
        for round in 0..150 {
            let before = model.clone();
            s.begin().unwrap();
            for _ in 0..rng.random_range(1..6) {
                let savepoint = model.clone();
                s.begin().unwrap();
                for _ in 0..rng.random_range(1..6) {
                    change(&mut rng, &mut table, &mut s, &columns, &mut model);
                }
                if rng.random_bool(0.3) {
                    s.rollback().unwrap();
                    model = savepoint;
                } else {
                    s.commit(CommitMode::Lazy).unwrap();
                }
            }
            if rng.random_bool(0.25) {
                s.rollback().unwrap();
                model = before;
            } else {
                s.commit(if round % 7 == 0 { CommitMode::Durable } else { CommitMode::Lazy }).unwrap();
            }
            attached.instance.step().unwrap();
            assert_eq!(contents(&mut table, &mut s, &columns), model, "{size:?}, round {round}");
            if round % 5 == 0 {
                check_indexes(&mut table, &mut s, &columns, &model);
                check_seeks(&mut table, &mut s, &columns, &model, rng.random_range(-65..65));
            }
        }
        drop((table, s));
        let disk = attached.end();
        let instance = open(&disk, size);
        let db = instance.attach(Path::new(DB), 64).unwrap();
        let mut s = instance.session();
        assert_eq!(s.tables(&db).unwrap(), ["Things"]);
        let mut table = s.open_table(&db, "THINGS").unwrap();
        assert_eq!(contents(&mut table, &mut s, &columns), model);
        check_indexes(&mut table, &mut s, &columns, &model);
    }
}

#[test]
fn a_failed_statement_leaves_no_changes() {
    let attached = AttachedDatabase::new(PageSize::KIB_4);
    let mut s = attached.instance.session();
    let mut wanted = definition();
    wanted.indexes.push(IndexDefinition::new("Unique", &["Group"]).unique());
    in_transaction(&mut s, |s| s.create_table(&attached.db, &wanted).unwrap());
    let mut table = s.open_table(&attached.db, "Things").unwrap();
    let columns = TestColumns::for_table(&table);
    let row = |group| TestRow { group: Some(group), code: None, body: Some(vec![7; 9000]), more: None };
    s.begin().unwrap();
    for id in 1..=2 {
        let mut values = columns.values(&row(id));
        values.push((columns.id, Value::Long(id)));
        table.insert(&mut s, &values).unwrap();
    }
    let mut values = columns.values(&row(2));
    values.push((columns.id, Value::Long(3)));
    assert!(matches!(table.insert(&mut s, &values), Err(Error::KeyDuplicate)));
    assert!(table.seek(&mut s, &[Value::Long(1)], SeekRelation::Equal).unwrap());
    assert!(matches!(table.replace(&mut s, &columns.values(&row(2))), Err(Error::KeyDuplicate)));
    assert!(matches!(table.replace(&mut s, &[(columns.id, Value::Long(9))]), Err(Error::Usage(_))));
    s.commit(CommitMode::Durable).unwrap();
    assert!(matches!(table.delete(&mut s), Err(Error::Usage(_))), "no transaction");
    let model = Model::from([(1, row(1)), (2, row(2))]);
    assert_eq!(contents(&mut table, &mut s, &columns), model);
    check_indexes(&mut table, &mut s, &columns, &model);
    drop((table, s));
    attached.end();
}

#[test]
fn sessions_see_their_snapshot_and_conflicts_are_reported() {
    let attached = AttachedDatabase::new(PageSize::KIB_8);
    let (mut a, mut b) = (attached.instance.session(), attached.instance.session());
    in_transaction(&mut a, |s| s.create_table(&attached.db, &definition()).unwrap());
    let mut in_a = a.open_table(&attached.db, "Things").unwrap();
    let mut in_b = b.open_table(&attached.db, "Things").unwrap();
    let columns = TestColumns::for_table(&in_a);
    let row = |byte| TestRow { group: Some(1), code: None, body: Some(vec![byte; 20_000]), more: None };
    let mut values = columns.values(&row(1));
    values.push((columns.id, Value::Long(1)));
    in_transaction(&mut a, |s| in_a.insert(s, &values).unwrap());
    b.begin().unwrap();
    assert_eq!(contents(&mut in_b, &mut b, &columns), Model::from([(1, row(1))]));
    in_transaction(&mut a, |s| {
        assert!(in_a.first(s).unwrap());
        in_a.replace(s, &columns.values(&row(2))).unwrap();
    });
    attached.instance.step().unwrap();
    assert_eq!(
        contents(&mut in_b, &mut b, &columns),
        Model::from([(1, row(1))]),
        "the old long value is still there"
    );
    assert!(in_b.first(&mut b).unwrap());
    assert!(matches!(in_b.replace(&mut b, &columns.values(&row(3))), Err(Error::WriteConflict)));
    b.rollback().unwrap();
    assert_eq!(contents(&mut in_b, &mut b, &columns), Model::from([(1, row(2))]));
    drop((in_a, in_b, a, b));
    attached.end();
}

#[test]
fn numbered_rows_and_auto_increment() {
    for indexed in [true, false] {
        let attached = AttachedDatabase::new(PageSize::KIB_4);
        let mut s = attached.instance.session();
        let name = ColumnDefinition::new("Name", ColumnType::Text);
        let number =
            ColumnDefinition::new("Number", ColumnType::LongLong).with_flags(ColumnFlags::AUTO_INCREMENT);
        let indexes = if indexed { vec![IndexDefinition::new("N", &["Number"])] } else { Vec::new() };
        let wanted = TableDefinition {
            name: "Log".into(),
            columns: vec![name, number],
            indexes,
            pages: 3,
            ..TableDefinition::default()
        };
        in_transaction(&mut s, |s| s.create_table(&attached.db, &wanted).unwrap());
        let mut table = s.open_table(&attached.db, "Log").unwrap();
        let (name, number) = (table.column("Name").unwrap(), table.column("Number").unwrap());
        let mut numbers = Vec::new();
        let mut insert = |table: &mut Table, s: &mut Session| {
            in_transaction(s, |s| table.insert(s, &[(name, Value::Text("x".into()))]).unwrap());
            assert!(table.go_to_inserted(s).unwrap());
            let Value::LongLong(value) = table.get(s, number).unwrap() else { panic!("no number") };
            numbers.push(value);
        };
        (0..300).for_each(|_| insert(&mut table, &mut s));
        drop((table, s));
        let disk = attached.end();
        let instance = open(&disk, PageSize::KIB_4);
        let db = instance.attach(Path::new(DB), 64).unwrap();
        let mut s = instance.session();
        let mut table = s.open_table(&db, "Log").unwrap();
        insert(&mut table, &mut s);
        assert_eq!(numbers, (1..=301).collect::<Vec<i64>>());
        let mut count = 0;
        let mut found = table.first(&mut s).unwrap();
        while found {
            count += 1;
            found = table.next(&mut s).unwrap();
        }
        assert_eq!(count, 301);
        drop((table, s));
        instance.shutdown().unwrap();
    }
}

#[test]
fn tables_separate_values_from_the_configured_length() {
    let attached = AttachedDatabase::new(PageSize::KIB_32);
    let mut s = attached.instance.session();
    let value = Value::Binary(vec![7; 1848]);
    let cases = [("Usual", None), ("Later", Some(2048)), ("Earlier", Some(100))];
    for (name, separate_from) in cases {
        let columns = vec![ColumnDefinition::new("Body", ColumnType::LongBinary)];
        let definition =
            TableDefinition { name: name.into(), columns, separate_from, ..TableDefinition::default() };
        in_transaction(&mut s, |s| s.create_table(&attached.db, &definition).unwrap());
        let mut table = s.open_table(&attached.db, name).unwrap();
        let body = table.column("Body").unwrap();
        in_transaction(&mut s, |s| table.insert(s, &[(body, value.clone())]).unwrap());
    }
    drop(s);
    let disk = attached.end();
    let instance = open(&disk, PageSize::KIB_32);
    let db = instance.attach(Path::new(DB), 64).unwrap();
    let mut s = instance.session();
    for (name, separate_from) in cases {
        let mut table = s.open_table(&db, name).unwrap();
        assert_eq!(table.schema().separate_from, separate_from, "{name}");
        let body = table.column("Body").unwrap();
        assert!(table.first(&mut s).unwrap());
        assert_eq!(table.get(&mut s, body).unwrap(), value, "{name}");
    }
    drop(s);
    instance.shutdown().unwrap();
}

#[test]
fn tables_keep_their_configured_density() {
    let attached = AttachedDatabase::new(PageSize::KIB_8);
    let mut s = attached.instance.session();
    let with = |name: &str, density| TableDefinition {
        name: name.into(),
        columns: vec![ColumnDefinition::new("Id", ColumnType::Long)],
        density,
        ..TableDefinition::default()
    };
    for (name, density, kept) in [("Usual", None, 80), ("Full", Some(100), 100), ("Sparse", Some(20), 20)] {
        in_transaction(&mut s, |s| s.create_table(&attached.db, &with(name, density)).unwrap());
        assert_eq!(s.open_table(&attached.db, name).unwrap().schema().density, kept, "{name}");
    }
    for density in [0, 19, 101] {
        let refused = in_transaction(&mut s, |s| s.create_table(&attached.db, &with("Wrong", Some(density))));
        assert!(matches!(refused, Err(Error::Usage(_))), "{density} %");
    }
    drop(s);
    attached.end();
}

#[test]
fn definitions_are_transactional() {
    let attached = AttachedDatabase::new(PageSize::KIB_4);
    let (mut s, mut other) = (attached.instance.session(), attached.instance.session());
    assert!(matches!(s.create_table(&attached.db, &definition()), Err(Error::Usage(_))), "no transaction");
    s.begin().unwrap();
    s.create_table(&attached.db, &definition()).unwrap();
    assert!(s.create_table(&attached.db, &definition()).is_err(), "the name is taken");
    let mut table = s.open_table(&attached.db, "Things").unwrap();
    let columns = TestColumns::for_table(&table);
    assert!(other.open_table(&attached.db, "Things").is_err());
    s.rollback().unwrap();
    let values = [(columns.id, Value::Long(1))];
    s.begin().unwrap();
    assert!(matches!(table.insert(&mut s, &values), Err(Error::Usage(_))), "the table was rolled back");
    assert!(s.open_table(&attached.db, "Things").is_err());
    s.create_table(&attached.db, &definition()).unwrap();
    let mut table = s.open_table(&attached.db, "Things").unwrap();
    for id in 0..400 {
        let row = TestRow { group: Some(id % 7), code: Some(format!("{}", id % 90)), body: None, more: None };
        let mut values = columns.values(&row);
        values.push((columns.id, Value::Long(id)));
        table.insert(&mut s, &values).unwrap();
    }
    s.commit(CommitMode::Lazy).unwrap();

    let code = IndexDefinition::new("Code", &["Code"]);
    s.begin().unwrap();
    assert!(s.create_index(&attached.db, "Things", &code).is_err(), "the table is open");
    drop(table);
    s.begin().unwrap();
    s.create_index(&attached.db, "Things", &code).unwrap();
    assert!(matches!(other.open_table(&attached.db, "Things"), Err(Error::WriteConflict)));
    s.rollback().unwrap();
    assert!(s.open_table(&attached.db, "Things").unwrap().set_index(Some("Code")).is_err());
    s.create_index(&attached.db, "Things", &code).unwrap();
    s.commit(CommitMode::Durable).unwrap();
    let mut table = other.open_table(&attached.db, "Things").unwrap();
    table.set_index(Some("Code")).unwrap();
    let mut found = table.seek(&mut other, &[Value::Text("17".into())], SeekRelation::Equal).unwrap();
    table.set_range(&[Value::Text("17".into())], true).unwrap();
    let mut ids = Vec::new();
    while found {
        ids.push(columns.row(&mut table, &mut other).0);
        found = table.next(&mut other).unwrap();
    }
    assert_eq!(ids, [17, 107, 197, 287, 377]);
    drop((table, s, other));
    attached.end();
}
