//! The system tables every database has: their columns, indexes and fixed places.
//!
//! ```text
//!  root page  tree id  table
//!          4        2  MSysObjects           indexes Name: page 7, tree 4;  RootObjects: page 10, tree 5
//!         24        3  MSysObjectsShadow
//!         29        6  MSysObjids
//!         30        7  MSysLocales
//! ```

use std::sync::LazyLock;

use super::index::{Index, IndexFlags};
use super::table::{TableFlags, TableSchema};
use crate::key::KeyLimits;
use crate::record::{CodePage, Column, ColumnClass, ColumnFlags, ColumnType, layout_fixed_columns};
use crate::{PageNumber, TreeId};

/// Tree of MSysObjects.
pub const CATALOG: TreeId = TreeId(2);
/// Tree of MSysObjectsShadow.
pub const CATALOG_SHADOW: TreeId = TreeId(3);
/// Tree of the catalog's index Name.
pub const NAME_INDEX: TreeId = TreeId(4);
/// Tree of the catalog's index RootObjects.
pub const ROOT_OBJECTS_INDEX: TreeId = TreeId(5);
/// First tree id that is free in a new database.
pub const FIRST_USER_TREE: TreeId = TreeId(8);

const OBJIDS: TreeId = TreeId(6);
const LOCALES: TreeId = TreeId(7);

/// The columns of MSysObjects, including those that only newer databases have.
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
            // ESE gives every catalog column a code page, even numbers.
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

/// The columns of MSysObjids.
pub fn objids_columns() -> &'static [Column] {
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

/// The columns of MSysLocales.
pub fn locales_columns() -> &'static [Column] {
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

/// Limits of MSysLocales' keys.
pub(super) fn locales_key_limits() -> KeyLimits {
    KeyLimits::default()
}

/// The four system tables of a fresh database.
pub fn system_tables() -> Vec<TableSchema> {
    let page = PageNumber::fixed;

    let index = |name: &str, tree, root, flags, columns: &[u16]| {
        let flags = IndexFlags::from_bits_retain(flags);
        Index::new(name, tree, page(root), flags, columns)
    };
    let table =
        |name: &str, tree, root, flags| TableSchema { flags, ..TableSchema::new(name, tree, page(root)) };
    let fixed = TableFlags::SYSTEM | TableFlags::FIXED_SCHEMA;
    let own_columns = || catalog_columns().iter().filter(|column| column.id.0 != 13).cloned().collect();

    let mut objects = table("MSysObjects", CATALOG, 4, fixed);
    objects.initial_pages = 20;
    objects.columns = own_columns();
    objects.indexes = vec![
        index("Id", CATALOG, 4, 0x1_0031, &[1, 2, 3]),
        index("Name", NAME_INDEX, 7, 0x1_0011, &[1, 2, 128]),
        index("RootObjects", ROOT_OBJECTS_INDEX, 10, 0x1_0009, &[8, 128]),
    ];

    let mut shadow = table("MSysObjectsShadow", CATALOG_SHADOW, 24, fixed);
    shadow.initial_pages = 5;
    shadow.columns = own_columns();
    shadow.indexes = vec![index("Id", CATALOG_SHADOW, 24, 0x1_0031, &[1, 2, 3])];

    let mut objids = table("MSysObjids", OBJIDS, 29, fixed | TableFlags::SYSTEM_DYNAMIC);
    objids.initial_pages = 0;
    objids.density = 100;
    objids.columns = objids_columns().to_vec();
    objids.indexes = vec![Index { density: 100, ..index("primary", OBJIDS, 29, 0x1_002f, &[256]) }];

    let mut locales = table("MSysLocales", LOCALES, 30, TableFlags::SYSTEM | TableFlags::SYSTEM_DYNAMIC);
    locales.initial_pages = 0;
    locales.density = 92;
    locales.columns = locales_columns().to_vec();
    locales.indexes = vec![Index { density: 92, ..index("KeyPrimary", LOCALES, 30, 0x1_402f, &[128]) }];

    vec![objects, shadow, objids, locales]
}
