//! Three independent readers read databases that the engine wrote: new databases, bulk-loaded databases, and
//! databases after many changes, after a killed process and recovery, and after maintenance. The databases cover all
//! four page sizes, long values, secondary indexes, and several tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ese_check::{Cancellation, CheckOptions, Severity, check_database, check_logs};
use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::internals::log::{LogNames, LogReader};
use ese_engine::{
    BackgroundThreads, BulkLoadOptions, ColumnDefinition, CommitMode, DatabaseOptions, DefragKind,
    DefragOptions, IndexDefinition, Instance, InstanceOptions, ScanOptions, Session, Table, TableDefinition,
};
use ese_format::log::record::LogRecord;
use ese_format::record::{CodePage, ColumnFlags, ColumnType, Value};
use ese_format::{LogPosition, PageSize};
use jetcell_vfs::{FileStem, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::readers::{
    ExpectedCell, ExpectedColumn, ExpectedDatabase, ExpectedRows, ExpectedTable, compare,
};

const DB: &str = "/db/readers.edb";
/// Index of the unique column.
const CODE: usize = 12;
type RowValues = BTreeMap<i32, Vec<Value>>;

/// Returns the columns in order. The id column is the first.
fn columns() -> Vec<ColumnDefinition> {
    let all = [
        ("Id", ColumnType::Long),
        ("Flag", ColumnType::Bit),
        ("Byte", ColumnType::UnsignedByte),
        ("Short", ColumnType::Short),
        ("Word", ColumnType::UnsignedShort),
        ("Count", ColumnType::UnsignedLong),
        ("Big", ColumnType::LongLong),
        ("Money", ColumnType::Currency),
        ("Single", ColumnType::Single),
        ("Double", ColumnType::Double),
        ("Received", ColumnType::DateTime),
        ("Guid", ColumnType::Guid),
        ("Code", ColumnType::Binary),
        ("Subject", ColumnType::Text),
        ("Body", ColumnType::LongBinary),
        ("Notes", ColumnType::LongText),
        ("Ascii", ColumnType::Text),
        ("Wide", ColumnType::Text),
        ("WideNotes", ColumnType::LongText),
    ];
    all.iter()
        .map(|(name, kind)| {
            let mut column = ColumnDefinition::new(name, *kind);
            match *name {
                "Id" => column.flags |= ColumnFlags::NOT_NULL,
                "Ascii" => column.code_page = CodePage::ASCII,
                "Wide" | "WideNotes" => column.code_page = CodePage::UNICODE,
                _ => {}
            }
            column
        })
        .collect()
}

fn row(id: i32, rng: &mut ChaCha8Rng, size: PageSize) -> Vec<Value> {
    let letters = |rng: &mut ChaCha8Rng, len: usize| -> Vec<u8> {
        (0..len.max(1)).map(|_| rng.random_range(b'A'..=b'z')).collect()
    };
    let long = match rng.random_range(0..10) {
        0 => 3 * size.bytes() + 17,
        1 => 1500,
        _ => 60,
    };
    let mut values = vec![
        Value::Long(id),
        Value::Bit(id % 2 == 0),
        Value::UnsignedByte(id as u8),
        Value::Short(-(id as i16)),
        Value::UnsignedShort(id as u16),
        Value::UnsignedLong(id as u32 * 7),
        Value::LongLong(i64::from(id) << 20),
        Value::Currency(i64::from(id) * 100),
        Value::Single(id as f32 / 4.0),
        Value::Double(f64::from(id) / 8.0),
        Value::DateTime(40_000.0 + f64::from(id)),
        Value::Guid(rng.random()),
        // Unique values in random order.
        Value::Binary([&(id as u32).wrapping_mul(2_654_435_761).to_be_bytes()[..], b"code"].concat()),
        Value::Text(String::from_utf8(letters(rng, 30)).unwrap()),
        Value::Binary(letters(rng, long)),
        Value::Text(String::from_utf8(letters(rng, 80)).unwrap()),
        Value::Text(format!("ascii {id}")),
        Value::Text(format!("\u{e4}\u{3a9}\u{6f22}\u{1f4e7} {id}")),
        Value::Text("\u{6f22}\u{5b57} ".repeat(if id % 9 == 0 { 1500 } else { 5 })),
    ];
    // These are first bytes of chunks that readers treat as compressed (0x18 for all versions of libesedb, more for
    // dissect).
    if id % 11 == 0 {
        let trap = [0x18, 0x08, 0x10, 0x1f, 0x28][id as usize / 11 % 5];
        values[14] = Value::Binary(vec![trap; 4 * size.bytes()]);
    }
    if id % 5 == 0 {
        values[13] = Value::Null;
    }
    if id % 7 == 0 {
        values[14] = Value::Null;
    }
    // Each row sets a different subset of the columns in addition to the key. Null columns occur in the middle and at
    // the end of a class.
    for (column, value) in values.iter_mut().enumerate().skip(1) {
        if column != CODE && (id as usize + column).is_multiple_of(13) {
            *value = Value::Null;
        }
    }
    values
}

fn open(disk: &SimVfs, size: PageSize) -> Arc<Instance> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(96 * size.bytes(), size, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    options.log.file_size = 256 << 10;
    options.seed = Some(11);
    Instance::open(options).unwrap()
}

/// Returns the definition of a table with all types of columns.
fn everything(name: &str) -> TableDefinition {
    TableDefinition {
        name: name.to_string(),
        columns: columns(),
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition { unique: true, ..IndexDefinition::new("ByCode", &["Code"]) },
            IndexDefinition::new("ByShortAndDate", &["Short", "Received"]),
        ],
        pages: 8,
        ..TableDefinition::default()
    }
}

fn create(instance: &Instance) -> Arc<Database> {
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let mut s = instance.session();
    s.begin().unwrap();
    s.create_table(&db, &everything("Everything")).unwrap();
    let plain = TableDefinition {
        name: "Plain".to_string(),
        columns: vec![
            ColumnDefinition::new("Number", ColumnType::Long),
            ColumnDefinition::new("Text", ColumnType::Text),
        ],
        indexes: Vec::new(),
        pages: 3,
        ..TableDefinition::default()
    };
    s.create_table(&db, &plain).unwrap();
    s.commit(CommitMode::Durable).unwrap();
    db
}

/// Bulk-loads a table with the same columns. Returns its rows.
fn load(s: &mut Session, db: &Arc<Database>, rng: &mut ChaCha8Rng, size: PageSize) -> Vec<Vec<Value>> {
    let rows: Vec<_> = (1..=400).map(|id| row(id, rng, size)).collect();
    let mut load = s.bulk_load(db, &everything("Loaded"), BulkLoadOptions::default()).unwrap();
    let ids: Vec<_> = columns().iter().map(|column| load.column(&column.name).unwrap()).collect();
    for values in &rows {
        let row: Vec<_> = ids.iter().copied().zip(values.iter().cloned()).collect();
        load.push(&row).unwrap();
    }
    load.finish().unwrap();
    rows
}

fn insert(s: &mut Session, table: &mut Table, values: &[Value]) {
    let ids: Vec<_> = columns().iter().map(|column| table.column(&column.name).unwrap()).collect();
    let row: Vec<_> = ids.into_iter().zip(values.iter().cloned()).collect();
    table.insert(s, &row).unwrap();
}

/// Returns the content that the readers should find, from the schema and the model of the rows.
fn expected(table: &Table, rows: &mut dyn Iterator<Item = &Vec<Value>>, order: &[&str]) -> ExpectedTable {
    let by_name: Vec<_> = order.iter().map(|name| table.schema().column_named(name).unwrap()).collect();
    let cells = |values: &Vec<Value>| {
        by_name
            .iter()
            .zip(values)
            .map(|(column, value)| match value.encode(column).unwrap() {
                Some(bytes) => ExpectedCell::Value(bytes.into_owned()),
                None => ExpectedCell::Null,
            })
            .collect()
    };
    ExpectedTable {
        name: table.schema().name.clone(),
        columns: by_name
            .iter()
            .map(|column| ExpectedColumn {
                id: u32::from(column.id.number()),
                name: column.name.clone(),
                kind: column.kind.code(),
            })
            .collect(),
        rows: ExpectedRows::Exact(rows.map(cells).collect()),
    }
}

/// Action on the database before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndAction {
    Shutdown,
    Kill,
    /// Run all maintenance tasks and shut down.
    Maintenance,
}

/// Overwrites deleted data, merges sparse pages, moves trees into sequential order, and returns free space to the
/// file system.
fn maintain(disk: &SimVfs, instance: &Arc<Instance>, db: &Arc<Database>) {
    for kind in [DefragKind::Compaction, DefragKind::SequentialLayout] {
        let defrag =
            DefragOptions { kind, partial_merges: true, single_pass: true, ..DefragOptions::default() };
        assert!(instance.start_defragmentation(db, defrag).unwrap());
    }
    let scan = ScanOptions { zero: true, single_pass: true, ..ScanOptions::default() };
    assert!(instance.start_maintenance(db, scan).unwrap());
    let running =
        || db.scan_progress().running || db.defrag_progress().running || db.layout_progress().running;
    for step in 0.. {
        assert!(step < 20_000, "{:?}", (db.scan_progress(), db.defrag_progress(), db.layout_progress()));
        if !running() {
            break;
        }
        instance.step().unwrap();
        disk.sim_clock().advance(Duration::from_millis(100));
    }
    assert!(db.scan_progress().zeroed > 0 && db.defrag_progress().pages_visited > 0);
    instance.shrink(db).unwrap();
    instance.trim(db).unwrap();
}

fn check(size: PageSize, churn: bool, end: EndAction) {
    let context = format!("{size:?}, churn {churn}, {end:?}");
    let mut rng = ChaCha8Rng::seed_from_u64(size.bytes() as u64 + u64::from(churn));
    let disk = SimVfs::new();
    let instance = open(&disk, size);
    let db = create(&instance);
    let mut s = instance.session();
    let mut rows = RowValues::new();
    let mut plain_rows: Vec<Vec<Value>> = Vec::new();
    let loaded_rows = load(&mut s, &db, &mut rng, size);
    let mut table = s.open_table(&db, "Everything").unwrap();
    let mut plain = s.open_table(&db, "Plain").unwrap();
    let loaded = s.open_table(&db, "Loaded").unwrap();
    let [number, text] = ["Number", "Text"].map(|name| plain.column(name).unwrap());
    for round in 0..if churn { 40 } else { 4 } {
        s.begin().unwrap();
        for i in 0..30 {
            let id = round * 30 + i + 1;
            let values = row(id, &mut rng, size);
            insert(&mut s, &mut table, &values);
            rows.insert(id, values);
        }
        let values = vec![Value::Long(round), Value::Text(format!("round {round}"))];
        plain.insert(&mut s, &[(number, values[0].clone()), (text, values[1].clone())]).unwrap();
        plain_rows.push(values);
        s.commit(if round % 2 == 0 { CommitMode::Durable } else { CommitMode::Lazy }).unwrap();
        if churn {
            s.begin().unwrap();
            let body = table.column("Body").unwrap();
            for _ in 0..26 {
                let wanted = rng.random_range(1..=(round + 1) * 30);
                let Some((&id, _)) = rows.range(wanted..).next() else { continue };
                assert!(
                    table.seek(&mut s, &[Value::Long(id)], SeekRelation::Equal).unwrap(),
                    "{context}: {id}"
                );
                if rng.random_bool(0.8) {
                    table.delete(&mut s).unwrap();
                    rows.remove(&id);
                } else {
                    let value = Value::Binary(vec![b'r'; rng.random_range(1..2 * size.bytes())]);
                    table.replace(&mut s, &[(body, value.clone())]).unwrap();
                    rows.get_mut(&id).unwrap()[14] = value;
                }
            }
            s.commit(CommitMode::Lazy).unwrap();
            instance.step().unwrap();
        }
    }
    let order: Vec<String> = columns().into_iter().map(|column| column.name).collect();
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    let all = ExpectedDatabase {
        tables: vec![
            expected(&table, &mut rows.values(), &order),
            expected(&plain, &mut plain_rows.iter(), &["Number", "Text"]),
            expected(&loaded, &mut loaded_rows.iter(), &order),
        ],
    };
    let mut disk = disk;
    if end == EndAction::Maintenance {
        maintain(&disk, &instance, &db);
    }
    if end == EndAction::Kill {
        instance.flush().unwrap();
        // This transaction stays open and must leave no trace.
        s.begin().unwrap();
        insert(&mut s, &mut table, &row(1_000_000, &mut rng, size));
        instance.flush().unwrap();
        let after = disk.process_kill();
        disk.cut_power_after(disk.operations());
        drop((table, plain, loaded, s, db, instance));
        disk = after;
        assert!(check_log_files(&disk, size, &context) > 3, "{context}");
        assert_ne!(last_record(&disk, &context), "Term2", "{context}");
        let recovered = open(&disk, size);
        assert!(recovered.recovery().ran, "{context}");
        recovered.shutdown().unwrap();
    } else {
        drop((table, plain, loaded, s, db));
        instance.shutdown().unwrap();
    }
    let report = check_database(&disk, Path::new(DB), &CheckOptions::default()).unwrap();
    assert!(report.clean && report.findings.is_empty(), "{context}: {:#?}", report.findings);
    let files = check_log_files(&disk, size, &context);
    assert!(!churn || files > 3, "{context}: only {files} log files");
    assert_eq!(last_record(&disk, &context), "Term2", "{context}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("readers.edb");
    std::fs::write(&path, disk.contents(Path::new(DB)).unwrap()).unwrap();
    compare(&path, &all).unwrap_or_else(|what| panic!("{context}: {what}"));
}

/// Checks the headers of all logs and the chain between them, starting at generation 1. Returns the number of logs.
fn check_log_files(disk: &SimVfs, size: PageSize, context: &str) -> usize {
    let logs = check_logs(disk, Path::new("/log"), "E00", &Cancellation::default()).unwrap();
    let bad: Vec<_> = logs.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(logs.is_sound(), "{context}: {bad:#?}");
    for (log, generation) in logs.logs.iter().zip(1u32..) {
        assert_eq!(log.generation, generation, "{context}: {}", log.path.display());
        let bytes = disk.contents(&log.path).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        // These offsets come from logs that Windows wrote. The fields are read here without the decoder of
        // `ese-format`.
        assert_eq!((word(4), word(667)), (generation, 3), "{context}");
        assert_eq!((half(8), half(10)), (4096, 1), "{context}");
        assert_eq!(usize::from(half(12)) * 4096, bytes.len(), "{context}");
        assert_eq!(usize::from(half(14)), size.bytes(), "{context}");
        assert_eq!([word(32), word(36), word(40), word(648)], [8, 4000, 5, 14], "{context}");
        assert!(bytes[2719..4096].iter().all(|&byte| byte == 0), "{context}");
    }
    logs.logs.len()
}

/// Decodes all records of the logs and encodes each again to the same bytes. Returns the name of the last record.
fn last_record(disk: &SimVfs, context: &str) -> &'static str {
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    let reader = LogReader::open(Arc::new(disk.clone()), names).unwrap().unwrap();
    let from = LogPosition { generation: reader.range().0, segment: 0, offset: 0 };
    let mut last = "";
    let mut count = 0;
    reader
        .read_from(from, |stored| {
            let (record, used) = LogRecord::decode(&stored.bytes).unwrap();
            assert_eq!(used, stored.bytes.len(), "{context}: {} at {:?}", record.name(), stored.start);
            assert_eq!(record.to_bytes(), stored.bytes, "{context}: {} at {:?}", record.name(), stored.start);
            if !record.name().starts_with("Nop") {
                (last, count) = (record.name(), count + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(count > 100, "{context}: only {count} records");
    last
}

#[test]
fn independent_readers_read_engine_databases() {
    for size in [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32] {
        check(size, false, EndAction::Shutdown);
        for end in [EndAction::Shutdown, EndAction::Kill, EndAction::Maintenance] {
            check(size, true, end);
        }
    }
}
