//! Determines the owner of each page: space headers, the two space trees of each tree, and the partition invariant.
//!
//! For every tree T: owned(T) = pages of T + pages of its space trees + available(T) + owned(children of T), and each
//! page occurs exactly once. Parents are checked before their children, and ownership of a child's pages passes from
//! the parent to the child.
//!
//! Invariant: the amount of work is bounded by the number of pages and space-tree nodes, regardless of the ranges
//! that extents claim.

use std::ops::ControlFlow::{self, Break, Continue};

use ese_format::page::PageFlags;
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use ese_format::{DbTime, PageNumber};

use crate::findings::Findings;
use crate::findings::finding::FindingKind;
use crate::findings::tree_label::DATABASE;
use crate::pages::reader::VerifiedPageReader;
use crate::structure::page_map::{PageAllocation, PageMap, PageUse, TreeIndex};
use crate::structure::tree::{TreeWalker, walk};
use crate::structure::tree_shape::TreeShape;

/// A tree in a space check, with its parent and whether all its pages could be read.
#[derive(Debug)]
pub(crate) struct CheckedTree {
    pub(crate) shape: TreeShape,
    /// Tree from which this tree's pages are allocated; `None` for the database root.
    pub(crate) parent: Option<TreeIndex>,
    /// Whether some pages of the tree or its space trees could not be read. If so, pages that appear to be unused may
    /// be in use.
    pub(crate) incomplete: bool,
}

/// Returns the extents of the database root, which determine the last page that the database owns. The list ends at
/// the first error.
pub(crate) fn owned_extents(
    reader: &mut VerifiedPageReader<'_>,
    findings: &mut Findings,
    root: &TreeShape,
) -> Vec<Extent> {
    let mut extents = Vec::new();
    let Ok(image) = reader.get(root.root) else { return extents };
    let Ok(header) = SpaceHeader::decode(image.page().external_header()) else { return extents };
    let Some(owned_root) = header.owned_root() else {
        extents.push(Extent::starting_at(root.root, header.primary_pages));
        return extents;
    };
    let shape = space_shape(root, owned_root, "owned extents");
    let mut walker =
        TreeWalker { reader, findings, claims: None, newest: DbTime(u64::MAX), read_ahead: None };
    walk(&mut walker, &shape, &mut |_, node, _| {
        if let Ok((extent, _)) = Extent::decode(&node.key_to_vec(), node.data) {
            extents.push(extent);
        }
    });
    extents
}

fn space_shape(owner: &TreeShape, root: PageNumber, what: &str) -> TreeShape {
    TreeShape {
        root,
        tree: owner.tree,
        kind: owner.kind | PageFlags::SPACE,
        label: format!("{} / {what}", owner.label),
    }
}

/// Checks the space header and space trees of one tree. Takes the tree's pages from its parent and records which
/// pages are available.
pub(crate) fn check_tree_space(
    reader: &mut VerifiedPageReader<'_>,
    findings: &mut Findings,
    map: &mut PageMap,
    trees: &mut [CheckedTree],
    index: TreeIndex,
) {
    let newest = reader.database.header.db_time;
    let parent_root = trees
        .get(index.0 as usize)
        .and_then(|entry| entry.parent)
        .and_then(|parent| trees.get(parent.0 as usize))
        .map(|parent| parent.shape.root);
    let Some(entry) = trees.get_mut(index.0 as usize) else { return };
    let shape = entry.shape.clone();
    let label = shape.label.as_str();
    // The walk of the tree has already reported an unreadable root.
    let Ok(image) = reader.get(shape.root) else {
        entry.incomplete = true;
        return;
    };
    let header = match SpaceHeader::decode(image.page().external_header()) {
        Ok(header) => header,
        Err(fault) => {
            findings.add_structural(FindingKind::SpaceHeader, shape.root, label, fault.to_string());
            entry.incomplete = true;
            return;
        }
    };
    if header.parent != parent_root {
        let (found, expected) = (PageNumber::to_raw(header.parent), PageNumber::to_raw(parent_root));
        let what = format!("the space header names page {found} as the parent, expected {expected}");
        findings.add_structural(FindingKind::SpaceHeader, shape.root, label, what);
    }
    if header.non_unique != shape.kind.contains(PageFlags::NON_UNIQUE) {
        findings.add_structural(
            FindingKind::SpaceHeader,
            shape.root,
            label,
            "the space header and the catalog disagree on whether keys are unique".into(),
        );
    }
    let parent = entry.parent;
    let mut walker = TreeWalker { reader, findings, claims: Some((map, index)), newest, read_ahead: None };
    let space = read_space(&mut walker, &shape, &header);
    entry.incomplete |= space.incomplete;
    for listed in space.owned {
        claim_pages(findings, map, label, "owned", listed, |PageAllocation { owner, used }| {
            if owner == Some(index) {
                Break("is owned twice")
            } else if owner == parent {
                Continue(PageAllocation { owner: Some(index), used })
            } else {
                Break("does not come from the parent tree")
            }
        });
    }
    for listed in space.available {
        claim_pages(findings, map, label, "available", listed, |PageAllocation { owner, used }| match used {
            PageUse::None => Continue(PageAllocation { owner, used: PageUse::Available(index) }),
            PageUse::Available(_) => Break("is listed twice"),
            PageUse::Tree(_) => Break("is in use"),
        });
    }
}

/// Extents of one tree, each with the page that lists it.
#[derive(Default)]
struct ListedExtents {
    owned: Vec<(PageNumber, Extent)>,
    available: Vec<(PageNumber, Extent)>,
    /// Whether some pages of the space trees could not be read.
    incomplete: bool,
}

/// Reads the extents of a tree with this space header.
fn read_space(walker: &mut TreeWalker<'_, '_>, shape: &TreeShape, header: &SpaceHeader) -> ListedExtents {
    let mut space = ListedExtents::default();
    let (Some(owned_root), Some(available_root)) = (header.owned_root(), header.available_root()) else {
        space.owned.push((shape.root, Extent::starting_at(shape.root, header.primary_pages)));
        let bitmap = header.available_bitmap().unwrap_or(0);
        let pages = walker.claims.as_ref().map_or(walker.reader.database.file_pages, |(map, _)| map.pages());
        for offset in 1..header.primary_pages.min(pages) {
            // Pages beyond the bitmap are free.
            let free = bitmap.checked_shr(offset - 1).is_none_or(|bits| bits & 1 == 1);
            if free {
                space.available.push((shape.root, Extent::starting_at(shape.root.plus(offset), 1)));
            }
        }
        return space;
    };
    for (root, what, extents) in [
        (owned_root, "owned extents", &mut space.owned),
        (available_root, "available extents", &mut space.available),
    ] {
        let tree = space_shape(shape, root, what);
        let summary = walk(walker, &tree, &mut |page, node, findings| match Extent::decode(
            &node.key_to_vec(),
            node.data,
        ) {
            Ok((extent, _)) => extents.push((page, extent)),
            Err(fault) => {
                findings.add_structural(FindingKind::SpaceHeader, page, &tree.label, fault.to_string());
            }
        });
        space.incomplete |= summary.incomplete;
    }
    for root in [owned_root, available_root] {
        let Ok(image) = walker.reader.get(root) else { continue };
        match SplitReserve::decode(image.page().external_header()) {
            Ok(reserve) => {
                let extents = reserve.extents.into_iter().flatten();
                space.available.extend(extents.map(|extent| (root, extent)));
            }
            Err(fault) => {
                walker.findings.add_structural(
                    FindingKind::SpaceHeader,
                    root,
                    &shape.label,
                    fault.to_string(),
                );
            }
        }
    }
    space
}

/// Returns the available extents of a tree, sorted. Extents that cannot be read are omitted.
pub(crate) fn available_extents(reader: &mut VerifiedPageReader<'_>, shape: &TreeShape) -> Vec<Extent> {
    let Ok(image) = reader.get(shape.root) else { return Vec::new() };
    let Ok(header) = SpaceHeader::decode(image.page().external_header()) else { return Vec::new() };
    let mut unreported = Findings::new(&reader.database.path);
    let newest = DbTime(u64::MAX);
    let mut walker = TreeWalker { reader, findings: &mut unreported, claims: None, newest, read_ahead: None };
    let space = read_space(&mut walker, shape, &header);
    let mut available: Vec<Extent> = space.available.into_iter().map(|(_, extent)| extent).collect();
    available.sort_by_key(|extent| extent.last);
    available
}

/// Records the pages of an owned or available extent. `claim` returns the new allocation of a page, or what is wrong
/// with the page.
fn claim_pages(
    findings: &mut Findings,
    map: &mut PageMap,
    label: &str,
    kind: &str,
    (listed_on, extent): (PageNumber, Extent),
    claim: impl Fn(PageAllocation) -> ControlFlow<&'static str, PageAllocation>,
) {
    let shown = format!("{kind} extent {}..{}", extent.first(), extent.last);
    let mut offset = 0;
    while offset < extent.count {
        let page = extent.first().plus(offset);
        if !map.contains(page) {
            let what = format!("{shown} extends beyond the database");
            return findings.add_structural(FindingKind::SpaceOverlap, listed_on, label, what);
        }
        let (state, run) = map.run_at(page);
        let run = run.min(extent.count - offset);
        offset += run;
        // The owner of pages in a dropped block is unknown.
        match state.map(&claim) {
            Some(Continue(state)) => map.set_run(page, run, state),
            Some(Break(wrong)) => {
                let what = format!("page {page} of {shown} {wrong}");
                return findings.add_structural(FindingKind::SpaceOverlap, page, label, what);
            }
            None => {}
        }
    }
}

/// Reports pages that a tree uses without owning them, and pages that are owned but unused. Call this after checking
/// all trees.
pub(crate) fn check_partition(findings: &mut Findings, map: &PageMap, trees: &[CheckedTree]) {
    let entry = |tree: TreeIndex| trees.get(tree.0 as usize);
    let label = |tree: TreeIndex| entry(tree).map_or("?", |entry| entry.shape.label.as_str());
    if map.untracked_pages() > 0 {
        let what = format!(
            "the owners and users of {} pages were not compared, because the comparison would exceed the \
             memory limit of the check",
            map.untracked_pages()
        );
        findings.add_info(FindingKind::Omitted, None, DATABASE, what);
    }
    // Combine consecutive pages with the same error into one finding.
    let mut run: Option<(PageNumber, PageNumber, TreeIndex, Option<TreeIndex>)> = None;
    let mut finish = |run: Option<(PageNumber, PageNumber, TreeIndex, Option<TreeIndex>)>| {
        let Some((first, last, owner, user)) = run else { return };
        let pages = if first == last { format!("page {first}") } else { format!("pages {first}..{last}") };
        match user {
            Some(user) => {
                let what = format!("{pages} used by {}, but owned by {}", label(user), label(owner));
                findings.add_structural(FindingKind::SpaceOwner, first, label(owner), what);
            }
            None => {
                let what = format!("{pages} leaked: owned, but neither used nor available");
                // This is caused by a crash between allocating space and using it. Recovery does not correct it.
                if findings.lenient || findings.tolerates_leaks {
                    findings.add_info(FindingKind::SpaceLeak, first, label(owner), what);
                } else {
                    findings.add_structural(FindingKind::SpaceLeak, first, label(owner), what);
                }
            }
        }
    };
    let mut next = PageNumber::new(1).filter(|page| map.contains(*page));
    while let Some(page) = next {
        let (state, len) = map.run_at(page);
        let last = page.plus(len - 1);
        next = last.get().checked_add(1).and_then(PageNumber::new).filter(|page| map.contains(*page));
        let PageAllocation { owner, used } =
            state.unwrap_or(PageAllocation { owner: None, used: PageUse::None });
        let fault = match (owner, used) {
            (None, PageUse::None) => None,
            // A tree uses a page outside the owned space. The page has no owner, so the finding names the database
            // root.
            (None, PageUse::Tree(user) | PageUse::Available(user)) => Some((TreeIndex(0), Some(user))),
            (Some(owner), PageUse::None) => {
                let unsure = entry(owner).is_none_or(|entry| entry.incomplete);
                (!unsure).then_some((owner, None))
            }
            (Some(owner), PageUse::Tree(user) | PageUse::Available(user)) => {
                (owner != user).then_some((owner, Some(user)))
            }
        };
        run = match (run, fault) {
            (Some((first, _, owner, user)), Some(fault)) if fault == (owner, user) => {
                Some((first, last, owner, user))
            }
            (before, fault) => {
                finish(before);
                fault.map(|(owner, user)| (page, last, owner, user))
            }
        };
    }
    finish(run);
}
