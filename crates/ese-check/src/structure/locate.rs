//! Checks the internal pages of all trees, and finds the trees to which damaged pages belong. Leaves are read only in the
//! catalog.

use ese_format::PageNumber;
use ese_format::page::PageFlags;
use ese_format::space::{Extent, SpaceHeader};

use crate::findings::Findings;
use crate::pages::database::ReadableDatabase;
use crate::pages::page_set::PageSet;
use crate::pages::page_status::PageCounts;
use crate::pages::reader::{PageProblem, VerifiedPageReader};
use crate::structure::catalog::{self, CATALOG, SHADOW, catalog_shape};
use crate::structure::leaf::TreeContext;
use crate::structure::space::available_extents;
use crate::structure::tree::referrer;
use crate::structure::tree_shape::{MAX_DEPTH, TreeShape};

/// Number of trees whose root pages are read ahead.
const PREFETCH_TREES: usize = 64;

/// Checks the internal pages of all trees, and reports damaged pages with the names of their trees. Damaged pages that
/// no tree uses are reported as information only. `zero_pages` are pages that were never written.
pub(crate) fn check_internal_pages(
    database: &ReadableDatabase,
    zero_pages: &PageSet,
    counts: &mut PageCounts,
    findings: &mut Findings,
) {
    let mut reader = VerifiedPageReader::new(database);
    let catalog = catalog::load(&mut reader, &mut Findings::new(&database.path));
    let mut shapes = vec![TreeShape::database_root(), catalog_shape(CATALOG), catalog_shape(SHADOW)];
    for table in &catalog.tables {
        let is_catalog = [CATALOG, SHADOW].iter().any(|(_, tree, _)| *tree == table.tree);
        shapes.extend((!is_catalog).then(|| table.shape()));
        shapes.extend(table.indexes.iter().map(|index| index.shape(table)));
        shapes.extend(table.long_value_shape());
    }
    let budget = u64::from(database.file_pages) + 1;
    let mut check = InternalPageCheck { reader, findings, zero_pages, budget };
    for (number, shape) in shapes.iter().enumerate() {
        if database.pace.is_cancelled() {
            return;
        }
        if number % PREFETCH_TREES == 0 {
            let next = shapes.iter().skip(number).take(PREFETCH_TREES);
            check.reader.prefetch(next.map(|shape| shape.root));
        }
        check.tree(shape);
        let Ok(image) = check.reader.get(shape.root) else { continue };
        let Ok(header) = SpaceHeader::decode(image.page().external_header()) else { continue };
        let spaces = [(header.owned_root(), "owned extents"), (header.available_root(), "available extents")];
        for (root, what) in spaces {
            let Some(root) = root else { continue };
            let kind = shape.kind | PageFlags::SPACE;
            let label = format!("{} / {what}", shape.label);
            check.tree(&TreeShape { root, kind, label, tree: shape.tree });
        }
    }
    let InternalPageCheck { mut reader, .. } = check;
    for shape in &shapes {
        if !findings.has_damaged_pages() {
            break;
        }
        let available = available_extents(&mut reader, shape);
        let kinds =
            findings.report_available_pages(|page| contains(&available, page).then(|| shape.label.clone()));
        counts.count_leftovers(&kinds);
    }
}

/// Returns true if one of the extents, which are sorted, contains the page.
fn contains(extents: &[Extent], page: PageNumber) -> bool {
    let at = extents.partition_point(|extent| extent.last < page);
    extents.get(at).is_some_and(|extent| extent.contains(page))
}

struct InternalPageCheck<'a, 'd> {
    reader: VerifiedPageReader<'d>,
    findings: &'a mut Findings,
    zero_pages: &'a PageSet,
    /// Maximum number of pages that may still be read. This limit ends the check if there is a cycle.
    budget: u64,
}

impl InternalPageCheck<'_, '_> {
    fn tree(&mut self, shape: &TreeShape) {
        self.page(shape, shape.root, None, 0, false);
    }

    /// Checks a page and the internal pages below it. `leaf` is true if the page is known to be a leaf.
    fn page(
        &mut self,
        shape: &TreeShape,
        number: PageNumber,
        parent: Option<PageNumber>,
        depth: u32,
        leaf: bool,
    ) {
        let is_catalog = [CATALOG, SHADOW].iter().any(|(_, tree, _)| *tree == shape.tree);
        // A crash may have prevented the first write of a page. Recovery needs only the catalog.
        let report = is_catalog || !self.findings.lenient;
        let attributed =
            self.findings.is_damaged_page(number) && self.findings.attribute(number, &shape.label, leaf);
        let needed = !leaf || is_catalog;
        if !needed && self.zero_pages.contains(number) && report {
            self.unusable(shape, number, parent, &PageProblem::Zero);
        }
        if !needed || depth > MAX_DEPTH || self.budget == 0 {
            return;
        }
        self.budget -= 1;
        let image = match self.reader.get(number) {
            Ok(image) => image,
            Err(problem) if report && !attributed => return self.unusable(shape, number, parent, &problem),
            Err(_) => return,
        };
        let page = image.page();
        let (database, newest) = (self.reader.database, self.reader.database.header.db_time);
        let mut context = TreeContext { database, shape, findings: self.findings, newest };
        if report {
            context.check_header(number, &page, depth);
        }
        if !context.belongs(&page) || page.is_leaf() {
            return;
        }
        let leaves = page.flags().contains(PageFlags::PARENT_OF_LEAF);
        if !leaves || is_catalog {
            self.reader.prefetch(page.nodes().filter_map(|node| node.child()));
        }
        for child in page.nodes().filter_map(|node| node.child()) {
            self.page(shape, child, Some(number), depth + 1, leaves);
        }
    }

    fn unusable(
        &mut self,
        shape: &TreeShape,
        number: PageNumber,
        parent: Option<PageNumber>,
        problem: &PageProblem,
    ) {
        let what = format!("the page {problem}, but {} refers to it", referrer(parent));
        self.findings.add_structural(problem.kind(), number, &shape.label, what);
    }
}
