//! Sequential layout of one tree: moves its leaves to consecutive pages of the file, in key order. A leaf scan then
//! reads the file sequentially. ESE: `OLD2`.
//!
//! A leaf stays in place if its page follows the page of the preceding leaf, or if it starts a sufficiently long run
//! of leaves on consecutive pages. Otherwise it moves to the page after the preceding leaf. If that page is in use,
//! the leaf starts a new run in an available extent that has room for a whole run. A layout pass therefore only has
//! to remember its position in the tree, and a second pass moves nothing.
//!
//! Invariant: while a leaf moves, its parent, its neighbours, and its old and new pages are latched together. A
//! descent or a step to a neighbour therefore arrives at either the old or the new page. The old page is then empty,
//! and the cursor searches again.

use ese_format::PageNumber;
use ese_format::page::PageFlags;
use ese_format::space::Extent;

use super::compact::{CompactionResult, CompactionRules};
use super::descend::MAX_DEPTH;
use super::tree::{StructureLock, Tree};
use crate::pages::group;
use crate::pages::page_move::{self, LeafMove};
use crate::space::SpaceLock;
use crate::{Corruption, Result};

/// A run of leaves on consecutive pages stays in place if it has at least this many bytes. Disks read such a run
/// nearly as fast as a longer one.
const RUN_BYTES: usize = 1 << 20;

/// Number of leaves counted each time the structure lock is acquired.
const LEAVES_PER_LOCK: usize = 1000;

/// A leaf and its location, according to the internal pages.
struct LeafEntry<'a> {
    page: PageNumber,
    parent: PageNumber,
    line: usize,
    /// Exclusive upper bound of the leaf's keys. `None` for the last leaf.
    upper: Option<&'a [u8]>,
}

/// Statistics about how contiguously a tree's leaves are stored in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafRuns {
    pub leaves: u64,
    /// Number of runs of leaves on consecutive pages.
    pub runs: u64,
}

impl LeafRuns {
    /// Returns true if the leaves form more than twice as many runs as they would after a layout.
    pub fn are_scattered(&self, run: u32) -> bool {
        self.runs > 2 * self.leaves.div_ceil(u64::from(run))
    }
}

/// Returns the number of leaves in a complete run.
pub(super) fn run_leaves(tree: &Tree) -> u32 {
    (RUN_BYTES / tree.file.page_size.bytes()) as u32
}

fn follows(before: Option<PageNumber>, page: PageNumber) -> bool {
    before.is_some_and(|before| before.plus(1) == page)
}

/// Moves the leaves of a tree to consecutive pages. The structure lock is acquired for one leaf at a time.
pub(crate) struct LeafLayout<'a> {
    tree: &'a Tree,
}

impl<'a> LeafLayout<'a> {
    pub fn new(tree: &'a Tree) -> LeafLayout<'a> {
        LeafLayout { tree }
    }

    /// Returns true if the leaves of the tree are scattered. Stops early if `stop` returns true.
    pub fn are_leaves_scattered(&self, stop: impl Fn() -> bool) -> Result<bool> {
        Ok(self.leaf_runs(stop)?.are_scattered(run_leaves(self.tree)))
    }

    /// Counts leaves and runs until `stop` returns true. Reads internal pages only.
    pub fn leaf_runs(&self, stop: impl Fn() -> bool) -> Result<LeafRuns> {
        let (mut counted, mut last, mut from) = (LeafRuns::default(), None, Some(Vec::new()));
        while let Some(key) = from.take().filter(|_| !stop()) {
            let mut left = LEAVES_PER_LOCK;
            self.tree.lock_structure().visit_leaves(&key, |leaf| {
                counted.leaves += 1;
                counted.runs += u64::from(!follows(last, leaf.page));
                last = Some(leaf.page);
                left -= 1;
                from = leaf.upper.filter(|_| left == 0).map(<[u8]>::to_vec);
                left > 0
            })?;
        }
        Ok(counted)
    }

    /// Processes the leaf of `key`. First, the preceding leaf is merged into it if possible. Then the leaf moves to
    /// another page if that improves the page order.
    ///
    /// Returns `None` if the tree has no such leaf. An error means that the leaf could not be found.
    pub fn lay_out(&self, key: &[u8], rules: CompactionRules) -> Result<Option<CompactionResult>> {
        let mut upper = None;
        self.tree.lock_structure().visit_leaves(key, |leaf| {
            upper = Some(leaf.upper.map(<[u8]>::to_vec));
            false
        })?;
        let Some(position) = upper else { return Ok(None) };
        let mut done = CompactionResult {
            position: position.clone(),
            freed: 0,
            partial: false,
            moved: false,
            failure: None,
        };
        let merged = self.tree.lock_structure().compact_before(position.as_deref(), rules);
        match merged {
            Ok(Some(merged)) => {
                (done.freed, done.partial, done.failure) = (merged.freed, merged.partial, merged.failure);
            }
            Ok(None) => {}
            Err(error) => done.failure = Some(error),
        }
        if done.failure.is_none() {
            let moved = self.tree.lock_structure().relocate_leaf(key);
            match moved {
                Ok(moved) => done.moved = moved,
                Err(error) => done.failure = Some(error),
            }
        }
        Ok(Some(done))
    }
}

impl StructureLock<'_> {
    /// Moves the leaf of `key` to another page if that improves the page order. Returns true if the leaf has moved.
    fn relocate_leaf(&self, key: &[u8]) -> Result<bool> {
        let wanted = run_leaves(self);
        let (mut found, mut last, mut run, mut to_end) = (None, None, 0, true);
        self.visit_leaves(key, |leaf| {
            let continues = run == 0 || follows(last, leaf.page);
            if run == 0 {
                found = Some((leaf.page, leaf.parent, leaf.line));
            }
            run += u32::from(continues);
            last = Some(leaf.page);
            to_end = continues && run < wanted;
            to_end
        })?;
        let Some((page, parent, line)) = found else { return Ok(false) };
        let (left, right) = {
            let latch = self.pin(page)?.into_read();
            (self.view(&latch).prev(), self.view(&latch).next())
        };
        if follows(left, page) || run >= wanted {
            return Ok(false);
        }
        let space = SpaceLock::new(&self.file);
        // A tree in a single extent is not changed, as in ESE.
        let Some(trees) = space.existing_trees(self.root)? else { return Ok(false) };
        let behind = left.map(|left| left.plus(1));
        let destination = match behind {
            Some(behind) if space.begins_extent(&trees, behind)? => behind,
            _ if to_end => return Ok(false),
            _ => space.prepare_extent(&trees, self.leaves_from(key, wanted)?)?.first(),
        };
        group::run(&self.file, false, |group| {
            for page in [Some(parent), left, Some(page), right].into_iter().flatten() {
                group.page(page)?;
            }
            if !space.take_first_of_extent(group, &trees, destination)? {
                return Ok(false);
            }
            let what = LeafMove { page, destination, left, right, parent, line };
            page_move::move_leaf(group, &self.identity(), &what)?;
            space.free(group, &trees, Extent { last: page, count: 1 })?;
            Ok(true)
        })
    }

    /// Returns the number of leaves from the leaf of `key` to the end of the tree, but at most `most`.
    fn leaves_from(&self, key: &[u8], most: u32) -> Result<u32> {
        let mut count = 0;
        self.visit_leaves(key, |_| {
            count += 1;
            count < most
        })?;
        Ok(count)
    }

    /// Calls `visit` for the leaves from the leaf of `key` on, until it returns false. Reads internal pages only.
    fn visit_leaves(&self, key: &[u8], mut visit: impl FnMut(LeafEntry<'_>) -> bool) -> Result<()> {
        let mut from = Some(key.to_vec());
        while let Some(key) = from.take() {
            // `bound` is the exclusive upper bound of all keys below the page.
            let (mut at, mut bound) = (self.root, None::<Vec<u8>>);
            for depth in 0.. {
                if depth == MAX_DEPTH {
                    return Err(self.file.corrupt(self.root, Corruption::TooDeep));
                }
                let latch = self.pin(at)?.into_read();
                let page = self.view(&latch);
                if page.is_leaf() {
                    return Ok(());
                }
                let (first, child) =
                    page.child_for(&key).ok_or_else(|| self.file.corrupt(at, Corruption::NoChild))?;
                // An entry without a key is bounded by the limit of its page.
                let limit = |line: usize| {
                    let node = page.node(line).filter(|node| node.key_len() > 0);
                    node.map(|node| node.key_to_vec()).or_else(|| bound.clone())
                };
                if !page.flags().contains(PageFlags::PARENT_OF_LEAF) {
                    bound = limit(first);
                    at = child;
                    continue;
                }
                for line in first..page.node_count() {
                    let leaf = page.node(line).and_then(|node| node.child());
                    let leaf = leaf.ok_or_else(|| self.file.corrupt(at, Corruption::UnreadableNode))?;
                    let upper = limit(line);
                    if !visit(LeafEntry { page: leaf, parent: at, line, upper: upper.as_deref() }) {
                        return Ok(());
                    }
                }
                if bound.as_ref().is_some_and(|bound| *bound <= key) {
                    return Err(self.file.corrupt(at, Corruption::EntryOutsideRange));
                }
                from = bound;
                break;
            }
        }
        Ok(())
    }
}
