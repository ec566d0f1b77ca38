//! Tests of how the work of one operation grows with the file. The work is counted in page requests, not in time.

use std::path::Path;

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, BulkLoadOptions, ColumnDefinition, CommitMode, DatabaseOptions, IndexDefinition,
    Instance, InstanceOptions, SeekRelation, Session, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnType, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};

const SIZE: PageSize = PageSize::KIB_4;
const DB: &str = "/db/grown.edb";

fn open(disk: &SimVfs) -> (Arc<Instance>, Arc<Cache>) {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(8192 * SIZE.bytes(), SIZE, vfs.clock()));
    let options = InstanceOptions::with_cache(vfs, "/log".into(), cache.clone());
    let options = options.background(BackgroundThreads::None).circular_log(true);
    (Instance::open(options).unwrap(), cache)
}

fn definition(name: String) -> TableDefinition {
    TableDefinition {
        name,
        columns: vec![
            ColumnDefinition::new("key", ColumnType::Long),
            ColumnDefinition::new("text", ColumnType::Text),
        ],
        indexes: vec![IndexDefinition::new("by key", &["key"]).primary()],
        ..TableDefinition::default()
    }
}

/// Returns the number of page requests during the work.
fn requests(cache: &Cache, work: impl FnOnce()) -> u64 {
    let before = cache.counters().requests;
    work();
    cache.counters().requests - before
}

/// Creates `tables` tables, one of them with `rows` rows. Returns the number of page requests for opening a table,
/// finding a row, and inserting a row.
fn work(tables: usize, rows: i32) -> [u64; 3] {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk);
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let mut session = instance.session();
    for table in 0..tables {
        session.begin().unwrap();
        session.create_table(&db, &definition(format!("table {table}"))).unwrap();
        session.commit(CommitMode::Lazy).unwrap();
    }
    let loaded = definition("loaded".to_string());
    let mut load = session.bulk_load(&db, &loaded, BulkLoadOptions::default()).unwrap();
    let columns = ["key", "text"].map(|name| load.column(name).unwrap());
    let row = |key| [(columns[0], Value::Long(2 * key)), (columns[1], Value::Text("some text".to_string()))];
    (0..rows).for_each(|key| load.push(&row(key)).unwrap());
    load.finish().unwrap();
    drop((session, db));
    instance.shutdown().unwrap();
    drop(instance);

    // Reopening discards everything that was cached.
    let (instance, cache) = open(&disk);
    let db = instance.attach(Path::new(DB), 64).unwrap();
    let mut session: Session = instance.session();
    let mut table = None;
    let opened = requests(&cache, || table = session.open_table(&db, "loaded").ok());
    let mut table = table.unwrap();
    let found = requests(&cache, || {
        assert!(table.seek(&mut session, &[Value::Long(rows)], SeekRelation::GreaterOrEqual).unwrap());
    });
    let inserted = requests(&cache, || {
        session.begin().unwrap();
        let [(key, _), text] = row(rows / 2);
        table.insert(&mut session, &[(key, Value::Long(rows + 1)), text]).unwrap();
        session.commit(CommitMode::Durable).unwrap();
    });
    drop((table, session, db));
    instance.shutdown().unwrap();
    [opened, found, inserted]
}

#[test]
fn open_and_lookup_cost_depends_only_on_tree_depth() {
    let [few, many] = [work(5, 100), work(500, 200_000)];
    eprintln!("pages for opening, finding, inserting: {few:?} with 5 tables, {many:?} with 500");
    // A hundred times as many tables, and two thousand times as many rows, add one or two levels to each search.
    assert!(many[0] <= 3 * few[0] && many[0] < 60, "opening a table: {few:?}, {many:?}");
    assert!(
        many[1] <= 4 * few[1] && many[2] <= 3 * few[2] + 3,
        "finding and inserting a row: {few:?}, {many:?}"
    );
}
