//! Finds the trees to which damaged pages belong. Only internal pages are read.

use ese_format::PageNumber;
use ese_format::page::PageFlags;
use ese_format::space::SpaceHeader;

use crate::findings::Findings;
use crate::pages::database::ReadableDatabase;
use crate::pages::reader::VerifiedPageReader;
use crate::structure::catalog;
use crate::structure::tree_shape::TreeShape;

/// Maximum depth of a tree.
const MAX_DEPTH: u32 = 24;

/// Reports each damaged page with the name of the tree that refers to it.
pub(crate) fn locate_damaged_pages(database: &ReadableDatabase, findings: &mut Findings) {
    let mut reader = VerifiedPageReader::new(database);
    let catalog = catalog::load(&mut reader, &mut Findings::new(&database.path));
    let mut shapes = vec![TreeShape::database_root()];
    for table in &catalog.tables {
        shapes.push(table.shape());
        shapes.extend(table.indexes.iter().map(|index| index.shape(table)));
        shapes.extend(table.long_value_shape());
    }
    let mut search = DamagedPageSearch { reader, findings, budget: u64::from(database.file_pages) + 1 };
    for shape in shapes {
        search.tree(&shape);
        let Ok(image) = search.reader.get(shape.root) else { continue };
        let Ok(header) = SpaceHeader::decode(image.page().external_header()) else { continue };
        let spaces = [(header.owned_root(), "owned extents"), (header.available_root(), "available extents")];
        for (root, what) in spaces {
            let Some(root) = root else { continue };
            let kind = shape.kind | PageFlags::SPACE;
            let label = format!("{} / {what}", shape.label);
            search.tree(&TreeShape { root, kind, label, tree: shape.tree });
        }
        if !search.findings.has_damaged_pages() || database.pace.is_cancelled() {
            break;
        }
    }
}

struct DamagedPageSearch<'a, 'd> {
    reader: VerifiedPageReader<'d>,
    findings: &'a mut Findings,
    /// Maximum number of pages that the search may still read. This limit stops the search if there is a cycle.
    budget: u64,
}

impl DamagedPageSearch<'_, '_> {
    fn tree(&mut self, shape: &TreeShape) {
        self.page(shape, shape.root, 0, false);
    }

    fn page(&mut self, shape: &TreeShape, number: PageNumber, depth: u32, leaf: bool) {
        let found =
            self.findings.is_damaged_page(number) && self.findings.attribute(number, &shape.label, leaf);
        if leaf || depth > MAX_DEPTH || self.budget == 0 || found && self.reader.get(number).is_err() {
            return;
        }
        self.budget -= 1;
        let Ok(image) = self.reader.get(number) else { return };
        let page = image.page();
        if page.tree() != shape.tree || page.is_leaf() {
            return;
        }
        let leaves = page.flags().contains(PageFlags::PARENT_OF_LEAF);
        if !leaves {
            self.reader.prefetch(page.nodes().filter_map(|node| node.child()));
        }
        for child in page.nodes().filter_map(|node| node.child()) {
            self.page(shape, child, depth + 1, leaves);
        }
    }
}
