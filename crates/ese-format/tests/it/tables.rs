//! Tests of the catalog, records, keys, and long values of all tables in the corpus of real files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use testkit::corpus::Corpus;
use testkit::samples;

use ese_format::catalog::{
    CatalogRow, Index, LocaleRow, RowKind, TableSchema, TreeOwner, assemble, system_tables,
};
use ese_format::compression::{self, MAX_INTRINSIC};
use ese_format::index_entries::{index_keys, primary_key};
use ese_format::key::KeyError;
use ese_format::long_value::{LongValueId, LongValueKey, LongValueRoot, decode_chunk};
use ese_format::page::{NodeFlags, Page};
use ese_format::record::{
    Column, ColumnClass, ColumnValue, MultiValue, Record, RecordBuilder, Value, record_limit,
};
use ese_format::{PageNumber, PageSize};
use serde_json::Value as Json;

/// Key and data of a leaf node.
type Node = (Vec<u8>, Vec<u8>);

struct Database {
    name: String,
    bytes: Vec<u8>,
    size: PageSize,
    manifest: Json,
}

impl Database {
    fn page(&self, number: PageNumber) -> Page<'_> {
        let start = self.size.offset_of(number) as usize;
        Page::new(&self.bytes[start..start + self.size.bytes()], self.size)
    }

    /// Returns the nodes of a tree that are not deleted, in order.
    fn scan(&self, root: PageNumber) -> Vec<Node> {
        let mut page = self.page(root);
        while !page.is_leaf() {
            page = self.page(page.node(0).unwrap().child().unwrap());
        }
        let mut nodes = Vec::new();
        loop {
            let live = page.nodes().filter(|node| !node.flags.contains(NodeFlags::DELETED));
            nodes.extend(live.map(|node| (node.key_to_vec(), node.data.to_vec())));
            match page.next() {
                Some(next) => page = self.page(next),
                None => return nodes,
            }
        }
    }

    fn catalog(&self) -> Vec<CatalogRow> {
        let nodes = self.scan(PageNumber::fixed(4));
        nodes.iter().map(|(_, data)| CatalogRow::decode(data, self.size).unwrap()).collect()
    }

    fn tables(&self) -> Vec<TableSchema> {
        assemble(self.catalog())
    }

    /// Returns all long values of a table.
    fn long_values(&self, table: &TableSchema) -> HashMap<LongValueId, Vec<u8>> {
        let Some((_, root)) = table.long_values else { return HashMap::new() };
        let chunk_size = table.chunk_size(self.size);
        let (mut roots, mut values) = (HashMap::new(), HashMap::<_, Vec<u8>>::new());
        for (key, data) in self.scan(root) {
            match LongValueKey::decode(&key).unwrap() {
                LongValueKey::Root(id) => {
                    let root = LongValueRoot::decode(&data).unwrap();
                    assert_eq!((id.root_key().to_vec(), root.encode().to_vec()), (key, data));
                    roots.insert(id, root);
                    values.insert(id, Vec::new());
                }
                LongValueKey::Chunk(id, offset) => {
                    assert_eq!(id.chunk_key(offset).to_vec(), key);
                    let place = format!("{} {} {id:?} {offset}", self.name, table.name);
                    let value = values.get_mut(&id).unwrap_or_else(|| panic!("{place}: no root"));
                    assert_eq!(value.len(), offset as usize, "{place}");
                    let expected = roots[&id].chunk_len(offset, chunk_size);
                    let plain =
                        decode_chunk(&data, expected).unwrap_or_else(|error| panic!("{place}: {error}"));
                    value.extend_from_slice(&plain);
                }
            }
        }
        for (id, value) in &values {
            assert_eq!(value.len(), roots[id].size as usize, "{} {} {id:?}", self.name, table.name);
        }
        values
    }
}

fn corpus() -> Option<PathBuf> {
    Some(Corpus::locate()?.root().to_owned())
}

fn databases() -> Vec<Database> {
    let Some(root) = corpus() else { return Vec::new() };
    let manifest: Json = serde_json::from_slice(&std::fs::read(root.join("manifest.json")).unwrap()).unwrap();
    let files = manifest["files"].as_array().unwrap().iter();
    let load = |file: &Json| {
        let packed = std::fs::File::open(root.join(file["stored"].as_str().unwrap())).unwrap();
        Database {
            name: file["name"].as_str().unwrap().to_owned(),
            bytes: zstd::decode_all(packed).unwrap(),
            size: PageSize::new(file["page_size"].as_u64().unwrap() as u32).unwrap(),
            manifest: file.clone(),
        }
    };
    files.filter(|file| file["kind"] == "db").map(load).collect()
}

/// Returns the databases in the repository that the engine wrote. Nothing else is known about them.
fn samples() -> impl Iterator<Item = Database> {
    samples::ENGINE_DATABASES.into_iter().map(|(name, size)| Database {
        name: name.to_owned(),
        bytes: samples::read(name),
        size,
        manifest: Json::Null,
    })
}

#[test]
fn every_catalog_row_encodes_to_the_original_bytes_and_keys() {
    for database in databases().into_iter().chain(samples()) {
        let (mut by_name, mut roots) = (Vec::new(), Vec::new());
        for (key, data) in database.scan(PageNumber::fixed(4)) {
            let row = CatalogRow::decode(&data, database.size).unwrap();
            assert_eq!(row.encode(database.size).unwrap(), data, "{} {row:?}", database.name);
            assert_eq!(row.key(), key, "{} {row:?}", database.name);
            by_name.push((row.name_key(), key.clone()));
            roots.extend(row.root_objects_key().map(|root_key| (root_key, key)));
        }
        by_name.sort();
        roots.sort();
        assert_eq!(by_name, database.scan(PageNumber::fixed(7)), "{}", database.name);
        assert_eq!(roots, database.scan(PageNumber::fixed(10)), "{}", database.name);
    }
}

#[test]
fn tables_columns_and_rows_match_the_manifest() {
    for database in databases() {
        let count = |table: &TableSchema| {
            (table.name.clone(), (table.columns.len() as u64, database.scan(table.root).len() as u64))
        };
        let found: BTreeMap<_, _> = database.tables().iter().map(count).collect();
        let listed = database.manifest["tables"].as_object().unwrap().iter();
        let number = |table: &Json, field: &str| table[field].as_u64().unwrap();
        let listed: BTreeMap<_, _> = listed
            .map(|(name, table)| (name.clone(), (number(table, "columns"), number(table, "rows"))))
            .collect();
        assert_eq!(found, listed, "{}", database.name);
    }
}

#[test]
fn tables_convert_back_to_catalog_rows() {
    for database in databases() {
        let mut rows = database.catalog();
        rows.retain(|row| row.kind != RowKind::Column || row.root_or_type != 0);
        // The time when a root was last set is part of the row but not of the schema.
        rows.iter_mut().for_each(|row| row.root_set = None);
        let again: Vec<CatalogRow> = database.tables().iter().flat_map(TableSchema::rows).collect();
        assert_eq!(again, rows, "{}", database.name);
    }
}

#[test]
fn system_tables_match_a_new_database() {
    for database in databases().iter().filter(|database| database.name == "db/4k/basic.edb") {
        let mut rows = database.catalog();
        rows.retain(|row| row.table.0 < 8);
        let fresh: Vec<CatalogRow> = system_tables().iter().flat_map(TableSchema::rows).collect();
        assert_eq!(fresh, rows);

        let locales: Vec<Node> = LocaleRow::for_new_database()
            .iter()
            .map(|row| (row.key(), row.encode(database.size).unwrap()))
            .collect();
        assert_eq!(locales, database.scan(PageNumber::fixed(30)));
    }
}

#[test]
fn msysobjids_and_msyslocales_rows_encode_to_the_original_bytes() {
    for database in databases() {
        let size = database.size;
        for table in database.tables() {
            for (key, data) in database.scan(table.root) {
                let again = match table.name.as_str() {
                    "MSysObjids" => {
                        let row = TreeOwner::decode(&data, size).unwrap();
                        (row.key(), row.encode(size).unwrap())
                    }
                    "MSysLocales" => {
                        let row = LocaleRow::decode(&data, size).unwrap();
                        (row.key(), row.encode(size).unwrap())
                    }
                    _ => continue,
                };
                assert_eq!(again, (key, data), "{} {}", database.name, table.name);
            }
        }
    }
}

#[test]
fn every_record_is_valid_and_rebuilds_to_the_original_bytes() {
    for database in databases() {
        for table in database.tables() {
            let limit = record_limit(database.size, table.max_key_len());
            for (key, data) in database.scan(table.root) {
                let place = format!("{} {} {key:02x?}", database.name, table.name);
                let record = Record::new(&data, database.size);
                assert_eq!(record.validate(), Ok(()), "{place}");
                let mut builder = RecordBuilder::from_record(&table.columns, database.size, &record).unwrap();
                builder.set_limit(limit);
                assert_eq!(builder.build().as_deref(), Ok(&data[..]), "{place}");
            }
        }
    }
}

/// Builds a new record by setting all columns of `record` one at a time.
fn rebuild(columns: &[Column], size: PageSize, record: &Record<'_>) -> Vec<u8> {
    let mut builder = RecordBuilder::new(columns, size);
    for column in columns {
        match record.get(column).unwrap() {
            ColumnValue::Absent | ColumnValue::Encrypted(_) => {}
            ColumnValue::Null => builder.set(column.id, None).unwrap(),
            ColumnValue::Bytes(bytes) => builder.set(column.id, Some(bytes)).unwrap(),
            ColumnValue::Compressed(bytes) => builder.set_compressed(column.id, bytes).unwrap(),
            ColumnValue::Separated(id) => builder.set_separated(column.id, id).unwrap(),
            ColumnValue::Multi(values) => builder.set_multi(column.id, &values).unwrap(),
        }
    }
    builder.build().unwrap()
}

/// Returns `data` in which the bytes of null fixed columns, which may contain old values, are set to ESE's filler.
fn without_residue(columns: &[Column], size: PageSize, data: &[u8]) -> Vec<u8> {
    let mut clean = data.to_vec();
    let record = Record::new(data, size);
    let fixed = |column: &&Column| column.class() == ColumnClass::Fixed;
    for column in columns.iter().filter(fixed).filter(|column| record.get(column) == Ok(ColumnValue::Null)) {
        let start = usize::from(column.record_offset);
        clean[start..start + column.stored_size()].fill(b'*');
    }
    clean
}

#[test]
fn records_set_column_by_column_match_windows_records() {
    for database in databases() {
        for table in database.tables() {
            for (key, data) in database.scan(table.root) {
                let expected = without_residue(&table.columns, database.size, &data);
                let built = rebuild(&table.columns, database.size, &Record::new(&data, database.size));
                assert_eq!(built, expected, "{} {} {key:02x?}", database.name, table.name);
            }
        }
    }
}

#[test]
fn every_value_has_a_type_and_round_trips() {
    for database in databases() {
        for table in database.tables() {
            let long_values = database.long_values(&table);
            for (_, data) in database.scan(table.root) {
                let record = Record::new(&data, database.size);
                for column in &table.columns {
                    let place = || format!("{} {} {}", database.name, table.name, column.name);
                    let inflate = |stored| compression::decompress(stored, MAX_INTRINSIC).unwrap();
                    let values = match record.get_or_default(column).unwrap() {
                        ColumnValue::Absent | ColumnValue::Null | ColumnValue::Encrypted(_) => vec![],
                        ColumnValue::Bytes(bytes) => vec![bytes.to_vec()],
                        ColumnValue::Compressed(stored) => vec![inflate(stored)],
                        ColumnValue::Separated(id) => vec![long_values[&id].clone()],
                        ColumnValue::Multi(values) => values
                            .into_iter()
                            .map(|value| match value {
                                MultiValue::Bytes(bytes) => bytes.to_vec(),
                                MultiValue::Compressed(stored) => inflate(stored),
                                MultiValue::Separated(id) => long_values[&id].clone(),
                            })
                            .collect(),
                    };
                    for bytes in values {
                        let value =
                            Value::decode(column, &bytes).unwrap_or_else(|e| panic!("{}: {e}", place()));
                        match (&value, bytes.as_slice()) {
                            // Defaults of the type Bit may be 1. Invalid text does not survive a round trip.
                            (Value::Bit(true), [1]) => {}
                            (Value::Text(text), _) if text.contains('\u{fffd}') => {}
                            (_, bytes) => {
                                assert_eq!(
                                    value.encode(column).unwrap().as_deref(),
                                    Some(bytes),
                                    "{}",
                                    place()
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the number of index entries without a record, or the reason for which keys cannot be constructed.
fn compare(database: &Database, table: &TableSchema, index: &Index) -> Result<usize, KeyError> {
    let long_values = database.long_values(table);
    let mut source = |id| long_values.get(&id).cloned();
    let place = format!("{} {} {}", database.name, table.name, index.name);
    let mut expected = BTreeSet::new();
    for (key, data) in database.scan(table.root) {
        let record = Record::new(&data, database.size);
        if index.is_primary() {
            let made = primary_key(table, index, &record, &mut source)?;
            assert_eq!(made.bytes, key, "{place}");
        } else {
            let made = index_keys(table, index, &record, &mut source)?;
            expected.extend(made.into_iter().map(|made| (made.bytes, key.clone())));
        }
    }
    if index.is_primary() {
        return Ok(0);
    }
    let entries: BTreeSet<Node> = database.scan(index.root).into_iter().collect();
    assert_eq!(expected.difference(&entries).next(), None, "{place}: an entry is missing");
    Ok(entries.difference(&expected).count())
}

#[test]
fn keys_without_unicode_text_match_windows_keys() {
    for database in databases() {
        for table in database.tables() {
            for index in &table.indexes {
                let place = (database.name.as_str(), index.name.as_str());
                match compare(&database, &table, index) {
                    // This clean database of Windows 8.1 has an entry without a record.
                    Ok(1) if place == ("db/4k/filehistory-Catalog1.edb", "timestampIndex") => {}
                    Ok(beyond) => assert_eq!(beyond, 0, "{place:?}"),
                    Err(KeyError::UnicodeText(column)) => {
                        assert!(index.segments.iter().any(|segment| segment.column == column), "{place:?}");
                    }
                    Err(error) => panic!("{place:?}: {error}"),
                }
            }
        }
    }
}

#[test]
fn compressed_values_decompress_to_the_values_windows_displayed() {
    for database in databases().iter().filter(|database| database.name == "db/8k/decompress_test.edb") {
        let dump = corpus().unwrap().join("misc/decompress_test.esent-dump.txt.zst");
        let dump = zstd::decode_all(std::fs::File::open(dump).unwrap()).unwrap();
        let dump = String::from_utf8(dump).unwrap();
        let lines = dump.split("table test_table").last().unwrap().lines().skip(2);
        let shown: Vec<Vec<&str>> = lines
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(shown.len(), 10);

        let tables = database.tables();
        let table = tables.iter().find(|table| table.name == "test_table").unwrap();
        let nodes = database.scan(table.root);
        assert_eq!(nodes.len(), shown.len());
        for ((_, data), shown) in nodes.iter().zip(shown) {
            for (column, cell) in table.columns.iter().zip(shown) {
                let bytes = match Record::new(data, database.size).get(column).unwrap() {
                    ColumnValue::Compressed(stored) => {
                        compression::decompress(stored, MAX_INTRINSIC).unwrap()
                    }
                    ColumnValue::Bytes(bytes) => bytes.to_vec(),
                    other => panic!("{}: {other:?}", column.name),
                };
                match Value::decode(column, &bytes).unwrap() {
                    Value::Text(text) => assert_eq!(text.trim_end_matches('\0'), cell, "{}", column.name),
                    Value::Binary(bytes) => {
                        let start: Vec<String> =
                            bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
                        assert_eq!(cell, format!("{} bytes: {} ...", bytes.len(), start.join(" ")));
                    }
                    other => panic!("{}: {other:?}", column.name),
                }
            }
        }
    }
}
