//! Extents of each tree, and the owner of each page.

use ese_format::TreeId;
use ese_format::page::NodeFlags;
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use jetcell_input::Printable;

use super::{ExtentLine, ListedTree};
use crate::Result;
use crate::database::{AdaptivePageSet, DumpedDatabase};
use crate::output::DumpOutput;
use crate::walk::{TreeWalk, WalkStep};

/// A tree's owned and available extents, as (first page, last page) pairs.
#[derive(Default)]
pub(super) struct TreeExtents {
    pub(super) parent_root: u32,
    pub(super) owned: Vec<(u32, u32)>,
    pub(super) available: Vec<(u32, u32)>,
}

/// Reads the space header and the space trees of a tree. Adds the pages of the space trees to `used`.
pub(super) fn read_extents(
    database: &DumpedDatabase<'_>,
    entry: &ListedTree,
    used: &mut AdaptivePageSet,
    output: &mut DumpOutput<'_>,
) -> Result<TreeExtents> {
    let mut extents = TreeExtents::default();
    let image = database.page(entry.root);
    // The walk of the tree has already reported an unusable root.
    if !image.state.is_good() || image.page().tree() != entry.tree {
        return Ok(extents);
    }
    let header = match SpaceHeader::decode(image.page().external_header()) {
        Ok(header) => header,
        Err(fault) => {
            output.page_problem(entry.root, format!("{fault}; the extents of the tree are missing"))?;
            return Ok(extents);
        }
    };
    extents.parent_root = header.parent.map_or(0, ese_format::PageNumber::get);
    let (Some(owned), Some(available)) = (header.owned_root(), header.available_root()) else {
        extents.add_single_extent(entry.root, &header);
        return Ok(extents);
    };
    let mut reserve = Vec::new();
    extents.owned = space_tree(database, owned.get(), entry.tree, used, &mut reserve, output)?;
    extents.available = space_tree(database, available.get(), entry.tree, used, &mut reserve, output)?;
    extents.available.append(&mut reserve);
    Ok(extents)
}

fn bounds(extent: Extent) -> (u32, u32) {
    (extent.first().get(), extent.last.get())
}

/// Returns the extents in a space tree. Adds the extents of the split reserve in its root to `reserve`.
fn space_tree(
    database: &DumpedDatabase<'_>,
    root: u32,
    tree: TreeId,
    used: &mut AdaptivePageSet,
    reserve: &mut Vec<(u32, u32)>,
    output: &mut DumpOutput<'_>,
) -> Result<Vec<(u32, u32)>> {
    let mut extents = Vec::new();
    for step in TreeWalk::new(database, root, Some(tree), used) {
        let visited = match step {
            WalkStep::Page(visited) => visited,
            WalkStep::Problem(problem) => {
                output.problem(problem)?;
                continue;
            }
            WalkStep::Leaf => continue,
        };
        let page = visited.image.page();
        if visited.level == 0
            && let Ok(spare) = SplitReserve::decode(page.external_header())
        {
            reserve.extend(spare.extents.into_iter().flatten().map(bounds));
        }
        if !page.is_leaf() {
            continue;
        }
        for node in page.nodes().filter(|node| !node.flags.contains(NodeFlags::DELETED)) {
            match Extent::decode(&node.key_to_vec(), node.data) {
                Ok((extent, _)) if extent.count > 0 => extents.push(bounds(extent)),
                Ok(_) => {}
                Err(fault) => {
                    output.page_problem(visited.image.number, format!("{fault}; the extent is omitted"))?;
                }
            }
        }
    }
    Ok(extents)
}

impl TreeExtents {
    /// Adds the extents of a tree that consists of a single extent, given its bitmap of free pages. Pages beyond the
    /// bitmap are free.
    fn add_single_extent(&mut self, root: u32, header: &SpaceHeader) {
        let last = root.saturating_add(header.primary_pages.saturating_sub(1));
        self.owned.push((root, last));
        let bitmap = header.available_bitmap().unwrap_or(0);
        for offset in 1..header.primary_pages.min(33) {
            if bitmap >> (offset - 1) & 1 == 1 {
                self.add_available(root.saturating_add(offset), root.saturating_add(offset));
            }
        }
        if header.primary_pages > 33 {
            self.add_available(root.saturating_add(33), last);
        }
    }

    fn add_available(&mut self, first: u32, last: u32) {
        match self.available.last_mut() {
            Some((_, before)) if before.checked_add(1) == Some(first) => *before = last,
            _ => self.available.push((first, last)),
        }
    }

    /// Adds the available pages to the set shared by all trees. Stops processing an extent at a page that is already
    /// in the set, which bounds the work on damaged files.
    pub(super) fn mark_available(
        &self,
        database: &DumpedDatabase<'_>,
        available: &mut AdaptivePageSet,
        output: &mut DumpOutput<'_>,
    ) -> Result<()> {
        for &(first, last) in &self.available {
            for page in first..=last.min(database.pages) {
                if !available.insert(page) {
                    output.page_problem(
                        page,
                        "the page is listed as available twice; the rest of the extent is omitted",
                    )?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes every extent as an item.
    pub(super) fn write_extents(&self, entry: &ListedTree, output: &mut DumpOutput<'_>) -> Result<()> {
        for (list, extents) in [("owned", &self.owned), ("available", &self.available)] {
            for &(first, last) in extents {
                let (name, tree, pages) =
                    (entry.name.clone(), entry.tree.0, (last - first).saturating_add(1));
                output.item(&ExtentLine { name, tree, list, first, last, pages })?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for ExtentLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ExtentLine { name, tree, list, first, last, pages } = self;
        let name = Printable(name);
        write!(f, "{list:<9} {first:>10} to {last:>10} {pages:>8} pages  tree {tree} {name}")
    }
}

/// The owned extents of all trees. A tree's extents lie within those of its parent.
#[derive(Default)]
pub(super) struct ExtentOwners {
    /// First page, last page, and index of the owning tree in the list of trees.
    extents: Vec<(u32, u32, usize)>,
}

impl ExtentOwners {
    pub(super) fn add(&mut self, tree: usize, owned: &[(u32, u32)]) {
        self.extents.extend(owned.iter().map(|&(first, last)| (first, last, tree)));
    }

    /// Returns the last page that the database root owns.
    pub(super) fn last(&self) -> Option<u32> {
        self.extents.iter().filter(|(_, _, tree)| *tree == 0).map(|(_, last, _)| *last).max()
    }

    pub(super) fn sorted(mut self) -> SortedExtentOwners {
        // If several extents start at the same page, the outer one comes first. If extents are equal, the parent's
        // comes first.
        self.extents.sort_by_key(|&(first, last, tree)| (first, std::cmp::Reverse(last), tree));
        SortedExtentOwners { extents: self.extents, next: 0, open: Vec::new() }
    }
}

/// Finds a page's innermost owner. Pages must be queried in ascending order.
pub(super) struct SortedExtentOwners {
    extents: Vec<(u32, u32, usize)>,
    next: usize,
    open: Vec<(u32, usize)>,
}

impl SortedExtentOwners {
    /// Returns the index of the tree that owns `page`, or of the database root if no tree owns it.
    pub(super) fn owner_of(&mut self, page: u32) -> usize {
        while let Some(&(first, last, tree)) =
            self.extents.get(self.next).filter(|(first, ..)| *first <= page)
        {
            while self.open.last().is_some_and(|(end, _)| *end < first) {
                self.open.pop();
            }
            self.open.push((last, tree));
            self.next += 1;
        }
        while self.open.last().is_some_and(|(end, _)| *end < page) {
            self.open.pop();
        }
        self.open.last().map_or(0, |(_, tree)| *tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_extent_owns_a_page() {
        let mut owners = ExtentOwners::default();
        owners.add(0, &[(1, 100)]);
        owners.add(1, &[(10, 29), (50, 59)]);
        owners.add(2, &[(12, 14)]);
        assert_eq!(owners.last(), Some(100));
        let mut owners = owners.sorted();
        let found: Vec<usize> =
            [1, 10, 12, 14, 15, 29, 30, 50, 60, 100].map(|page| owners.owner_of(page)).into();
        assert_eq!(found, [0, 1, 2, 2, 1, 1, 0, 1, 0, 0]);
    }
}
