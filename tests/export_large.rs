//! Exports rows whose long values exceed the memory limit per row, from a database that the engine wrote.

use std::path::Path;
use std::sync::Arc;

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, Instance, InstanceOptions,
    TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{CodePage, ColumnType, Value};
use jetcell_export::{
    AdditionalRows, ExportDestination, ExportFormat, ExportOptions, ROW_LIMIT, RenderingOptions, Selection,
    export,
};
use jetcell_vfs::{RealOptions, RealVfs, SimVfs, Vfs};

/// Writes a table with one row and returns the bytes of the database.
fn database(columns: Vec<ColumnDefinition>, values: &[Value]) -> Vec<u8> {
    let disk = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let size = PageSize::KIB_32;
    let cache = Cache::new(CacheOptions::new(64 << 20, size, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    let instance = Instance::open(options).unwrap();
    let path = Path::new("/db/large.edb");
    let db = instance.create_database(path, &DatabaseOptions::default()).unwrap();
    let mut s = instance.session();
    s.begin().unwrap();
    let definition =
        TableDefinition { name: "Large-1".to_owned(), columns, pages: 4, ..TableDefinition::default() };
    let names: Vec<String> = definition.columns.iter().map(|column| column.name.clone()).collect();
    s.create_table(&db, &definition).unwrap();
    s.commit(CommitMode::Durable).unwrap();
    let mut table = s.open_table(&db, "Large-1").unwrap();
    let row: Vec<_> =
        names.iter().map(|name| table.column(name).unwrap()).zip(values.iter().cloned()).collect();
    s.begin().unwrap();
    table.insert(&mut s, &row).unwrap();
    s.commit(CommitMode::Durable).unwrap();
    drop((table, s, db));
    instance.shutdown().unwrap();
    disk.contents(path).unwrap()
}

#[test]
fn values_over_the_row_limit_are_written_to_files() {
    let bytes = |len: usize| (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let [fits, over]: [Vec<u8>; 2] = [bytes(20 << 20), bytes((4 << 20) + 1)];
    let text = "\u{6f22}\u{5b57}, ".repeat(3 << 20);
    let mut columns =
        [("Fits", ColumnType::LongBinary), ("Over", ColumnType::LongBinary), ("Text", ColumnType::LongText)]
            .map(|(name, kind)| ColumnDefinition::new(name, kind));
    columns[2].code_page = CodePage::UNICODE;
    let values = [Value::Binary(fits.clone()), Value::Binary(over.clone()), Value::Text(text.clone())];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.edb");
    std::fs::write(&path, database(columns.to_vec(), &values)).unwrap();
    let output = directory.path().join("out");
    let options = ExportOptions {
        selection: Selection { tables: vec!["Large-1".to_owned()], ..Selection::default() },
        format: ExportFormat::JsonLines,
        destination: ExportDestination::Directory(output.clone()),
        additional: AdditionalRows::default(),
        force: false,
        row_limit: ROW_LIMIT,
        rendering: RenderingOptions::default(),
    };
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let exported = export(&vfs, &path, &options, &mut |_, _| {}).unwrap();
    assert!(!exported.issues.has_missing(), "{:?}", exported.issues.stored());
    assert_eq!(exported.value_files, 2);
    let line = std::fs::read(output.join("Large-1.jsonl")).unwrap();
    let row: serde_json::Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(row["Fits"].as_str().unwrap().len(), 2 * fits.len());
    let encoded: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (column, expected) in [("Over", over), ("Text", encoded)] {
        let place = &row[column];
        assert_eq!(place["$bytes"], expected.len(), "{column}: {place}");
        let file = place["$file"].as_str().unwrap();
        assert!(file.starts_with("values/Large-1_-"), "a number at the end is kept apart: {file}");
        assert!(std::fs::read(output.join(file)).unwrap() == expected, "{column}");
    }
}
