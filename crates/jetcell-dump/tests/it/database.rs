//! Tests of the dumps of pages, trees, schemas, and space of all real databases. The results are compared with the
//! manifest and with a dump made by Windows.

use std::collections::BTreeMap;

use ese_format::PageSize;
use ese_format::compression::{MAX_INTRINSIC, decompress};
use ese_format::record::{Column, ColumnType, ColumnValue, Record};
use jetcell_dump::{SchemaOptions, SpaceOptions, TreeSelector};
use serde_json::Value;

use crate::common::{corpus_file, dump, items, manifest};

/// Returns the name, the contents, and the manifest entry of every database in the corpus.
fn databases() -> impl Iterator<Item = (String, Vec<u8>, Value)> {
    let entries = manifest().into_iter().filter(|file| file["kind"] == "db");
    entries.map(|file| {
        let name = file["name"].as_str().unwrap().to_owned();
        (name.clone(), corpus_file(&name).unwrap(), file)
    })
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn pages_by_state_equal_the_manifest() {
    for (name, bytes, file) in databases() {
        let (output, problems) = dump(&bytes, |source, output| jetcell_dump::dump_pages(source, &[], output));
        assert_eq!(problems, 0, "{name}");
        let (mut good, mut zero, mut newest) = (0, 0, 0);
        for item in items(&output) {
            match item["type"].as_str().unwrap() {
                "page" => {
                    assert_eq!(item["state"], "good", "{name}: {item}");
                    assert!(item["header"]["fault"].is_null(), "{name}: {item}");
                    good += 1;
                    newest = newest.max(number(&item["header"]["db_time"]));
                }
                _ => zero += number(&item["last"]) - number(&item["first"]) + 1,
            }
        }
        assert_eq!((good, zero), (number(&file["new_ck_pages"]), number(&file["zero_pages"])), "{name}");
        assert_eq!(newest, number(&file["max_page_dbtime"]), "{name}");
    }
}

#[test]
fn every_node_of_every_page_is_shown() {
    for (name, bytes, _) in databases() {
        let all = [1..=u32::MAX];
        let (output, problems) =
            dump(&bytes, |source, output| jetcell_dump::dump_pages(source, &all, output));
        assert_eq!(problems, 1, "{name}: the end of the file is the only problem");
        for item in items(&output).iter().filter(|item| item["type"] == "page") {
            let nodes = item["nodes"].as_array().unwrap();
            assert_eq!(number(&item["header"]["node_count"]), nodes.len() as u64, "{name}: {item}");
            assert!(nodes.iter().all(|node| node["meaning"]["fault"].is_null()), "{name}: {item}");
        }
    }
}

#[test]
fn rows_index_entries_and_columns_equal_the_manifest() {
    let mut tables_seen = 0;
    for (name, bytes, file) in databases() {
        let (output, problems) = dump(&bytes, |source, output| {
            jetcell_dump::dump_schema(source, &SchemaOptions::default(), output)
        });
        assert_eq!(problems, 0, "{name}");
        let schema = items(&output);
        let tables = file["tables"].as_object().unwrap();
        assert_eq!(schema.len(), tables.len(), "{name}");
        let count = |choice: TreeSelector| {
            let (output, problems) =
                dump(&bytes, |source, output| jetcell_dump::dump_tree(source, &choice, false, output));
            assert_eq!(problems, 0, "{name}: {choice:?}");
            let summary = items(&output).pop().unwrap();
            let deleted =
                summary["levels"].as_array().unwrap().last().map_or(0, |level| number(&level["deleted"]));
            (number(&summary["records"]), deleted)
        };
        for (table, facts) in tables {
            let found = schema
                .iter()
                .find(|item| item["name"] == *table)
                .unwrap_or_else(|| panic!("{name}: {table}"));
            if let Some(columns) = facts["columns"].as_u64() {
                let shown = found["columns"].as_array().unwrap().len() as u64;
                assert_eq!(shown, columns, "{name}: columns of {table}");
            }
            let (rows, deleted) = count(TreeSelector::Table(table.clone()));
            assert_eq!(rows, number(&facts["rows"]), "{name}: rows of {table}");
            assert_eq!(deleted, facts["deleted_nodes"].as_u64().unwrap_or(0), "{name}: deleted of {table}");
            for (index, entries) in facts["secondary_index_entries"].as_object().into_iter().flatten() {
                let (found, _) = count(TreeSelector::Index(table.clone(), index.clone()));
                assert_eq!(found, number(entries), "{name}: {table} / {index}");
            }
            if let Some(nodes) = facts["long_value_nodes"].as_u64() {
                let (found, _) = count(TreeSelector::LongValues(table.clone()));
                assert_eq!(found, nodes, "{name}: long values of {table}");
            }
            tables_seen += 1;
        }
    }
    assert!(tables_seen > 150 || manifest().is_empty(), "{tables_seen}");
}

fn space(bytes: &[u8], sort_by_size: bool) -> (String, u64) {
    let options = SpaceOptions { extents: true, sort_by_size };
    dump(bytes, |source, output| jetcell_dump::dump_space(source, options, &mut |_, _| {}, output))
}

#[test]
fn every_owned_page_is_used_available_or_leaked() {
    for (name, bytes, file) in databases() {
        let (output, problems) = space(&bytes, false);
        assert_eq!(problems, 0, "{name}");
        let items = items(&output);
        let summary = items.last().unwrap();
        assert_eq!(summary["last_owned"], file["last_owned_page"], "{name}");
        let sum = ["used_pages", "available_pages", "leaked_pages", "damaged_pages"]
            .map(|part| number(&summary[part]));
        let owned = number(&file["last_owned_page"]).min(number(&file["pages"]));
        assert_eq!(sum.iter().sum::<u64>(), owned, "{name}");
        let trees: Vec<_> = items.iter().filter(|item| item["type"] == "tree-space").collect();
        let pages = ["leaf_pages", "internal_pages", "space_pages"];
        let used: u64 = trees.iter().flat_map(|tree| pages.map(|part| number(&tree[part]))).sum();
        assert_eq!(used, sum[0], "{name}");
        let leaked: u64 = trees.iter().map(|tree| number(&tree["leaked_pages"])).sum();
        assert_eq!(leaked, sum[2], "{name}");
        // Two files have leaked pages: one was repaired, and the other is from a machine that was not shut down.
        let lossy = name.contains("Windows-search") || name.contains("win11-dirty");
        assert_eq!(leaked > 0, lossy, "{name}: {leaked} leaked");
        let map = items.iter().find(|item| item["type"] == "map").unwrap();
        assert_eq!(map["cells"].as_str().unwrap().contains('?'), lossy, "{name}");
        let extents: u64 = items.iter().filter(|item| item["type"] == "extent").count() as u64;
        let listed =
            trees.iter().map(|tree| number(&tree["owned_extents"]) + number(&tree["available_extents"]));
        assert_eq!(extents, listed.sum::<u64>(), "{name}");
    }
}

/// Checks that the sizes of all trees add up to the owned pages, and that the order is by size.
#[test]
fn sizes_of_trees_add_up_to_the_owned_pages() {
    // Trees also own the missing pages of a truncated file.
    for (name, bytes, _) in databases().filter(|(name, ..)| !name.contains("truncated")) {
        let (output, problems) = space(&bytes, true);
        assert_eq!(problems, 0, "{name}");
        let items = items(&output);
        let summary = items.last().unwrap();
        let page_size = number(&summary["page_size"]);
        let trees: Vec<_> = items.iter().filter(|item| item["type"] == "tree-space").collect();
        let sizes: Vec<u64> = trees.iter().map(|tree| number(&tree["bytes"])).collect();
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{name}: {sizes:?}");
        let owned = ["used_pages", "available_pages", "leaked_pages"].map(|part| number(&summary[part]));
        assert_eq!(sizes.iter().sum::<u64>(), owned.iter().sum::<u64>() * page_size, "{name}");
        let white = items.iter().find(|item| item["type"] == "white-space").unwrap();
        let parts = number(&white["available_bytes"]) + number(&white["leaf_free_bytes"]);
        let by_tree: u64 = trees.iter().map(|tree| number(&tree["white_bytes"])).sum();
        assert_eq!((number(&white["white_bytes"]), by_tree), (parts, parts), "{name}");
        let percents: f64 = trees.iter().map(|tree| tree["percent"].as_f64().unwrap()).sum();
        assert!(percents <= 100.0 + trees.len() as f64 * 0.051, "{name}: {percents}");
    }
}

/// Checks that the flush types in a clean flush map equal the flush types of the pages.
#[test]
fn flush_maps_agree_with_the_pages() {
    for (map, database) in [
        ("db/4k/secedit.jfm", "db/4k/secedit.sdb"),
        ("logsets/srum-server2022/a/SRUDB.jfm", "logsets/srum-server2022/a/SRUDB.dat"),
        ("logsets/srum-server2022/b/SRUDB.jfm", "logsets/srum-server2022/b/SRUDB.dat"),
    ] {
        let (Some(map), Some(bytes)) = (corpus_file(map), corpus_file(database)) else { return };
        let (output, _) = dump(&map, jetcell_dump::dump_flush_map);
        let page = items(&output).pop().unwrap();
        let types = page["flush_types"].as_str().unwrap().as_bytes();
        let (output, _) = dump(&bytes, |source, output| jetcell_dump::dump_pages(source, &[], output));
        let mut compared = 0;
        for item in items(&output).iter().filter(|item| item["type"] == "page") {
            let mapped = types.get(number(&item["page"]) as usize).map_or(0, |digit| u64::from(digit - b'0'));
            let own = number(&item["header"]["flush_type"]);
            assert!(mapped == own || mapped == 0, "{database}: {item} but {mapped}");
            compared += u64::from(mapped != 0);
        }
        assert!(compared > 20, "{database}: {compared}");
    }
}

/// Checks that a dump of the catalog has the same rows and columns as a dump made with the Windows API.
#[test]
fn the_catalog_matches_a_windows_dump() {
    let (Some(bytes), Some(text)) =
        (corpus_file("db/8k/decompress_test.edb"), corpus_file("misc/decompress_test.esent-dump.txt"))
    else {
        return;
    };
    let text = String::from_utf8(text).unwrap();
    let windows = esent_tables(&text);
    let options = SchemaOptions { rows: true, ..SchemaOptions::default() };
    let (output, _) = dump(&bytes, |source, output| jetcell_dump::dump_schema(source, &options, output));
    let ours: Vec<Value> = items(&output);
    let theirs = &windows["MSysObjects"];
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        for (column, cell) in theirs {
            assert_eq!(as_esent_writes(column, &ours["columns"][column]), *cell, "{column} of {ours:#}");
        }
        let shown = ours["columns"].as_object().unwrap().len();
        assert_eq!(shown, theirs.values().filter(|cell| !cell.is_empty()).count(), "{ours:#}");
    }
    assert_eq!(theirs.len(), 77);
    // The rows of the other tables come from the nodes of their trees.
    let (output, _) =
        dump(&bytes, |source, output| jetcell_dump::dump_schema(source, &SchemaOptions::default(), output));
    let schema = items(&output);
    for (table, rows) in windows.iter().filter(|(table, _)| *table != "MSysObjects") {
        let choice = TreeSelector::Table(table.clone());
        let (output, _) =
            dump(&bytes, |source, output| jetcell_dump::dump_tree(source, &choice, true, output));
        let pages = items(&output);
        let nodes: Vec<&Value> = pages.iter().filter_map(|page| page["nodes"].as_array()).flatten().collect();
        assert_eq!(nodes.len(), rows.len(), "{table}");
        let columns =
            schema.iter().find(|item| item["name"] == **table).unwrap()["columns"].as_array().unwrap();
        for (node, row) in nodes.iter().zip(rows) {
            let data = unhex(node["data"].as_str().unwrap());
            for column in columns {
                let wanted = &row[column["name"].as_str().unwrap()];
                assert_eq!(cell(column, &data), *wanted, "{table}: {column}");
            }
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Returns the value of a column in a record in the form of the Windows dump.
fn cell(column: &Value, record: &[u8]) -> String {
    let number = |name: &str| column[name].as_u64().unwrap_or(0) as u32;
    let kind = ColumnType::from_code(number("type_code")).unwrap();
    let mut schema = Column::new(number("id") as u16, "", kind, number("size"));
    schema.record_offset = number("offset") as u16;
    let default = column["default"].as_str().map(unhex);
    let bytes = match Record::new(record, PageSize::KIB_8).get(&schema).unwrap() {
        ColumnValue::Bytes(bytes) => bytes.to_vec(),
        ColumnValue::Compressed(bytes) => decompress(bytes, MAX_INTRINSIC).unwrap(),
        ColumnValue::Absent => match default {
            Some(default) => default,
            None => return String::new(),
        },
        ColumnValue::Null => return String::new(),
        other => panic!("{other:?}"),
    };
    let shown = |count: usize| -> Vec<String> {
        bytes.iter().take(count).map(|byte| format!("{byte:02x}")).collect()
    };
    match kind {
        ColumnType::Bit => if bytes[0] == 0 { "0" } else { "-1" }.to_owned(),
        ColumnType::UnsignedByte => bytes[0].to_string(),
        ColumnType::UnsignedShort => u16::from_le_bytes(bytes[..].try_into().unwrap()).to_string(),
        ColumnType::Text => String::from_utf8(bytes).unwrap(),
        ColumnType::Short => i16::from_le_bytes(bytes[..].try_into().unwrap()).to_string(),
        ColumnType::Long => i32::from_le_bytes(bytes[..].try_into().unwrap()).to_string(),
        ColumnType::Binary => bytes.iter().map(|byte| format!("{byte:x}")).collect::<Vec<_>>().join(" "),
        ColumnType::LongBinary => format!("{} bytes: {} ...", bytes.len(), shown(16).join(" ")),
        ColumnType::LongText if number("code_page") == 1200 => {
            let units: Vec<u16> =
                bytes.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
            String::from_utf16(&units).unwrap().trim_end_matches('\0').to_owned()
        }
        ColumnType::LongText => String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned(),
        other => panic!("{other:?}"),
    }
}

type EsentRow = BTreeMap<String, String>;

/// Parses the rows of each table. The form is `table NAME`, a line of column names between bars, and one line per
/// row.
fn esent_tables(text: &str) -> BTreeMap<String, Vec<EsentRow>> {
    let mut tables: BTreeMap<String, Vec<EsentRow>> = BTreeMap::new();
    let (mut table, mut head) = (String::new(), None);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("table ") {
            (table, head) = (name.trim().to_owned(), None);
            continue;
        }
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        match &head {
            None => head = Some(cells),
            Some(names) => {
                let row = names.iter().cloned().zip(cells).collect();
                tables.entry(table.clone()).or_default().push(row);
            }
        }
    }
    tables
}

/// Returns a value of a catalog row in the form of the Windows dump.
fn as_esent_writes(column: &str, value: &Value) -> String {
    let Some(text) = value.as_str() else {
        // The Windows dump shows a set bit as -1.
        return match (column, value.as_i64()) {
            ("RootFlag", Some(1)) => "-1".to_owned(),
            (_, number) => number.map_or_else(String::new, |number| number.to_string()),
        };
    };
    if matches!(column, "Name" | "TemplateTable") {
        return text.to_owned();
    }
    let bytes: Vec<&str> = (0..text.len() / 2).map(|at| &text[2 * at..2 * at + 2]).collect();
    if column == "LocaleName" {
        // The Windows dump truncates long columns after ten bytes.
        let shown: Vec<&str> = bytes.iter().take(10).copied().collect();
        return format!("{} bytes: {} ...", bytes.len(), shown.join(" "));
    }
    let short: Vec<String> =
        bytes.iter().map(|byte| format!("{:x}", u8::from_str_radix(byte, 16).unwrap())).collect();
    short.join(" ")
}

#[test]
fn an_inherited_index_names_the_columns_of_the_template() {
    let file = testkit::samples::read("derived-table.edb");
    let options = SchemaOptions { tables: vec!["Folder_101".into()], rows: false };
    let (output, problems) =
        dump(&file, |source, output| jetcell_dump::dump_schema(source, &options, output));
    let table = items(&output).pop().unwrap();
    let names = |index: usize| table["indexes"][index]["columns"][0]["name"].clone();
    assert_eq!((problems, names(0), names(1)), (0, "Id".into(), "Prop".into()), "{output}");
    // Column 256 of the table itself has another name.
    assert_eq!((&table["columns"][0]["id"], &table["columns"][0]["name"]), (&256.into(), &"Own".into()));
}
