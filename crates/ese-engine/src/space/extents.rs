//! One space tree: search, insertion and removal of extents.
//!
//! A group keeps a latch on each page that it accesses. Therefore, extents are found with [`search`] before a group
//! starts, latching one page at a time, and the group then accesses the extent directly. The space-tree lock prevents
//! changes in between.

use ese_format::PageNumber;
use ese_format::page::{NodeFlags, Page, PageFlags, node_space};
use ese_format::space::Extent;
use jetcell_sync::Arc;

use crate::pages::split::{self, IncomingNode, SplitInsert};
use crate::pages::{AtomicGroup, GroupResult, TreeIdentity};
use crate::storage::DatabaseFile;
use crate::{Corruption, Result};

/// Maximum depth of a space tree.
const MAX_DEPTH: usize = 12;

/// An extent and its location in a space tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentLocation {
    pub page: PageNumber,
    pub line: usize,
    pub extent: Extent,
}

/// Returns the pages on the path from the root to the leaf that covers an extent's key.
fn path(group: &mut AtomicGroup, tree: &TreeIdentity, key: &[u8]) -> GroupResult<Vec<PageNumber>> {
    let mut path = vec![tree.root];
    loop {
        let at = path[path.len() - 1];
        let page = group.page(at)?;
        if page.is_leaf() {
            return Ok(path);
        }
        let child = page.child_for(key).map(|(_, child)| child);
        let child = child
            .filter(|_| path.len() < MAX_DEPTH)
            .ok_or_else(|| group.file.corrupt(at, Corruption::NoChild))?;
        path.push(child);
    }
}

fn extent_at(page: &Page<'_>, line: usize) -> Option<Extent> {
    let node = page.node(line).filter(|node| !node.flags.contains(NodeFlags::DELETED))?;
    Extent::decode(&node.key_to_vec(), node.data).ok().map(|(extent, _)| extent)
}

/// Returns the first extent at or after `key` that `wanted` accepts. The caller must hold the space-tree lock and
/// must not hold a latch.
pub(crate) fn search(
    file: &Arc<DatabaseFile>,
    tree: &TreeIdentity,
    key: PageNumber,
    wanted: impl FnMut(&Extent) -> bool,
) -> Result<Option<Extent>> {
    let bytes = key.get().to_be_bytes();
    let mut at = tree.root;
    for _ in 0..MAX_DEPTH {
        let latch = file.pin(at)?.into_read();
        let page = Page::new(&latch, file.page_size);
        if page.is_leaf() {
            return search_leaves(file, at, key, wanted);
        }
        let child = page.child_for(&bytes).map(|(_, child)| child);
        at = child.ok_or_else(|| file.corrupt(at, Corruption::NoChild))?;
    }
    Err(file.corrupt(at, Corruption::TooDeep))
}

/// Continues [`search`] at a leaf.
fn search_leaves(
    file: &Arc<DatabaseFile>,
    leaf: PageNumber,
    key: PageNumber,
    mut wanted: impl FnMut(&Extent) -> bool,
) -> Result<Option<Extent>> {
    let (mut at, mut least) = (leaf, key);
    loop {
        let latch = file.pin(at)?.into_read();
        let page = Page::new(&latch, file.page_size);
        for line in page.lower_bound(&key.get().to_be_bytes()).0..page.node_count() {
            let Some(extent) = extent_at(&page, line) else { continue };
            // A lower extent means that the links are damaged and form a cycle.
            if extent.last < least {
                return Err(file.corrupt(at, Corruption::ExtentOrder));
            }
            least = extent.last;
            if wanted(&extent) {
                return Ok(Some(extent));
            }
        }
        let Some(next) = page.next() else { return Ok(None) };
        at = next;
    }
}

/// Returns the first extent at or after `key` that `wanted` accepts. The group keeps a latch on every leaf that the
/// search visits, so this should be used only if the extent is expected in the first leaf.
pub(crate) fn find(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    key: PageNumber,
    mut wanted: impl FnMut(&Extent) -> bool,
) -> GroupResult<Option<ExtentLocation>> {
    let key = key.get().to_be_bytes();
    let mut at = path(group, tree, &key)?.pop().unwrap_or(tree.root);
    let mut from = group.page(at)?.lower_bound(&key).0;
    loop {
        let page = group.page(at)?;
        for line in from..page.node_count() {
            if let Some(extent) = extent_at(&page, line)
                && wanted(&extent)
            {
                return Ok(Some(ExtentLocation { page: at, line, extent }));
            }
        }
        match page.next() {
            Some(next) => (at, from) = (next, 0),
            None => return Ok(None),
        }
    }
}

/// Returns the extent that ends at `last`, if it is in the tree.
pub(crate) fn ending_at(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    last: PageNumber,
) -> GroupResult<Option<ExtentLocation>> {
    let leaf = path(group, tree, &last.get().to_be_bytes())?.pop().unwrap_or(tree.root);
    let page = group.page(leaf)?;
    let (line, exact) = page.lower_bound(&last.get().to_be_bytes());
    Ok(extent_at(&page, line).filter(|_| exact).map(|extent| ExtentLocation { page: leaf, line, extent }))
}

/// Returns the location of an extent that [`search`] has found.
pub(crate) fn at(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    extent: Extent,
) -> GroupResult<ExtentLocation> {
    let found = ending_at(group, tree, extent.last)?.filter(|found| found.extent == extent);
    found.ok_or_else(|| group.file.corrupt(tree.root, Corruption::NoExtent).into())
}

/// Removes an extent. If it is the only node of its leaf, the node is flagged as deleted instead, because the leaf
/// must not become empty.
pub(crate) fn remove(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    found: &ExtentLocation,
) -> GroupResult<()> {
    let page = group.page(found.page)?;
    if page.node_count() > 1 || page.is_root() {
        group.delete(tree, found.page, found.line)
    } else {
        group.flag_delete(tree, found.page, found.line)
    }
}

/// Sets the size of an extent, keeping its last page.
pub(crate) fn resize(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    found: &ExtentLocation,
    count: u32,
) -> GroupResult<()> {
    let extent = Extent { last: found.extent.last, count };
    group.replace(tree, found.page, found.line, &extent.data())
}

/// Adds an extent. `spare` allocates pages if the space tree must be split.
pub(crate) fn insert(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    extent: Extent,
    spare: &mut dyn FnMut(&mut AtomicGroup) -> GroupResult<PageNumber>,
) -> GroupResult<()> {
    let (key, data) = (extent.key(), extent.data());
    loop {
        let path = path(group, tree, &key)?;
        let leaf = path[path.len() - 1];
        let page = group.page(leaf)?;
        let (line, exact) = page.lower_bound(&key);
        if exact {
            // A node with the same key that is flagged as deleted is replaced. The leaf may be empty temporarily
            // within the group.
            if extent_at(&page, line).is_some() {
                return Err(group.file.corrupt(leaf, Corruption::ExtentOrder).into());
            }
            group.delete(tree, leaf, line)?;
            return group.insert(tree, leaf, line, &key, &data);
        }
        if page.free_bytes() >= node_space(key.len(), false, data.len()) {
            return group.insert(tree, leaf, line, &key, &data);
        }
        let incoming = IncomingNode { line, key: &key, data: &data };
        if make_room(group, tree, &path, path.len() - 1, Some(incoming), spare)? {
            return Ok(());
        }
    }
}

/// Performs one step to make room on `path[level]`: splits this page, or the lowest ancestor that must be split
/// first. Returns true if the incoming node has been inserted.
fn make_room(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    path: &[PageNumber],
    level: usize,
    incoming: Option<IncomingNode<'_>>,
    spare: &mut dyn FnMut(&mut AtomicGroup) -> GroupResult<PageNumber>,
) -> GroupResult<bool> {
    let new = spare(group)?;
    let at = path[level];
    if level == 0 {
        split::split_root(group, tree, new)?;
        return Ok(false);
    }
    // Allocating the spare page can change this leaf, so the cut is chosen only now, from the leaf's current state.
    let size = group.file.page_size;
    let page = group.page(at)?;
    let incoming = incoming.map(|new| IncomingNode { line: page.lower_bound(new.key).0, ..new });
    let cut = split::choose_cut(tree, &page, size, incoming)
        .ok_or_else(|| group.file.corrupt(at, Corruption::UnsplittablePage))?;
    let parent = path[level - 1];
    if group.page(parent)?.free_bytes() < node_space(cut.separator.len(), false, 4) {
        return make_room(group, tree, path, level - 1, None, &mut |_| Ok(new));
    }
    let insert = match incoming {
        Some(incoming) => Some(SplitInsert { incoming, node: group.node_change(tree, at, incoming.line)? }),
        None => None,
    };
    split::split_page(group, tree, parent, at, new, &cut, insert.as_ref())?;
    Ok(insert.is_some())
}

/// Returns the identity of the space tree that belongs to `owner` and is rooted at `root`.
pub(crate) fn space_tree_identity(owner: &TreeIdentity, root: PageNumber) -> TreeIdentity {
    TreeIdentity { root, id: owner.id, kind: owner.kind | PageFlags::SPACE }
}
