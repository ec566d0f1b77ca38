//! Compares the expected content with the content that a reader returned, cell by cell.

use std::collections::BTreeMap;
use std::path::Path;

use super::expected::{ExpectedCell, ExpectedColumn, ExpectedDatabase, ExpectedRows, ExpectedTable};
use super::run::{IndependentReader, InstalledReaders, ReadCell, ReadTable, ReaderError};

/// Maximum number of differences that are listed. Further differences are only counted.
const MAX_REPORTED: usize = 20;

/// Reads `path` with all three readers, and compares tables, columns, and rows exactly.
///
/// `Err` lists the differences. The result is also `Ok` if the readers are not installed and not required (see the
/// module).
pub fn compare(path: &Path, expected: &ExpectedDatabase) -> Result<(), ReaderError> {
    let Some(readers) = InstalledReaders::locate()? else { return Ok(()) };
    let with_rows = expected.tables.iter().any(|table| matches!(table.rows, ExpectedRows::Exact(_)));
    let mut differences = Vec::new();
    // Cells that no reader has confirmed so far, by table, row and column.
    let mut unconfirmed = UnconfirmedCells::new(expected);
    for reader in IndependentReader::ALL {
        match readers.read(reader, path, with_rows) {
            Ok(tables) => compare_tables(reader, expected, &tables, &mut unconfirmed, &mut differences),
            Err(what) => differences.push(what.to_string()),
        }
    }
    unconfirmed.report(&mut differences);
    if differences.is_empty() {
        return Ok(());
    }
    let more = differences.len().saturating_sub(MAX_REPORTED);
    differences.truncate(MAX_REPORTED);
    let tail = if more > 0 { format!("\n... and {more} more") } else { String::new() };
    Err(format!("{}:\n{}{tail}", path.display(), differences.join("\n")).into())
}

/// One flag per cell: true until a reader has returned the expected value.
struct UnconfirmedCells<'a> {
    expected: &'a ExpectedDatabase,
    cells: Vec<Vec<bool>>,
}

impl<'a> UnconfirmedCells<'a> {
    fn new(expected: &'a ExpectedDatabase) -> UnconfirmedCells<'a> {
        let cells = expected
            .tables
            .iter()
            .map(|table| match &table.rows {
                ExpectedRows::Exact(rows) => vec![true; rows.len() * table.columns.len()],
                ExpectedRows::Count(_) => Vec::new(),
            })
            .collect();
        UnconfirmedCells { expected, cells }
    }

    fn report(&self, differences: &mut Vec<String>) {
        for (table, cells) in self.expected.tables.iter().zip(&self.cells) {
            for position in
                cells.iter().enumerate().filter(|(_, unseen)| **unseen).map(|(position, _)| position)
            {
                let (row, column) = (position / table.columns.len(), position % table.columns.len());
                differences.push(format!(
                    "table {} row {row} column {}: no reader could show this cell",
                    table.name, table.columns[column].name
                ));
            }
        }
    }
}

fn compare_tables(
    reader: IndependentReader,
    expected: &ExpectedDatabase,
    read: &[ReadTable],
    unconfirmed: &mut UnconfirmedCells<'_>,
    differences: &mut Vec<String>,
) {
    let mut by_name: BTreeMap<&str, &ReadTable> = read
        .iter()
        .filter(|table| !table.name.starts_with("MSys"))
        .map(|table| (table.name.as_str(), table))
        .collect();
    for (table, seen) in expected.tables.iter().zip(&mut unconfirmed.cells) {
        match by_name.remove(table.name.as_str()) {
            Some(read) => compare_table(reader, table, read, seen, differences),
            None => differences.push(format!("{}: table {} is not there", reader.name(), table.name)),
        }
    }
    differences.extend(by_name.keys().map(|name| format!("{}: unexpected table {name}", reader.name())));
}

fn compare_table(
    reader: IndependentReader,
    expected: &ExpectedTable,
    read: &ReadTable,
    unconfirmed: &mut [bool],
    differences: &mut Vec<String>,
) {
    let place = format!("{}: table {}", reader.name(), expected.name);
    let mut order = Vec::with_capacity(expected.columns.len());
    for column in &expected.columns {
        match read.columns.iter().position(|candidate| candidate == column) {
            Some(position) => order.push(position),
            None => differences.push(format!("{place}: no column {column:?} among {:?}", read.columns)),
        }
    }
    if read.columns.len() != expected.columns.len() {
        differences.push(format!("{place}: {} columns, not {}", read.columns.len(), expected.columns.len()));
    }
    let count = match &expected.rows {
        ExpectedRows::Count(count) => *count,
        ExpectedRows::Exact(rows) => rows.len() as u64,
    };
    if read.row_count != count {
        differences.push(format!("{place}: {} rows, not {count}", read.row_count));
    }
    let ExpectedRows::Exact(rows) = &expected.rows else { return };
    if order.len() != expected.columns.len() {
        return;
    }
    for (number, (expected_row, read_row)) in rows.iter().zip(&read.rows).enumerate() {
        for (index, (column, cell)) in expected.columns.iter().zip(expected_row).enumerate() {
            let seen = read_row.get(order[index]);
            match seen.map(|seen| matches(reader, column, cell, seen)) {
                Some(CellMatch::Equal) => unconfirmed[number * expected.columns.len() + index] = false,
                Some(CellMatch::Undetermined) => {}
                Some(CellMatch::Different) | None => {
                    differences
                        .push(format!("{place} row {number} column {}: {seen:?}, not {cell:?}", column.name));
                }
            }
        }
    }
}

enum CellMatch {
    Equal,
    Undetermined,
    Different,
}

fn matches(
    reader: IndependentReader,
    column: &ExpectedColumn,
    expected: &ExpectedCell,
    seen: &ReadCell,
) -> CellMatch {
    let null_aware = reader == IndependentReader::Dissect;
    let equal = match (expected, seen) {
        (_, ReadCell::Unseen { .. }) => return CellMatch::Undetermined,
        // impacket prints the values of a multi-valued binary column undecoded and does not mark them.
        (ExpectedCell::Multi(_), ReadCell::Hex(_)) if reader == IndependentReader::Impacket => {
            return CellMatch::Undetermined;
        }
        // Only dissect evaluates the null bits of fixed columns; the other readers return the bytes in the slot.
        (ExpectedCell::Null, ReadCell::Hex(_)) if column.id < 128 && !null_aware => {
            return CellMatch::Undetermined;
        }
        // libesedb treats an empty value as NULL.
        (ExpectedCell::Value(bytes), ReadCell::Null(()))
            if bytes.is_empty() && reader == IndependentReader::Libesedb =>
        {
            return CellMatch::Undetermined;
        }
        (ExpectedCell::Null, ReadCell::Null(())) => true,
        (ExpectedCell::Value(bytes), ReadCell::Hex(hex)) => same(bytes, hex),
        (ExpectedCell::Multi(values), ReadCell::Multi(read)) => {
            values.len() == read.len()
                && values
                    .iter()
                    .zip(read)
                    .all(|(value, hex)| hex.as_deref().is_some_and(|hex| same(value, hex)))
        }
        _ => false,
    };
    if equal { CellMatch::Equal } else { CellMatch::Different }
}

fn same(bytes: &[u8], hex: &str) -> bool {
    let mut digits = hex.bytes();
    hex.len() == bytes.len() * 2
        && bytes.iter().all(|byte| {
            let pair = (digits.next().and_then(digit), digits.next().and_then(digit));
            matches!(pair, (Some(high), Some(low)) if high << 4 | low == *byte)
        })
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use testkit::corpus::Corpus;

    fn value(hex: &str) -> ExpectedCell {
        ExpectedCell::Value(
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect(),
        )
    }

    /// Returns the table `basic` of `basic.edb`, as the Windows API wrote it (values from dissect.esedb's own tests).
    fn basic() -> ExpectedDatabase {
        let columns = [
            (1, "Id", 4),
            (2, "Bit", 1),
            (3, "UnsignedByte", 2),
            (4, "Short", 3),
            (5, "Long", 4),
            (6, "Currency", 5),
            (7, "IEEESingle", 6),
            (8, "IEEEDouble", 7),
            (9, "DateTime", 8),
            (10, "UnsignedLong", 14),
            (11, "LongLong", 15),
            (12, "GUID", 16),
            (13, "UnsignedShort", 17),
        ];
        let first = [
            "01000000",
            "00",
            "d5",
            "c7fa",
            "37f833ff",
            "c9b000b41dc00400",
            "0000803f",
            "43614724f9806941",
            "0000000080afe140",
            "c907cc00",
            "37f833ffffffffff",
            "f10a363f6667dc469af20dacf295c2a1",
            "3905",
        ];
        let second = [
            "02000000",
            "ff",
            "ff",
            "3b05",
            "eb55cc00",
            "151fc996103efbff",
            "000000c0",
            "bc044964bd8a69c1",
            "00000000f01409c1",
        ];
        let mut second: Vec<ExpectedCell> = second.into_iter().map(value).collect();
        second.resize(columns.len(), ExpectedCell::Null);
        let table = ExpectedTable {
            name: "basic".to_owned(),
            columns: columns
                .map(|(id, name, kind)| ExpectedColumn { id, name: name.to_owned(), kind })
                .to_vec(),
            rows: ExpectedRows::Exact(vec![first.into_iter().map(value).collect(), second]),
        };
        ExpectedDatabase { tables: vec![table] }
    }

    #[test]
    fn the_comparison_accepts_only_content_written_by_windows() {
        let Some(corpus) = Corpus::locate() else { return };
        let directory = tempfile::tempdir().unwrap();
        let path = corpus.unpack("db/4k/basic.edb", directory.path());
        compare(&path, &basic()).unwrap();
        if InstalledReaders::locate().unwrap().is_none() {
            return;
        }
        let mut wrong = basic();
        let ExpectedRows::Exact(rows) = &mut wrong.tables[0].rows else { unreachable!() };
        rows[1][4] = value("eb55cc01");
        let differences = compare(&path, &wrong).unwrap_err().to_string();
        assert!(differences.contains("libesedb: table basic row 1 column Long"), "{differences}");
        assert!(differences.contains("dissect: table basic row 1 column Long"), "{differences}");
        assert!(differences.contains("impacket: table basic row 1 column Long"), "{differences}");
        let mut missing = basic();
        missing.tables[0].columns.pop();
        let differences = compare(&path, &missing).unwrap_err().to_string();
        assert!(differences.contains("13 columns, not 12"), "{differences}");
        let differences = compare(&path, &ExpectedDatabase::default()).unwrap_err().to_string();
        assert!(differences.contains("unexpected table basic"), "{differences}");
    }

    #[test]
    fn every_reader_row_count_matches_the_manifest() {
        let (Some(corpus), Some(readers)) = (Corpus::locate(), InstalledReaders::locate().unwrap()) else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        for file in corpus.databases() {
            let path = corpus.unpack(&file.name, directory.path());
            for reader in IndependentReader::ALL {
                let tables = readers.read(reader, &path, false).unwrap();
                // If the catalog has deleted nodes, some readers list a table twice.
                let names: BTreeSet<&str> = tables.iter().map(|table| table.name.as_str()).collect();
                assert!(names.iter().eq(file.tables.keys()), "{} by {}: {names:?}", file.name, reader.name());
                for (name, known) in &file.tables {
                    let noted = match reader {
                        IndependentReader::Libesedb => &known.libesedb,
                        IndependentReader::Dissect => &known.dissect,
                        IndependentReader::Impacket => &known.impacket,
                    };
                    let expected = noted.as_ref().and_then(serde_json::Value::as_u64).unwrap();
                    let mut counts =
                        tables.iter().filter(|table| table.name == *name).map(|table| table.row_count);
                    assert!(
                        counts.any(|count| count == expected),
                        "{} {name} by {}",
                        file.name,
                        reader.name()
                    );
                }
            }
        }
    }
}
