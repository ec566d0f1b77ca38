//! Dump of a database's space: owned, available, and leaked pages, fill, and fragmentation.
//!
//! The dump makes two passes. The first pass reads the space trees and internal pages of all trees to determine how
//! each page is used. The second pass reads every owned page once, in order. An owned page that is neither available
//! nor part of a tree is leaked.

mod extents;
mod map;
mod sizes;
mod usage;

use std::collections::HashMap;
use std::fmt;

use ese_format::TreeId;
use jetcell_input::Printable;
use serde::Serialize;

use self::extents::{ExtentOwners, TreeExtents, read_extents};
use self::map::SpaceMap;
use self::usage::{TreePageUsage, scan};
use crate::catalog::{DumpedCatalog, ROOT_TREE};
use crate::database::{AdaptivePageSet, DumpedDatabase};
use crate::output::DumpOutput;
use crate::walk::{TreeWalk, WalkStep};
use crate::{DumpSource, Result};

/// Root page of the database.
const DATABASE_ROOT_PAGE: u32 = 1;

/// Number of pages between two calls to the progress callback.
const PROGRESS_STEP: u32 = 256;

/// A tree listed in the catalog.
struct ListedTree {
    name: String,
    kind: &'static str,
    tree: TreeId,
    root: u32,
}

/// An extent of a tree, which is shown only on request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "extent")]
struct ExtentLine {
    name: String,
    tree: u32,
    /// List to which the extent belongs: `owned` or `available`.
    list: &'static str,
    first: u32,
    last: u32,
    pages: u32,
}

/// Space used by one tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "tree-space")]
struct TreeSpace {
    name: String,
    kind: &'static str,
    tree: u32,
    root: u32,
    parent_root: u32,
    /// Number of pages that the tree owns. The next field is the number of extents that it owns. Both include child
    /// trees.
    owned_pages: u64,
    owned_extents: u64,
    available_pages: u64,
    available_extents: u64,
    leaf_pages: u64,
    internal_pages: u64,
    space_pages: u64,
    leaked_pages: u64,
    /// Percentage of the space on the tree's leaves that is used.
    fill: Option<f64>,
    /// Percentage of leaves whose right sibling is not the next page.
    fragmentation: Option<f64>,
    /// Whether part of the tree could not be read, which makes the numbers too low.
    incomplete: bool,
    /// Number of free bytes on the tree's leaves. Only a dump sorted by size shows it.
    #[serde(skip)]
    leaf_free_bytes: u64,
}

/// A range of leaked pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "leaked")]
struct LeakedRange {
    first: u32,
    last: u32,
    /// Name of the tree that owns the pages.
    name: String,
    /// Whether the pages are certain to be leaked, because all trees could be read.
    certain: bool,
}

/// Totals for the whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "space")]
struct SpaceSummary {
    page_size: u32,
    file_pages: u32,
    /// Last page that the database owns.
    last_owned: u32,
    used_pages: u64,
    available_pages: u64,
    leaked_pages: u64,
    damaged_pages: u64,
    /// Number of pages in the file that the database does not own.
    beyond_owned: u64,
}

/// Options for a dump of space.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceOptions {
    /// Whether to list every extent.
    pub extents: bool,
    /// Whether to sort the trees by size, and to show their bytes and white space. By default, the trees are in
    /// catalog order.
    pub sort_by_size: bool,
}

/// Dumps the space usage of all trees and a map of the database.
///
/// `progress` is called with the number of pages read so far and the total number of pages.
pub fn dump_space(
    source: &DumpSource,
    options: SpaceOptions,
    progress: &mut dyn FnMut(u32, u32),
    output: &mut DumpOutput<'_>,
) -> Result<()> {
    let database = DumpedDatabase::open(source, output)?;
    let before = output.problems();
    let trees = trees(&database, output)?;
    let ClaimedPages { used, available, owners, mut spaces } =
        claim_trees(&database, &trees, options.extents, output)?;
    let complete = output.problems() == before;
    let last_owned = owners.last().unwrap_or(database.pages);
    let mut map = SpaceMap::new(last_owned);
    let mut scanned = LeakScan {
        owners: owners.sorted(),
        leaked: vec![0; trees.len()],
        run: None,
        trees: &trees,
        complete,
    };
    let mut usage: HashMap<TreeId, TreePageUsage> = HashMap::new();
    let mut summary = SpaceSummary {
        page_size: database.page_size.get(),
        file_pages: database.pages,
        last_owned,
        used_pages: 0,
        available_pages: 0,
        leaked_pages: 0,
        damaged_pages: 0,
        beyond_owned: u64::from(database.pages.saturating_sub(last_owned)),
    };
    scan(&database, last_owned, &used, &available, &mut |page, class, header| {
        if used.contains(page) && available.contains(page) {
            output.page_problem(page, "the page is part of a tree, but is listed as available")?;
        }
        map.add(page, class);
        if page.is_multiple_of(PROGRESS_STEP) {
            progress(page, last_owned);
        }
        summary.count(class);
        if let Some(header) = header {
            usage.entry(header.tree).or_default().add(&header);
        }
        scanned.page(page, class == map::PageClass::Leaked, output)
    })?;
    scanned.finish(output)?;
    for (space, leaked) in spaces.iter_mut().zip(&scanned.leaked) {
        space.leaked_pages = *leaked;
        if let Some(usage) = usage.get(&TreeId(space.tree)) {
            usage.fill_in(space, database.page_size);
        }
    }
    if options.sort_by_size {
        sizes::write(spaces, &summary, output)?;
    } else {
        output.heading(COLUMNS)?;
        spaces.iter().try_for_each(|space| output.item(space))?;
    }
    output.item(&map)?;
    Ok(output.item(&summary)?)
}

/// Result of the first pass: how each page is used.
struct ClaimedPages {
    used: AdaptivePageSet,
    available: AdaptivePageSet,
    owners: ExtentOwners,
    /// Space used by each tree, by tree index.
    spaces: Vec<TreeSpace>,
}

/// Runs the first pass, which reads the space trees and internal pages of all trees.
fn claim_trees(
    database: &DumpedDatabase<'_>,
    trees: &[ListedTree],
    list_extents: bool,
    output: &mut DumpOutput<'_>,
) -> Result<ClaimedPages> {
    let mut claims = ClaimedPages {
        used: AdaptivePageSet::new(database.pages),
        available: AdaptivePageSet::new(database.pages),
        owners: ExtentOwners::default(),
        spaces: Vec::with_capacity(trees.len()),
    };
    for (index, entry) in trees.iter().enumerate() {
        let before = output.problems();
        claim_tree(database, entry, &mut claims.used, output)?;
        let extents = read_extents(database, entry, &mut claims.used, output)?;
        let incomplete = output.problems() > before;
        claims.owners.add(index, &extents.owned);
        extents.mark_available(database, &mut claims.available, output)?;
        if list_extents {
            extents.write_extents(entry, output)?;
        }
        claims.spaces.push(TreeSpace::new(entry, &extents, incomplete));
    }
    Ok(claims)
}

/// Returns all trees, with parents before their children.
fn trees(database: &DumpedDatabase<'_>, output: &mut DumpOutput<'_>) -> Result<Vec<ListedTree>> {
    let mut trees = vec![ListedTree {
        name: "database".to_owned(),
        kind: "database",
        tree: ROOT_TREE,
        root: DATABASE_ROOT_PAGE,
    }];
    DumpedCatalog::open(database, output)?.for_each_table(output, &mut |table, _, _| {
        let (tree, root) = (table.tree, table.root.get());
        trees.push(ListedTree { name: table.name.clone(), kind: "table", tree, root });
        for index in table.secondary_indexes() {
            let (name, root) = (format!("{} / {}", table.name, index.name), index.root.get());
            trees.push(ListedTree { name, kind: "index", tree: index.tree, root });
        }
        if let Some((tree, root)) = table.long_values {
            let name = format!("{} / long values", table.name);
            trees.push(ListedTree { name, kind: "long-values", tree, root: root.get() });
        }
        Ok(())
    })?;
    Ok(trees)
}

/// Adds a tree's pages to `used`. Leaves are added when their parents are read, and are not read themselves.
fn claim_tree(
    database: &DumpedDatabase<'_>,
    entry: &ListedTree,
    used: &mut AdaptivePageSet,
    output: &mut DumpOutput<'_>,
) -> Result<()> {
    for step in TreeWalk::new(database, entry.root, Some(entry.tree), used).without_leaves() {
        if let WalkStep::Problem(problem) = step {
            output.problem(problem)?;
        }
    }
    Ok(())
}

/// State of the second pass, which collects ranges of leaked pages.
struct LeakScan<'a> {
    owners: extents::SortedExtentOwners,
    /// Number of leaked pages owned by each tree, by tree index.
    leaked: Vec<u64>,
    run: Option<(u32, u32, usize)>,
    trees: &'a [ListedTree],
    complete: bool,
}

impl LeakScan<'_> {
    fn page(&mut self, page: u32, leaked: bool, output: &mut DumpOutput<'_>) -> Result<()> {
        if !leaked {
            return self.finish(output);
        }
        let owner = self.owners.owner_of(page);
        if let Some(count) = self.leaked.get_mut(owner) {
            *count += 1;
        }
        match &mut self.run {
            Some((_, last, tree)) if *tree == owner => *last = page,
            _ => {
                self.finish(output)?;
                self.run = Some((page, page, owner));
            }
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut DumpOutput<'_>) -> Result<()> {
        let Some((first, last, owner)) = self.run.take() else { return Ok(()) };
        let name = self.trees.get(owner).map_or_else(String::new, |entry| entry.name.clone());
        Ok(output.item(&LeakedRange { first, last, name, certain: self.complete })?)
    }
}

impl TreeSpace {
    fn new(entry: &ListedTree, extents: &TreeExtents, incomplete: bool) -> TreeSpace {
        let extent_pages = |(first, last): &(u32, u32)| u64::from(last.saturating_sub(*first)) + 1;
        let pages = |list: &[(u32, u32)]| saturating_sum(list.iter().map(extent_pages));
        TreeSpace {
            name: entry.name.clone(),
            kind: entry.kind,
            tree: entry.tree.0,
            root: entry.root,
            parent_root: extents.parent_root,
            owned_pages: pages(&extents.owned),
            owned_extents: extents.owned.len() as u64,
            available_pages: pages(&extents.available),
            available_extents: extents.available.len() as u64,
            leaf_pages: 0,
            internal_pages: 0,
            space_pages: 0,
            leaked_pages: 0,
            fill: None,
            fragmentation: None,
            incomplete,
            leaf_free_bytes: 0,
        }
    }

    /// Returns the number of pages that belong to this tree and not to a child tree.
    fn own_pages(&self) -> u64 {
        let used = [self.leaf_pages, self.internal_pages, self.space_pages];
        saturating_sum(used.into_iter().chain([self.available_pages, self.leaked_pages]))
    }
}

/// Adds numbers from the file. Extents on disk may overlap, so their sum may exceed the size of any file.
fn saturating_sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

impl SpaceSummary {
    fn count(&mut self, class: map::PageClass) {
        *match class {
            map::PageClass::Available => &mut self.available_pages,
            map::PageClass::Leaked => &mut self.leaked_pages,
            map::PageClass::Damaged => &mut self.damaged_pages,
            _ => &mut self.used_pages,
        } += 1;
    }
}

const COLUMNS: &str =
    "\n  tree   root    owned  extents available  extents   leaves internal space leaked   fill  fragm  name";

impl fmt::Display for TreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0} %"));
        let TreeSpace { tree, root, owned_pages, owned_extents, available_pages, available_extents, .. } =
            self;
        write!(
            f,
            "{tree:>6} {root:>6} {owned_pages:>8} {owned_extents:>8} {available_pages:>9} {available_extents:>8}"
        )?;
        let TreeSpace { leaf_pages, internal_pages, space_pages, leaked_pages, .. } = self;
        write!(f, " {leaf_pages:>8} {internal_pages:>8} {space_pages:>5} {leaked_pages:>6}")?;
        let (fill, fragmentation) = (percent(self.fill), percent(self.fragmentation));
        let mark = if self.incomplete { " (incomplete)" } else { "" };
        write!(f, " {fill:>6} {fragmentation:>6}  {}{mark}", Printable(&self.name))
    }
}

impl fmt::Display for LeakedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeakedRange { first, last, name, certain } = self;
        let sure =
            if *certain { "leaked" } else { "unreachable because it leaked or because of the damage above" };
        let name = Printable(name);
        write!(f, "pages {first} to {last} of {name}: {sure}")
    }
}

impl fmt::Display for SpaceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpaceSummary { page_size, file_pages, last_owned, used_pages, available_pages, .. } = self;
        write!(f, "\n{file_pages} pages of {page_size} bytes in the file, {last_owned} owned: ")?;
        write!(f, "{used_pages} used, {available_pages} available, {} leaked", self.leaked_pages)?;
        if self.damaged_pages > 0 {
            write!(f, ", {} damaged", self.damaged_pages)?;
        }
        if self.beyond_owned > 0 {
            write!(f, "; {} pages past the owned space", self.beyond_owned)?;
        }
        Ok(())
    }
}
