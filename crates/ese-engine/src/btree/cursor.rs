//! Cursors that read a snapshot of a tree in key order, in either direction.
//!
//! A cursor holds no latch between calls. It remembers the bookmark of its current record. As a shortcut, it also
//! keeps the leaf pinned and remembers the database time of the leaf. If the leaf has changed in the meantime, the
//! cursor seeks the bookmark again.

use ese_format::page::{NodeFlags, Page};
use ese_format::{DbTime, PageNumber};
use jetcell_sync::Arc;

use super::descend::DescentTarget;
use super::{Bookmark, Tree};
use crate::cache::{PinnedPage, ReadLatch};
use crate::transaction::ReadView;
use crate::{Corruption, Result};

/// How a key must compare with the search key for a seek to stop there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekRelation {
    /// Only at the key itself.
    Equal,
    /// At the key or the next larger key.
    GreaterOrEqual,
    /// At the next larger key.
    Greater,
    /// At the key or the next smaller key.
    LessOrEqual,
    /// At the next smaller key.
    Less,
}

#[derive(Clone, Copy, PartialEq)]
enum CursorDirection {
    Forward,
    Backward,
}

struct CursorPosition {
    leaf: PinnedPage,
    time: DbTime,
    index: usize,
}

/// Number of leaves that a cursor requests at once when it scans a tree. ESE: `cpagePrereadMax` of a range.
const READ_AHEAD: usize = 16;

/// Maximum number of consecutive searches for the path to a sibling. Other sessions do not change the path that often,
/// so more searches indicate damage.
const MAX_DETOURS: u32 = 1000;

/// Progress of a cursor in one direction.
#[derive(Clone, Copy)]
struct CursorRun {
    way: CursorDirection,
    /// Number of leaves that the cursor has moved past in this direction.
    leaves: usize,
}

/// Result of an attempt to move to a sibling.
enum SiblingStep {
    /// The sibling, latched.
    Reached(ReadLatch),
    /// The path must be searched again. Contains the sibling, if it was read; it stays pinned and therefore in the
    /// cache.
    SearchPath(Option<PinnedPage>),
}

/// Cursor that marks a position in one tree.
pub struct TreeCursor {
    tree: Arc<Tree>,
    bookmark: Option<Bookmark>,
    data: Vec<u8>,
    place: Option<CursorPosition>,
    run: CursorRun,
}

impl TreeCursor {
    /// Creates a cursor without a current record.
    pub fn new(tree: Arc<Tree>) -> TreeCursor {
        TreeCursor {
            tree,
            bookmark: None,
            data: Vec::new(),
            place: None,
            run: CursorRun { way: CursorDirection::Forward, leaves: 0 },
        }
    }

    /// Returns the bookmark of the current record, if any.
    pub fn bookmark(&self) -> Option<&Bookmark> {
        self.bookmark.as_ref()
    }

    /// Returns the data of the current record, as seen by the view used for the last move.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Clears the current record.
    pub fn reset(&mut self) {
        self.bookmark = None;
        self.place = None;
    }

    /// Moves to a key. In non-unique trees, moves to the first or last record with that key prefix.
    ///
    /// Returns false if no record matches. The cursor then has no current record.
    pub fn seek(&mut self, view: &ReadView, key: &[u8], seek: SeekRelation) -> Result<bool> {
        self.run.leaves = 0;
        let found = match seek {
            SeekRelation::Equal => {
                self.scan_from(view, key, CursorDirection::Forward, true)? && self.key_is(key)
            }
            SeekRelation::GreaterOrEqual => self.scan_from(view, key, CursorDirection::Forward, true)?,
            SeekRelation::Greater => {
                let mut found = self.scan_from(view, key, CursorDirection::Forward, true)?;
                while found && self.key_is(key) {
                    found = self.next(view)?;
                }
                found
            }
            SeekRelation::LessOrEqual => {
                (self.scan_from(view, key, CursorDirection::Forward, true)? && self.key_is(key))
                    || self.scan_from(view, key, CursorDirection::Backward, false)?
            }
            SeekRelation::Less => self.scan_from(view, key, CursorDirection::Backward, false)?,
        };
        if !found {
            self.reset();
        }
        Ok(found)
    }

    /// Moves to the first record.
    pub fn first(&mut self, view: &ReadView) -> Result<bool> {
        self.run.leaves = 0;
        let leaf = self.tree.leaf_for_read(DescentTarget::First)?;
        self.scan(view, leaf, 0, CursorDirection::Forward)
    }

    /// Moves to the last record.
    pub fn last(&mut self, view: &ReadView) -> Result<bool> {
        self.run.leaves = 0;
        let leaf = self.tree.leaf_for_read(DescentTarget::Last)?;
        let count = self.tree.view(&leaf).node_count();
        self.scan(view, leaf, count, CursorDirection::Backward)
    }

    /// Moves to the next record in key order.
    pub fn next(&mut self, view: &ReadView) -> Result<bool> {
        self.step(view, CursorDirection::Forward)
    }

    /// Moves to the previous record in key order.
    pub fn previous(&mut self, view: &ReadView) -> Result<bool> {
        self.step(view, CursorDirection::Backward)
    }

    fn step(&mut self, view: &ReadView, way: CursorDirection) -> Result<bool> {
        let Some(bookmark) = &self.bookmark else { return Ok(false) };
        if let Some(place) = &self.place {
            let (leaf, index) = (place.leaf.read(), place.index);
            if self.tree.view(&leaf).db_time() == place.time {
                let from = if way == CursorDirection::Forward { index + 1 } else { index };
                return self.scan(view, leaf, from, way);
            }
        }
        let bytes = bookmark.bytes().to_vec();
        self.scan_from(view, &bytes, way, false)
    }

    /// Moves to the first record at or after `bytes` (after, unless `inclusive`), or to the last record before
    /// `bytes`.
    fn scan_from(
        &mut self,
        view: &ReadView,
        bytes: &[u8],
        way: CursorDirection,
        inclusive: bool,
    ) -> Result<bool> {
        let leaf = self.tree.leaf_for_read(DescentTarget::Key(bytes))?;
        let page = self.tree.view(&leaf);
        let (bound, exact) = self.tree.find(&page, bytes);
        let from = if way == CursorDirection::Forward && exact && !inclusive { bound + 1 } else { bound };
        self.scan(view, leaf, from, way)
    }

    /// Scans from node `from` (backward: from the node before it) to the first record that is visible in the view.
    fn scan(
        &mut self,
        view: &ReadView,
        mut leaf: ReadLatch,
        mut from: usize,
        way: CursorDirection,
    ) -> Result<bool> {
        // A sibling that was read stays pinned until the path to it is found again.
        let mut kept: Vec<PinnedPage> = Vec::new();
        let mut detours = 0;
        loop {
            let page = self.tree.view(&leaf);
            let mut index = from;
            loop {
                match way {
                    CursorDirection::Forward if index >= page.node_count() => break,
                    CursorDirection::Backward if index == 0 => break,
                    CursorDirection::Backward => index -= 1,
                    CursorDirection::Forward => {}
                }
                if self.accept_node(view, &page, index) {
                    let time = page.db_time();
                    if let Some(bookmark) = &mut self.bookmark {
                        bookmark.set_leaf_hint(leaf.key().page);
                    }
                    self.place = Some(CursorPosition { leaf: leaf.page().clone(), time, index });
                    return Ok(true);
                }
                if way == CursorDirection::Forward {
                    index += 1;
                }
            }
            let current = leaf.key().page;
            let neighbour = if way == CursorDirection::Forward { page.next() } else { page.prev() };
            let Some(neighbour) = neighbour else {
                self.reset();
                return Ok(false);
            };
            // The key at the edge of this leaf. The cursor uses it to search the path again if the neighbour is not
            // in the cache.
            let edge = match way {
                CursorDirection::Forward => page.node_count().checked_sub(1),
                CursorDirection::Backward => (page.node_count() > 0).then_some(0),
            }
            .and_then(|i| page.node(i))
            .map(|node| self.tree.bookmark_of(&node).into_bytes());
            let goes_on = self.run.way == way && self.run.leaves > 0;
            self.run = CursorRun { way, leaves: if self.run.way == way { self.run.leaves + 1 } else { 1 } };
            let ahead = edge.as_deref().filter(|_| goes_on);
            match self.neighbour(leaf, current, neighbour, way, edge.as_deref(), ahead)? {
                SiblingStep::Reached(next) => {
                    detours = 0;
                    from =
                        if way == CursorDirection::Forward { 0 } else { self.tree.view(&next).node_count() };
                    leaf = next;
                }
                SiblingStep::SearchPath(at_hand) => {
                    let Some(edge) = edge else {
                        return Err(self.tree.file.corrupt(current, Corruption::EmptyLeaf));
                    };
                    detours += 1;
                    if detours > MAX_DETOURS {
                        return Err(self.tree.file.corrupt(current, Corruption::SiblingLinks));
                    }
                    kept.clear();
                    kept.extend(at_hand);
                    leaf = self.tree.leaf_for_read(DescentTarget::Key(&edge))?;
                    let (bound, exact) = self.tree.find(&self.tree.view(&leaf), &edge);
                    from = if way == CursorDirection::Forward && exact { bound + 1 } else { bound };
                }
            }
        }
    }

    /// Moves from a leaf to its sibling.
    ///
    /// Between two latches, pages can be split, merged, freed and reused elsewhere. A link alone therefore does not
    /// prove that two leaves are neighbours. There are two ways to find the correct sibling. Either both leaves are
    /// latched at the same time, and their keys show that no node lies between them. Or the path is searched again from
    /// `edge`, the key at the edge of the first leaf.
    ///
    /// If the sibling is not in the cache and `ahead` (the same key) is given, the leaves after the sibling are
    /// prefetched with it.
    fn neighbour(
        &self,
        leaf: ReadLatch,
        current: PageNumber,
        neighbour: PageNumber,
        way: CursorDirection,
        edge: Option<&[u8]>,
        ahead: Option<&[u8]>,
    ) -> Result<SiblingStep> {
        if neighbour == current {
            return Err(self.tree.file.corrupt(current, Corruption::SiblingLinks));
        }
        let resident = self.tree.file.resident(neighbour);
        // The latch order is left to right, so the first leaf can stay latched in the forward direction.
        if way == CursorDirection::Forward
            && let Some(pinned) = &resident
        {
            let next = pinned.read();
            return Ok(if self.is_leaf(&next) {
                SiblingStep::Reached(next)
            } else {
                SiblingStep::SearchPath(None)
            });
        }
        drop(leaf);
        let pinned = match resident {
            Some(pinned) => pinned,
            None => {
                self.read_ahead(ahead, way)?;
                self.tree.pin(neighbour)?
            }
        };
        if way == CursorDirection::Backward
            && let Some(edge) = edge
            && let Some(here) = self.tree.file.resident(current)
        {
            let previous = pinned.read();
            // No page to the right of the leaf may stay latched while this thread waits for the leaf. By now, that
            // page can come after the leaf in latch order.
            if self.is_leaf(&previous) && self.tree.view(&previous).next() == Some(current) {
                let here = here.read();
                if self.are_adjacent(&previous, &here, edge) {
                    return Ok(SiblingStep::Reached(previous));
                }
            }
        }
        Ok(SiblingStep::SearchPath(Some(pinned)))
    }

    /// Returns true if the last key of the left leaf is the last key before `edge`.
    fn are_adjacent(&self, left: &ReadLatch, right: &ReadLatch, edge: &[u8]) -> bool {
        let [before, behind] = [left, right].map(|leaf| self.tree.view(leaf));
        let last = before.node_count().checked_sub(1).and_then(|line| before.node(line));
        self.is_leaf(left)
            && self.is_leaf(right)
            && before.next() == Some(right.key().page)
            && last.is_some_and(|last| self.tree.order(&last, edge).is_lt())
            && self.tree.find(&behind, edge).0 == 0
    }

    fn read_ahead(&self, edge: Option<&[u8]>, way: CursorDirection) -> Result<()> {
        let Some(edge) = edge else { return Ok(()) };
        let leaves = self.tree.sibling_leaves(edge, way == CursorDirection::Forward, READ_AHEAD)?;
        let file = &self.tree.file;
        file.cache.preread(&leaves.into_iter().map(|page| file.page_key(page)).collect::<Vec<_>>());
        Ok(())
    }

    fn is_leaf(&self, latch: &ReadLatch) -> bool {
        self.tree.is_live_leaf(&self.tree.view(latch))
    }

    /// Makes node `index` the current record if the view sees a record in that node.
    fn accept_node(&mut self, view: &ReadView, page: &Page<'_>, index: usize) -> bool {
        let Some(node) = page.node(index) else { return false };
        let deleted = node.flags.contains(NodeFlags::DELETED);
        if !node.flags.contains(NodeFlags::VERSIONED) {
            if deleted {
                return false;
            }
            self.tree.bookmark_into(&node, &mut self.bookmark);
            self.data.clear();
            self.data.extend_from_slice(node.data);
            return true;
        }
        let bookmark = self.tree.bookmark_of(&node);
        let versions = &self.tree.versions;
        let state = versions.resolve(self.tree.key(), bookmark.bytes(), deleted, view);
        if !state.exists {
            return false;
        }
        self.data.clear();
        self.data.extend_from_slice(state.data(node.data));
        self.bookmark = Some(bookmark);
        true
    }

    fn key_is(&self, key: &[u8]) -> bool {
        self.bookmark.as_ref().is_some_and(|bookmark| bookmark.key() == key)
    }
}
