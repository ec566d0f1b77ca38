use proptest::prelude::*;

use super::*;
use crate::PageSize;

const SIZES: [PageSize; 2] = [PageSize::KIB_4, PageSize::KIB_32];

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::new(1, "id", ColumnType::Long, 4),
        Column::new(2, "flag", ColumnType::Bit, 1),
        Column::new(128, "name", ColumnType::Text, 40),
        Column::new(129, "note", ColumnType::Text, 40),
        Column::new(256, "count", ColumnType::Long, 4),
        Column::new(257, "body", ColumnType::LongText, 0),
    ];
    columns[5].code_page = CodePage::UNICODE;
    layout_fixed_columns(&mut columns);
    columns
}

fn build(size: PageSize, values: &[(u32, &[u8])]) -> Vec<u8> {
    let columns = columns();
    let mut builder = RecordBuilder::new(&columns, size);
    for (id, value) in values {
        builder.set(ColumnId(*id), Some(value)).unwrap();
    }
    builder.build().unwrap()
}

fn shape(size: PageSize) -> RecordShape {
    RecordShape::new(columns().iter(), &[], size)
}

#[test]
fn the_end_of_a_record_is_known_unless_its_last_value_has_a_variable_length() {
    for size in SIZES {
        let shape = shape(size);
        let known: [&[(u32, &[u8])]; 4] = [
            &[(1, &[7, 0, 0, 0])],
            &[(1, &[7, 0, 0, 0]), (2, &[0xff]), (129, b"note")],
            &[(128, b"")],
            &[(128, b"name"), (256, &[1, 2, 3, 4])],
        ];
        for values in known {
            let record = build(size, values);
            let extent = RecordExtent { len: Some(record.len()), known: record.len() };
            // The record is followed by bytes of the next node.
            let longer = [&record[..], &[4, 0, 0x7f, 0x80, 0, 0, 1, 2, 0x80]].concat();
            assert_eq!(shape.recognize(&longer), Some(extent), "{values:?}");
            assert!(shape.accepts(&record) && !shape.accepts(&longer), "{values:?}");
            assert!(!shape.accepts(&record[..record.len() - 1]), "{values:?}");
        }
        let body = build(size, &[(1, &[7, 0, 0, 0]), (256, &[1, 2, 3, 4]), (257, b"a\0b\0")]);
        let extent = shape.recognize(&[&body[..], &[0; 30]].concat()).unwrap();
        assert_eq!((extent.len, extent.known), (None, body.len() - 4));
        assert!(shape.accepts(&body));
        let zeros = [&body[..], &[0; 30]].concat();
        assert_eq!(shape.trim(&zeros, extent), body, "a character is complete");
    }
}

#[test]
fn records_of_other_tables_are_rejected() {
    for size in SIZES {
        let record = build(size, &[(1, &[7, 0, 0, 0]), (128, b"name")]);
        let mut other = columns();
        other.remove(1);
        other[0].kind = ColumnType::LongLong;
        layout_fixed_columns(&mut other);
        assert_eq!(RecordShape::new(other.iter(), &[], size).recognize(&record), None);
        for (at, value) in [(0, 9), (1, 126), (1, 200), (2, 0), (3, 1)] {
            let mut wrong = record.clone();
            wrong[at] = value;
            assert_eq!(shape(size).recognize(&wrong), None, "byte {at}");
        }
    }
}

#[test]
fn records_whose_last_fixed_column_was_deleted_are_recognized() {
    for size in SIZES {
        let mut columns = columns();
        columns.insert(2, Column::new(3, "later", ColumnType::Long, 4));
        layout_fixed_columns(&mut columns);
        let record = build(size, &[(1, &[7, 0, 0, 0]), (2, &[0xff])]);
        columns.remove(1);
        assert!(RecordShape::new(columns.iter(), &[], size).accepts(&record));
    }
}

/// Records contain values of columns that were deleted at the end of each class.
#[test]
fn records_whose_last_columns_were_deleted_are_recognized() {
    for size in SIZES {
        let mut whole = columns();
        whole.insert(2, Column::new(3, "wide", ColumnType::LongLong, 8));
        whole.insert(3, Column::new(4, "last", ColumnType::Short, 2));
        layout_fixed_columns(&mut whole);
        let record = |values: &[(u32, &[u8])]| {
            let mut builder = RecordBuilder::new(&whole, size);
            values.iter().for_each(|(id, value)| builder.set(ColumnId(*id), Some(value)).unwrap());
            builder.build().unwrap()
        };
        let deleted = [3, 4, 129, 257].map(ColumnId);
        let left: Vec<Column> =
            whole.iter().filter(|column| !deleted.contains(&column.id)).cloned().collect();
        let id: (u32, &[u8]) = (1, &[7, 0, 0, 0]);
        let values: [(u32, &[u8]); 4] = [(3, &[8; 8]), (4, &[2; 2]), (129, b"note"), (257, b"a\0b\0")];
        for last in values {
            let record = record(&[id, last]);
            let accepts = |deleted| RecordShape::new(left.iter(), deleted, size).accepts(&record);
            assert!(accepts(&deleted[..]), "{last:?}");
            assert!(!accepts(&[]), "{last:?}");
            let mut wrong = record.clone();
            // According to this offset, the fixed columns end before the last known fixed column.
            wrong[2] = 5;
            assert!(!RecordShape::new(left.iter(), &deleted, size).accepts(&wrong), "{last:?}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_and_damaged_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for size in SIZES {
            let shape = shape(size);
            let mut record = build(size, &[(1, &[7, 0, 0, 0]), (128, b"n"), (256, &[1, 2, 3, 4]), (257, b"a\0")]);
            record.extend_from_slice(&bytes);
            for (at, value) in &changes {
                let at = at.index(record.len());
                record[at] = *value;
            }
            record.truncate(cut.index(record.len() + 1));
            for bytes in [&bytes, &record] {
                if let Some(extent) = shape.recognize(bytes) {
                    prop_assert!(extent.known <= bytes.len());
                    prop_assert!(extent.len.is_none_or(|len| len == extent.known));
                    prop_assert!(shape.trim(bytes, extent).len() >= extent.known);
                }
                shape.accepts(bytes);
            }
        }
    }
}
