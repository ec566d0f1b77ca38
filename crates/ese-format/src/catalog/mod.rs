//! The catalog: the table `MSysObjects`, whose rows describe all tables, columns, indexes and long-value trees,
//! including those of the catalog itself.
//!
//! ```text
//!  row kind          Id                ColtypOrPgnoFDP   SpaceUsage   Flags    PagesOrLocale
//!  1 table           tree id           root page         density      table    initial pages
//!  2 column          column number     type code         max length   column   code page
//!  3 index           tree id           root page         density      index    LCID
//!  4 long values     tree id           root page         density      0        initial pages
//! ```
//!
//! Rows are ordinary [records](crate::record), sorted by (table, kind, id). Newer formats only add columns to their
//! schema. A primary index has the same tree as its table. `MSysObjectsShadow` is a copy of the catalog with the same
//! rows.
//!
//! [`CatalogRow`] is one row. [`assemble`] turns rows into [`TableSchema`]s, and [`TableSchema::rows`] does the
//! reverse. The rows of two more system tables are defined here: `MSysObjids` ([`TreeOwner`]) and `MSysLocales`
//! ([`LocaleRow`]).

mod index;
mod locales;
mod row;
mod system;
mod system_tables;
mod table;
mod tree_owner;

#[cfg(test)]
mod tests;

pub use crate::key::IndexFlags;
pub use index::{Index, IndexCondition, IndexLocale, KeySegment};
pub use locales::LocaleRow;
pub use row::{CatalogError, CatalogRow, RowKind, extra};
pub use system::{
    CATALOG, CATALOG_ROOT, CATALOG_SHADOW, CATALOG_SHADOW_ROOT, FIRST_USER_TREE, NAME_INDEX,
    ROOT_OBJECTS_INDEX, catalog_columns,
};
pub use system_tables::system_tables;
pub use table::{TableFlags, TableSchema, assemble};
pub use tree_owner::TreeOwner;
