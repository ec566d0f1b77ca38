//! Catalog rows, the tables that they describe, and tree names.
//!
//! The shadow catalog is used if the catalog is damaged and the shadow has fewer damaged pages.

use std::collections::HashMap;

use ese_format::TreeId;
use ese_format::catalog::{
    CATALOG, CATALOG_ROOT, CATALOG_SHADOW, CATALOG_SHADOW_ROOT, CatalogRow, TableFlags, TableSchema, assemble,
};
use ese_format::page::NodeFlags;

use crate::Result;
use crate::database::{AdaptivePageSet, DumpedDatabase};
use crate::output::{DumpOutput, DumpProblem};
use crate::walk::{TreeWalk, WalkStep};

/// Maximum number of catalog rows per table, which allows for 65536 columns and some indexes.
const MAX_ROWS: usize = 1 << 17;
/// Maximum number of template tables to remember. The columns of any other template are not named.
const MAX_TEMPLATES: usize = 64;
/// Tree id of the database root.
pub(crate) const ROOT_TREE: TreeId = TreeId(1);

/// Callback that receives the page number and data of each catalog row.
pub(crate) type CatalogRowFn<'v> = &'v mut dyn FnMut(u32, &[u8], &mut DumpOutput<'_>) -> Result<()>;

/// Callback that receives each table, and its template if it is derived from one.
pub(crate) type CatalogTableFn<'v> =
    &'v mut dyn FnMut(&TableSchema, Option<&TableSchema>, &mut DumpOutput<'_>) -> Result<()>;

/// The catalog used for the dump, which may be the shadow catalog.
#[derive(Clone, Copy)]
pub(crate) struct DumpedCatalog<'d, 's> {
    database: &'d DumpedDatabase<'s>,
    root: u32,
    tree: TreeId,
}

impl<'d, 's> DumpedCatalog<'d, 's> {
    /// Returns the catalog or its shadow, depending on which has fewer unreadable pages.
    pub(crate) fn open(
        database: &'d DumpedDatabase<'s>,
        output: &mut DumpOutput<'_>,
    ) -> Result<DumpedCatalog<'d, 's>> {
        let first = DumpedCatalog { database, root: CATALOG_ROOT.get(), tree: CATALOG };
        let shadow = DumpedCatalog { database, root: CATALOG_SHADOW_ROOT.get(), tree: CATALOG_SHADOW };
        let unreadable = |catalog: &DumpedCatalog<'_, '_>| {
            let mut visited = AdaptivePageSet::new(database.pages);
            let walk = TreeWalk::new(database, catalog.root, Some(catalog.tree), &mut visited);
            walk.filter(|step| matches!(step, WalkStep::Problem(_))).count()
        };
        let damage = unreadable(&first);
        if damage > 0 && unreadable(&shadow) < damage {
            let message = "the catalog is damaged; its shadow copy is used".to_owned();
            output.page_problem(CATALOG_ROOT.get(), message)?;
            return Ok(shadow);
        }
        Ok(first)
    }

    /// Calls `visit` with every row. Reports unreadable rows as problems in the output.
    pub(crate) fn for_each_row(&self, output: &mut DumpOutput<'_>, visit: CatalogRowFn<'_>) -> Result<()> {
        let mut visited = AdaptivePageSet::new(self.database.pages);
        for step in TreeWalk::new(self.database, self.root, Some(self.tree), &mut visited) {
            let visited = match step {
                WalkStep::Page(visited) => visited,
                WalkStep::Problem(problem) => {
                    output.problem(problem)?;
                    continue;
                }
                WalkStep::Leaf => continue,
            };
            let page = visited.image.page();
            if !page.is_leaf() {
                continue;
            }
            for index in 0..page.node_count() {
                match page.node(index) {
                    Some(node) if node.flags.contains(NodeFlags::DELETED) => {}
                    Some(node) => visit(visited.image.number, node.data, output)?,
                    None => {
                        let message = format!("node {index} cannot be decoded; a catalog row is missing");
                        output.problem(DumpProblem {
                            offset: None,
                            page: Some(visited.image.number),
                            message,
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with every table and its template, in catalog order.
    pub(crate) fn for_each_table(
        &self,
        output: &mut DumpOutput<'_>,
        visit: CatalogTableFn<'_>,
    ) -> Result<()> {
        let size = self.database.page_size;
        let mut templates: HashMap<String, TableSchema> = HashMap::new();
        let mut visit_tables = |rows: Vec<CatalogRow>, output: &mut DumpOutput<'_>| -> Result<()> {
            assemble(rows).into_iter().try_for_each(|table| {
                let name = table.template.as_ref().map(|name| name.to_ascii_lowercase());
                visit(&table, name.and_then(|name| templates.get(&name)), output)?;
                if table.flags.contains(TableFlags::TEMPLATE) && templates.len() < MAX_TEMPLATES {
                    templates.insert(table.name.to_ascii_lowercase(), table);
                }
                Ok(())
            })
        };
        // The rows of a table are adjacent.
        let mut rows: Vec<CatalogRow> = Vec::new();
        self.for_each_row(output, &mut |page, data, output| {
            let row = match CatalogRow::decode(data, size) {
                Ok(row) => row,
                Err(error) => {
                    let message = format!("a catalog row cannot be used: {error}");
                    return Ok(output.page_problem(page, message)?);
                }
            };
            if rows.first().is_some_and(|first| first.table != row.table) {
                visit_tables(std::mem::take(&mut rows), output)?;
            }
            match rows.len() {
                MAX_ROWS => output.page_problem(
                    page,
                    "the table has more rows than the maximum; the extra rows are omitted",
                )?,
                more if more > MAX_ROWS => return Ok(()),
                _ => {}
            }
            rows.push(row);
            Ok(())
        })?;
        visit_tables(rows, output)
    }

    /// Returns the names of all trees, by id.
    pub(crate) fn tree_names(&self, output: &mut DumpOutput<'_>) -> Result<HashMap<TreeId, String>> {
        let mut names = HashMap::from([(ROOT_TREE, "database".to_owned())]);
        self.for_each_table(output, &mut |table, _, _| {
            for index in table.secondary_indexes() {
                names.insert(index.tree, format!("{} / index {}", table.name, index.name));
            }
            if let Some((tree, _)) = table.long_values {
                names.insert(tree, format!("{} / long values", table.name));
            }
            names.insert(table.tree, table.name.clone());
            Ok(())
        })?;
        Ok(names)
    }
}
