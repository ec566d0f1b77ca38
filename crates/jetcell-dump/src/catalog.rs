//! Catalog rows, the tables that they describe, and tree names.
//!
//! The shadow catalog is used if the catalog is damaged and the shadow has fewer damaged pages.

use std::collections::HashMap;

use ese_format::TreeId;
use ese_format::catalog::{
    CATALOG, CATALOG_ROOT, CATALOG_SHADOW, CATALOG_SHADOW_ROOT, CatalogRow, TableSchema, assemble,
};
use ese_format::page::NodeFlags;

use crate::Result;
use crate::database::{Database, PageSet};
use crate::output::{Output, Problem};
use crate::walk::{Step, Walk};

/// Maximum number of catalog rows per table, which allows for 65536 columns and some indexes.
const MAX_ROWS: usize = 1 << 17;
/// Tree id of the database root.
pub(crate) const ROOT_TREE: TreeId = TreeId(1);

/// Callback that receives each row's page and data.
pub(crate) type VisitRow<'v> = &'v mut dyn FnMut(u32, &[u8], &mut Output<'_>) -> Result<()>;

/// The catalog or its shadow, whichever is used for the dump.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'d, 's> {
    database: &'d Database<'s>,
    root: u32,
    tree: TreeId,
}

impl<'d, 's> Catalog<'d, 's> {
    /// Returns the catalog or its shadow, depending on which has fewer unreadable pages.
    pub(crate) fn of(database: &'d Database<'s>, output: &mut Output<'_>) -> Result<Catalog<'d, 's>> {
        let first = Catalog { database, root: CATALOG_ROOT.get(), tree: CATALOG };
        let shadow = Catalog { database, root: CATALOG_SHADOW_ROOT.get(), tree: CATALOG_SHADOW };
        let unreadable = |catalog: &Catalog<'_, '_>| {
            let mut visited = PageSet::new(database.pages);
            let walk = Walk::new(database, catalog.root, Some(catalog.tree), &mut visited);
            walk.filter(|step| matches!(step, Step::Problem(_))).count()
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
    pub(crate) fn each_row(&self, output: &mut Output<'_>, visit: VisitRow<'_>) -> Result<()> {
        let mut visited = PageSet::new(self.database.pages);
        for step in Walk::new(self.database, self.root, Some(self.tree), &mut visited) {
            let visited = match step {
                Step::Page(visited) => visited,
                Step::Problem(problem) => {
                    output.problem(problem)?;
                    continue;
                }
                Step::Leaf => continue,
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
                        output.problem(Problem {
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

    /// Calls `visit` with every table, in catalog order.
    pub(crate) fn each_table(
        &self,
        output: &mut Output<'_>,
        visit: &mut dyn FnMut(TableSchema, &mut Output<'_>) -> Result<()>,
    ) -> Result<()> {
        let size = self.database.page_size;
        // The rows of a table are adjacent.
        let mut rows: Vec<CatalogRow> = Vec::new();
        self.each_row(output, &mut |page, data, output| {
            let row = match CatalogRow::decode(data, size) {
                Ok(row) => row,
                Err(error) => {
                    let message = format!("a catalog row cannot be used: {error}");
                    return Ok(output.page_problem(page, message)?);
                }
            };
            if rows.first().is_some_and(|first| first.table != row.table) {
                assemble(rows.drain(..)).into_iter().try_for_each(|table| visit(table, output))?;
            }
            match rows.len() {
                MAX_ROWS => output.page_problem(
                    page,
                    "the table has more rows than are possible; the extra rows are omitted",
                )?,
                more if more > MAX_ROWS => return Ok(()),
                _ => {}
            }
            rows.push(row);
            Ok(())
        })?;
        assemble(rows).into_iter().try_for_each(|table| visit(table, output))
    }

    /// Returns the names of all trees, by id.
    pub(crate) fn names(&self, output: &mut Output<'_>) -> Result<HashMap<TreeId, String>> {
        let mut names = HashMap::from([(ROOT_TREE, "database".to_owned())]);
        self.each_table(output, &mut |table, _| {
            for index in table.secondary_indexes() {
                names.insert(index.tree, format!("{} / index {}", table.name, index.name));
            }
            if let Some((tree, _)) = table.long_values {
                names.insert(tree, format!("{} / long values", table.name));
            }
            names.insert(table.tree, table.name);
            Ok(())
        })?;
        Ok(names)
    }
}
