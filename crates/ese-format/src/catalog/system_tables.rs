//! Schemas of the system tables of a new database, with their fixed pages.
//!
//! ```text
//!  root page  tree id  table
//!          4        2  MSysObjects           indexes Name: page 7, tree 4;  RootObjects: page 10, tree 5
//!         24        3  MSysObjectsShadow
//!         29        6  MSysObjids
//!         30        7  MSysLocales
//! ```

use super::index::Index;
use super::system::{
    CATALOG, CATALOG_SHADOW, LOCALES, NAME_INDEX, OBJIDS, ROOT_OBJECTS_INDEX, catalog_columns,
    locales_columns, objids_columns,
};
use super::table::{TableFlags, TableSchema};
use crate::PageNumber;
use crate::key::IndexFlags;
use crate::record::ColumnId;

/// Returns the schemas of the four system tables of a new database.
pub fn system_tables() -> Vec<TableSchema> {
    let page = PageNumber::fixed;

    let index = |name: &str, tree, root, flags, columns: &[u16]| {
        let flags = IndexFlags::from_bits_retain(flags);
        Index::new(name, tree, page(root), flags, columns)
    };
    let table =
        |name: &str, tree, root, flags| TableSchema { flags, ..TableSchema::new(name, tree, page(root)) };
    let fixed = TableFlags::SYSTEM | TableFlags::FIXED_SCHEMA;
    let own_columns =
        || catalog_columns().iter().filter(|column| column.id != ColumnId(13)).cloned().collect();

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
