//! Tests that use rows from a real catalog and damaged rows.

use proptest::prelude::*;

use super::*;
use crate::record::{CodePage, Column, ColumnFlags, ColumnId, ColumnType, layout_fixed_columns};
use crate::{PageNumber, PageSize, TreeId};

const SIZE: PageSize = PageSize::KIB_4;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn table(tree: u32, root: u32) -> TableSchema {
    TableSchema::new("t", TreeId(tree), PageNumber::fixed(root))
}

/// Checks that `row` encodes to `bytes` and that `bytes` decodes to `row`.
fn check(row: &CatalogRow, bytes: &str) {
    assert_eq!(row.encode(SIZE).unwrap(), hex(bytes));
    assert_eq!(CatalogRow::decode(&hex(bytes), SIZE).as_ref(), Ok(row));
}

#[test]
fn table_row_for_the_catalog() {
    let row = system_tables()[0].table_row();
    check(
        &row,
        "08802000 02000000 0100 02000000 04000000 50000000 000000c0 14000000 ff 00 0b00 4d5379734f626a65637473",
    );
    assert_eq!(row.key(), hex("7f80000002 7f8001 7f80000002"));
    assert_eq!(row.name_key(), hex("7f80000002 7f8001 7f4d5359534f424a4543545300"));
    assert_eq!(row.root_objects_key().unwrap(), hex("7fff 7f4d5359534f424a4543545300"));
}

#[test]
fn column_rows() {
    let mut column = Column::new(1, "Id", ColumnType::Long, 4);
    column.record_offset = 4;
    column.flags = ColumnFlags::NOT_NULL | ColumnFlags::AUTO_INCREMENT;
    check(
        &table(8, 31).column_row(&column),
        "09802300 08000000 0200 01000000 04000000 04000000 05000000 00000000 2a 0400 80fe 0200 4964",
    );
    let locales = &system_tables()[3];
    check(
        &locales.column_row(locales.column_named("IVALUE").unwrap()),
        "09832300 07000000 0200 02000000 04000000 04000000 30000000 00000000 2a 0500 80fe
         0600 0680 0680 0a00 6956616c7565 00000000",
    );
}

#[test]
fn primary_index_row() {
    let mut index = Index::new("IxId", TreeId(8), PageNumber::fixed(31), IndexFlags::DEFAULT_PRIMARY, &[1]);
    index.key_most = Some(5);
    check(
        &table(8, 31).index_row(&index),
        "0b842900 08000000 0300 08000000 1f000000 50000000 2f000100 00000000 2a 2a2a 01040300 0500 80f9
         0400 0480 0480 0480 0800 49784964 00000100 0501 0440 01 65006e002d0055005300",
    );
}

#[test]
fn long_value_row() {
    let mut table = table(8, 31);
    table.long_values = Some((TreeId(9), PageNumber::fixed(32)));
    check(
        &table.long_value_row().unwrap(),
        "07801f00 08000000 0400 09000000 20000000 64000000 00000000 01000000 80 0200 4c56",
    );
}

#[test]
fn tree_owners_for_small_and_large_pages() {
    let index = TreeOwner { tree: TreeId(4), table: TreeId(2), kind: RowKind::Index };
    let bytes = hex("007f0400 00010c00 01011000 02011400 04000000 02000000 0300");
    assert_eq!(index.encode(SIZE).unwrap(), bytes);
    assert_eq!(TreeOwner::decode(&bytes, SIZE), Ok(index));
    assert_eq!(index.key(), hex("7f80000004"));
    let table = TreeOwner { tree: TreeId(2), table: TreeId(2), kind: RowKind::Table };
    let bytes = hex("007f0400 00010c00 01011100 02011600 00 02000000 00 02000000 00 0100");
    assert_eq!(table.encode(PageSize::KIB_32).unwrap(), bytes);
    assert_eq!(TreeOwner::decode(&bytes, PageSize::KIB_32), Ok(table));
}

#[test]
fn old_segments_are_signed_columns() {
    let old = KeySegment::decode_all(&[1, 0, 0xff, 0xff], IndexFlags::PRIMARY).unwrap();
    let descending = KeySegment { column: ColumnId(1), descending: true };
    assert_eq!(old, [KeySegment { column: ColumnId(1), descending: false }, descending]);
    assert_eq!(KeySegment::decode_all(&[1, 0, 0], IndexFlags::EXTENDED_SEGMENTS), None);
}

#[test]
fn tables_are_assembled_from_catalog_rows_ignoring_stray_rows() {
    let mut table = table(8, 31);
    let mut text = Column::new(256, "body", ColumnType::LongText, 0);
    text.code_page = CodePage::UNICODE;
    text.default = Some(vec![b'x', 0]);
    text.flags = ColumnFlags::HAS_DEFAULT;
    table.columns = vec![Column { record_offset: 4, ..Column::new(1, "id", ColumnType::Long, 4) }, text];
    let mut index = Index::new("by", TreeId(9), PageNumber::fixed(40), IndexFlags::DEFAULT_SECONDARY, &[1]);
    index.conditions = vec![IndexCondition { column: ColumnId(256), must_be_null: true }];
    index.segments[0].descending = true;
    index.segment_limit = Some(20);
    table.indexes = vec![index];
    table.separate_from = Some(100);
    table.chunk_size = Some(2000);

    let mut rows = table.rows();
    let deleted = CatalogRow::new(table.tree, RowKind::Column, 2, 0, "gone");
    let stray = CatalogRow::new(TreeId(99), RowKind::Column, 1, 4, "of no table");
    let newer = CatalogRow::new(table.tree, RowKind::Column, 3, 77, "of unknown type");
    rows.extend([deleted, stray, newer]);
    rows.reverse();
    table.deleted_columns = vec![ColumnId(2)];
    assert_eq!(assemble(rows), [table]);
}

#[test]
fn a_derived_table_has_the_columns_of_its_template() {
    let column = |id, name, flags| Column { flags, ..Column::new(id, name, ColumnType::Long, 4) };
    let mut template = table(8, 31);
    template.name = "Template".to_owned();
    template.flags = TableFlags::TEMPLATE;
    template.columns =
        [(1, "Id"), (256, "Prop")].map(|(id, name)| column(id, name, ColumnFlags::TEMPLATE)).to_vec();
    layout_fixed_columns(&mut template.columns);
    let index = |tree, columns| {
        Index::new("ix", TreeId(tree), PageNumber::fixed(40), IndexFlags::DEFAULT_SECONDARY, columns)
    };
    template.indexes = vec![index(9, &[1, 256])];
    let mut derived = table(10, 50);
    derived.flags = TableFlags::DERIVED;
    derived.template = Some("TEMPLATE".to_owned());
    derived.columns = vec![column(256, "Own", ColumnFlags::empty())];
    derived.inherit(&template);
    let names: Vec<&str> = derived.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["Id", "Prop", "Own"]);
    let inherited = ColumnId(256).inherited();
    derived.indexes = vec![index(11, &[1, 256])];
    derived.indexes[0].segments[1].column = inherited;
    derived.indexes[0].conditions = vec![IndexCondition { column: inherited, must_be_null: false }];
    assert_eq!(derived.column(inherited).unwrap().name, "Prop");
    assert_eq!(derived.column(ColumnId(256)).unwrap().name, "Own");

    // The catalog lists inherited columns only for the template, and marks them in both indexes.
    let own = derived.rows().into_iter().filter(|row| row.kind != RowKind::Column || row.name == "Own");
    let rows: Vec<CatalogRow> = template.rows().into_iter().chain(own).collect();
    let segments = |row: &&CatalogRow| row.extra.get(&extra::KEY_SEGMENTS).cloned();
    let segments: Vec<Vec<u8>> = rows.iter().filter_map(|row| segments(&row)).collect();
    let marked = vec![0x80, 0, 1, 0, 0x80, 0, 0, 1];
    assert_eq!(segments, [marked.clone(), marked]);
    assert_eq!(assemble(rows), [template, derived]);
}

proptest! {
    #[test]
    fn damaged_catalogs_do_not_cause_a_panic(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let rows: Vec<CatalogRow> = system_tables().iter().flat_map(TableSchema::rows).collect();
        let mut bytes = rows[which.index(rows.len())].encode(SIZE).unwrap();
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Ok(row) = CatalogRow::decode(&bytes, SIZE) {
            let _ = (row.encode(SIZE), row.key(), row.name_key(), row.root_objects_key());
            let whole = rows.into_iter().chain([row]);
            let _: Vec<CatalogRow> = assemble(whole).iter().flat_map(TableSchema::rows).collect();
        }
    }
}
