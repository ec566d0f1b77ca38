//! Tests the web cache profile on a database that the engine wrote with the tables of a web cache.

use std::path::Path;
use std::sync::Arc;

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, Instance, InstanceOptions,
    TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnType, Value};
use jetcell_export::{
    AdditionalRows, ApplicationProfile, ExportDestination, ExportFormat, ExportOptions, ROW_LIMIT,
    RenderingOptions, Selection, export,
};
use jetcell_vfs::{RealOptions, RealVfs, SimVfs, Vfs};

/// 2024-01-01 as a FILETIME.
const NEW_YEAR: i64 = 133_485_408_000_000_000;

/// Creates a database with these tables, each with one row.
fn database(tables: &[(&str, &[(&str, Value)])]) -> Vec<u8> {
    let disk = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(16 << 20, PageSize::KIB_32, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    let instance = Instance::open(options).unwrap();
    let path = Path::new("/db/WebCacheV01.dat");
    let database = instance.create_database(path, &DatabaseOptions::default()).unwrap();
    let mut session = instance.session();
    for (name, row) in tables {
        let column = |(name, value): &(&str, Value)| {
            let kind = match value {
                Value::LongLong(_) => ColumnType::LongLong,
                Value::Text(_) => ColumnType::LongText,
                _ => ColumnType::LongBinary,
            };
            ColumnDefinition::new(name, kind)
        };
        let columns = row.iter().map(column).collect();
        let definition = TableDefinition { name: (*name).to_owned(), columns, ..TableDefinition::default() };
        session.begin().unwrap();
        session.create_table(&database, &definition).unwrap();
        let mut table = session.open_table(&database, name).unwrap();
        let values: Vec<_> =
            row.iter().map(|(name, value)| (table.column(name).unwrap(), value.clone())).collect();
        table.insert(&mut session, &values).unwrap();
        session.commit(CommitMode::Durable).unwrap();
    }
    drop((session, database));
    instance.shutdown().unwrap();
    disk.contents(path).unwrap()
}

#[test]
fn the_web_cache_export_has_container_names_times_and_headers() {
    let header = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\0";
    let contents = database(&[
        (
            "Containers",
            &[
                ("ContainerId", Value::LongLong(3)),
                ("Name", Value::Text("History".into())),
                ("LastScavengeTime", Value::LongLong(0)),
            ],
        ),
        (
            "Container_3",
            &[
                ("ContainerId", Value::LongLong(3)),
                ("AccessedTime", Value::LongLong(NEW_YEAR)),
                ("AccessCount", Value::LongLong(7)),
                ("ResponseHeaders", Value::Binary(header.as_bytes().to_vec())),
                ("RequestHeaders", Value::Binary(vec![1, 2, 0xFF])),
            ],
        ),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("WebCacheV01.dat");
    std::fs::write(&path, contents).unwrap();
    let rows = |profile| {
        let output = directory.path().join(format!("{profile:?}"));
        let options = ExportOptions {
            selection: Selection { tables: vec!["Container*".to_owned()], ..Selection::default() },
            format: ExportFormat::JsonLines,
            destination: ExportDestination::Directory(output.clone()),
            additional: AdditionalRows::default(),
            force: false,
            row_limit: ROW_LIMIT,
            rendering: RenderingOptions { profile, ..RenderingOptions::default() },
        };
        let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
        export(&vfs, &path, &options, &mut |_, _| {}).unwrap();
        ["Containers", "Container_3"].map(|table| {
            let text = std::fs::read_to_string(output.join(format!("{table}.jsonl"))).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap()
        })
    };
    let [containers, entries] = rows(ApplicationProfile::BySchema);
    assert_eq!(containers["ContainerId"], 3, "the table that names them keeps the numbers");
    assert_eq!(containers["LastScavengeTime"], 0, "never");
    assert_eq!(entries["ContainerId"], "History");
    assert_eq!(entries["AccessedTime"], "2024-01-01T00:00:00Z");
    assert_eq!(entries["AccessCount"], 7);
    assert_eq!(entries["ResponseHeaders"], header.trim_end_matches('\0'));
    assert_eq!(entries["RequestHeaders"], "0102ff", "no text");
    let [_, stored] = rows(ApplicationProfile::None);
    assert_eq!((&stored["ContainerId"], &stored["AccessedTime"]), (&3.into(), &NEW_YEAR.into()));
}
