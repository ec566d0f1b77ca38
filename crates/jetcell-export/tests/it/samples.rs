//! Exports of sample files with unusual content.

use std::path::Path;

use ese_format::checksum::header_checksum;
use jetcell_export::{
    CellItem, ExportIssues, ExportedCell, ExportedRow, RowReadOptions, SourceDatabase, read_rows,
};
use jetcell_vfs::SimVfs;
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
    assert!(rows > 100 && !issues.has_missing(), "{rows} rows, {notes:?}");
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
