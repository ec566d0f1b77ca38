//! Parquet and SQLite output, read with their own libraries and compared with the JSON Lines of the same tables.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use jetcell_export::{
    Currency, Destination, Format, Options, Profile, ROW_LIMIT, Rendering, Selection, export,
};
use jetcell_vfs::{RealOptions, RealVfs};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value as Json;
use testkit::corpus::Corpus;

const DATABASES: [&str; 4] =
    ["db/4k/multi.edb", "db/4k/text.edb", "db/4k/binary.edb", "db/8k/decompress_test.edb"];

fn run(database: &Path, format: Format, output: &Path) {
    run_as(database, format, output, Rendering::default());
}

fn run_as(database: &Path, format: Format, output: &Path, rendering: Rendering) {
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let destination = Destination::Directory(output.to_owned());
    let options = Options {
        selection: Selection::default(),
        format,
        destination,
        deleted: false,
        force: false,
        row_limit: ROW_LIMIT,
        rendering,
    };
    export(&vfs, database, &options, &mut |_, _| {}).unwrap();
}

/// File stem of each table and its rows.
fn json_lines(output: &Path) -> BTreeMap<String, Vec<serde_json::Map<String, Json>>> {
    let files = std::fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), rows)
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether bytes are equal. JSON has them in hexadecimal, or as a SID.
fn same_bytes(json: &Json, bytes: &[u8]) -> bool {
    json.as_str().is_some_and(|text| text == hex(bytes) || text.starts_with("S-1-"))
}

/// Whether a value is equal. Times, decimals and GUIDs have other text forms and are not compared.
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
        run(&database, Format::JsonLines, &json);
        run(&database, Format::Parquet, &parquet);
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
        run(&database, Format::JsonLines, &json);
        run(&database, Format::Sqlite, &sqlite);
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

/// The row of an attribute of the schema.
fn schema_row<'r>(
    rows: &'r [serde_json::Map<String, Json>],
    name: &str,
    wanted: &str,
) -> &'r serde_json::Map<String, Json> {
    let is = |value: &Json| {
        *value == wanted || value.as_array().is_some_and(|list| list.iter().any(|one| one == wanted))
    };
    rows.iter().find(|row| row.get(name).is_some_and(is)).unwrap()
}

#[test]
fn a_directory_has_the_names_of_its_schema_integers_and_times() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("db/8k/ntds-initial.dit", directory.path());
    let rows = |name: &str, rendering| {
        let output = directory.path().join(name);
        run_as(&database, Format::JsonLines, &output, rendering);
        json_lines(&output).remove("datatable").unwrap()
    };
    let plain = rows("plain", Rendering::default());
    let row = schema_row(&plain, "ATTm131532", "whenCreated");
    assert_eq!(row["ATTc131102"], serde_json::json!([131_074]));
    assert_eq!(row["ATTl131074"], serde_json::json!([13_013_628_276i64]), "an integer in Active Directory");
    let decimal = rows("decimal", Rendering { currency: Currency::Decimal, ..Rendering::default() });
    assert_eq!(
        schema_row(&decimal, "ATTm131532", "whenCreated")["ATTl131074"],
        serde_json::json!([1_301_362.827_6])
    );
    let named = rows("named", Rendering { profile: Profile::BySchema, ..Rendering::default() });
    let row = schema_row(&named, "lDAPDisplayName", "whenCreated");
    assert_eq!((&row["attributeID"], &row["isSingleValued"]), (&131_074.into(), &1.into()));
    assert_eq!(row["whenCreated"], "2013-05-21T16:44:36Z");
    assert_eq!(named.len(), plain.len());
    let named_columns = row.keys().filter(|name| !name.starts_with("ATT")).count();
    assert!(named_columns > 1000, "{named_columns}");

    // The same columns in the other formats: Parquet keeps integers, SQLite has the times as text.
    let rendering = Rendering { profile: Profile::Directory, ..Rendering::default() };
    run_as(&database, Format::Parquet, &directory.path().join("parquet"), rendering);
    let file = File::open(directory.path().join("parquet/datatable.parquet")).unwrap();
    let columns = SerializedFileReader::new(file).unwrap();
    let schema = columns.metadata().file_metadata().schema().get_fields();
    let created = schema.iter().find(|field| field.name() == "whenCreated").unwrap();
    assert!(created.is_primitive(), "a single value");

    let other = corpus.unpack("db/4k/basic.edb", directory.path());
    let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
    let options = Options {
        selection: Selection::default(),
        format: Format::Csv,
        destination: Destination::Directory(directory.path().join("other")),
        deleted: false,
        force: false,
        row_limit: ROW_LIMIT,
        rendering,
    };
    let refused = export(&vfs, &other, &options, &mut |_, _| {}).unwrap_err().to_string();
    assert!(refused.contains("has not the tables of Active Directory"), "{refused}");
}

#[test]
fn the_usage_monitor_has_names_for_its_providers_applications_and_users() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let database = corpus.unpack("logsets/srum-win11-dirty/SRUDB.dat", directory.path());
    let tables = |name: &str, profile| {
        let output = directory.path().join(name);
        run_as(&database, Format::JsonLines, &output, Rendering { profile, ..Rendering::default() });
        json_lines(&output)
    };
    let plain = tables("plain", Profile::None);
    let named = tables("named", Profile::BySchema);
    assert_eq!(plain.len(), named.len());
    let stored = &plain["{D10CA2FE-6FCF-4F6D-848E-B2E99266FA89}"];
    let usage = &named["ApplicationResourceUsage"];
    assert!(stored.len() == usage.len() && !stored.is_empty());
    let texts = |column: &str| usage.iter().filter(|row| row[column].is_string()).count();
    assert!(texts("AppId") * 10 > usage.len() * 9, "{} of {}", texts("AppId"), usage.len());
    assert!(usage.iter().any(|row| row["UserId"].as_str().is_some_and(|user| user.starts_with("S-1-5-"))));
    // Each number is the text of its row in the table of numbers.
    let ids: BTreeMap<i64, &Json> = named["SruDbIdMapTable"]
        .iter()
        .map(|row| (row["IdIndex"].as_i64().unwrap(), &row["IdBlob"]))
        .collect();
    for (before, after) in stored.iter().zip(usage) {
        for column in ["AppId", "UserId"] {
            let id = before[column].as_i64().unwrap();
            assert!(after[column] == *ids[&id] || after[column] == id, "{column} {id}: {}", after[column]);
        }
    }
    let times: Vec<&Json> = named["Vfuprov"].iter().map(|row| &row["StartTime"]).collect();
    let good =
        |time: &&Json| time.as_str().is_some_and(|text| text.ends_with('Z')) || time.as_i64() == Some(0);
    assert!(times.iter().all(|time| good(time) || time.is_null()), "{times:?}");
}
