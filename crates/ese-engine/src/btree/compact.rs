//! Online defragmentation of one tree: each leaf is merged with its right neighbour, starting at the right end of the
//! tree. ESE: `OLD`.
//!
//! The separator between two neighbouring leaves identifies the pair. Progress is recorded as a position: all pairs
//! from this position on are done. The position is a key, so it stays valid when pages are split, merged or freed.
//!
//! Invariants:
//!
//! - All nodes of a leaf move to its right neighbour, together with the key range of the leaf.
//! - All pages on the path to the leaf that change are latched. A concurrent descent therefore arrives at the leaf
//!   that contains its key.
//! - Enough bytes stay free on each page to satisfy the density and to undo changes.

use std::cmp::Ordering;

use ese_format::PageNumber;
use ese_format::page::{Page, node_space};

use super::descend::MAX_DEPTH;
use super::merge::{LeafRemovalPlan, RemovedLeaf};
use super::share::{PartialMerge, movable};
use super::tree::StructureLock;
use crate::pages::merge::merge_type;
use crate::pages::split::{packed_size, separator_at};
use crate::pages::{GroupResult, group};
use crate::space::SpaceLock;
use crate::transaction::CommitNumber;
use crate::{Corruption, Error, Result};

/// Divisor of the page size: a partial merge must move at least one eighth of a page. Moving less would not justify
/// writing two pages.
const MIN_MOVE_DIVISOR: usize = 8;

/// Rules for merging leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionRules {
    /// Nodes whose deletion was committed before this number are dead.
    pub oldest: CommitNumber,
    /// Whether a merge may move only some of the nodes if they do not all fit. ESE: the opposite of
    /// `JET_bitDefragmentNoPartialMerges`.
    pub partial_merges: bool,
}

/// Result of an attempt to merge two neighbouring leaves.
#[derive(Clone, Debug)]
pub(crate) struct CompactionResult {
    /// Key up to which the tree has been processed, in the direction of the task. `None`: the whole tree is done.
    pub position: Option<Vec<u8>>,
    /// Number of pages removed from the tree.
    pub freed: u32,
    /// Whether some, but not all, of the nodes have moved.
    pub partial: bool,
    /// Whether the leaf has moved to another page.
    pub moved: bool,
    /// The error that caused the pair to be left unchanged.
    pub failure: Option<Error>,
}

/// Two neighbouring leaves.
struct LeafPair {
    /// The pages above the left leaf, from the root down.
    parents: Vec<PageNumber>,
    left: PageNumber,
    right: PageNumber,
    separator: Vec<u8>,
    /// Whether both leaves have the same parent.
    siblings: bool,
}

/// Returns the entry of an internal page that leads to the keys immediately before `key`. `None` stands for the end
/// of the page.
fn entry_before(page: &Page<'_>, key: Option<&[u8]>) -> Option<(usize, PageNumber)> {
    let line = match key {
        None => page.node_count().checked_sub(1)?,
        Some(key) => {
            // The key can also be the upper bound of the page's last entry.
            let line = page.child_for(key).map_or(page.node_count(), |(line, _)| line);
            let ends_at_key =
                |before: &usize| page.node(*before).is_some_and(|node| node.cmp_key(key) == Ordering::Equal);
            line.checked_sub(1).filter(ends_at_key).unwrap_or(line)
        }
    };
    Some((line, page.node(line)?.child()?))
}

impl StructureLock<'_> {
    /// Tries to merge the last pair of leaves before `before`, or the last pair of the tree if `before` is `None`.
    ///
    /// Returns `None` if no pair is left. An error means that the pair could not be found.
    pub(crate) fn compact_before(
        &self,
        before: Option<&[u8]>,
        rules: CompactionRules,
    ) -> Result<Option<CompactionResult>> {
        let Some(pair) = self.pair_before(before)? else { return Ok(None) };
        let merged = self.merge_right(&pair, rules).and_then(|freed| match freed {
            0 if rules.partial_merges && pair.siblings => Ok((0, self.move_right(&pair)?)),
            _ => Ok((freed, None)),
        });
        let (freed, moved, failure) = match merged {
            Ok((freed, moved)) => (freed, moved, None),
            Err(error) => (0, None, Some(error)),
        };
        let partly = moved.is_some();
        // After a merge, the merged right leaf is the last leaf before this position. It may still have room.
        let position = Some(moved.unwrap_or(pair.separator));
        Ok(Some(CompactionResult { position, freed, partial: partly, moved: false, failure }))
    }

    /// Returns the entries on the path to the keys immediately before `key`, from the root down. The path is stable
    /// until the structure lock is released.
    fn path_before(&self, key: Option<&[u8]>) -> Result<(Vec<(PageNumber, usize)>, PageNumber)> {
        let (mut path, mut at) = (Vec::new(), self.root);
        while path.len() < MAX_DEPTH {
            let latch = self.pin(at)?.into_read();
            let page = self.view(&latch);
            if page.is_leaf() {
                return Ok((path, at));
            }
            let (line, child) =
                entry_before(&page, key).ok_or_else(|| self.file.corrupt(at, Corruption::NoChild))?;
            path.push((at, line));
            at = child;
        }
        Err(self.file.corrupt(self.root, Corruption::TooDeep))
    }

    fn pair_before(&self, before: Option<&[u8]>) -> Result<Option<LeafPair>> {
        let (path, right) = self.path_before(before)?;
        let Some(&(page, line)) = path.iter().rev().find(|(_, line)| *line > 0) else { return Ok(None) };
        let separator = {
            let latch = self.pin(page)?.into_read();
            self.view(&latch).node(line - 1).map(|node| node.key_to_vec())
        };
        let separator = separator.ok_or_else(|| self.file.corrupt(page, Corruption::UnreadableNode))?;
        let (left_path, left) = self.path_before(Some(&separator))?;
        let siblings = path.last().map(|last| last.0) == left_path.last().map(|last| last.0);
        let parents = left_path.into_iter().map(|(page, _)| page).collect();
        Ok(Some(LeafPair { parents, left, right, separator, siblings }))
    }

    /// Merges the left leaf into the right one if all its nodes fit there. Returns the number of freed pages.
    fn merge_right(&self, pair: &LeafPair, rules: CompactionRules) -> Result<u32> {
        let fits = |from: &Page<'_>, to: &Page<'_>| {
            let need = packed_size(from, 0..from.node_count(), to.prefix()) - to.prefix().len();
            need + self.bytes_kept_free(from, to) <= to.free_bytes()
                && self.all_deleted_are_dead(from, rules.oldest)
        };
        if !self.check_pair(pair, fits)? {
            return Ok(0);
        }
        let space = SpaceLock::new(&self.file);
        let Some(trees) = space.existing_trees(self.root)? else { return Ok(0) };
        let above = self.plan_leaf_removal(&pair.parents, pair.left)?;
        // Some database writers set no key limit at the right edge of a subtree. No leaf may be merged to the right
        // there.
        if !matches!(above, LeafRemovalPlan::Changed { to_left: false, .. }) {
            return Ok(0);
        }
        let leaving = RemovedLeaf {
            parents: &pair.parents,
            leaf: pair.left,
            above: &above,
            kind: merge_type::FULL_RIGHT,
        };
        self.remove_from_tree(&space, &trees, &leaving, |group| {
            let [from, to] = group.two_pages(pair.left, pair.right)?;
            Ok(from.next() == Some(pair.right) && to.prev() == Some(pair.left) && fits(&from, &to))
        })
    }

    /// Moves as many of the upper nodes of the left leaf to the right leaf as fit. Returns the new separator.
    fn move_right(&self, pair: &LeafPair) -> Result<Option<Vec<u8>>> {
        let cut = |from: &Page<'_>, to: &Page<'_>| self.partial_cut(from, to);
        if !self.check_pair(pair, |from, to| cut(from, to).is_some())? {
            return Ok(None);
        }
        let Some(&parent) = pair.parents.last() else { return Ok(None) };
        group::run(&self.file, true, |group| -> GroupResult<Option<Vec<u8>>> {
            let room = group.page(parent)?.free_bytes();
            let [from, to] = group.two_pages(pair.left, pair.right)?;
            let linked = from.next() == Some(pair.right) && to.prev() == Some(pair.left);
            let Some((line, separator)) = cut(&from, &to).filter(|_| linked) else { return Ok(None) };
            if room < node_space(separator.len(), false, 4) {
                return Ok(None);
            }
            let nodes = line..from.node_count();
            self.move_nodes(
                group,
                PartialMerge {
                    source: pair.left,
                    target: pair.right,
                    parent,
                    kind: merge_type::PARTIAL_RIGHT,
                    nodes,
                    separator: &separator,
                },
            )?;
            Ok(Some(separator))
        })
    }

    /// Returns the first node that a partial merge moves, and the new separator.
    fn partial_cut(&self, from: &Page<'_>, to: &Page<'_>) -> Option<(usize, Vec<u8>)> {
        let room = to.free_bytes().checked_sub(self.bytes_kept_free(from, to))?;
        let size_of = |line: usize| packed_size(from, line..line + 1, to.prefix()) - to.prefix().len();
        let (mut line, mut moved) = (from.node_count(), 0);
        while line > 1 && moved + size_of(line - 1) <= room {
            line -= 1;
            moved += size_of(line);
        }
        let nodes = line..from.node_count();
        if moved < self.file.page_size.bytes() / MIN_MOVE_DIVISOR || !movable(from, nodes) {
            return None;
        }
        Some((line, separator_at(&self.identity(), from, line, None, false)?))
    }

    /// Returns the number of bytes that must stay free on the right leaf.
    fn bytes_kept_free(&self, from: &Page<'_>, to: &Page<'_>) -> usize {
        self.density_reserve() + self.reserved_for_undo(from, None) + self.reserved_for_undo(to, None)
    }

    /// Latches the two leaves and returns the result of `accepts`. The leaves can still change before they are latched
    /// again.
    fn check_pair(&self, pair: &LeafPair, accepts: impl Fn(&Page<'_>, &Page<'_>) -> bool) -> Result<bool> {
        let pinned = [self.pin(pair.left)?, self.pin(pair.right)?];
        #[allow(
            clippy::redundant_closure_for_method_calls,
            reason = "the method has no type that fits all lifetimes"
        )]
        let [left, right] = pinned.map(|page| page.into_read());
        Ok(accepts(&self.view(&left), &self.view(&right)))
    }
}
