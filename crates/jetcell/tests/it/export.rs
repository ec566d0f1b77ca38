//! Tests of `jetcell export`: options for the format of values, and reports of values that cannot be exported.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{
    CacheSource, CodePage, ColumnDefinition, ColumnType, CommitMode, Database, DatabaseOptions,
    IndexDefinition, Instance, InstanceOptions, PageSize, Session, TableDefinition, Value as Field,
};
use ese_format::PageNumber;
use ese_format::checksum::seal_page;
use ese_format::page::NodeFlags;
use serde_json::Value;
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;
use testkit::samples;

use crate::cell::CellDirectory;
use crate::copies::run;

/// Texts of the table, in row order. Numbers are not treated as formulas.
const TEXTS: [&str; 8] = ["=1+1", "+1", "-x", "@a", "plain", "-3.5", "\tx", "a=b"];
/// The first integer that a double cannot represent exactly.
const WIDE: i64 = (1 << 53) + 1;

/// Creates a clean database whose content is inserted in one transaction.
fn made(directory: &Path, content: impl FnOnce(&mut Session, &Arc<Database>)) -> PathBuf {
    made_with(directory, PageSize::KIB_4, content)
}

/// Creates a database like [`made`], with this page size.
pub fn made_with(
    directory: &Path,
    page_size: PageSize,
    content: impl FnOnce(&mut Session, &Arc<Database>),
) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    let mut options = InstanceOptions::new(directory).unwrap();
    (options.page_size, options.log.file_size, options.cache) =
        (page_size, 64 << 10, CacheSource::Own { bytes: 1 << 20 });
    let instance = Instance::open(options).unwrap();
    let path = directory.join("data.edb");
    let database = instance.create_database(&path, &DatabaseOptions::default()).unwrap();
    let mut session = instance.session();
    session.begin().unwrap();
    content(&mut session, &database);
    session.commit(CommitMode::Durable).unwrap();
    drop((session, database));
    instance.shutdown().unwrap();
    path
}

/// Creates a clean database with a table `t` of these texts, each with an integer.
fn database(directory: &Path, texts: &[&str]) -> PathBuf {
    let text = ColumnDefinition::new("=Text", ColumnType::Text);
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::LongLong),
            ColumnDefinition { code_page: CodePage::UNICODE, ..text },
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        ..TableDefinition::default()
    };
    made(directory, |session, database| {
        session.create_table(database, &definition).unwrap();
        let mut table = session.open_table(database, "t").unwrap();
        let [id, column] = ["Id", "=Text"].map(|name| table.column(name).unwrap());
        for (number, text) in texts.iter().enumerate() {
            let id = (id, Field::LongLong(WIDE - 1 + number as i64));
            table.insert(session, &[id, (column, Field::Text((*text).to_string()))]).unwrap();
        }
    })
}

const EXPORT: [&str; 4] = ["export", "app/data.edb", "--table", "t"];

#[test]
fn spreadsheet_csv_prefixes_only_formulas_with_an_apostrophe() {
    let cell = CellDirectory::new();
    database(&cell.path("app"), &TEXTS);
    let csv = |more: &[&str]| run(&cell, 0, &[&EXPORT[..], &["--format", "csv"], more].concat());
    let fields = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_once(',').unwrap().1.to_string()).collect()
    };
    assert_eq!(fields(&csv(&["--output", "-"])), [&["=Text"], &TEXTS[..]].concat());
    let safe = csv(&["--output", "-", "--csv-safe"]);
    assert_eq!(fields(&safe), ["'=Text", "'=1+1", "+1", "'-x", "'@a", "plain", "-3.5", "'\tx", "a=b"]);
    csv(&["--output", "t.csv", "--csv-safe"]);
    assert_eq!(fs::read_to_string(cell.path("t.csv")).unwrap(), safe, "a file has the same");
}

#[test]
fn json_integers_beyond_doubles_are_strings_on_request() {
    let cell = CellDirectory::new();
    database(&cell.path("app"), &["a", "b"]);
    let ids = |more: &[&str]| -> Vec<Value> {
        let text = run(&cell, 0, &[&EXPORT[..], &["--format", "jsonl", "--output", "-"], more].concat());
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["Id"].clone()).collect()
    };
    let numbers = [Value::from(WIDE - 1), Value::from(WIDE)];
    assert_eq!(ids(&[]), numbers);
    assert_eq!(ids(&["--wide-integers", "number"]), numbers);
    assert_eq!(ids(&["--wide-integers", "string"]), [Value::from(WIDE - 1), Value::from(WIDE.to_string())]);
}

#[test]
fn json_nulls_are_omitted_on_request() {
    let cell = CellDirectory::new();
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: ["Id", "Other", "Last"].map(|name| ColumnDefinition::new(name, ColumnType::Long)).into(),
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        ..TableDefinition::default()
    };
    made(&cell.path("app"), |session, database| {
        session.create_table(database, &definition).unwrap();
        let mut table = session.open_table(database, "t").unwrap();
        let [id, other, last] = ["Id", "Other", "Last"].map(|name| table.column(name).unwrap());
        table.insert(session, &[(id, Field::Long(1)), (last, Field::Long(3))]).unwrap();
        table.insert(session, &[(id, Field::Long(2)), (other, Field::Long(0))]).unwrap();
    });
    let json =
        |more: &[&str]| run(&cell, 0, &[&EXPORT[..], &["--format", "jsonl", "--output", "-"], more].concat());
    assert_eq!(json(&["--omit-nulls"]), "{\"Id\":1,\"Last\":3}\n{\"Id\":2,\"Other\":0}\n");
    assert_eq!(json(&[]), "{\"Id\":1,\"Other\":null,\"Last\":3}\n{\"Id\":2,\"Other\":0,\"Last\":null}\n");
}

#[test]
fn a_lone_surrogate_replaces_one_character_and_exits_with_1() {
    let cell = CellDirectory::new();
    // The engine does not accept such text, so the file is modified: a private-use character is replaced by one half
    // of a surrogate pair.
    let path = database(&cell.path("app"), &["before\u{e000}after", "whole"]);
    let mut bytes = fs::read(&path).unwrap();
    let text: Vec<u8> = "e\u{e000}a".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let places: Vec<usize> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(&text)).collect();
    let [at] = places[..] else { panic!("{places:?}") };
    bytes[at + 2..at + 4].copy_from_slice(&0xd83d_u16.to_le_bytes());
    let page = at / 4096;
    let number = PageNumber::new(u32::try_from(page - 1).unwrap()).unwrap();
    seal_page(&mut bytes[page * 4096..][..4096], PageSize::KIB_4, number);
    fs::write(&path, bytes).unwrap();
    let words = [&EXPORT[..], &["--format", "jsonl", "--output", "-"]].concat();
    let output = cell.program(&words).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let texts: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["=Text"].clone()).collect();
    assert_eq!(texts, ["before\u{fffd}after", "whole"]);
    let missing: Vec<&str> = stderr.lines().filter(|line| line.starts_with("missing: ")).collect();
    let [line] = missing[..] else { panic!("{stderr}") };
    for part in
        ["table t", &format!("page {}", number.get()), "=Text", "unpaired UTF-16 surrogates", "replaced: 1"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// Exports a directory with the account 500 of a domain, whose identifier is in the column `objectSid` and in a
/// column of another table.
///
/// The directories in the corpus are from installations before their first domain, so no object in them has an
/// identifier.
#[test]
fn last_sid_part_is_big_endian_in_the_object_table() {
    const SID: [u8; 28] =
        [1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0xf4];
    let cell = CellDirectory::new();
    let directory = cell.make_dir("app");
    made(&directory, |session, database| {
        for name in ["datatable", "link_table"] {
            let definition = TableDefinition {
                name: name.to_string(),
                columns: vec![
                    ColumnDefinition::new("DNT_col", ColumnType::Long),
                    ColumnDefinition::new("ATTr589970", ColumnType::LongBinary),
                    ColumnDefinition::new("sd_id", ColumnType::Currency),
                ],
                indexes: vec![IndexDefinition::new("ById", &["DNT_col"]).primary()],
                ..TableDefinition::default()
            };
            session.create_table(database, &definition).unwrap();
            let mut table = session.open_table(database, name).unwrap();
            let [id, sid, descriptor] =
                ["DNT_col", "ATTr589970", "sd_id"].map(|name| table.column(name).unwrap());
            let row = [
                (id, Field::Long(1)),
                (sid, Field::Binary(SID.to_vec())),
                (descriptor, Field::Currency(0x0102_0304_0506)),
            ];
            table.insert(session, &row).unwrap();
        }
    });
    for profile in ["none", "auto"] {
        let row = |table: &str| -> Value {
            let words = ["export", "app/data.edb", "--table", table, "--profile", profile];
            let text = run(&cell, 0, &[&words[..], &["--format", "jsonl", "--output", "-"]].concat());
            serde_json::from_str(&text).unwrap()
        };
        let (object, link) = (row("datatable"), row("link_table"));
        assert_eq!(object["ATTr589970"], "S-1-5-21-1-2-3-500", "{profile}");
        assert_eq!(link["ATTr589970"], "S-1-5-21-1-2-3-4093706240", "{profile}");
        assert_eq!(object["sd_id"], 0x0102_0304_0506_i64, "{profile}");
    }
}

#[test]
fn security_descriptor_numbers_in_a_real_directory_are_integers() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let file = corpus.unpack("db/8k/ntds-initial.dit", &cell.path(""));
    let file = file.to_str().unwrap();
    let text = |table: &str, column: &str, form: &[&str]| {
        let words =
            ["export", file, "--table", table, "--column", column, "--format", "csv", "--output", "-"];
        run(&cell, 0, &[&words[..], form].concat())
    };
    let integers = text("sd_table", "sd_id", &[]);
    let numbers: Vec<i64> = integers.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(text("sd_table", "sd_id", &["--currency-format", "decimal"]).starts_with("sd_id\n0.0001\n"));
}

#[test]
fn deleted_rows_are_announced_and_carved_rows_have_columns() {
    let cell = CellDirectory::new();
    fs::create_dir_all(cell.path("app")).unwrap();
    let mut database = EditableDatabase::new(samples::read("all-deleted.edb"));
    fs::write(cell.path("app/data.edb"), &database.bytes).unwrap();
    let words = ["export", "app/data.edb", "--table", "Container_16", "--format", "csv", "--output", "-"];
    let output = cell.program(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let notes = String::from_utf8(output.stderr).unwrap();
    let expected =
        "357 rows are flagged deleted; --deleted exports them, and --carve finds rows that were removed";
    assert!(notes.contains(expected), "{notes}");

    let leaves = database.find(|page| {
        page.is_leaf() && page.nodes().next().is_some_and(|node| node.data.ends_with(b"visited 0"))
    });
    database.edit(leaves[0], |mut leaf| leaf.delete_node(0));
    fs::write(cell.path("app/data.edb"), &database.bytes).unwrap();
    let carving = [&words[..], &["--carve", "--include-damaged"]].concat();
    let notes = cell.program(&carving).output().unwrap().stderr;
    let notes = String::from_utf8(notes).unwrap();
    assert!(notes.contains("; --deleted exports them") && !notes.contains("--carve finds"), "{notes}");
    let text = run(&cell, 0, &carving);
    let lines: Vec<&str> = text.lines().collect();
    let page = leaves[0];
    let offset = 40;
    assert_eq!(lines[0], "Id,Url,_carved_page,_carved_offset,_confidence,_damaged");
    assert_eq!(lines[1..], [format!("0,visited 0,{page},{offset},high,false")]);
    let json = [&words[..5], &["jsonl", "--output", "-", "--deleted", "--carve"]].concat();
    let rows = run(&cell, 0, &json);
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 357);
    assert_eq!((&rows[0]["_deleted"], &rows[0]["_carved_page"]), (&true.into(), &Value::Null));
    let last = &rows[356];
    assert_eq!((&last["_deleted"], &last["_confidence"]), (&false.into(), &"high".into()));
}

/// Creates a database with rows `(number, OLE date, text)`, which no profile knows.
fn dated(directory: &Path, rows: &[(i32, f64, &str)]) {
    let text = ColumnDefinition::new("Text", ColumnType::Text);
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long),
            ColumnDefinition::new("When", ColumnType::DateTime),
            ColumnDefinition { code_page: CodePage::UNICODE, ..text },
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        ..TableDefinition::default()
    };
    made(directory, |session, database| {
        session.create_table(database, &definition).unwrap();
        let mut table = session.open_table(database, "t").unwrap();
        let [id, when, text] = ["Id", "When", "Text"].map(|name| table.column(name).unwrap());
        for (number, date, content) in rows {
            let row = [
                (id, Field::Long(*number)),
                (when, Field::DateTime(*date)),
                (text, Field::Text((*content).to_string())),
            ];
            table.insert(session, &row).unwrap();
        }
    });
}

#[test]
fn a_timeline_of_two_unknown_databases_is_sorted_and_counts_other_times() {
    let cell = CellDirectory::new();
    dated(&cell.path("a"), &[(1, 45_000.5, "late"), (2, 0.0, "never"), (3, 36_585.0, "early")]);
    dated(&cell.path("b"), &[(7, 40_000.0, "between"), (8, 80_000.0, "forever")]);
    let run = |more: &[&str]| {
        let words = ["export", "a/data.edb", "b/data.edb", "--timeline", "--format", "csv", "--output", "-"];
        let output = cell.program(&[&words[..], more].concat()).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        (stdout, stderr)
    };
    let header = "time,source,table,key,what";
    let early = "2000-02-29T00:00:00,a/data.edb,t,3,When: early";
    let between = "2009-07-06T00:00:00,b/data.edb,t,7,When: between";
    let late = "2023-03-15T12:00:00,a/data.edb,t,1,When: late";
    let (stdout, stderr) = run(&[]);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), [header, early, between, late]);
    assert!(stderr.contains("left out 2 times"), "{stderr}");
    assert!(stderr.contains("exported 3 rows of 2 tables"), "{stderr}");
    let (stdout, _) = run(&["--since", "2009-01-01", "--before", "2023-01-01"]);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), [header, between]);
}

/// Returns the leaf with the row whose text is `early`.
fn early_leaf(database: &EditableDatabase) -> PageNumber {
    let text: Vec<u8> = "early".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let leaves = database.find(|page| {
        page.is_leaf() && page.nodes().any(|node| node.data.windows(text.len()).any(|part| part == text))
    });
    leaves[0]
}

/// Flags the first rows of the table `t` as deleted.
fn flag_deleted(path: &Path, rows: usize) {
    let mut database = EditableDatabase::new(fs::read(path).unwrap());
    let leaf = early_leaf(&database);
    database.edit(leaf, |mut leaf| {
        (0..rows).for_each(|index| leaf.set_node_flags(index, NodeFlags::DELETED));
    });
    fs::write(path, &database.bytes).unwrap();
}

#[test]
fn hidden_deleted_rows_outside_the_selected_times_are_not_counted() {
    let cell = CellDirectory::new();
    dated(&cell.path("a"), &[(1, 45_000.5, "late"), (2, 36_585.0, "early"), (3, 36_586.0, "next")]);
    flag_deleted(&cell.path("a/data.edb"), 2);
    let words = ["export", "a/data.edb", "--table", "t", "--format", "csv", "--output", "-"];
    for (more, expected) in [
        (&[][..], Some("2 rows are flagged deleted")),
        (&["--since", "2020-01-01"], Some("1 rows are flagged deleted")),
        (&["--since", "2024-01-01"], None),
    ] {
        let output = cell.program(&[&words[..], more].concat()).output().unwrap();
        let notes = String::from_utf8(output.stderr).unwrap();
        match expected {
            Some(expected) => assert!(notes.contains(expected), "{more:?}: {notes}"),
            None => assert!(!notes.contains("flagged deleted"), "{more:?}: {notes}"),
        }
    }
}

#[test]
fn a_timeline_marks_carved_rows() {
    let cell = CellDirectory::new();
    dated(&cell.path("a"), &[(1, 45_000.5, "late"), (2, 36_585.0, "early")]);
    let path = cell.path("a/data.edb");
    let mut database = EditableDatabase::new(fs::read(&path).unwrap());
    let leaf = early_leaf(&database);
    database.edit(leaf, |mut page| page.delete_node(1));
    fs::write(&path, &database.bytes).unwrap();
    let words = ["export", "a/data.edb", "--timeline", "--format", "csv", "--output", "-"];
    let text = run(&cell, 0, &[&words[..], &["--carve"]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "time,source,table,key,what,_carved_page,_carved_offset,_confidence");
    let carved = format!("2000-02-29T00:00:00,a/data.edb,t,2,When: early,{leaf},");
    assert!(lines[1].starts_with(&carved) && lines.len() == 3, "{text}");
    assert_eq!(lines[2], "2023-03-15T12:00:00,a/data.edb,t,1,When: late,,,");
    assert_eq!(run(&cell, 0, &words).lines().count(), 2);
}
