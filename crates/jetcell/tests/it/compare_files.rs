//! Tests of `jetcell compare-files`: rows and pages that differ, equal files, damage, and exit codes.

use std::fs;
use std::path::Path;

use ese_engine::{ColumnDefinition, ColumnType, IndexDefinition, PageSize, TableDefinition, Value as Field};
use serde_json::Value;

use crate::cell::CellDirectory;
use crate::copies::run;
use crate::export::made_with;

/// Length of the long values, which need several chunks.
const LONG: usize = 100_000;

/// A row: its key, a short value, and the last byte of a long value.
type TestRow = (i32, &'static str, u8);

const ROWS: [TestRow; 5] = [(1, "one", 1), (2, "two", 2), (3, "three", 3), (4, "four", 4), (5, "five", 5)];

fn database(directory: &Path, page_size: PageSize, rows: &[TestRow]) {
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long),
            ColumnDefinition::new("Short", ColumnType::Binary),
            ColumnDefinition::new("Long", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        ..TableDefinition::default()
    };
    made_with(directory, page_size, |session, database| {
        session.create_table(database, &definition).unwrap();
        let mut table = session.open_table(database, "t").unwrap();
        let [id, short, long] = ["Id", "Short", "Long"].map(|name| table.column(name).unwrap());
        for (number, text, last) in rows {
            let mut content: Vec<u8> = (0..LONG).map(|at| (at * at / 7) as u8).collect();
            *content.last_mut().unwrap() = *last;
            let row = [
                (id, Field::Long(*number)),
                (short, Field::Binary(text.as_bytes().to_vec())),
                (long, Field::Binary(content)),
            ];
            table.insert(session, &row).unwrap();
        }
    });
}

/// Returns the lines of a comparison of `a/data.edb` and `b/data.edb`.
fn lines(cell: &CellDirectory, code: i32, options: &[&str]) -> Vec<Value> {
    let words = [&["compare-files", "a/data.edb", "b/data.edb", "--json"], options].concat();
    run(cell, code, &words).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the counts of the table `t`.
fn table(lines: &[Value]) -> Value {
    let tables = lines.last().unwrap()["rows"]["tables"].as_array().unwrap();
    tables.iter().find(|table| table["table"] == "t").unwrap().clone()
}

#[test]
fn rows_are_matched_by_key_and_compared_with_their_long_values() {
    let cell = CellDirectory::new();
    database(&cell.path("a"), PageSize::KIB_4, &ROWS);
    let changed = [(1, "one", 1), (2, "zwei", 2), (4, "four", 4), (5, "five", 9), (6, "six", 6)];
    database(&cell.path("b"), PageSize::KIB_4, &changed);
    let lines = lines(&cell, 1, &["--tables", "--limit", "100"]);
    let rows: Vec<&Value> =
        lines.iter().filter(|line| line["type"] == "row" && line["table"] == "t").collect();
    let shown: Vec<String> = rows
        .iter()
        .map(|row| {
            let key = row["key"].as_str().unwrap();
            format!("{} {} {}", &key[key.len() - 2..], row["columns"], row["only"])
        })
        .collect();
    let expected = ["02 [\"Short\"] null", "03 null \"A\"", "05 [\"Long\"] null", "06 null \"B\""];
    assert_eq!(shown, expected);
    let counts = table(&lines);
    let numbers =
        ["equal", "changed", "only_a", "only_b", "columns"].map(|name| counts[name].as_u64().unwrap());
    assert_eq!(numbers, [2, 2, 1, 1, 0], "{counts}");
    let last = lines.last().unwrap();
    assert!(last["equal"] == false && last["complete"] == true && last["pages"].is_null(), "{last}");

    let text = run(&cell, 1, &["compare-files", "a/data.edb", "b/data.edb", "--tables", "--limit", "0"]);
    assert!(text.contains("table t: rows: 2 equal, 2 changed, 1 only in A, 1 only in B"), "{text}");
    assert!(text.contains("more differences of rows"), "{text}");
    assert!(!text.contains("differs in"), "{text}");
}

#[test]
fn equal_files_have_exit_code_0_and_a_changed_page_is_named() {
    let cell = CellDirectory::new();
    database(&cell.path("a"), PageSize::KIB_4, &ROWS);
    cell.make_dir("b");
    fs::copy(cell.path("a/data.edb"), cell.path("b/data.edb")).unwrap();
    let equal = lines(&cell, 0, &[]);
    assert!(equal.len() == 1 && equal[0]["equal"] == true && equal[0]["complete"] == true, "{equal:?}");
    assert_eq!(table(&equal)["equal"], 5);

    let page = 20;
    let mut bytes = fs::read(cell.path("a/data.edb")).unwrap();
    bytes[(page + 1) * 4096..][..64].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(cell.path("b/data.edb"), &bytes).unwrap();
    let different = lines(&cell, 1, &["--pages"]);
    assert_eq!(different.len(), 2, "{different:?}");
    assert_eq!((&different[0]["type"], &different[0]["page"]), (&"page".into(), &page.into()));
    assert_eq!(different[0]["b"], "bad checksum");
    let pages = &different[1]["pages"];
    assert_eq!((&pages["different"], &pages["headers_differ"]), (&1.into(), &false.into()), "{pages}");

    // A part of a page after the last page of the first file.
    let longer = [&bytes[..], &[7; 100]].concat();
    fs::write(cell.path("a/data.edb"), longer).unwrap();
    let pages = lines(&cell, 1, &["--pages"]).pop().unwrap()["pages"].clone();
    assert_eq!((&pages["different"], &pages["lengths_differ"]), (&0.into(), &true.into()), "{pages}");

    // One more page in the second file.
    bytes.truncate(bytes.len() - 4096);
    fs::write(cell.path("a/data.edb"), &bytes).unwrap();
    let pages = lines(&cell, 1, &["--pages"]).pop().unwrap()["pages"].clone();
    assert_eq!((&pages["only_a"], &pages["only_b"], &pages["different"]), (&0.into(), &1.into(), &0.into()));
}

#[test]
fn rows_are_compared_across_page_sizes() {
    let cell = CellDirectory::new();
    database(&cell.path("a"), PageSize::KIB_4, &ROWS);
    database(&cell.path("b"), PageSize::KIB_8, &ROWS);
    let words = ["compare-files", "a/data.edb", "b/data.edb", "--json"];
    let output = cell.program(&words).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && stderr.contains("the page sizes differ"), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts = table(&lines);
    assert_eq!((&counts["equal"], &counts["changed"]), (&5.into(), &0.into()), "{counts}");
    assert_eq!(lines.last().unwrap()["complete"], false, "{lines:?}");
    let text = run(&cell, 1, &["compare-files", "a/data.edb", "b/data.edb"]);
    assert!(text.contains("INCOMPLETE"), "{text}");
    let refused = cell.program_refused(&["compare-files", "a/data.edb", "b/data.edb", "--pages"]);
    assert!(refused.contains("4096 and 8192") && refused.contains("--tables"), "{refused}");
}

/// Destroys the long values. A file is then not different from itself, but it cannot be compared completely.
#[test]
fn rows_with_unreadable_values_are_not_counted_as_changed() {
    let cell = CellDirectory::new();
    database(&cell.path("a"), PageSize::KIB_4, &ROWS);
    cell.make_dir("b");
    let mut bytes = fs::read(cell.path("a/data.edb")).unwrap();
    for page in bytes.chunks_exact_mut(4096).skip(2) {
        let flags = u32::from_le_bytes(page[36..40].try_into().unwrap());
        // Leaves of a long-value tree.
        if flags & 0x82 == 0x82 {
            page[..8].iter_mut().zip(0u8..).for_each(|(byte, at)| *byte ^= at.wrapping_mul(37) | 1);
        }
    }
    for file in ["a/data.edb", "b/data.edb"] {
        fs::write(cell.path(file), &bytes).unwrap();
    }
    let words = ["compare-files", "a/data.edb", "b/data.edb", "--json"];
    let output = cell.program(&words).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("missing: A: ") && stderr.contains("missing: B: "), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts = table(&lines);
    assert_eq!((&counts["unread"], &counts["changed"]), (&5.into(), &0.into()), "{counts}");
    assert_eq!(lines.last().unwrap()["complete"], false, "{lines:?}");
}

/// Destroys most pages of a copy. The comparison must finish, and must not report the files as equal.
#[test]
fn damaged_pages_are_reported_and_are_not_equal() {
    let cell = CellDirectory::new();
    database(&cell.path("a"), PageSize::KIB_4, &ROWS);
    cell.make_dir("b");
    let mut bytes = fs::read(cell.path("a/data.edb")).unwrap();
    for page in bytes.chunks_mut(4096).skip(2 + 10) {
        page[..48].iter_mut().zip(0u8..).for_each(|(byte, at)| *byte ^= at.wrapping_mul(37) | 1);
    }
    fs::write(cell.path("b/data.edb"), bytes).unwrap();
    let words = ["compare-files", "a/data.edb", "b/data.edb", "--tables"];
    let output = cell.program(&words).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("missing: B: ") && !stderr.contains("missing: A: "), "{stderr}");
}
