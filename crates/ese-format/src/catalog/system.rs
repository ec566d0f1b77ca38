//! Identifiers and columns of the system tables, which are the same in every database.

use std::sync::LazyLock;

use crate::record::{CodePage, Column, ColumnClass, ColumnFlags, ColumnType, layout_fixed_columns};
use crate::{PageNumber, TreeId};

/// Tree id of `MSysObjects`.
pub const CATALOG: TreeId = TreeId(2);
/// Tree id of `MSysObjectsShadow`.
pub const CATALOG_SHADOW: TreeId = TreeId(3);
/// Root page of `MSysObjects`.
pub const CATALOG_ROOT: PageNumber = PageNumber::fixed(4);
/// Root page of `MSysObjectsShadow`.
pub const CATALOG_SHADOW_ROOT: PageNumber = PageNumber::fixed(24);
/// Tree id of the catalog's Name index.
pub const NAME_INDEX: TreeId = TreeId(4);
/// Tree id of the catalog's `RootObjects` index.
pub const ROOT_OBJECTS_INDEX: TreeId = TreeId(5);
/// First unused tree id in a new database.
pub const FIRST_USER_TREE: TreeId = TreeId(8);

pub(super) const OBJIDS: TreeId = TreeId(6);
pub(super) const LOCALES: TreeId = TreeId(7);

/// Returns the columns of `MSysObjects`, including those that only newer databases have.
pub fn catalog_columns() -> &'static [Column] {
    static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
        use ColumnType::{Binary, Bit, DateTime, Long, LongBinary, Short, Text, UnsignedShort};
        let mut columns: Vec<Column> = [
            (1, "ObjidTable", Long, 4),
            (2, "Type", Short, 2),
            (3, "Id", Long, 4),
            (4, "ColtypOrPgnoFDP", Long, 4),
            (5, "SpaceUsage", Long, 4),
            (6, "Flags", Long, 4),
            (7, "PagesOrLocale", Long, 4),
            (8, "RootFlag", Bit, 1),
            (9, "RecordOffset", Short, 2),
            (10, "LCMapFlags", Long, 4),
            (11, "KeyMost", UnsignedShort, 2),
            (12, "LVChunkMax", Long, 4),
            (13, "PgnoFDPLastSetTime", DateTime, 8),
            (128, "Name", Text, 255),
            (129, "Stats", Binary, 255),
            (130, "TemplateTable", Text, 255),
            (131, "DefaultValue", Binary, 255),
            (132, "KeyFldIDs", Binary, 255),
            (133, "VarSegMac", Binary, 255),
            (134, "ConditionalColumns", Binary, 255),
            (135, "TupleLimits", Binary, 255),
            (136, "Version", Binary, 255),
            (137, "SortID", Binary, 255),
            (256, "CallbackData", LongBinary, 0),
            (257, "CallbackDependencies", LongBinary, 0),
            (258, "SeparateLV", LongBinary, 0),
            (259, "SpaceHints", LongBinary, 0),
            (260, "SpaceDeferredLVHints", LongBinary, 0),
            (261, "LocaleName", LongBinary, 0),
        ]
        .into_iter()
        .map(|(id, name, kind, size)| {
            let mut column = Column::new(id, name, kind, size);
            // In ESE, every catalog column has a code page, even a numeric column.
            column.code_page = CodePage::WESTERN;
            if matches!(id, 1..=7 | 128) {
                column.flags = ColumnFlags::NOT_NULL;
            }
            column
        })
        .collect();
        layout_fixed_columns(&mut columns);
        columns
    });
    &COLUMNS
}

/// Returns the columns of `MSysObjids`.
pub(super) fn objids_columns() -> &'static [Column] {
    static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
        let column = |id, name, kind| Column::new(id, name, kind, 0);
        vec![
            column(256, "objid", ColumnType::Long),
            column(257, "objidTable", ColumnType::Long),
            column(258, "type", ColumnType::Short),
        ]
    });
    &COLUMNS
}

/// Returns the columns of `MSysLocales`.
pub(super) fn locales_columns() -> &'static [Column] {
    static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
        let mut columns = vec![
            Column::new(1, "Type", ColumnType::UnsignedByte, 1),
            Column::new(2, "iValue", ColumnType::Long, 4),
            Column::new(128, "Key", ColumnType::Binary, 255),
        ];
        for column in &mut columns {
            match column.class() {
                ColumnClass::Fixed if column.kind == ColumnType::Long => {
                    column.flags = ColumnFlags::ESCROW | ColumnFlags::HAS_DEFAULT;
                    column.default = Some(vec![0; 4]);
                }
                ColumnClass::Fixed => column.flags = ColumnFlags::NOT_NULL,
                _ => {}
            }
        }
        layout_fixed_columns(&mut columns);
        columns
    });
    &COLUMNS
}
