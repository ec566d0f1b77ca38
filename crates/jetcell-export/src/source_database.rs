//! An open database and the tables in its catalog. Rows missing from the catalog are taken from its shadow copy.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;

use ese_check::CheckError;
use ese_check::database::ReadableDatabase;
use ese_check::reader::PageCache;
use ese_format::catalog::{
    CATALOG, CATALOG_ROOT, CATALOG_SHADOW, CATALOG_SHADOW_ROOT, CatalogRow, RowKind, TableFlags, assemble,
};
use ese_format::page::NodeFlags;
use ese_format::record::ColumnType;
use ese_format::{PageNumber, RecoverCommand};
use jetcell_vfs::Vfs;

use crate::issue::ExportIssues;
use crate::leaf_pages::LeafPages;
use crate::table::{SourceTable, unique_name};
use crate::walk::LeafWalk;

/// A database that is open for an export.
pub struct SourceDatabase {
    pub(crate) database: ReadableDatabase,
    tables: Vec<SourceTable>,
    /// Pages of all tables, read when rows are carved for the first time.
    leaf_pages: OnceLock<LeafPages>,
}

impl SourceDatabase {
    /// Opens the file and reads its catalog.
    pub fn open(vfs: &dyn Vfs, path: &Path, issues: &mut ExportIssues) -> Result<SourceDatabase, CheckError> {
        let (database, findings) = ReadableDatabase::open_with_findings(vfs, path)?;
        for finding in findings {
            issues.add_note(None, &finding.message);
        }
        if database.is_temporary() {
            let what =
                "the database is temporary; its pages do not have checksums, so damage cannot be detected";
            issues.add_note(None, what);
        } else if !database.is_clean() {
            let header = &database.header;
            issues.add_note(
                None,
                format!(
                    "the database was not shut down cleanly (state {:?}, needs log generations {:#X} to \
                     {:#X}), so the export does not contain changes that are only in the logs; if you have \
                     the logs, first run: {}",
                    header.state,
                    header.gen_min_required.0,
                    header.gen_max_required.0,
                    RecoverCommand { database: Some(path), logs: None }
                ),
            );
        }
        let tables = read_tables(&database, issues);
        Ok(SourceDatabase { database, tables, leaf_pages: OnceLock::new() })
    }

    /// Returns the database file.
    pub fn database(&self) -> &ReadableDatabase {
        &self.database
    }

    /// Returns all tables, including system tables, in catalog order.
    pub fn tables(&self) -> &[SourceTable] {
        &self.tables
    }

    /// Returns the pages of all tables, including pages that no tree reaches. The first call reads the whole file.
    pub(crate) fn leaf_pages(&self) -> &LeafPages {
        self.leaf_pages.get_or_init(|| LeafPages::read(&self.database, &self.tables))
    }

    /// Returns the table with this name. ASCII letter case is ignored.
    pub fn table(&self, name: &str) -> Option<&SourceTable> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }
}

type CatalogRows = BTreeMap<Vec<u8>, CatalogRow>;

fn read_tables(database: &ReadableDatabase, issues: &mut ExportIssues) -> Vec<SourceTable> {
    let mut found = ExportIssues::default();
    let mut rows = read_catalog_rows(database, CATALOG, CATALOG_ROOT, &mut found);
    if found.has_missing() || rows.is_empty() {
        let before = rows.len();
        let shadow = self::read_catalog_rows(
            database,
            CATALOG_SHADOW,
            CATALOG_SHADOW_ROOT,
            &mut ExportIssues::default(),
        );
        for (key, row) in shadow {
            rows.entry(key).or_insert(row);
        }
        let what = format!(
            "the catalog is damaged; {} of its {} rows come from the shadow catalog",
            rows.len() - before,
            rows.len()
        );
        issues.add_missing(Some(CATALOG_ROOT), what);
    }
    for row in rows.values().filter(|row| row.kind == RowKind::Column && row.root_or_type != 0) {
        if ColumnType::from_code(row.root_or_type).is_none() {
            let what = format!(
                "column {} of table object {} has type {}, which cannot be exported",
                row.name, row.table.0, row.root_or_type
            );
            issues.add_missing(None, what);
        }
    }
    let schemas = assemble(rows.into_values());
    let templates: HashSet<String> = schemas
        .iter()
        .filter(|schema| schema.flags.contains(TableFlags::TEMPLATE))
        .map(|schema| schema.name.to_ascii_lowercase())
        .collect();
    let mut names = HashSet::new();
    let size = database.page_size;
    schemas
        .iter()
        .map(|schema| {
            let missing = |name: &&String| !templates.contains(&name.to_ascii_lowercase());
            if let Some(name) = schema.template.as_ref().filter(missing) {
                issues.add_missing(
                    None,
                    format!("table {}: its template table {name} is missing", schema.name),
                );
            }
            let mut table = SourceTable::new(schema, size);
            table.name = unique_name(&schema.name, &mut names);
            table
        })
        .collect()
}

fn read_catalog_rows(
    database: &ReadableDatabase,
    tree: ese_format::TreeId,
    root: PageNumber,
    issues: &mut ExportIssues,
) -> CatalogRows {
    let mut pages = PageCache::default();
    let mut walk = LeafWalk::new(tree, root, database);
    let mut rows = CatalogRows::new();
    while let Some((number, image)) = walk.next(database, &mut pages, issues) {
        for node in image.page().nodes().filter(|node| !node.flags.contains(NodeFlags::DELETED)) {
            match CatalogRow::decode(node.data, database.page_size) {
                Ok(row) => drop(rows.insert(node.key_to_vec(), row)),
                Err(error) => issues.add_missing(Some(number), error),
            }
        }
    }
    rows
}
