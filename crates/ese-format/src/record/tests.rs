//! Tests of exact record bytes, round trips, and damaged records.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::PageSize;
use crate::long_value::LongValueId;

const SMALL: PageSize = PageSize::KIB_4;
const LARGE: PageSize = PageSize::KIB_32;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Returns columns of every storage class.
fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::new(1, "id", ColumnType::Long, 4),
        Column::new(2, "flag", ColumnType::Bit, 1),
        Column::new(3, "code", ColumnType::Text, 6),
        Column::new(4, "hash", ColumnType::Binary, 4),
        Column::new(128, "name", ColumnType::Text, 40),
        Column::new(129, "blob", ColumnType::Binary, 40),
        Column::new(130, "note", ColumnType::Text, 40),
        Column::new(256, "body", ColumnType::LongBinary, 0),
        Column::new(257, "tags", ColumnType::Long, 4),
        Column::new(258, "files", ColumnType::LongBinary, 0),
    ];
    for at in [8, 9] {
        columns[at].flags |= ColumnFlags::MULTI_VALUED;
    }
    layout_fixed_columns(&mut columns);
    columns
}

fn build(size: PageSize, set: impl FnOnce(&mut RecordBuilder<'_>) -> Result<(), RecordError>) -> Vec<u8> {
    let columns = columns();
    let mut builder = RecordBuilder::new(&columns, size);
    set(&mut builder).unwrap();
    builder.build().unwrap()
}

fn get(bytes: &[u8], size: PageSize, id: u16) -> ColumnValue<'_> {
    let columns = columns();
    let column = columns.iter().find(|column| column.id.number() == id).unwrap();
    Record::new(bytes, size).get(column).unwrap()
}

#[test]
fn fixed_columns_are_packed_padded_and_marked_null() {
    let record = build(SMALL, |record| {
        record.set(ColumnId(1), Some(&[1, 2, 3, 4]))?;
        record.set(ColumnId(3), Some(b"abc"))?;
        record.set(ColumnId(4), Some(&[9]))
    });
    assert_eq!(record, hex("04 7f 1400 01020304 2a 616263202020 09000000 f2"));
    assert_eq!(get(&record, SMALL, 2), ColumnValue::Null);
    assert_eq!(get(&record, SMALL, 3), ColumnValue::Bytes(b"abc   "));
    assert_eq!(get(&record, SMALL, 128), ColumnValue::Absent);
}

#[test]
fn fixed_unicode_is_padded_with_wide_blanks() {
    let mut columns = columns();
    columns[2].code_page = CodePage::UNICODE;
    let mut builder = RecordBuilder::new(&columns, SMALL);
    builder.set(ColumnId(3), Some(&[b'a', 0])).unwrap();
    assert_eq!(builder.build().unwrap(), hex("03 7f 1000 2a2a2a2a 2a 6100 2000 2000 fb"));
}

#[test]
fn variable_columns_distinguish_null_from_empty() {
    let record = build(SMALL, |record| {
        record.set(ColumnId(128), Some(b""))?;
        record.set(ColumnId(130), Some(b"xyz"))
    });
    assert_eq!(record, hex("00 82 0400 0000 0080 0300 78797a"));
    assert_eq!(get(&record, SMALL, 128), ColumnValue::Bytes(b""));
    assert_eq!(get(&record, SMALL, 129), ColumnValue::Null);
}

#[test]
fn lower_columns_are_stored_with_their_defaults() {
    let mut columns = columns();
    columns[0].default = Some(vec![7, 0, 0, 0]);
    columns[4].default = Some(b"who".to_vec());
    let mut builder = RecordBuilder::new(&columns, SMALL);
    builder.set(ColumnId(2), Some(&[0xff])).unwrap();
    builder.set(ColumnId(129), Some(&[1])).unwrap();
    let bytes = builder.build().unwrap();
    assert_eq!(bytes, hex("02 81 0a00 07000000 ff fc 0300 0400 77686f 01"));

    let empty = RecordBuilder::new(&columns, SMALL).build().unwrap();
    assert_eq!(empty, hex("00 7f 0400"));
    let record = Record::new(&empty, SMALL);
    assert_eq!(record.get(&columns[0]), Ok(ColumnValue::Absent));
    assert_eq!(record.get_or_default(&columns[0]), Ok(ColumnValue::Bytes(&[7, 0, 0, 0])));
    assert_eq!(record.get_or_default(&columns[1]), Ok(ColumnValue::Null));
}

#[test]
fn tagged_values_have_a_header_byte_if_the_page_size_requires_it() {
    let set = |record: &mut RecordBuilder<'_>| record.set(ColumnId(257), Some(&[1, 2, 3, 4]));
    assert_eq!(build(SMALL, set), hex("00 7f 0400 0101 0400 01020304"));
    assert_eq!(build(LARGE, set), hex("00 7f 0400 0101 0400 00 01020304"));
    let set = |record: &mut RecordBuilder<'_>| record.set(ColumnId(256), Some(b"long"));
    assert_eq!(build(SMALL, set), hex("00 7f 0400 0001 0440 01 6c6f6e67"));
    assert_eq!(build(LARGE, set), hex("00 7f 0400 0001 0400 01 6c6f6e67"));
    let set = |record: &mut RecordBuilder<'_>| record.set_separated(ColumnId(256), LongValueId(5));
    assert_eq!(build(SMALL, set), hex("00 7f 0400 0001 0440 05 05000000"));
}

#[test]
fn two_values_are_encoded_differently_from_three_or_more() {
    let value = |bytes| MultiValue::Bytes(bytes);
    let two = build(SMALL, |record| record.set_multi(ColumnId(257), &[value(&[1; 4]), value(&[2; 4])]));
    assert_eq!(two, hex("00 7f 0400 0101 0440 18 04 01010101 02020202"));
    let three = [MultiValue::Separated(LongValueId(1)), value(b"in"), MultiValue::Separated(LongValueId(3))];
    let bytes = build(SMALL, |record| record.set_multi(ColumnId(258), &three));
    assert_eq!(bytes, hex("00 7f 0400 0201 0440 09 0680 0a00 0c80 01000000 696e 03000000"));
    assert_eq!(get(&bytes, SMALL, 258), ColumnValue::Multi(three.to_vec()));
}

#[test]
fn null_is_stored_only_if_the_column_has_a_default() {
    let mut columns = columns();
    columns[8].default = Some(vec![1, 0, 0, 0]);
    for (size, expected) in [(SMALL, "00 7f 0400 0101 0420"), (LARGE, "00 7f 0400 0101 0400 20")] {
        let mut builder = RecordBuilder::new(&columns, size);
        builder.set(ColumnId(256), None).unwrap();
        builder.set(ColumnId(257), None).unwrap();
        let bytes = builder.build().unwrap();
        assert_eq!(bytes, hex(expected));
        assert_eq!(Record::new(&bytes, size).get(&columns[8]), Ok(ColumnValue::Null));
    }
}

#[test]
fn invalid_values_are_rejected_and_change_nothing() {
    let mut columns = columns();
    columns[0].flags = ColumnFlags::NOT_NULL;
    let mut builder = RecordBuilder::new(&columns, SMALL);
    assert_eq!(builder.build(), Err(RecordError::NullNotAllowed(ColumnId(1))));
    assert_eq!(builder.set(ColumnId(1), None), Err(RecordError::NullNotAllowed(ColumnId(1))));
    builder.set(ColumnId(1), Some(&[0; 4])).unwrap();
    let before = builder.build().unwrap();
    assert_eq!(
        builder.set(ColumnId(2), Some(&[0; 4])),
        Err(RecordError::WrongLength { column: ColumnId(2), len: 4 })
    );
    assert_eq!(builder.set(ColumnId(99), Some(&[0])), Err(RecordError::UnknownColumn(ColumnId(99))));
    assert_eq!(
        builder.set_separated(ColumnId(257), LongValueId(1)),
        Err(RecordError::WrongForm(ColumnId(257)))
    );
    assert_eq!(builder.build().unwrap(), before);
}

#[test]
fn an_oversized_record_reports_the_length_and_long_values() {
    let columns = columns();
    let mut builder = RecordBuilder::new(&columns, SMALL);
    builder.set_limit(100);
    builder.set(ColumnId(256), Some(&[0; 95])).unwrap();
    assert_eq!(builder.build(), Err(RecordError::TooBig { len: 104, limit: 100 }));
    assert_eq!(builder.intrinsic_long_values(), [(ColumnId(256), 95)]);
    builder.set_separated(ColumnId(256), LongValueId(1)).unwrap();
    assert_eq!(builder.intrinsic_long_values(), []);
    assert!(builder.build().is_ok());
}

#[test]
fn invalid_sizes_from_a_damaged_catalog_are_rejected() {
    let mut columns = columns();
    columns[3].size = u32::MAX;
    let mut builder = RecordBuilder::new(&columns, SMALL);
    assert!(matches!(builder.set(ColumnId(4), Some(&[1])), Err(RecordError::TooBig { .. })));
    assert_eq!(builder.build().unwrap(), hex("00 7f 0400"));
    let mut columns = columns.clone();
    layout_fixed_columns(&mut columns);
    let record = Record::new(&[4, 0x7f, 5, 0, 0], SMALL);
    assert_eq!(record.get(&columns[3]), Err(RecordError::BadOffsets("fixed columns")));
}

#[test]
fn record_limits_leave_room_for_the_longest_key() {
    // The terms are page, header, two tags, key length, and key.
    assert_eq!(record_limit(SMALL, 255), 4096 - 40 - 8 - 2 - 257);
    assert_eq!(record_limit(SMALL, 4), 4096 - 40 - 8 - 2 - 255);
    assert_eq!(record_limit(LARGE, 255), 32768 - 80 - 8 - 4 - 255);
}

#[test]
fn values_round_trip_through_columns() {
    let western = Column::new(128, "t", ColumnType::Text, 0);
    let unicode = Column { code_page: CodePage::UNICODE, ..western.clone() };
    let ascii = Column { code_page: CodePage::ASCII, ..western.clone() };
    let text = Value::Text("déjà – 5 €".to_owned());
    assert_eq!(*text.encode(&western).unwrap().unwrap(), *b"d\xe9j\xe0 \x96 5 \x80");
    assert_eq!(text.encode(&ascii), Err(ValueError::Character('é')));
    for column in [&western, &unicode] {
        let bytes = text.encode(column).unwrap().unwrap();
        assert_eq!(Value::decode(column, &bytes), Ok(text.clone()));
    }
    let all: Vec<u8> = (0..=255).collect();
    let decoded = Value::decode(&western, &all).unwrap();
    assert_eq!(decoded.encode(&western).unwrap().unwrap(), all, "1252 is reversible");

    let date = Column::new(1, "d", ColumnType::DateTime, 8);
    assert_eq!(*Value::DateTime(2.5).encode(&date).unwrap().unwrap(), 2.5f64.to_le_bytes());
    assert_eq!(Value::Long(1).encode(&date), Err(ValueError::WrongType(ColumnType::DateTime)));
    let wrong = ValueError::WrongLength { kind: ColumnType::DateTime, len: 3 };
    assert_eq!(Value::decode(&date, &[0; 3]), Err(wrong));
    assert_eq!(Value::Null.encode(&date), Ok(None));
}

/// A change to one column. The test applies it to both a builder and a plain model.
#[derive(Clone, Debug)]
enum ColumnChange {
    Set(u16, Option<Vec<u8>>),
    Multi(Vec<Vec<u8>>),
}

fn change() -> impl Strategy<Value = ColumnChange> {
    let bytes = |len: std::ops::Range<usize>| vec(any::<u8>(), len);
    prop_oneof![
        proptest::option::of(bytes(4..5)).prop_map(|value| ColumnChange::Set(1, value)),
        proptest::option::of(bytes(1..2)).prop_map(|value| ColumnChange::Set(2, value)),
        proptest::option::of(bytes(4..5)).prop_map(|value| ColumnChange::Set(4, value)),
        (128u16..131, proptest::option::of(bytes(0..40)))
            .prop_map(|(id, value)| ColumnChange::Set(id, value)),
        proptest::option::of(bytes(0..900)).prop_map(|value| ColumnChange::Set(256, value)),
        vec(bytes(4..5), 0..5).prop_map(ColumnChange::Multi),
    ]
}

proptest! {
    #[test]
    fn records_contain_the_last_values_set(
        first in vec(change(), 0..12), second in vec(change(), 0..12), large in any::<bool>(),
    ) {
        let (columns, size) = (columns(), if large { LARGE } else { SMALL });
        let mut model = std::collections::BTreeMap::new();
        let mut bytes = RecordBuilder::new(&columns, size).build().unwrap();
        for changes in [&first, &second] {
            let mut builder = RecordBuilder::from_record(&columns, size, &Record::new(&bytes, size)).unwrap();
            for change in changes {
                match change {
                    ColumnChange::Set(id, value) => {
                        builder.set((*id).into(), value.as_deref()).unwrap();
                        model.insert(*id, value.iter().cloned().collect::<Vec<_>>());
                    }
                    ColumnChange::Multi(values) => {
                        let values: Vec<_> = values.iter().map(|value| MultiValue::Bytes(value)).collect();
                        builder.set_multi(ColumnId(257), &values).unwrap();
                        model.insert(257, values.iter().map(|value| match value {
                            MultiValue::Bytes(bytes) => bytes.to_vec(),
                            _ => unreachable!(),
                        }).collect());
                    }
                }
            }
            let built = builder.build().unwrap();
            drop(builder);
            bytes = built;
        }
        let record = Record::new(&bytes, size);
        prop_assert_eq!(record.validate(), Ok(()));
        for column in &columns {
            let found: Vec<Vec<u8>> = match record.get(column).unwrap() {
                ColumnValue::Absent | ColumnValue::Null => Vec::new(),
                ColumnValue::Bytes(bytes) => vec![bytes.to_vec()],
                ColumnValue::Multi(values) => values.iter().map(|value| match value {
                    MultiValue::Bytes(bytes) => bytes.to_vec(),
                    _ => unreachable!(),
                }).collect(),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(&found, &model.get(&column.id.number()).cloned().unwrap_or_default(), "{}", column.name);
        }
    }

    #[test]
    fn damaged_records_do_not_cause_a_panic(
        changes in vec(change(), 0..12), large in any::<bool>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(),
    ) {
        let (columns, size) = (columns(), if large { LARGE } else { SMALL });
        let mut builder = RecordBuilder::new(&columns, size);
        for change in &changes {
            if let ColumnChange::Set(id, value) = change {
                builder.set((*id).into(), value.as_deref()).unwrap();
            }
        }
        let mut bytes = builder.build().unwrap();
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len() + 1)]] {
            let record = Record::new(bytes, size);
            let valid = record.validate().is_ok();
            for column in &columns {
                let found = record.get(column);
                prop_assert!(!valid || found.is_ok() || column.class() == ColumnClass::Fixed, "{found:?}");
            }
            let _ = record.tagged();
            if let Ok(builder) = RecordBuilder::from_record(&columns, size, &record) {
                let _ = builder.build();
            }
        }
    }
}

/// Column 256 of a derived table and column 256 of its template are different columns.
#[test]
fn inherited_columns_are_stored_before_own_columns() {
    let column = |id, flags| Column { flags, ..Column::new(id, "c", ColumnType::Long, 4) };
    let mut inherited = column(256, ColumnFlags::TEMPLATE);
    inherited.id = inherited.id.inherited();
    let columns = [inherited, column(256, ColumnFlags::empty())];
    for size in [SMALL, LARGE] {
        let mut builder = RecordBuilder::new(&columns, size);
        builder.set(columns[1].id, Some(&[2; 4])).unwrap();
        builder.set(columns[0].id, Some(&[1; 4])).unwrap();
        let bytes = builder.build().unwrap();
        let record = Record::new(&bytes, size);
        assert_eq!(record.validate(), Ok(()));
        let stored =
            [(columns[0].id, ColumnValue::Bytes(&[1; 4])), (columns[1].id, ColumnValue::Bytes(&[2; 4]))];
        assert_eq!(record.tagged().unwrap(), stored);
        let rebuilt = RecordBuilder::from_record(&columns, size, &record).unwrap().build().unwrap();
        assert_eq!(rebuilt, bytes);
    }
    // In the oldest format, records do not mark inherited columns.
    let mut old = column(256, ColumnFlags::empty());
    old.id = old.id.inherited();
    let columns = [old, column(257, ColumnFlags::empty())];
    let mut builder = RecordBuilder::new(&columns, SMALL);
    builder.set(columns[0].id, Some(&[1; 4])).unwrap();
    let bytes = builder.build().unwrap();
    let record = Record::new(&bytes, SMALL);
    assert_eq!(record.tagged().unwrap(), [(ColumnId(256), ColumnValue::Bytes(&[1; 4]))]);
    assert_eq!(record.get(&columns[0]), Ok(ColumnValue::Bytes(&[1; 4])));
    assert_eq!(record.get(&columns[1]), Ok(ColumnValue::Absent));
}
