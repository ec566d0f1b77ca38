//! Compares the cells that an export reads with those of libesedb and dissect.esedb for every table of the corpus,
//! and compares the row counts with the manifest.
//!
//! The readers may differ from the export only for the reasons in [`DifferenceReason`]. The test counts these differences and
//! fails on any other difference.

use std::collections::BTreeMap;

use ese_format::record::ColumnFlags;
use jetcell_export::{
    AdditionalRows, CellItem, ExportIssues, ExportedCell, RowReadOptions, SourceDatabase, SourceTable,
    read_rows,
};
use jetcell_vfs::{RealOptions, RealVfs};
use system_tests::readers::{IndependentReader, InstalledReaders, ReadCell, ReadTable};
use testkit::corpus::Corpus;

/// Reason why a reader returns another value for a cell than the export, or no value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum DifferenceReason {
    /// The reader reports that it cannot display such a cell.
    Unseen,
    /// The reader fails on the cell.
    ReaderFails,
    /// libesedb returns the bytes in the slot of a fixed column that is null.
    NullFixed,
    /// libesedb does not distinguish empty values from null.
    EmptyIsNull,
    /// libesedb does not apply default values.
    DefaultIsNull,
    /// dissect interprets the unused bits at the end of a 7-bit value as an additional NUL character.
    SevenBitTail,
    /// libesedb returns the last compressed chunk of a long value as stored; the preceding chunks are equal.
    LastChunkNotInflated,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns `Ok(None)` if the cells are equal.
fn classify_difference(
    reader: IndependentReader,
    table: &SourceTable,
    at: usize,
    ours: &ExportedCell<'_>,
    theirs: &ReadCell,
) -> Result<Option<DifferenceReason>, ()> {
    let column = &table.columns[at].column;
    let libesedb = reader == IndependentReader::Libesedb;
    match (ours, theirs) {
        (_, ReadCell::Unseen { .. }) => Ok(Some(DifferenceReason::Unseen)),
        (_, ReadCell::Error { .. }) => Ok(Some(DifferenceReason::ReaderFails)),
        (ExportedCell::Null, ReadCell::Null(())) => Ok(None),
        (ExportedCell::One(CellItem::Inline(bytes)), ReadCell::Hex(text)) if hex(bytes) == *text => Ok(None),
        (ExportedCell::Multi(items), ReadCell::Multi(read))
            if items.len() == read.len()
                && items.iter().zip(read).all(
                    |(item, read)| matches!(item, CellItem::Inline(bytes) if read.as_deref() == Some(&hex(bytes))),
                ) =>
        {
            Ok(None)
        }
        (ExportedCell::Null, ReadCell::Hex(_)) if libesedb && column.id.0 < 128 => Ok(Some(DifferenceReason::NullFixed)),
        (ExportedCell::One(CellItem::Inline(bytes)), ReadCell::Null(())) if libesedb && bytes.is_empty() => {
            Ok(Some(DifferenceReason::EmptyIsNull))
        }
        (ExportedCell::One(CellItem::Inline(bytes)), ReadCell::Null(()))
            if libesedb
                && column.flags.contains(ColumnFlags::HAS_DEFAULT)
                && column.default.as_deref() == Some(&**bytes) =>
        {
            Ok(Some(DifferenceReason::DefaultIsNull))
        }
        (ExportedCell::One(CellItem::Inline(bytes)), ReadCell::Hex(text))
            if reader == IndependentReader::Dissect
                && column.flags.contains(ColumnFlags::COMPRESSED)
                && text.strip_prefix(&hex(bytes)).is_some_and(|tail| tail == "0000" || tail == "00") =>
        {
            Ok(Some(DifferenceReason::SevenBitTail))
        }
        (ExportedCell::One(CellItem::Inline(bytes)), ReadCell::Hex(text))
            if libesedb && last_chunk_as_stored(&hex(bytes), text) =>
        {
            Ok(Some(DifferenceReason::LastChunkNotInflated))
        }
        _ => Err(()),
    }
}

fn same_columns(table: &SourceTable, other: &ReadTable) -> bool {
    table.columns.len() == other.columns.len()
}

/// Returns true if the cells are equal up to the last of several chunks, and that chunk is shorter than expected.
fn last_chunk_as_stored(ours: &str, theirs: &str) -> bool {
    let equal = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
    theirs.len() < ours.len() && equal >= 2 * 4014 && theirs.len() - equal < 2 * 4014
}

#[test]
fn cells_match_libesedb_and_dissect() {
    let (Some(corpus), Some(readers)) = (Corpus::locate(), InstalledReaders::locate().unwrap()) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let (mut equal, mut reasons, mut wrong) =
        (0u64, BTreeMap::<(&str, DifferenceReason), u64>::new(), Vec::new());
    for file in corpus.databases() {
        let path = corpus.unpack(&file.name, directory.path());
        let mut issues = ExportIssues::default();
        let source = SourceDatabase::open(&vfs, &path, &mut issues).unwrap();
        for reader in [IndependentReader::Libesedb, IndependentReader::Dissect] {
            let read = match readers.read(reader, &path, true) {
                Ok(read) => read,
                Err(what) => {
                    wrong.push(format!("{}: {what}", file.name));
                    continue;
                }
            };
            for table in source.tables() {
                // If the catalog has deleted nodes, dissect lists a table twice: its current version and its previous
                // version.
                let known = &file.tables[&table.name];
                let rows =
                    known.rows + if reader == IndependentReader::Dissect { known.deleted_nodes } else { 0 };
                let named = || read.iter().filter(|other| other.name == table.name);
                let same = |other: &&ReadTable| other.row_count == rows && same_columns(table, other);
                let Some(theirs) = named().rfind(same).or(named().next()) else {
                    wrong.push(format!("{} {}: not in {}", file.name, table.name, reader.name()));
                    continue;
                };
                // dissect also returns rows that are flagged deleted, and does not mark them.
                let reading = RowReadOptions {
                    additional: AdditionalRows {
                        deleted: reader == IndependentReader::Dissect,
                        ..AdditionalRows::default()
                    },
                    ..RowReadOptions::default()
                };
                let order: Vec<Option<usize>> = table
                    .columns
                    .iter()
                    .map(|column| {
                        theirs
                            .columns
                            .iter()
                            .position(|other| other.id == u32::from(column.column.id.number()))
                    })
                    .collect();
                let mut row_number = 0;
                read_rows(&source, table, reading, &mut issues, |row| {
                    let cells = theirs.rows.get(row_number);
                    for (at, cell) in row.cells.iter().enumerate() {
                        let Some(their) = cells.and_then(|cells| cells.get(order[at]?)) else {
                            wrong.push(format!("{} {} row {row_number}: no cell", file.name, table.name));
                            continue;
                        };
                        match classify_difference(reader, table, at, cell, their) {
                            Ok(None) => equal += 1,
                            Ok(Some(reason)) => *reasons.entry((reader.name(), reason)).or_default() += 1,
                            Err(()) => wrong.push(format!(
                                "{} {} row {row_number} column {} by {}: {their:?}, ours {cell:?}",
                                file.name,
                                table.name,
                                table.columns[at].column.name,
                                reader.name()
                            )),
                        }
                    }
                    row_number += 1;
                    Ok(())
                })
                .unwrap();
                if row_number != theirs.rows.len() {
                    wrong.push(format!(
                        "{} {}: {row_number} rows, {} by {}",
                        file.name,
                        table.name,
                        theirs.rows.len(),
                        reader.name()
                    ));
                }
            }
        }
        assert!(!issues.has_missing(), "{}: {:?}", file.name, issues.stored());
    }
    eprintln!("{equal} cells equal; differences by reason: {reasons:?}");
    let shown: Vec<String> = wrong.iter().take(40).map(|what| what.chars().take(400).collect()).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), shown.join("\n"));
    assert!(equal > 100_000, "{equal}");
}

#[test]
fn row_counts_match_the_manifest() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    for file in corpus.databases() {
        let path = corpus.unpack(&file.name, directory.path());
        let mut issues = ExportIssues::default();
        let source = SourceDatabase::open(&vfs, &path, &mut issues).unwrap();
        assert_eq!(source.tables().len(), file.tables.len(), "{}", file.name);
        for table in source.tables() {
            let known = &file.tables[&table.name];
            let (mut rows, mut deleted) = (0, 0);
            let additional = AdditionalRows { deleted: true, ..AdditionalRows::default() };
            let reading = RowReadOptions { additional, ..RowReadOptions::default() };
            read_rows(&source, table, reading, &mut issues, |row| {
                if row.deleted {
                    deleted += 1;
                } else {
                    rows += 1;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!((rows, deleted), (known.rows, known.deleted_nodes), "{} {}", file.name, table.name);
        }
        let dirty = issues.stored().iter().any(|issue| issue.message.contains("not shut down cleanly"));
        assert_eq!(dirty, file.state == Some(2), "{}", file.name);
    }
}
