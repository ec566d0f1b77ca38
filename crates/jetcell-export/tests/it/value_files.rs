//! Long values that exceed a small limit are in separate files, with the same bytes as in a cell.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_format::long_value::LongValueKey;
use ese_format::page::PageFlags;
use jetcell_export::{
    AdditionalRows, CellItem, ExportDestination, ExportError, ExportFormat, ExportIssues, ExportOptions,
    ExportSummary, ExportedCell, ROW_LIMIT, RenderingOptions, RowReadOptions, Selection, SourceDatabase,
    export, read_rows,
};
use jetcell_vfs::{RealOptions, RealVfs};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rusqlite::types::ValueRef;
use serde_json::Value as Json;
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;

const FORMATS: [ExportFormat; 4] =
    [ExportFormat::Csv, ExportFormat::JsonLines, ExportFormat::Parquet, ExportFormat::Sqlite];
const DATABASES: [&str; 6] = [
    "db/4k/binary.edb",
    "db/4k/text.edb",
    "db/4k/multi.edb",
    "db/8k/decompress_test.edb",
    "db/16k/qmgr-win11-24h2.db",
    "db/32k/Windows-search.edb",
];

fn real() -> RealVfs {
    RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap()
}

/// An export with the options that the tests vary.
struct ExportRun<'r> {
    database: &'r Path,
    format: ExportFormat,
    row_limit: usize,
    table: Option<&'r str>,
    force: bool,
}

impl ExportRun<'_> {
    fn to(&self, destination: ExportDestination) -> Result<ExportSummary, ExportError> {
        let options = ExportOptions {
            selection: Selection {
                tables: self.table.map(str::to_owned).into_iter().collect(),
                ..Selection::default()
            },
            format: self.format,
            destination,
            additional: AdditionalRows::default(),
            force: self.force,
            row_limit: self.row_limit,
            rendering: RenderingOptions::default(),
        };
        export(&real(), self.database, &options, &mut |_, _| {})
    }

    fn to_directory(&self, directory: &Path) -> Result<ExportSummary, ExportError> {
        self.to(ExportDestination::Directory(directory.to_owned()))
    }
}

/// Table, row number in the table, and column.
type CellPosition = (String, usize, String);

/// The values of a cell that was exported with the default limit; `None` for an unreadable value.
struct CompleteCell {
    items: Vec<Option<Vec<u8>>>,
    multi: bool,
}

/// Returns all cells that are not null, and the number of nonempty long or compressed values.
fn whole(database: &Path) -> (BTreeMap<CellPosition, CompleteCell>, u64) {
    let source = SourceDatabase::open(&real(), database, &mut ExportIssues::default()).unwrap();
    let (mut cells, mut long) = (BTreeMap::new(), 0);
    for table in source.tables() {
        let mut number = 0;
        read_rows(&source, table, RowReadOptions::default(), &mut ExportIssues::default(), |row| {
            for (cell, column) in row.cells.iter().zip(&table.columns) {
                let items = cell.items().iter().map(|item| match item {
                    CellItem::Inline(bytes) => {
                        long += u64::from(matches!(bytes, Cow::Owned(bytes) if !bytes.is_empty()));
                        Some(bytes.to_vec())
                    }
                    CellItem::File(file) => panic!("{file:?} though no files were given"),
                    CellItem::Unreadable(_) => None,
                });
                let whole =
                    CompleteCell { items: items.collect(), multi: matches!(cell, ExportedCell::Multi(_)) };
                if *cell != ExportedCell::Null {
                    cells.insert((table.name.clone(), number, column.column.name.clone()), whole);
                }
            }
            number += 1;
            Ok(())
        })
        .unwrap();
    }
    (cells, long)
}

/// Path and length of each file to which an output refers, in the order of the cells.
type NamedFiles = Vec<(CellPosition, String, u64)>;

fn named_in_json(at: &CellPosition, json: &Json, named: &mut NamedFiles) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| named_in_json(at, item, named)),
        Json::Object(object) => {
            if let (Some(path), Some(bytes)) = (object.get("$file"), object.get("$bytes")) {
                assert_eq!(object.len(), 2);
                named.push((at.clone(), path.as_str().unwrap().to_owned(), bytes.as_u64().unwrap()));
            }
        }
        _ => {}
    }
}

fn named_in_text(at: &CellPosition, text: &str, named: &mut NamedFiles) {
    if let Some(rest) = text.strip_prefix("#file: ") {
        let (path, rest) = rest.rsplit_once(" (").unwrap();
        let bytes = rest.strip_suffix(" bytes)").unwrap().parse().unwrap();
        named.push((at.clone(), path.to_owned(), bytes));
    } else if text.starts_with('[')
        && let Ok(json) = serde_json::from_str(text)
    {
        named_in_json(at, &json, named);
    }
}

fn named_in_output(format: ExportFormat, output: &Path) -> NamedFiles {
    let mut named = NamedFiles::new();
    for path in files(output, format.extension()) {
        let table = path.file_stem().unwrap().to_string_lossy().into_owned();
        let at = |row: usize, column: &str| (table.clone(), row, column.to_owned());
        match format {
            ExportFormat::Csv => {
                let mut reader = csv::Reader::from_path(&path).unwrap();
                let columns = reader.headers().unwrap().clone();
                for (row, record) in reader.records().enumerate() {
                    for (column, text) in columns.iter().zip(&record.unwrap()) {
                        named_in_text(&at(row, column), text, &mut named);
                    }
                }
            }
            ExportFormat::JsonLines => {
                for (row, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
                    let object: serde_json::Map<String, Json> = serde_json::from_str(line).unwrap();
                    for (column, json) in &object {
                        named_in_json(&at(row, column), json, &mut named);
                    }
                }
            }
            ExportFormat::Parquet => {
                let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
                for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
                    let record = record.unwrap();
                    let column = record.get_column_iter().find(|(name, _)| *name == "_unreadable");
                    if let Some((_, Field::Str(notes))) = column {
                        for note in notes.lines() {
                            let (column, text) = note.split_once(": ").unwrap();
                            named_in_text(&at(row, column), text, &mut named);
                        }
                    }
                }
            }
            ExportFormat::Sqlite => named_in_sqlite(&path, &mut named),
        }
    }
    named
}

fn named_in_sqlite(path: &Path, named: &mut NamedFiles) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\" ORDER BY rowid")).unwrap();
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query([]).unwrap();
        let mut number = 0;
        while let Some(row) = rows.next().unwrap() {
            for (place, column) in columns.iter().enumerate() {
                if let ValueRef::Text(text) = row.get_ref(place).unwrap() {
                    let text = std::str::from_utf8(text).unwrap();
                    assert_ne!(column, "_more", "no table of this test is so wide");
                    named_in_text(&(table.clone(), number, column.clone()), text, named);
                }
            }
            number += 1;
        }
    }
}

/// Returns the files in a directory with this extension.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
}

/// Returns all paths below a directory.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| [all_below(&path), vec![path]].concat()).collect()
}

/// Checks that each file to which the output refers has the bytes of its cell, and that there are no other files.
/// Returns the number of files.
fn check_files(format: ExportFormat, output: &Path, cells: &BTreeMap<CellPosition, CompleteCell>) -> u64 {
    let named = named_in_output(format, output);
    for (at, path, len) in &named {
        let whole = &cells[at];
        let stem = path.strip_suffix(".bin").unwrap();
        let item = if whole.multi { stem.rsplit_once('-').unwrap().1.parse::<usize>().unwrap() } else { 1 };
        let bytes = std::fs::read(output.join(path)).unwrap();
        assert_eq!(bytes.len() as u64, *len, "{at:?}: {path}");
        assert!(whole.items[item - 1].as_deref() == Some(&bytes[..]), "{at:?}: {path} has other bytes");
    }
    let mut paths: Vec<&str> = named.iter().map(|(_, path, _)| path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), named.len(), "each cell has files of its own");
    assert_eq!(files(&output.join("values"), "bin").len(), named.len());
    let partial = all_below(output).into_iter().find(|path| path.to_string_lossy().contains(".partial"));
    assert_eq!(partial, None);
    named.len() as u64
}

#[test]
fn each_value_file_contains_the_cell_bytes() {
    let Some(corpus) = Corpus::locate() else { return };
    let (mut all, mut some) = (0, 0);
    for name in DATABASES {
        let directory = tempfile::tempdir().unwrap();
        let database = corpus.unpack(name, directory.path());
        let (cells, long) = whole(&database);
        for format in FORMATS {
            for row_limit in [0, 3000, ROW_LIMIT] {
                // Thousands of files would take long without testing anything more.
                if row_limit == 0 && long > 1000 {
                    continue;
                }
                let output = directory.path().join(format!("{format}-{row_limit}"));
                let run = ExportRun { database: &database, format, row_limit, table: None, force: false };
                let exported = run.to_directory(&output).unwrap();
                assert!(!exported.issues.has_missing(), "{name}: {:?}", exported.issues.stored());
                let count = check_files(format, &output, &cells);
                assert_eq!(exported.value_files, count, "{name} as {format}, limit {row_limit}");
                match row_limit {
                    0 => {
                        assert_eq!(count, long, "{name} as {format}: every value that is not in the record");
                        all += count;
                    }
                    ROW_LIMIT => assert!(count == 0 && !output.join("values").exists()),
                    _ => {
                        assert!(count <= long);
                        some += count;
                    }
                }
            }
        }
    }
    eprintln!("{all} files without room, {some} with some");
    assert!(some > 0 && all > some && all > 100, "{all}, {some}");
}

#[test]
fn a_damaged_chunk_leaves_no_file() {
    let Some(corpus) = Corpus::locate() else { return };
    let (mut lost, mut kept) = (0, 0);
    for name in DATABASES {
        let directory = tempfile::tempdir().unwrap();
        let database = corpus.unpack(name, directory.path());
        let patient = EditableDatabase::new(std::fs::read(&database).unwrap());
        // Uses a chunk after the first one. In this case a part of the value is already written.
        let leaves = patient.find(|page| page.is_leaf() && page.flags().contains(PageFlags::LONG_VALUE));
        let later = leaves.iter().filter_map(|&page| {
            let is_later =
                |key: &[u8]| matches!(LongValueKey::decode(key), Some(LongValueKey::Chunk(_, 1..)));
            Some((page, patient.page(page).nodes().position(|node| is_later(&node.key_to_vec()))?))
        });
        for (page, index) in later.take(2) {
            let mut damaged = patient.clone();
            damaged.edit(page, |mut it| it.replace_data(index, &[0xff; 3]).unwrap());
            std::fs::write(&database, &damaged.bytes).unwrap();
            let (cells, _) = whole(&database);
            let unreadable =
                cells.values().flat_map(|whole| &whole.items).filter(|item| item.is_none()).count();
            let (format, output) = (ExportFormat::JsonLines, directory.path().join("out"));
            // A value of several chunks exceeds this limit.
            let run = ExportRun { database: &database, format, row_limit: 3000, table: None, force: false };
            let exported = run.to_directory(&output).unwrap();
            // Compares the files with the readable cells, and fails for a file that belongs to another cell.
            kept += check_files(format, &output, &cells);
            let told =
                exported.issues.stored().iter().filter(|issue| issue.message.contains("chunk at byte"));
            assert_eq!(told.count(), unreadable, "{name}, page {page}: {:?}", exported.issues.stored());
            lost += unreadable;
            std::fs::remove_dir_all(&output).unwrap();
        }
    }
    assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
}

/// Returns the table of the first value file, the name of the file, and its bytes.
fn first_file(output: &Path) -> (String, String, Vec<u8>) {
    let mut found = files(&output.join("values"), "bin");
    found.sort();
    let name = found[0].file_name().unwrap().to_string_lossy().into_owned();
    let bytes = std::fs::read(&found[0]).unwrap();
    (name.rsplitn(4, '-').last().unwrap().to_owned(), name, bytes)
}

#[test]
fn files_are_replaced_only_with_force_and_no_partial_file_remains() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("db/4k/binary.edb", directory.path());
    for format in FORMATS {
        let output = directory.path().join(format.extension());
        let run = ExportRun { database: &database, format, row_limit: 0, table: None, force: false };
        run.to_directory(&output).unwrap();
        let (table, name, bytes) = first_file(&output);

        // Tests an existing file, and the files that a killed process has left.
        let other = directory.path().join(format!("{format}-other"));
        let in_the_way = other.join("values").join(&name);
        let stem = if format == ExportFormat::Sqlite { "binary.edb" } else { &table };
        let stale = other.join("values").join(format!("{stem}.{format}.partial"));
        std::fs::create_dir_all(&stale).unwrap();
        std::fs::write(stale.join("stale.bin"), "stale").unwrap();
        std::fs::write(&in_the_way, "mine").unwrap();
        let run = ExportRun { table: Some(&table), ..run };
        let error = run.to_directory(&other).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("--force"), "{error}");
        assert_eq!(std::fs::read(&in_the_way).unwrap(), b"mine");
        assert_eq!(all_below(&other), [in_the_way.clone(), other.join("values")], "{format}");

        let run = ExportRun { force: true, ..run };
        run.to_directory(&other).unwrap();
        assert_eq!(std::fs::read(&in_the_way).unwrap(), bytes);

        let file = directory.path().join(format!("one.{format}"));
        let exported = run.to(ExportDestination::File(file)).unwrap();
        let beside = directory.path().join(format!("one.{format}.values"));
        assert_eq!(std::fs::read(beside.join(&name)).unwrap(), bytes);
        assert_eq!(all_below(&beside).len() as u64, exported.value_files);
    }
}

#[test]
fn values_that_exceed_the_limit_are_unreadable_on_standard_output() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("db/4k/binary.edb", directory.path());
    let run = ExportRun {
        database: &database,
        format: ExportFormat::JsonLines,
        row_limit: 0,
        table: None,
        force: false,
    };
    let output = directory.path().join("out");
    run.to_directory(&output).unwrap();
    let (table, _, _) = first_file(&output);
    let exported = ExportRun { table: Some(&table), ..run }.to(ExportDestination::Stdout).unwrap();
    assert_eq!(exported.value_files, 0);
    assert!(exported.issues.has_missing());
    let what = &exported.issues.stored()[0].message;
    assert!(what.contains("standard output") && what.contains("--output"), "{what}");
    let source = SourceDatabase::open(&real(), &database, &mut ExportIssues::default()).unwrap();
    let reading = RowReadOptions { row_limit: 0, ..RowReadOptions::default() };
    let mut marked = 0;
    read_rows(&source, source.table(&table).unwrap(), reading, &mut ExportIssues::default(), |row| {
        let items = row.cells.iter().flat_map(ExportedCell::items);
        marked += items.filter(|item| matches!(item, CellItem::Unreadable(_))).count();
        Ok(())
    })
    .unwrap();
    assert_eq!(marked, exported.issues.stored().iter().filter(|issue| issue.missing).count());
}
