//! The pages of a new database: system root, catalog, its shadow and indexes, tree owners, locales.
//!
//! ```text
//!  page   tree                                   pages it owns
//!  1-3    1 system root, its space trees         all
//!  4-6    2 MSysObjects, its space trees         4-23 (indexes, leaves and free pages inside)
//!  7-9    4 index Name                           7-9, and four of 13-23 where one page is too small
//!  10-12  5 index RootObjects                    10-12
//!  24-26  3 MSysObjectsShadow                    24-28
//!  29     6 MSysObjids                           itself
//!  30     7 MSysLocales                          itself
//! ```
//!
//! The page numbers are those of ESE. With larger page sizes, the trees need fewer leaves, and more pages in the
//! extents stay free. The pages are sealed when they are written and have no flush type.

use std::collections::BTreeMap;

use ese_format::catalog::{
    CATALOG, CATALOG_SHADOW, CatalogRow, FIRST_USER_TREE, LocaleRow, NAME_INDEX, ROOT_OBJECTS_INDEX, RowKind,
    TreeOwner, system_tables,
};
use ese_format::checksum::seal_page;
use ese_format::page::{NodeFlags, PageFlags, PageFull, PageMut, choose_prefix};
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use ese_format::{DbTime, PageNumber, PageSize, TreeId};
use jetcell_vfs::{File, IoBuffer, IoReason};

/// Root page of the tree that owns all pages.
pub(crate) const SYSTEM_ROOT: PageNumber = PageNumber::fixed(1);
pub(super) const CATALOG_ROOT: PageNumber = PageNumber::fixed(4);
pub(super) const NAME_ROOT: PageNumber = PageNumber::fixed(7);
pub(super) const ROOT_OBJECTS_ROOT: PageNumber = PageNumber::fixed(10);
pub(super) const SHADOW_ROOT: PageNumber = PageNumber::fixed(24);
pub(crate) const OBJIDS_ROOT: PageNumber = PageNumber::fixed(29);
const LOCALES_ROOT: PageNumber = PageNumber::fixed(30);
const LAST_SYSTEM_PAGE: u32 = 30;
const SYSTEM: TreeId = TreeId(1);

/// The initial contents of a database, without any user tables.
pub(crate) struct InitialDatabase {
    /// Images of the pages that are not all zero, in order.
    pub pages: Vec<(PageNumber, Vec<u8>)>,
    /// Highest tree id in use.
    pub last_tree: TreeId,
    /// Highest dbtime in use.
    pub db_time: DbTime,
}

impl InitialDatabase {
    /// Writes the pages into a new file that consists of zeros. One write covers all pages, including the zeros
    /// between them.
    pub fn write(&self, file: &dyn File, size: PageSize) -> std::io::Result<()> {
        let last = self.pages.last().map_or(0, |(page, _)| page.get());
        let mut all = IoBuffer::zeroed(last as usize * size.bytes());
        for (page, bytes) in &self.pages {
            let at = (page.get() - 1) as usize * size.bytes();
            let place = &mut all[at..at + size.bytes()];
            place.copy_from_slice(bytes);
            seal_page(place, size, *page);
        }
        file.write_at(size.offset_of(PageNumber::fixed(1)), &all, IoReason::DatabaseExtend)
    }
}

/// A node, as a (key, data) pair.
type InitialNode = (Vec<u8>, Vec<u8>);

/// Returns the content of a new database with `pages` pages, but at least 64.
pub(crate) fn initial_pages(size: PageSize, pages: u32) -> InitialDatabase {
    let pages = pages.max(64);
    let tables = system_tables();
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method has no type that fits all lifetimes"
    )]
    let rows: Vec<CatalogRow> = tables.iter().flat_map(|table| table.rows()).collect();
    let catalog = sorted(rows.iter().map(|row| (row.key(), record(row.encode(size)))));
    let names = sorted(rows.iter().map(|row| (row.name_key(), row.key())));
    let roots = sorted(rows.iter().filter_map(|row| Some((row.root_objects_key()?, row.key()))));
    let owners = tables.iter().flat_map(|table| {
        let own = TreeOwner { tree: table.tree, table: table.tree, kind: RowKind::Table };
        let index = |tree| TreeOwner { tree, table: table.tree, kind: RowKind::Index };
        std::iter::once(own).chain(table.secondary_indexes().map(move |at| index(at.tree)))
    });
    let owners = sorted(owners.map(|owner| (owner.key(), record(owner.encode(size)))));
    let locales =
        sorted(LocaleRow::for_new_database().iter().map(|row| (row.key(), record(row.encode(size)))));

    let mut builder = Builder { size, pages: BTreeMap::new(), time: 0 };
    let kind = PageFlags::NEW_RECORD;
    let index = kind | PageFlags::INDEX;
    let page = PageNumber::fixed;

    let mut system = InitialTree::new(SYSTEM_ROOT, SYSTEM, kind, None, pages);
    system.free_from = page(LAST_SYSTEM_PAGE + 1);
    builder.tree(&mut system, &[]);

    let mut objects = InitialTree::new(CATALOG_ROOT, CATALOG, kind, Some(SYSTEM_ROOT), 20);
    objects.free_from = page(13);
    builder.tree(&mut objects, &catalog);
    let mut name = InitialTree::new(NAME_ROOT, NAME_INDEX, index, Some(CATALOG_ROOT), 3);
    if !builder.fits(&name, &names) {
        name.second = Some(objects.take(4));
        name.free_from = name.second.map_or(name.free_from, |extent| extent.first());
    }
    builder.tree(&mut name, &names);
    let mut root_objects =
        InitialTree::new(ROOT_OBJECTS_ROOT, ROOT_OBJECTS_INDEX, index, Some(CATALOG_ROOT), 3);
    builder.tree(&mut root_objects, &roots);
    let mut shadow = InitialTree::new(SHADOW_ROOT, CATALOG_SHADOW, kind, Some(SYSTEM_ROOT), 5);
    builder.tree(&mut shadow, &catalog);
    for space in [&system, &objects, &name, &root_objects, &shadow] {
        builder.space_trees(space);
    }

    let single = SpaceHeader::single(1, Some(SYSTEM_ROOT), false).encode();
    for (root, table, nodes) in [(OBJIDS_ROOT, &tables[2], &owners), (LOCALES_ROOT, &tables[3], &locales)] {
        let flags = kind | PageFlags::ROOT | PageFlags::LEAF;
        let placed = builder.page(root, table.tree, flags, &single, nodes);
        assert!(placed.is_ok(), "rows of the small system tables fit into the smallest page");
    }
    InitialDatabase {
        pages: builder.pages.into_iter().collect(),
        last_tree: TreeId(FIRST_USER_TREE.0 - 1),
        db_time: DbTime(builder.time),
    }
}

fn sorted(nodes: impl Iterator<Item = InitialNode>) -> Vec<InitialNode> {
    let mut nodes: Vec<InitialNode> = nodes.collect();
    nodes.sort();
    nodes
}

fn record(encoded: Result<Vec<u8>, ese_format::record::RecordError>) -> Vec<u8> {
    encoded.expect("rows of the system tables are valid records")
}

/// A tree, its space trees on the two pages after its root, and the free pages of its extents.
struct InitialTree {
    root: PageNumber,
    tree: TreeId,
    kind: PageFlags,
    parent: Option<PageNumber>,
    primary: Extent,
    second: Option<Extent>,
    /// First free page. All pages from here to the end of the last extent are free.
    free_from: PageNumber,
}

impl InitialTree {
    fn new(
        root: PageNumber,
        tree: TreeId,
        kind: PageFlags,
        parent: Option<PageNumber>,
        pages: u32,
    ) -> InitialTree {
        let primary = Extent::starting_at(root, pages);
        InitialTree { root, tree, kind, parent, primary, second: None, free_from: root.plus(3) }
    }

    fn header(&self) -> SpaceHeader {
        SpaceHeader::multiple(self.primary.count, self.parent, false, self.root.plus(1))
    }

    fn last(&self) -> PageNumber {
        self.second.unwrap_or(self.primary).last
    }

    fn take(&mut self, count: u32) -> Extent {
        let extent = Extent::starting_at(self.free_from, count);
        assert!(extent.last <= self.last(), "the system trees fit into their extents");
        self.free_from = extent.last.plus(1);
        extent
    }

    fn available(&self) -> Option<Extent> {
        let count = (self.last().get() + 1).saturating_sub(self.free_from.get());
        (count > 0).then_some(Extent { last: self.last(), count })
    }
}

struct Builder {
    size: PageSize,
    pages: BTreeMap<PageNumber, Vec<u8>>,
    time: u64,
}

impl Builder {
    /// Creates a page. Fails if the nodes do not fit.
    fn page(
        &mut self,
        number: PageNumber,
        tree: TreeId,
        flags: PageFlags,
        external_header: &[u8],
        nodes: &[InitialNode],
    ) -> Result<(), PageFull> {
        let mut bytes = vec![0; self.size.bytes()];
        let mut page = PageMut::format(&mut bytes, self.size, number, tree, flags);
        page.set_external_header(external_header)?;
        for (line, (key, data)) in nodes.iter().enumerate() {
            page.insert_node(line, NodeFlags::empty(), key, data)?;
        }
        self.time += 1;
        page.set_db_time(DbTime(self.time));
        self.pages.insert(number, bytes);
        Ok(())
    }

    /// Returns true if all nodes fit on the root page.
    fn fits(&self, space: &InitialTree, nodes: &[InitialNode]) -> bool {
        let mut trial = Builder { size: self.size, pages: BTreeMap::new(), time: 0 };
        let flags = space.kind | PageFlags::ROOT | PageFlags::LEAF;
        trial.page(space.root, space.tree, flags, &space.header().encode(), nodes).is_ok()
    }

    /// Lays out the root and the leaves of a tree.
    fn tree(&mut self, space: &mut InitialTree, nodes: &[InitialNode]) {
        let header = space.header().encode();
        if self.fits(space, nodes) {
            let flags = space.kind | PageFlags::ROOT | PageFlags::LEAF;
            let placed = self.page(space.root, space.tree, flags, &header, nodes);
            debug_assert!(placed.is_ok());
            return;
        }
        let mut children: Vec<InitialNode> = Vec::new();
        let mut leaves: Vec<PageNumber> = Vec::new();
        let mut rest = nodes;
        while let (Some((first, _)), false) = (rest.first(), rest.is_empty()) {
            let number = space.take(1).last;
            let flags = space.kind | PageFlags::LEAF;
            let count = (1..=rest.len()).rev().find(|count| {
                let prefix = choose_prefix(first, &rest[*count - 1].0, *count);
                self.page(number, space.tree, flags, prefix, &rest[..*count]).is_ok()
            });
            let count = count.expect("a catalog row fits into a page");
            let (last, behind) = (&rest[count - 1].0, rest.get(count));
            // The separator is the shortest key that is greater than all keys of this leaf and not greater than the
            // next key. The last child covers all greater keys.
            let separator = behind.map_or(Vec::new(), |(next, _)| {
                let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
                next[..=common.min(next.len() - 1)].to_vec()
            });
            children.push((separator, number.get().to_le_bytes().to_vec()));
            leaves.push(number);
            rest = &rest[count..];
        }
        for (at, leaf) in leaves.iter().enumerate() {
            let bytes = self.pages.get_mut(leaf).expect("the leaf was just made");
            let mut page = PageMut::new(bytes, self.size);
            page.set_prev(at.checked_sub(1).and_then(|before| leaves.get(before)).copied());
            page.set_next(leaves.get(at + 1).copied());
        }
        let flags = space.kind | PageFlags::ROOT | PageFlags::PARENT_OF_LEAF;
        let placed = self.page(space.root, space.tree, flags, &header, &children);
        assert!(placed.is_ok(), "a root has room for a few children");
    }

    fn space_trees(&mut self, space: &InitialTree) {
        let flags = space.kind | PageFlags::ROOT | PageFlags::LEAF | PageFlags::SPACE;
        let reserve = SplitReserve::default().encode();
        let node = |extent: Extent| (extent.key().to_vec(), extent.data().to_vec());
        let owned: Vec<InitialNode> =
            [Some(space.primary), space.second].into_iter().flatten().map(node).collect();
        let available: Vec<InitialNode> = space.available().map(node).into_iter().collect();
        for (number, nodes) in [(space.root.plus(1), owned), (space.root.plus(2), available)] {
            let placed = self.page(number, space.tree, flags, &reserve, &nodes);
            assert!(placed.is_ok(), "an empty page has room for two extents");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ese_format::catalog::assemble;
    use ese_format::checksum::{PageIntegrity, seal_page, verify_page};
    use ese_format::page::{Page, shared_prefix_len, validate};

    use super::*;

    const SIZES: [PageSize; 4] = [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32];

    type Pages = BTreeMap<PageNumber, Vec<u8>>;

    fn view(pages: &Pages, size: PageSize, number: PageNumber) -> Page<'_> {
        Page::new(&pages[&number], size)
    }

    /// Returns the pages and leaf nodes of a tree, in order.
    fn walk(pages: &Pages, size: PageSize, root: PageNumber) -> (Vec<PageNumber>, Vec<InitialNode>) {
        let page = view(pages, size, root);
        if page.is_leaf() {
            let nodes = page.nodes().map(|node| (node.key_to_vec(), node.data.to_vec())).collect();
            return (vec![root], nodes);
        }
        let (mut all, mut nodes) = (vec![root], Vec::new());
        for child in page.nodes().map(|node| node.child().unwrap()) {
            let below = walk(pages, size, child);
            all.extend(below.0);
            nodes.extend(below.1);
        }
        (all, nodes)
    }

    fn extents(pages: &Pages, size: PageSize, root: PageNumber) -> Vec<Extent> {
        let (_, nodes) = walk(pages, size, root);
        nodes.iter().map(|(key, data)| Extent::decode(key, data).unwrap().0).collect()
    }

    fn numbers(extents: &[Extent]) -> impl Iterator<Item = u32> {
        extents.iter().flat_map(|extent| extent.first().get()..=extent.last.get())
    }

    #[test]
    fn pages_are_valid_and_sealed_ones_verify() {
        for size in SIZES {
            let fresh = initial_pages(size, 256);
            assert_eq!(fresh.last_tree, TreeId(7));
            for (number, mut bytes) in fresh.pages {
                validate(&bytes, size).unwrap();
                let time = Page::new(&bytes, size).db_time();
                assert!(time > DbTime(0) && time <= fresh.db_time);
                seal_page(&mut bytes, size, number);
                assert!(matches!(verify_page(&mut bytes, size, number), PageIntegrity::Good), "{number:?}");
            }
        }
    }

    #[test]
    fn every_page_is_owned_exactly_once() {
        for size in SIZES {
            let pages: Pages = initial_pages(size, 300).pages.into_iter().collect();
            let roots = [1, 4, 7, 10, 24, 29, 30].map(PageNumber::fixed);
            let header = |root| SpaceHeader::decode(view(&pages, size, root).external_header()).unwrap();
            let owned = |root: PageNumber| match header(root).owned_root() {
                Some(owned) => extents(&pages, size, owned),
                None => vec![Extent::starting_at(root, header(root).primary_pages)],
            };
            for root in roots {
                let mut expected: Vec<u32> = numbers(&owned(root)).collect();
                let mut found: Vec<u32> = walk(&pages, size, root).0.iter().map(|page| page.get()).collect();
                if let (Some(oe), Some(ae)) = (header(root).owned_root(), header(root).available_root()) {
                    found.extend([oe.get(), ae.get()]);
                    found.extend(numbers(&extents(&pages, size, ae)));
                }
                for child in roots.into_iter().filter(|child| header(*child).parent == Some(root)) {
                    found.extend(numbers(&owned(child)));
                }
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "tree at {root:?}, {size:?}");
            }
            assert_eq!(numbers(&owned(SYSTEM_ROOT)).collect::<Vec<_>>(), (1..=300).collect::<Vec<_>>());
            let used: BTreeSet<u32> = pages.keys().map(|page| page.get()).collect();
            assert!(used.iter().all(|page| *page <= LAST_SYSTEM_PAGE));
        }
    }

    #[test]
    fn both_catalogs_describe_system_tables_with_matching_index_entries() {
        for size in SIZES {
            let pages: Pages = initial_pages(size, 256).pages.into_iter().collect();
            let rows = walk(&pages, size, CATALOG_ROOT).1;
            assert_eq!(rows, walk(&pages, size, SHADOW_ROOT).1);
            assert!(rows.is_sorted());
            let decoded = rows.iter().map(|(_, data)| CatalogRow::decode(data, size).unwrap());
            let tables = assemble(decoded);
            assert_eq!(tables.len(), 4);
            assert_eq!(tables[0].columns.len(), 28);
            assert_eq!(tables.iter().map(|table| table.rows().len()).sum::<usize>(), rows.len());
            for (root, count) in [(NAME_ROOT, rows.len()), (ROOT_OBJECTS_ROOT, 4)] {
                let entries = walk(&pages, size, root).1;
                assert!(entries.is_sorted());
                let bookmarks: BTreeSet<_> = entries.iter().map(|(_, bookmark)| bookmark).collect();
                assert_eq!(bookmarks.len(), count);
                assert!(bookmarks.iter().all(|bookmark| rows.iter().any(|(key, _)| key == *bookmark)));
            }
        }
    }

    #[test]
    fn every_key_is_reachable_through_internal_pages() {
        for size in SIZES {
            let pages: Pages = initial_pages(size, 256).pages.into_iter().collect();
            for root in [CATALOG_ROOT, NAME_ROOT, SHADOW_ROOT] {
                let (all, nodes) = walk(&pages, size, root);
                for (key, _) in nodes {
                    let mut at = view(&pages, size, root);
                    while !at.is_leaf() {
                        at = view(&pages, size, at.child_for(&key).unwrap().1);
                    }
                    assert!(at.lower_bound(&key).1);
                }
                if let [_, leaves @ ..] = all.as_slice() {
                    for pair in leaves.windows(2) {
                        assert_eq!(view(&pages, size, pair[0]).next(), Some(pair[1]));
                        assert_eq!(view(&pages, size, pair[1]).prev(), Some(pair[0]));
                    }
                }
            }
        }
    }

    #[test]
    fn common_prefixes_are_stored_once() {
        let pages: Pages = initial_pages(PageSize::KIB_4, 256).pages.into_iter().collect();
        let leaf = view(&pages, PageSize::KIB_4, PageNumber::fixed(13));
        assert!(shared_prefix_len(leaf.prefix(), &leaf.node(0).unwrap().key_to_vec()) >= 4);
    }
}
