//! Relieves a full leaf by sharing nodes with its right neighbour. This adds fewer pages than plain splits and keeps
//! pages fuller.
//!
//! If the two leaves have room for the new node and some slack, the upper nodes of the leaf move to the neighbour.
//! Otherwise, two full leaves become three: the leaf is split after a third of their combined bytes, and the
//! neighbour's lower nodes also move to the new page. A split must read and write the neighbour in any case, to
//! change its link, so neither method touches an additional page. ESE: partial merge, which ESE uses for online
//! defragmentation.
//!
//! Invariants:
//!
//! - Both leaves have the same parent. Each move therefore changes one separator.
//! - No page loses all its nodes.
//! - The bytes that may be needed to undo uncommitted changes stay free on every page.
//! - Nodes flagged as deleted do not move, because a partial merge does not move them.

use std::ops::Range;

use ese_format::PageNumber;
use ese_format::log::record::MergeFlags;
use ese_format::page::{NodeFlags, Page, node_space};

use super::tree::StructureLock;
use crate::Corruption;
use crate::pages::apply;
use crate::pages::merge::{self, LeafMerge, PathChange, merge_type};
use crate::pages::split::{
    self, IncomingNode, SplitInsert, SplitPoint, capacity, packed_size, prefix_line, prefix_of, separator_at,
};
use crate::pages::{AtomicGroup, GroupAbort, GroupResult, TreeIdentity};
use crate::space::{SpaceLock, SpaceTrees};

/// Divisor of the page size. After two leaves are balanced, at least this fraction of a page must be free on the two
/// leaves together.
///
/// With less slack, a file that was loaded with full pages and then changed at random stays smaller. However, each
/// insert writes more pages. With more slack, the file gets larger, and each insert writes fewer pages.
const SPARE_DIVISOR: usize = 32;

/// How to make room in a full leaf by redistributing nodes between it and its right neighbour.
pub(super) enum SharingPlan {
    /// The nodes of the leaf from the cut onwards move to the neighbour.
    Balance(SplitPoint),
    /// The leaf is split, and the first `from_right` nodes of the neighbour move to the new page.
    SplitInThree { cut: SplitPoint, from_right: usize, separator: Vec<u8> },
}

/// Result of carrying out a [`SharingPlan`].
pub(super) enum SharingResult {
    /// This page has room for the incoming node at this line.
    Room(PageNumber, usize),
    /// The incoming node has been inserted.
    Inserted,
}

/// A partial merge, which moves some nodes from one leaf to another.
pub(super) struct PartialMerge<'a> {
    pub source: PageNumber,
    pub target: PageNumber,
    pub parent: PageNumber,
    pub kind: u8,
    /// The nodes that move.
    pub nodes: Range<usize>,
    /// New separator between the two pages.
    pub separator: &'a [u8],
}

/// Returns true if a partial merge can move these nodes.
pub(super) fn movable(page: &Page<'_>, nodes: Range<usize>) -> bool {
    nodes.filter_map(|line| page.node(line)).all(|node| !node.flags.contains(NodeFlags::DELETED))
}

/// Returns the index of the item boundary that is closest to `goal` bytes.
fn item_at(sizes: &[usize], goal: usize) -> usize {
    let mut before = 0;
    let reaches = |size: &usize| {
        let reached = before + size / 2 >= goal;
        before += size;
        reached
    };
    sizes.iter().position(reaches).unwrap_or(sizes.len())
}

/// Returns the cut that makes `item` the first item to move. The incoming node counts as an item. Returns `None` if
/// the leaf would keep or move no existing node.
fn cut_before(
    shape: &TreeIdentity,
    leaf: &Page<'_>,
    incoming: IncomingNode<'_>,
    item: usize,
) -> Option<SplitPoint> {
    let incoming_right = incoming.line >= item;
    let line = if incoming_right { item } else { item - 1 };
    if !(1..leaf.node_count()).contains(&line) {
        return None;
    }
    let separator = separator_at(shape, leaf, line, Some(incoming), incoming_right)?;
    Some(SplitPoint { line, incoming_right, separator, append: false })
}

/// Chooses how a leaf without room for the incoming node shares nodes with its right neighbour. `reserved` bytes stay
/// free on each page. Returns `None` if a plain split is better.
fn plan(
    shape: &TreeIdentity,
    room: usize,
    leaf: &Page<'_>,
    right: &Page<'_>,
    incoming: IncomingNode<'_>,
    reserved: usize,
) -> Option<SharingPlan> {
    let count = leaf.node_count();
    let new_size = node_space(incoming.key.len(), false, incoming.data.len());
    let mut sizes: Vec<usize> = (0..count).map(|line| leaf.node_size(line)).collect();
    sizes.insert(incoming.line, new_size);
    sizes.extend((0..right.node_count()).map(|line| right.node_size(line)));
    let total: usize = sizes.iter().sum();
    let on = |side: bool| if side { new_size + reserved } else { reserved };
    if leaf.free_bytes() + right.free_bytes() >= on(true) + room / SPARE_DIVISOR
        && let Some(cut) = cut_before(shape, leaf, incoming, item_at(&sizes, total / 2))
    {
        let going = cut.line..count;
        let lost: usize = going.clone().map(|line| leaf.node_size(line)).sum();
        let gained = packed_size(leaf, going, right.prefix()) - right.prefix().len();
        if leaf.free_bytes() + lost >= on(!cut.incoming_right)
            && right.free_bytes() >= gained + on(cut.incoming_right)
            && movable(leaf, cut.line..count)
        {
            return Some(SharingPlan::Balance(cut));
        }
    }
    let cut = cut_before(shape, leaf, incoming, item_at(&sizes, total / 3))?;
    let from_right = item_at(&sizes, total * 2 / 3).checked_sub(count + 1)?;
    if !(1..right.node_count()).contains(&from_right) || !movable(right, 0..from_right) {
        return None;
    }
    let [stay, go] = [0..cut.line, cut.line..count];
    let [stay_prefix, new_prefix] = [&stay, &go].map(|half| prefix_of(leaf, prefix_line(leaf, half.clone())));
    let stays = packed_size(leaf, stay, &stay_prefix);
    let new = packed_size(leaf, go, &new_prefix) + packed_size(right, 0..from_right, &new_prefix)
        - new_prefix.len();
    if stays + on(!cut.incoming_right) > room || new + on(cut.incoming_right) > room {
        return None;
    }
    let separator = separator_at(shape, right, from_right, None, false)?;
    Some(SharingPlan::SplitInThree { cut, from_right, separator })
}

impl StructureLock<'_> {
    /// Latches the parent and chooses how a leaf without room for the incoming node shares nodes with its right
    /// neighbour. Returns `None` if a plain split is better.
    pub(super) fn plan_with_neighbour(
        &self,
        group: &mut AtomicGroup,
        parent: PageNumber,
        leaf: PageNumber,
        incoming: IncomingNode<'_>,
    ) -> GroupResult<Option<SharingPlan>> {
        let entries = group.page(parent)?;
        let right = apply::entry_near(&entries, leaf, &incoming.order_key(self.is_unique()))
            .and_then(|line| entries.node(line + 1))
            .and_then(|node| node.child());
        let Some(right) = right else { return Ok(None) };
        let [page, neighbour] = group.two_pages(leaf, right)?;
        if page.next() != Some(right) || neighbour.prev() != Some(leaf) {
            return Err(GroupAbort::Failed(self.file.corrupt(leaf, Corruption::SiblingLinks)));
        }
        let reserved = self.reserved_for_undo(&page, None) + self.reserved_for_undo(&neighbour, None);
        let room = capacity(self.file.page_size);
        Ok(plan(&self.identity(), room, &page, &neighbour, incoming, reserved))
    }

    /// Executes a plan. Returns `None` if the parent has no room for the new separators.
    pub(super) fn share(
        &self,
        group: &mut AtomicGroup,
        (space, trees): (&SpaceLock<'_>, &SpaceTrees),
        [parent, leaf]: [PageNumber; 2],
        insert: &SplitInsert<'_>,
        plan: &SharingPlan,
    ) -> GroupResult<Option<SharingResult>> {
        let Some(right) = group.page(leaf)?.next() else { return Ok(None) };
        let free = group.page(parent)?.free_bytes();
        let entry = |separator: &[u8]| node_space(separator.len(), false, 4);
        match plan {
            SharingPlan::Balance(cut) => {
                if free < entry(&cut.separator) {
                    return Ok(None);
                }
                let nodes = cut.line..group.page(leaf)?.node_count();
                let kind = merge_type::PARTIAL_RIGHT;
                let separator = &cut.separator;
                self.move_nodes(
                    group,
                    PartialMerge { source: leaf, target: right, parent, kind, nodes, separator },
                )?;
                let line = insert.incoming.line;
                let (page, line) = if cut.incoming_right { (right, line - cut.line) } else { (leaf, line) };
                Ok(Some(SharingResult::Room(page, line)))
            }
            SharingPlan::SplitInThree { cut, from_right, separator } => {
                if free < entry(&cut.separator) + entry(separator) {
                    return Ok(None);
                }
                let new = space.take_page(group, trees)?;
                split::split_page(group, &self.identity(), parent, leaf, new, cut, Some(insert))?;
                let (nodes, kind) = (0..*from_right, merge_type::PARTIAL_LEFT);
                self.move_nodes(
                    group,
                    PartialMerge { source: right, target: new, parent, kind, nodes, separator },
                )?;
                Ok(Some(SharingResult::Inserted))
            }
        }
    }

    /// Moves nodes to a neighbouring leaf.
    pub(super) fn move_nodes(&self, group: &mut AtomicGroup, what: PartialMerge<'_>) -> GroupResult<()> {
        let PartialMerge { source, target, parent, kind, nodes, separator } = what;
        let line = apply::entry_of(&group.page(parent)?, source);
        let line =
            line.ok_or_else(|| GroupAbort::Failed(self.file.corrupt(parent, Corruption::NoParentEntry)))?;
        let rightwards = kind == merge_type::PARTIAL_RIGHT;
        let merge = LeafMerge {
            kind,
            page: source,
            left: (!rightwards).then_some(target),
            right: rightwards.then_some(target),
            line: if rightwards { nodes.start } else { nodes.end - 1 },
            separator,
            path: &[PathChange { page: parent, line, flags: MergeFlags::KEY_CHANGE }],
        };
        merge::merge(group, &self.identity(), &merge)
    }
}
