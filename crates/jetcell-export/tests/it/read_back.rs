//! Parquet and SQLite output, read with their own libraries and compared with the JSON Lines of the same tables.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use jetcell_export::{
    AdditionalRows, ExportDestination, ExportFormat, ExportOptions, ROW_LIMIT, RenderingOptions, Selection,
    export,
};
use jetcell_vfs::{RealOptions, RealVfs};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value as Json;
use testkit::corpus::Corpus;

use crate::common::json_lines;

const DATABASES: [&str; 4] =
    ["db/4k/multi.edb", "db/4k/text.edb", "db/4k/binary.edb", "db/8k/decompress_test.edb"];

fn run(database: &Path, format: ExportFormat, output: &Path) {
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let destination = ExportDestination::Directory(output.to_owned());
    let options = ExportOptions {
        selection: Selection::default(),
        format,
        destination,
        additional: AdditionalRows::default(),
        force: false,
        row_limit: ROW_LIMIT,
        rendering: RenderingOptions::default(),
    };
    export(&vfs, database, &options, &mut |_, _| {}).unwrap();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if the bytes are equal. JSON contains them in hexadecimal, or as a SID.
fn same_bytes(json: &Json, bytes: &[u8]) -> bool {
    json.as_str().is_some_and(|text| text == hex(bytes) || text.starts_with("S-1-"))
}

/// Returns true if the values are equal. Times, decimals and GUIDs have other text forms and are not compared.
fn same_field(json: &Json, field: &Field) -> bool {
    match field {
        Field::Null => json.is_null() || json.get("$unreadable").is_some(),
        Field::Bool(value) => json.as_bool() == Some(*value),
        Field::Byte(value) => json.as_i64() == Some((*value).into()),
        Field::Short(value) => json.as_i64() == Some((*value).into()),
        Field::Int(value) => json.as_i64() == Some((*value).into()),
        Field::Long(value) => json.as_i64() == Some(*value),
        Field::UByte(value) => json.as_u64() == Some((*value).into()),
        Field::UShort(value) => json.as_u64() == Some((*value).into()),
        Field::UInt(value) => json.as_u64() == Some((*value).into()),
        Field::ULong(value) => json.as_u64() == Some(*value),
        Field::Float(value) => json.as_f64().is_some_and(|number| number as f32 == *value),
        Field::Double(value) => json.as_f64() == Some(*value),
        Field::Str(text) => json.as_str() == Some(text),
        Field::Bytes(bytes) if bytes.len() == 16 && json.as_str().is_some_and(|text| text.contains('-')) => {
            true
        }
        Field::Bytes(bytes) => same_bytes(json, bytes.data()),
        Field::ListInternal(list) => {
            let items = json.as_array().map_or(&[][..], Vec::as_slice);
            items.len() == list.elements().len()
                && items.iter().zip(list.elements()).all(|(item, field)| same_field(item, field))
        }
        _ => !json.is_null(),
    }
}

#[test]
fn parquet_equals_json_lines() {
    let Some(corpus) = Corpus::locate() else { return };
    let (mut cells, mut values) = (0, 0);
    for name in DATABASES {
        let directory = tempfile::tempdir().unwrap();
        let database = corpus.unpack(name, directory.path());
        let (json, parquet) = (directory.path().join("json"), directory.path().join("parquet"));
        run(&database, ExportFormat::JsonLines, &json);
        run(&database, ExportFormat::Parquet, &parquet);
        for (table, rows) in json_lines(&json) {
            let file = File::open(parquet.join(format!("{table}.parquet"))).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            assert_eq!(reader.metadata().file_metadata().num_rows() as usize, rows.len(), "{name}: {table}");
            for (row, expected) in reader.get_row_iter(None).unwrap().zip(&rows) {
                let row = row.unwrap();
                let columns: BTreeMap<&String, &Field> = row.get_column_iter().collect();
                for (column, json) in expected {
                    let field = columns[column];
                    // A list in a column that is not declared multi-valued is in `_unreadable`.
                    let aside = json.is_array()
                        && matches!(field, Field::Null)
                        && *columns[&"_unreadable".to_owned()] != Field::Null;
                    assert!(aside || same_field(json, field), "{name}: {table}.{column}: {json} and {field}");
                    cells += 1;
                    values += usize::from(*field != Field::Null);
                }
            }
        }
    }
    assert!(cells > 10_000 && values > 1_000, "{values} of {cells}");
}

#[test]
fn sqlite_equals_json_lines() {
    use rusqlite::types::ValueRef;
    let Some(corpus) = Corpus::locate() else { return };
    let (mut cells, mut values) = (0, 0);
    for name in DATABASES {
        let directory = tempfile::tempdir().unwrap();
        let database = corpus.unpack(name, directory.path());
        let (json, sqlite) = (directory.path().join("json"), directory.path().join("sqlite"));
        run(&database, ExportFormat::JsonLines, &json);
        run(&database, ExportFormat::Sqlite, &sqlite);
        let file = std::fs::read_dir(&sqlite).unwrap().next().unwrap().unwrap().path();
        let connection = rusqlite::Connection::open(file).unwrap();
        for (table, rows) in json_lines(&json) {
            let mut statement =
                connection.prepare(&format!("SELECT * FROM \"{table}\" ORDER BY rowid")).unwrap();
            let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut found = statement.query([]).unwrap();
            for expected in &rows {
                let row = found.next().unwrap().expect("as many rows as in JSON");
                for (column, json) in expected {
                    let Some(place) = names.iter().position(|name| name == column) else {
                        assert!(names.iter().any(|name| name == "_more"), "{name}: {table}.{column}");
                        continue;
                    };
                    let value = row.get_ref(place).unwrap();
                    let same = match value {
                        ValueRef::Null => json.is_null(),
                        ValueRef::Integer(value) => {
                            json.as_i64() == Some(value) || json.as_bool() == Some(value != 0)
                        }
                        ValueRef::Real(value) => json.as_f64() == Some(value),
                        ValueRef::Blob(bytes) => same_bytes(json, bytes),
                        ValueRef::Text(text) => {
                            let text = std::str::from_utf8(text).unwrap();
                            match json {
                                Json::String(json) => json == text,
                                Json::Array(_) => serde_json::from_str::<Json>(text).unwrap() == *json,
                                Json::Number(json) => text.parse::<f64>().ok() == json.as_f64(),
                                Json::Object(json) => {
                                    json.contains_key("$unreadable") && text.starts_with("#unreadable")
                                }
                                _ => false,
                            }
                        }
                    };
                    assert!(same, "{name}: {table}.{column}: {json} and {value:?}");
                    cells += 1;
                    values += usize::from(value != ValueRef::Null);
                }
            }
            assert!(found.next().unwrap().is_none(), "{name}: {table} has more rows than in JSON");
        }
    }
    assert!(cells > 10_000 && values > 1_000, "{values} of {cells}");
}
