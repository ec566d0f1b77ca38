//! Sequential layout of one tree: its leaves move, in key order, to pages that follow each other in the file, so that reading
//! them in this order is sequential. ESE: `OLD2`.
//!
//! A leaf stays if it follows the leaf before it, or if it begins a run of leaves on consecutive pages that is long enough.
//! Otherwise it moves to the page behind the leaf before it. If that is in use, it begins a new run, in an available extent
//! with room for a whole one. So the position in the tree is all that a layout has to remember, and a second one moves nothing.
//!
//! Invariant: parent, neighbours and both pages of a leaf that moves are latched together, so that a descent and a step to a
//! neighbour arrive at one of the two. The old page is empty then, and cursors that stand on it search again.

use ese_format::PageNumber;
use ese_format::page::PageFlags;
use ese_format::space::Extent;

use super::Tree;
use super::compact::{CompactRules, Compacted};
use super::descend::MAX_DEPTH;
use crate::Result;
use crate::pages::group;
use crate::pages::page_move::{self, LeafMove};
use crate::space::SpaceLock;

/// Leaves on consecutive pages are a run that stays as it is from this size on. Disks read it nearly as fast as a longer one.
const RUN_BYTES: usize = 1 << 20;

/// Leaves that are counted under one lock of the structure.
const LEAVES_PER_LOCK: usize = 1000;

/// The place of a leaf, as internal pages show it.
struct LeafEntry<'a> {
    page: PageNumber,
    parent: PageNumber,
    line: usize,
    /// Its keys are smaller. `None`: it is the last one.
    upper: Option<&'a [u8]>,
}

/// How the leaves of a tree are in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafRuns {
    pub leaves: u64,
    /// Runs of leaves on consecutive pages.
    pub runs: u64,
}

impl LeafRuns {
    /// Whether they are in more than twice as many runs as a layout makes of them.
    pub fn are_scattered(&self, run: u32) -> bool {
        self.runs > 2 * self.leaves.div_ceil(u64::from(run))
    }
}

fn follows(before: Option<PageNumber>, page: PageNumber) -> bool {
    before.is_some_and(|before| before.plus(1) == page)
}

impl Tree {
    /// Leaves of a run.
    pub(crate) fn run_leaves(&self) -> u32 {
        (RUN_BYTES / self.file.page_size.bytes()) as u32
    }

    /// Counts leaves and runs, until `stop` says so. Reads internal pages only.
    pub(crate) fn leaf_runs(&self, stop: impl Fn() -> bool) -> Result<LeafRuns> {
        let (mut counted, mut last, mut from) = (LeafRuns::default(), None, Some(Vec::new()));
        while let Some(key) = from.take().filter(|_| !stop()) {
            let _structure = self.structure.lock();
            let mut left = LEAVES_PER_LOCK;
            self.visit_leaves(&key, |leaf| {
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

    /// Works on the leaf of `key`. The leaf before it is merged into it if that is possible. Then it moves, if that makes the
    /// order of the pages better. Returns `None` if the tree has no such leaf. An error means that the leaf could not be
    /// found.
    pub(crate) fn lay_out(&self, key: &[u8], rules: CompactRules) -> Result<Option<Compacted>> {
        let mut upper = None;
        {
            let _structure = self.structure.lock();
            self.visit_leaves(key, |leaf| {
                upper = Some(leaf.upper.map(<[u8]>::to_vec));
                false
            })?;
        }
        let Some(position) = upper else { return Ok(None) };
        let mut done =
            Compacted { position: position.clone(), freed: 0, partly: false, moved: false, failure: None };
        match self.compact_before(position.as_deref(), rules) {
            Ok(Some(merged)) => {
                (done.freed, done.partly, done.failure) = (merged.freed, merged.partly, merged.failure);
            }
            Ok(None) => {}
            Err(error) => done.failure = Some(error),
        }
        if done.failure.is_none() {
            match self.lay_out_leaf(key) {
                Ok(moved) => done.moved = moved,
                Err(error) => done.failure = Some(error),
            }
        }
        Ok(Some(done))
    }

    /// Moves the leaf of `key` if that makes the order of the pages better. Returns whether it has moved.
    fn lay_out_leaf(&self, key: &[u8]) -> Result<bool> {
        let _structure = self.structure.lock();
        let wanted = self.run_leaves();
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
        // A tree in a single extent is left alone, as in ESE.
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
            page_move::move_leaf(group, &self.shape(), &what)?;
            space.free(group, &trees, Extent { last: page, count: 1 })?;
            Ok(true)
        })
    }

    /// The number of leaves from that of `key` on, at most `most`.
    fn leaves_from(&self, key: &[u8], most: u32) -> Result<u32> {
        let mut count = 0;
        self.visit_leaves(key, |_| {
            count += 1;
            count < most
        })?;
        Ok(count)
    }

    /// Shows `visit` the leaves from that of `key` on, until it returns false. Reads internal pages only. The structure lock is
    /// held.
    fn visit_leaves(&self, key: &[u8], mut visit: impl FnMut(LeafEntry<'_>) -> bool) -> Result<()> {
        let mut from = Some(key.to_vec());
        while let Some(key) = from.take() {
            // The keys below the page are smaller.
            let (mut at, mut bound) = (self.root, None::<Vec<u8>>);
            for depth in 0.. {
                if depth == MAX_DEPTH {
                    return Err(
                        self.damaged(self.root, "tree is deeper than possible: its pages form a cycle")
                    );
                }
                let latch = self.pin(at)?.into_read();
                let page = self.view(&latch);
                if page.is_leaf() {
                    return Ok(());
                }
                let (first, child) = page
                    .child_for(&key)
                    .ok_or_else(|| self.damaged(at, "internal page has no child for a key in its range"))?;
                // An entry without a key has the limit of its page.
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
                    let leaf = leaf.ok_or_else(|| self.damaged(at, "an entry is unreadable"))?;
                    let upper = limit(line);
                    if !visit(LeafEntry { page: leaf, parent: at, line, upper: upper.as_deref() }) {
                        return Ok(());
                    }
                }
                if bound.as_ref().is_some_and(|bound| *bound <= key) {
                    return Err(self.damaged(at, "an entry leads to keys outside of its range"));
                }
                from = bound;
                break;
            }
        }
        Ok(())
    }
}
