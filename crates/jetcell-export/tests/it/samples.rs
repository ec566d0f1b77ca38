//! Exports of sample files with unusual content.

use std::path::Path;

use ese_format::checksum::header_checksum;
use jetcell_export::{
    AdditionalRows, CellItem, ExportDestination, ExportFormat, ExportIssues, ExportOptions, ExportedCell,
    ExportedRow, ROW_LIMIT, RenderingOptions, RowReadOptions, Selection, SourceDatabase, export, read_rows,
};
use jetcell_vfs::SimVfs;
use testkit::damage::EditableDatabase;
use testkit::samples;

const PAGE: usize = 4096;

fn open(bytes: &[u8], issues: &mut ExportIssues) -> SourceDatabase {
    let disk = SimVfs::new();
    disk.put(Path::new("/x.edb"), bytes);
    SourceDatabase::open(&disk, Path::new("/x.edb"), issues).unwrap()
}

#[test]
fn a_temporary_database_is_exported() {
    let mut bytes = samples::read("engine-4k.edb");
    for page in bytes.chunks_mut(PAGE).skip(2) {
        page[..8].fill(0);
    }
    for copy in bytes.chunks_mut(PAGE).take(2) {
        // Just created.
        copy[52] = 1;
        let sum = header_checksum(copy);
        copy[..4].copy_from_slice(&sum.to_le_bytes());
    }
    let mut issues = ExportIssues::default();
    let source = open(&bytes, &mut issues);
    let things = source.table("Things").unwrap();
    let mut rows = 0;
    read_rows(&source, things, RowReadOptions::default(), &mut issues, |_| {
        rows += 1;
        Ok::<_, std::io::Error>(())
    })
    .unwrap();
    let notes: Vec<&str> = issues.stored().iter().map(|issue| issue.message.as_str()).collect();
    assert!(rows > 0 && !issues.has_missing(), "{rows} rows, {notes:?}");
    assert!(notes.iter().any(|note| note.contains("is temporary")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("recover")), "{notes:?}");
}

#[test]
fn a_derived_table_contains_inherited_values() {
    let mut issues = ExportIssues::default();
    let source = open(&samples::read("derived-table.edb"), &mut issues);
    let table = source.table("Folder_101").unwrap();
    let names: Vec<&str> = table.columns.iter().map(|column| column.column.name.as_str()).collect();
    assert_eq!(names, ["Id", "Name", "Prop", "Body", "Own"]);
    let mut rows = Vec::new();
    let mut add = |row: ExportedRow<'_>| {
        let bytes = |cell: &ExportedCell<'_>| match cell {
            ExportedCell::One(CellItem::Inline(bytes)) => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        rows.push(row.cells.iter().map(bytes).collect::<Vec<_>>());
        Ok::<_, std::io::Error>(())
    };
    read_rows(&source, table, RowReadOptions::default(), &mut issues, &mut add).unwrap();
    let number = |value: i32| value.to_le_bytes().to_vec();
    assert_eq!(rows[0], [number(1), b"n1".to_vec(), number(99), b"body 1".to_vec(), number(1000)]);
    assert!(rows.len() == 5 && !issues.has_missing());
}

#[test]
fn compressed_values_of_unknown_schemes_keep_their_stored_bytes() {
    let mut issues = ExportIssues::default();
    let source = open(&samples::read("compression-schemes.edb"), &mut issues);
    let table = source.table("T").unwrap();
    let mut values = Vec::new();
    let mut add = |row: ExportedRow<'_>| {
        values.push(match &row.cells[1] {
            ExportedCell::One(CellItem::Inline(bytes)) => (String::new(), bytes.to_vec()),
            ExportedCell::One(CellItem::Unreadable(value)) => (value.reason.clone(), value.stored.clone()),
            other => panic!("{other:?}"),
        });
        Ok::<_, std::io::Error>(())
    };
    read_rows(&source, table, RowReadOptions::default(), &mut issues, &mut add).unwrap();
    let reason =
        |scheme| format!("compression scheme {scheme} is not supported (JET_errDecompressionFailed -1620)");
    let stored = |scheme: u8, rest: &[u8]| [&[scheme << 3][..], rest].concat();
    let xpress10 = [&[10, 0][..], &[0; 12], b"xyz"].concat();
    let expected = [
        (String::new(), b"hello".to_vec()),
        (reason(6), stored(6, &xpress10)),
        (reason(5), stored(5, b"\x01\x02\x03\x04abcdefgh")),
    ];
    assert_eq!(values, expected);
}

/// Returns the files of an export of the database to this directory.
fn exported(bytes: &[u8], format: ExportFormat, directory: &Path) -> Vec<String> {
    let disk = SimVfs::new();
    disk.put(Path::new("/x.edb"), bytes);
    let options = ExportOptions {
        selection: Selection::default(),
        format,
        destination: ExportDestination::Directory(directory.to_owned()),
        additional: AdditionalRows::default(),
        force: false,
        row_limit: ROW_LIMIT,
        rendering: RenderingOptions::default(),
    };
    export(&disk, Path::new("/x.edb"), &options, &mut |_, _| {}).unwrap();
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// SQLite's functions end a text at its first NUL.
#[test]
fn a_text_with_nul_is_complete_in_sqlite() {
    let mut database = EditableDatabase::new(samples::read("derived-table.edb"));
    let (text, with_nul) = (b"body 1", b"bo\0y 1");
    let is_text = |bytes: &[u8]| bytes == text;
    let page = database.find(|page| page.nodes().any(|node| node.data.windows(text.len()).any(is_text)))[0];
    let raw = database.raw(page);
    let at = raw.windows(text.len()).position(is_text).unwrap();
    raw[at..at + text.len()].copy_from_slice(with_nul);
    // Updates the checksum.
    database.edit(page, |_| {});
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(exported(&database.bytes, ExportFormat::Sqlite, directory.path()), ["x.edb.sqlite"]);
    let connection = rusqlite::Connection::open(directory.path().join("x.edb.sqlite")).unwrap();
    let mut statement = connection
        .prepare("SELECT length(Body), hex(Body), typeof(Body) FROM Folder_101 WHERE Id <= 2 ORDER BY Id")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(u32, String, String)> = rows.collect::<rusqlite::Result<_>>().unwrap();
    let row = |hex: &str, kind: &str| (6, hex.to_owned(), kind.to_owned());
    assert_eq!(rows, [row("626F00792031", "blob"), row("626F64792032", "text")]);
}

#[test]
fn all_files_of_a_directory_are_complete() {
    let directory = tempfile::tempdir().unwrap();
    let names = exported(&samples::read("derived-table.edb"), ExportFormat::Csv, directory.path());
    assert!(names.len() >= 2 && names.iter().all(|name| name.ends_with(".csv")), "{names:?}");
    let text = std::fs::read_to_string(directory.path().join("Folder_101.csv")).unwrap();
    assert_eq!(text.lines().count(), 6, "{text}");
}
